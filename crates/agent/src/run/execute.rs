// SPDX-License-Identifier: Apache-2.0
//! Carrying out a plan: the state of a run, and the reasons for its failure.

use nix::unistd::Pid;

use crate::plan::format::Phase;
use crate::plan::program::{Bound, Program, ReadyPlan, Step};
use crate::process::child::{Process, Target};
use crate::process::supervise::Supervisor;
use crate::report::events::{At, Event};
use crate::report::precision::Intervals;
use crate::run::outcome::{Complaint, Failure, Stop, describe_early};
use crate::system::clock::{self};

/// A step that was started and is to be undone; `service` while it runs in the background.
#[derive(Debug, Clone)]
pub struct Started {
    pub step: Step,
    pub service: Option<Pid>,
    /// Its undo, with the variables' values of its run.
    pub undo: Option<Program>,
    /// Whether it succeeded, or its service became ready.
    pub done: bool,
    /// Whether a lane is taking it down.
    pub going_down: bool,
}

/// A plan while it is carried out.
pub struct Run<'a> {
    pub supervisor: &'a mut Supervisor,
    pub plan: &'a ReadyPlan,
    pub started: Vec<Started>,
    /// The variables that steps have bound.
    pub bound: Bound,
    pub deadline_ns: u64,
    /// Teardown failures that the plan's end kept a lane from reporting.
    pub complaints: Vec<Complaint>,
}

impl<'a> Run<'a> {
    pub fn new(supervisor: &'a mut Supervisor, plan: &'a ReadyPlan) -> Self {
        let deadline_ns = clock::monotonic_ns().saturating_add(plan.time_limit_ns);
        let (started, bound, complaints) = (Vec::new(), Bound::new(), Vec::new());
        Self { supervisor, plan, started, bound, deadline_ns, complaints }
    }

    /// Carry out the steps of the phases that `wanted` picks, until one fails.
    pub fn steps(&mut self, wanted: impl Fn(Phase) -> bool) -> Result<(), Failure> {
        let plan = self.plan;
        let steps: Vec<_> = plan.steps.iter().filter(|step| wanted(step.phase())).collect();
        for group in steps.chunk_by(|step, next| step.is_beside(next)) {
            self.group(group)?;
        }
        self.supervisor.turn(0);
        self.pending_stop().map_or(Ok(()), |stop| Err(Failure::stopped(&stop, None)))
    }

    /// A step's program was started.
    pub fn remember(&mut self, step: &Step, service: Option<Pid>) {
        let undo = self.undo_of(step);
        self.started.push(Started { step: step.clone(), service, undo, done: false, going_down: false });
    }

    /// None without the step's own variable, too: then it has brought nothing up.
    pub fn undo_of(&self, step: &Step) -> Option<Program> {
        step.undo.as_ref().and_then(|undo| undo.fill(&self.bound).ok())
    }

    /// A step that was started and not yet taken down.
    pub fn started(&mut self, id: &str) -> Option<&mut Started> {
        self.started.iter_mut().find(|started| started.step.id == id)
    }

    /// A step has succeeded.
    pub fn done(&mut self, id: &str) {
        if let Some(started) = self.started(id) {
            started.done = true;
        }
    }

    pub fn begin(&mut self, step: &Step) {
        self.supervisor.running.push(step.id.clone());
        let start = Event::StepStart { step: &step.id, phase: step.phase, argv: &step.program.argv };
        self.supervisor.sink.emit(&start);
        self.supervisor.sample_at(At::StepStart, &step.id);
    }

    pub fn spawn(&mut self, step: &Step) -> Result<Pid, String> {
        let mut process = Process::spawn(&step.program, &step.id, Target::Step, step.output_limit_bytes)?;
        if step.binds.is_some() {
            process.keep_printed();
        }
        let mut wanted = self.plan.steps.iter().filter_map(|each| each.until());
        process.intervals = wanted.any(|until| until.of == step.id).then(Intervals::default);
        Ok(self.supervisor.take_charge(process))
    }

    /// Wait for a program. Returns why it must be ended when it has not ended by itself.
    pub fn await_exit(&mut self, pid: Pid, limit_ns: u64) -> Option<Stop> {
        let limit_at_ns = self.supervisor.process(pid).started_ns.saturating_add(limit_ns);
        loop {
            if self.supervisor.has_exited(pid) {
                return None;
            }
            if let Some(stop) = self.pending_stop() {
                return Some(stop);
            }
            if clock::monotonic_ns() >= limit_at_ns {
                return Some(Stop::StepLimit(limit_ns));
            }
            self.supervisor.turn(limit_at_ns.min(self.deadline_ns));
        }
    }

    /// Why the plan cannot go on, if so.
    pub fn pending_stop(&self) -> Option<Stop> {
        let supervisor = &self.supervisor;
        if let Some(cause) = supervisor.sink.failure() {
            return Some(Stop::EventsLost(cause.to_owned()));
        }
        if let Some((signal, _)) = supervisor.interrupts.first() {
            return Some(Stop::Interrupted(*signal));
        }
        let ended =
            supervisor.processes.iter().find(|p| supervisor.watched.contains(&p.pid) && p.has_ended_early());
        if let Some(Process { step, exit: Some(exit), .. }) = ended {
            return Some(Stop::ServiceEnded { step: step.clone(), how: describe_early(exit.status) });
        }
        (clock::monotonic_ns() >= self.deadline_ns).then_some(Stop::PlanLimit(self.plan.time_limit_ns))
    }
}
