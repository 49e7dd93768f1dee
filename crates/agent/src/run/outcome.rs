// SPDX-License-Identifier: Apache-2.0
//! Why a program, a group of steps or a plan does not come to its end.

use nix::sys::signal::Signal;

use crate::plan::program::Step;
use crate::process::child::Status;
use crate::report::events::{Outcome, PlanOutcome};
use crate::system::clock::describe_ns;

/// Why a program is ended before it ends by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    StepLimit(u64),
    PlanLimit(u64),
    Interrupted(Signal),
    ServiceEnded {
        step: String,
        how: String,
    },
    /// A step of another lane.
    StepFailed(String),
    EventsLost(String),
}

impl Stop {
    pub fn describe(&self) -> String {
        match self {
            Self::StepLimit(limit_ns) => format!("the time limit of {} was reached", describe_ns(*limit_ns)),
            Self::PlanLimit(limit_ns) => {
                format!("the plan's time limit of {} was reached", describe_ns(*limit_ns))
            }
            Self::Interrupted(signal) => format!("the agent received {signal}"),
            Self::ServiceEnded { step, how } => format!("the service {step} ended early: {how}"),
            Self::StepFailed(step) => format!("the step {step}, which ran beside it, failed"),
            Self::EventsLost(cause) => format!("the events cannot be written: {cause}"),
        }
    }

    pub fn outcome(&self) -> Outcome {
        match self {
            Self::StepLimit(_) | Self::PlanLimit(_) => Outcome::Timeout,
            _ => Outcome::Interrupted,
        }
    }
}

/// Why a plan was not completed.
#[derive(Debug, Clone)]
pub struct Failure {
    pub outcome: PlanOutcome,
    pub step: Option<String>,
    pub reason: String,
    pub signal: Option<Signal>,
}

impl Failure {
    pub fn of(step: &str, reason: impl Into<String>) -> Self {
        Self { outcome: PlanOutcome::Failed, step: Some(step.into()), reason: reason.into(), signal: None }
    }

    /// The failure of a plan that `stop` ended while `step` ran.
    pub fn stopped(stop: &Stop, step: Option<&str>) -> Self {
        let (outcome, signal) = match stop {
            Stop::Interrupted(signal) => (PlanOutcome::Interrupted, Some(*signal)),
            _ => (PlanOutcome::Failed, None),
        };
        let step = match stop {
            Stop::ServiceEnded { step, .. } => Some(step.clone()),
            _ => step.map(str::to_owned),
        };
        Self { outcome, step, reason: stop.describe(), signal }
    }
}

/// Why a group does not come to its end.
pub enum Halt {
    /// The plan is ended, at this step if none runs.
    Stopped(Stop, Option<String>),
    /// This step has reached its time limit.
    Overdue(String),
    /// A step has ended, and not as it should.
    Failed(Failure),
}

impl Halt {
    pub fn of(step: &str, reason: impl Into<String>) -> Self {
        Self::Failed(Failure::of(step, reason))
    }

    /// Why a step that runs is ended.
    pub fn stop(&self, step: &Step) -> Stop {
        match self {
            Self::Stopped(stop, _) => stop.clone(),
            Self::Overdue(id) if *id == step.id => Stop::StepLimit(step.program.time_limit_ns),
            Self::Overdue(id) => Stop::StepFailed(id.clone()),
            Self::Failed(failure) => Stop::StepFailed(failure.step.clone().unwrap_or_default()),
        }
    }
}

/// A failure in a teardown, with its step.
pub type Complaint = (String, String);

pub fn describe(status: Status) -> String {
    match status {
        Status::Exited(code) => format!("exit code {code}"),
        Status::Signalled(signal) => format!("killed by {signal}"),
    }
}

/// How a service ended that nobody had stopped.
pub fn describe_early(status: Status) -> String {
    let remedy = "; a service must stay in the foreground, and not become a daemon";
    let remedy = if matches!(status, Status::Exited(0)) { remedy } else { "" };
    format!("{}{remedy}", describe(status))
}
