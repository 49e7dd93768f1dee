// SPDX-License-Identifier: Apache-2.0
//! A plan made ready to execute: variables replaced, users looked up, nothing left that can be wrong in its text.

use std::collections::BTreeMap;

use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use crate::plan::format::{Collect, Phase, Until, are_together};
use crate::plan::variables::substitute;
use crate::system::users::User;

/// The variables that steps have bound.
pub type Bound = BTreeMap<String, String>;

/// Complete except for variables that steps bind, which its texts hold with doubled dollar signs.
#[derive(Debug, Clone)]
pub struct Template<T>(T);

impl<T> Template<T> {
    pub fn new(prepared: T) -> Self {
        Self(prepared)
    }
}

/// One program to run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Program {
    pub argv: Vec<String>,
    /// Complete: nothing is inherited.
    pub environment: BTreeMap<String, String>,
    /// None when the agent is that user already and cannot be another.
    pub user: Option<User>,
    pub cwd: String,
    pub stdin: Option<String>,
    pub time_limit_ns: u64,
    pub expect_exit: Vec<i32>,
    /// The folder of the control group that it runs in.
    pub cgroup: Option<String>,
    /// The socket of the virtual machine that it runs in; the machine itself need not know.
    #[serde(skip)]
    pub machine: Option<String>,
    /// Whether it may ask for a container, outside of the sandbox.
    #[serde(skip)]
    pub asks_for_container: bool,
}

/// A step that is started, waited for until it is ready, and stopped at teardown.
///
/// Without a `stop_signal` it ends by itself: whoever takes it down waits for that.
#[derive(Debug, Clone)]
pub struct Background {
    pub ready: Option<Program>,
    pub ready_interval_ns: u64,
    pub stop_signal: Option<Signal>,
    pub stop_limit_ns: u64,
}

#[derive(Debug, Clone)]
pub struct Step {
    pub id: String,
    pub phase: Phase,
    pub program: Program,
    pub background: Option<Background>,
    pub collect: Vec<Collect>,
    pub output_limit_bytes: u64,
    /// It may use its own step's variable.
    pub undo: Option<Template<Program>>,
    /// The variable bound to its output.
    pub binds: Option<String>,
    /// The steps that are taken down before it is started.
    pub takes_down: Vec<String>,
    /// A lane runs beside the other lanes of its group.
    pub lane: Option<String>,
    /// How long after its group it begins at the earliest.
    pub not_before_ns: u64,
    /// When it is asked to end, with all others of its group that have this.
    pub until: Option<Until>,
}

/// A disk to monitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    pub name: String,
    /// Its name in `/sys/block`.
    pub stat_name: String,
}

#[derive(Debug)]
pub struct ReadyPlan {
    pub environment: BTreeMap<String, String>,
    pub variables: BTreeMap<String, String>,
    pub disks: Vec<Disk>,
    pub interval_ns: u64,
    pub time_limit_ns: u64,
    pub steps: Vec<Template<Step>>,
}

impl Template<Program> {
    /// The program, or the unbound variables that it uses.
    pub fn fill(&self, bound: &Bound) -> Result<Program, String> {
        self.0.filled(bound)
    }
}

impl Template<Step> {
    pub fn phase(&self) -> Phase {
        self.0.phase
    }

    pub fn id(&self) -> &str {
        &self.0.id
    }

    pub fn takes_down(&self) -> &[String] {
        &self.0.takes_down
    }

    pub fn lane(&self) -> Option<&str> {
        self.0.lane.as_deref()
    }

    pub fn not_before_ns(&self) -> u64 {
        self.0.not_before_ns
    }

    pub fn until(&self) -> Option<&Until> {
        self.0.until.as_ref()
    }

    /// Whether this step and the next one of the plan are of one group of lanes.
    pub fn is_beside(&self, next: &Self) -> bool {
        are_together((self.phase(), self.lane()), (next.phase(), next.lane()))
    }

    /// The step, or the unbound variables that it uses.
    pub fn fill(&self, bound: &Bound) -> Result<Step, String> {
        let mut step = self.0.clone();
        step.program = step.program.filled(bound)?;
        if let Some(background) = &mut step.background {
            background.ready = background.ready.take().map(|ready| ready.filled(bound)).transpose()?;
        }
        for wanted in &mut step.collect {
            wanted.path = fill(&wanted.path, bound)?;
        }
        Ok(step)
    }
}

impl Program {
    fn filled(&self, bound: &Bound) -> Result<Self, String> {
        let all = |texts: &[String]| texts.iter().map(|text| fill(text, bound)).collect::<Result<_, _>>();
        let optional = |text: &Option<String>| text.as_ref().map(|text| fill(text, bound)).transpose();
        let environment =
            self.environment.iter().map(|(name, value)| Ok((name.clone(), fill(value, bound)?)));
        Ok(Self {
            argv: all(&self.argv)?,
            environment: environment.collect::<Result<_, String>>()?,
            user: self.user.clone(),
            cwd: fill(&self.cwd, bound)?,
            stdin: optional(&self.stdin)?,
            time_limit_ns: self.time_limit_ns,
            expect_exit: self.expect_exit.clone(),
            cgroup: optional(&self.cgroup)?,
            machine: optional(&self.machine)?,
            asks_for_container: self.asks_for_container,
        })
    }
}

fn fill(text: &str, bound: &Bound) -> Result<String, String> {
    substitute(text, bound).map_err(|mistakes| mistakes.join(", "))
}
