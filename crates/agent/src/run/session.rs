// SPDX-License-Identifier: Apache-2.0
//! From a plan's bytes to its end, the same on a host and in the lab.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use sha2::{Digest, Sha256};

use crate::plan::bindings::Bindings;
use crate::plan::format::{Phase, Plan};
use crate::plan::program::ReadyPlan;
use crate::plan::resolve::resolve;
use crate::process::supervise::Supervisor;
use crate::report::events::{EVENT_VERSION, Event, Kernel, PlanOutcome, Sink};
use crate::report::monitors::Monitors;
use crate::run::execute::Run;
use crate::run::leftovers::Before;
use crate::run::outcome::Failure;
use crate::system::faults::{self, Fault};
use crate::system::users::Users;

/// The two files that the agent works from, as far as they could be read.
pub struct Input {
    pub plan: io::Result<Vec<u8>>,
    pub bindings: io::Result<Vec<u8>>,
}

/// How it all ended.
#[derive(Debug)]
pub struct Conclusion {
    pub outcome: PlanOutcome,
    pub signal: Option<Signal>,
    /// A message for a person.
    pub reason: Option<String>,
}

impl Conclusion {
    pub fn exit_code(&self) -> u8 {
        match (self.outcome, self.signal) {
            (PlanOutcome::Ok, _) => 0,
            (PlanOutcome::BadPlan, _) => 2,
            (PlanOutcome::Interrupted, Some(signal)) => 128 + signal as u8,
            _ => 1,
        }
    }
}

/// Failures of the teardown.
#[derive(Debug, Default)]
struct Aftermath {
    /// Of its steps.
    complaints: Vec<String>,
    left_behind: Vec<String>,
}

impl Aftermath {
    fn describe(&self) -> Option<String> {
        let mut parts = self.complaints.clone();
        if !self.left_behind.is_empty() {
            parts.push(format!("left behind: {}", self.left_behind.join(", ")));
        }
        (!parts.is_empty()).then(|| format!("teardown: {}", parts.join("; ")))
    }
}

/// Parse both files, or report the mistakes of each.
pub fn parse(input: &Input) -> (Option<Plan>, Option<Bindings>, Vec<Fault>) {
    let mut faults = Vec::new();
    let plan = read(&input.plan, "plan").and_then(Plan::parse).map_err(|fault| faults.push(fault)).ok();
    let bindings =
        read(&input.bindings, "bindings").and_then(Bindings::parse).map_err(|fault| faults.push(fault)).ok();
    (plan, bindings, faults)
}

fn read<'a>(bytes: &'a io::Result<Vec<u8>>, place: &str) -> Result<&'a [u8], Fault> {
    bytes.as_deref().map_err(|error| Fault::new(place, format!("cannot be read: {error}")))
}

/// Execute a plan after `set_up`, which makes the lab's machine or a host's sandbox.
pub fn run(
    mut sink: Sink,
    input: &Input,
    set_up: impl FnOnce(&Bindings) -> Result<(), String>,
) -> (Conclusion, Sink) {
    let (plan, bindings, faults) = parse(input);
    sink.emit(&Event::AgentStart {
        event_version: EVENT_VERSION,
        agent_version: env!("CARGO_PKG_VERSION"),
        plan_sha256: &input.plan.as_ref().map_or_else(|_| String::new(), |bytes| sha256_hex(bytes)),
        trial: plan.as_ref().map(|plan| plan.trial.id.as_str()),
        runner: bindings.as_ref().map(|bindings| bindings.runner.as_str()),
        kernel: Kernel::running(),
    });
    let (Some(plan), Some(bindings)) = (plan, bindings) else {
        return conclude(sink, Err(bad_plan(&faults)), &Aftermath::default());
    };
    if let Err(cause) = set_up(&bindings) {
        return conclude(sink, Err(failed(cause)), &Aftermath::default());
    }
    let plan = match resolve(&plan, &bindings, &Users::load()) {
        Ok(plan) => plan,
        Err(faults) => return conclude(sink, Err(bad_plan(&faults)), &Aftermath::default()),
    };
    let made = match make_folders(&plan.variables) {
        Ok(made) => made,
        Err(cause) => return conclude(sink, Err(failed(cause)), &Aftermath::default()),
    };
    let monitors = Monitors::new(plan.disks.clone(), plan.interval_ns);
    // A process without signals and timers cannot do anything: there is no milder way out.
    let mut supervisor = Supervisor::new(sink, monitors).expect("signalfd and timerfd");
    let before = Before::look(&plan, &bindings);
    supervisor.monitors.start();
    let (result, complaints) = execute(&mut supervisor, &plan, bindings.shell);
    supervisor.monitors.next_ns = None;
    // Leftovers of an interactive shell do not count.
    let left_behind = if bindings.shell { Vec::new() } else { supervisor.leftovers(&before) };
    for folder in made {
        // The runner removes folders that are not empty.
        let _ = fs::remove_dir(folder);
    }
    conclude(supervisor.sink, result, &Aftermath { complaints, left_behind })
}

/// Carry out the plan and tear down. Also returns the teardown's failures.
fn execute(supervisor: &mut Supervisor, plan: &ReadyPlan, shell: bool) -> (Result<(), Failure>, Vec<String>) {
    let mut run = Run::new(supervisor, plan);
    let carried_out = catch_unwind(AssertUnwindSafe(|| {
        if shell {
            run.steps(|phase| phase == Phase::Build).and_then(|()| run.shell())
        } else {
            run.steps(|_| true)
        }
    }));
    // A bug in the agent must not skip the teardown; the panic's own message is on the standard error.
    let result = carried_out.unwrap_or_else(|_| Err(failed("the agent has a bug".into())));
    let complaints = run.teardown().into_iter().map(|(step, cause)| format!("{step}: {cause}")).collect();
    (result, complaints)
}

fn conclude(mut sink: Sink, result: Result<(), Failure>, aftermath: &Aftermath) -> (Conclusion, Sink) {
    let teardown = aftermath.describe();
    let failure = result.err();
    let reason = match (&failure, teardown) {
        (Some(failure), Some(teardown)) => Some(format!("{}; {teardown}", failure.reason)),
        (Some(failure), None) => Some(failure.reason.clone()),
        (None, teardown) => teardown,
    };
    let mut conclusion = Conclusion {
        outcome: failure.as_ref().map_or(PlanOutcome::Ok, |failure| failure.outcome),
        signal: failure.as_ref().and_then(|failure| failure.signal),
        reason,
    };
    sink.emit(&Event::AgentEnd {
        outcome: conclusion.outcome,
        failed_step: failure.as_ref().and_then(|failure| failure.step.as_deref()),
        reason: conclusion.reason.as_deref(),
        left_behind: &aftermath.left_behind,
    });
    if let Some(cause) = sink.failure() {
        conclusion.outcome = PlanOutcome::Failed;
        conclusion.reason = Some(format!("the events cannot be written: {cause}"));
    }
    (conclusion, sink)
}

fn bad_plan(faults: &[Fault]) -> Failure {
    Failure { outcome: PlanOutcome::BadPlan, step: None, reason: faults::describe(faults), signal: None }
}

fn failed(reason: String) -> Failure {
    Failure { outcome: PlanOutcome::Failed, step: None, reason, signal: None }
}

/// Make the folders of the variables `mount`, `mounts` and `scratch`. Returns the new ones.
pub fn make_folders(variables: &BTreeMap<String, String>) -> Result<Vec<PathBuf>, String> {
    let mut made = Vec::new();
    for (variable, mode) in [("mount", 0o755), ("mounts", 0o755), ("scratch", 0o1777)] {
        let Some(folder) = variables.get(variable).filter(|folder| folder.starts_with('/')) else {
            continue;
        };
        let path = Path::new(folder);
        if path.is_dir() {
            continue;
        }
        DirBuilder::new()
            .recursive(true)
            .mode(0o755)
            .create(path)
            // The mode of creation is subject to the umask.
            .and_then(|()| fs::set_permissions(path, Permissions::from_mode(mode)))
            .map_err(|error| format!("the folder {folder} cannot be made: {error}"))?;
        made.push(path.into());
    }
    Ok(made)
}

fn sha256_hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    Sha256::digest(bytes).iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
