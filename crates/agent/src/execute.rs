// SPDX-License-Identifier: Apache-2.0
//! Carrying out a plan's steps, one after the other.

use nix::sys::signal::Signal;
use nix::unistd::Pid;

use crate::clock::{self, describe_ns};
use crate::events::{At, Ending, Event, Outcome, PlanOutcome};
use crate::plan::Phase;
use crate::process::{Process, Status, Target};
use crate::program::{Bound, Program, ReadyPlan, Step};
use crate::supervise::Supervisor;

/// Why a program is ended before it ends by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    StepLimit(u64),
    PlanLimit(u64),
    Interrupted(Signal),
    ServiceEnded { step: String, how: String },
    EventsLost(String),
}

impl Stop {
    fn describe(&self) -> String {
        match self {
            Self::StepLimit(limit_ns) => format!("the time limit of {} was reached", describe_ns(*limit_ns)),
            Self::PlanLimit(limit_ns) => {
                format!("the plan's time limit of {} was reached", describe_ns(*limit_ns))
            }
            Self::Interrupted(signal) => format!("the agent received {signal}"),
            Self::ServiceEnded { step, how } => format!("the service {step} ended early: {how}"),
            Self::EventsLost(cause) => format!("the events cannot be written: {cause}"),
        }
    }

    fn outcome(&self) -> Outcome {
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

/// A step that was started and is to be undone; `service` while it runs in the background.
#[derive(Debug)]
pub struct Started {
    pub step: Step,
    pub service: Option<Pid>,
    /// What takes it down, with what its variables stood for when it ran.
    pub undo: Option<Program>,
    /// Whether it came to its end, or its service to be ready, as it should.
    pub done: bool,
}

/// A plan while it is carried out.
pub struct Run<'a> {
    pub supervisor: &'a mut Supervisor,
    pub plan: &'a ReadyPlan,
    pub started: Vec<Started>,
    /// What steps have bound.
    pub bound: Bound,
    pub deadline_ns: u64,
}

impl<'a> Run<'a> {
    pub fn new(supervisor: &'a mut Supervisor, plan: &'a ReadyPlan) -> Self {
        let deadline_ns = clock::monotonic_ns().saturating_add(plan.time_limit_ns);
        Self { supervisor, plan, started: Vec::new(), bound: Bound::new(), deadline_ns }
    }

    /// Carry out the steps of the phases that `wanted` picks, until one fails.
    pub fn steps(&mut self, wanted: impl Fn(Phase) -> bool) -> Result<(), Failure> {
        let plan = self.plan;
        for step in plan.steps.iter().filter(|step| wanted(step.phase())) {
            // Signals and the ends of services that came since the last step.
            self.supervisor.turn(0);
            if let Some(stop) = self.pending_stop() {
                return Err(Failure::stopped(&stop, Some(step.id())));
            }
            self.take_down_early(step.takes_down()).map_err(|cause| Failure::of(step.id(), cause))?;
            let step = step.fill(&self.bound).map_err(|cause| Failure::of(step.id(), cause))?;
            match &step.background {
                Some(background) => self.start_service(&step, background)?,
                None => self.foreground(&step)?,
            }
        }
        self.supervisor.turn(0);
        self.pending_stop().map_or(Ok(()), |stop| Err(Failure::stopped(&stop, None)))
    }

    fn foreground(&mut self, step: &Step) -> Result<(), Failure> {
        self.begin(step);
        if let Some(name) = &step.binds {
            // What it stood for was taken down, and is not this step's to undo.
            self.bound.remove(name);
        }
        let mut bound = Ok(());
        let ending = match self.spawn(step) {
            Err(cause) => spawn_error(&step.program, cause),
            Ok(pid) => {
                self.remember(step, None);
                let stop = self.await_exit(pid, step.program.time_limit_ns);
                let ended = stop.is_none() || self.supervisor.end_group(pid);
                bound = self.bind(pid, step);
                self.supervisor.conclude(pid, &step.program, stop.as_ref(), ended)
            }
        };
        let stop = self.pending_stop();
        let collected = self.supervisor.end_step(step, &ending);
        if ending.outcome == Outcome::Ok {
            bound.and(collected).map_err(|cause| Failure::of(&step.id, cause))?;
            self.done();
            return Ok(());
        }
        match stop {
            Some(stop) if ending.outcome == Outcome::Interrupted => {
                Err(Failure::stopped(&stop, Some(&step.id)))
            }
            _ => Err(Failure::of(&step.id, ending.error.unwrap_or_default())),
        }
    }

    /// Bind what the step's program printed, also when it failed after that: its undo may need it.
    fn bind(&mut self, pid: Pid, step: &Step) -> Result<(), String> {
        let Some(name) = &step.binds else { return Ok(()) };
        self.supervisor.drain(pid);
        let printed = self.supervisor.process(pid).printed();
        let value = printed.map_err(|cause| format!("\"{name}\" cannot be bound: {cause}"))?;
        self.bound.insert(name.clone(), value);
        let undo = self.undo_of(step);
        if let Some(started) = self.started.last_mut() {
            started.undo = undo;
        }
        Ok(())
    }

    /// A step's program was started.
    pub fn remember(&mut self, step: &Step, service: Option<Pid>) {
        let undo = self.undo_of(step);
        self.started.push(Started { step: step.clone(), service, undo, done: false });
    }

    /// None also without what the step binds: then it has brought nothing up.
    fn undo_of(&self, step: &Step) -> Option<Program> {
        step.undo.as_ref().and_then(|undo| undo.fill(&self.bound).ok())
    }

    /// The step that was started last has done what it should.
    pub fn done(&mut self) {
        if let Some(started) = self.started.last_mut() {
            started.done = true;
        }
    }

    pub fn begin(&mut self, step: &Step) {
        self.supervisor.step = Some(step.id.clone());
        let start = Event::StepStart { step: &step.id, phase: step.phase, argv: &step.program.argv };
        self.supervisor.sink.emit(&start);
        self.supervisor.sample(At::StepStart);
    }

    pub fn spawn(&mut self, step: &Step) -> Result<Pid, String> {
        let mut process = Process::spawn(&step.program, &step.id, Target::Step, step.output_limit_bytes)?;
        if step.binds.is_some() {
            process.keep_printed();
        }
        let pid = process.pid;
        self.supervisor.processes.push(process);
        Ok(pid)
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
            supervisor.processes.iter().find(|p| supervisor.watched.contains(&p.pid) && p.exit.is_some());
        if let Some(Process { step, exit: Some(exit), .. }) = ended {
            return Some(Stop::ServiceEnded { step: step.clone(), how: describe(exit.status) });
        }
        (clock::monotonic_ns() >= self.deadline_ns).then_some(Stop::PlanLimit(self.plan.time_limit_ns))
    }
}

impl Supervisor {
    /// Take note of a program's end: kill what it left, tell the rest of its output, judge.
    pub fn conclude(&mut self, pid: Pid, program: &Program, stop: Option<&Stop>, ended: bool) -> Ending {
        let survivors = self.kill_strays();
        let mut ending = self.take_ending(pid, program, stop);
        if !ended || !survivors.is_empty() {
            let names = if survivors.is_empty() { program.argv[0].clone() } else { survivors.join(", ") };
            let cause = format!("SIGKILL did not end {names}");
            ending.error =
                Some(ending.error.map_or_else(|| cause.clone(), |error| format!("{error}; {cause}")));
            if ending.outcome == Outcome::Ok {
                ending.outcome = Outcome::Failed;
            }
        }
        ending
    }

    /// Forget a program: tell the rest of its output, judge how it ended.
    pub fn take_ending(&mut self, pid: Pid, program: &Program, stop: Option<&Stop>) -> Ending {
        self.drain(pid);
        let index = self.processes.iter().position(|process| process.pid == pid).expect("it was started");
        let mut process = self.processes.remove(index);
        let output_truncated = process.finish_output(&mut self.sink);
        judge(&process, program, stop, output_truncated)
    }

    /// Tell a step's end, and ship the files that it wants collected.
    ///
    /// Returns what could not be collected.
    pub fn end_step(&mut self, step: &Step, ending: &Ending) -> Result<(), String> {
        self.step = Some(step.id.clone());
        self.sink.emit(&Event::StepEnd { step: &step.id, ending });
        self.sample(At::StepEnd);
        let mut collected = Ok(());
        for wanted in &step.collect {
            if let Err(cause) = crate::collect::ship(&mut self.sink, &step.id, wanted) {
                collected = collected.and(Err(format!("collecting {}: {cause}", wanted.name)));
            }
        }
        self.step = None;
        collected
    }
}

fn judge(process: &Process, program: &Program, stop: Option<&Stop>, output_truncated: bool) -> Ending {
    let (exit_code, signal) = match process.exit.map(|exit| exit.status) {
        Some(Status::Exited(code)) => (Some(code), None),
        Some(Status::Signalled(signal)) => (None, Some(signal)),
        None => (None, None),
    };
    let (outcome, error) = match (stop, process.exit.map(|exit| exit.status)) {
        (Some(stop), _) => (stop.outcome(), Some(stop.describe())),
        (None, Some(Status::Exited(code))) if program.expect_exit.contains(&code) => (Outcome::Ok, None),
        (None, Some(status @ Status::Exited(_))) => {
            (Outcome::Failed, Some(format!("{}, expected {}", describe(status), list(&program.expect_exit))))
        }
        (None, Some(status)) => (Outcome::Signalled, Some(describe(status))),
        (None, None) => (Outcome::Timeout, None),
    };
    let now_ns = clock::monotonic_ns();
    Ending {
        outcome,
        exit_code,
        signal,
        expected: program.expect_exit.clone(),
        duration_ns: process.exit.map_or(now_ns, |exit| exit.at_ns).saturating_sub(process.started_ns),
        max_rss_bytes: process.exit.map_or(0, |exit| exit.max_rss_bytes),
        user_ns: process.exit.map_or(0, |exit| exit.user_ns),
        system_ns: process.exit.map_or(0, |exit| exit.system_ns),
        output_truncated,
        error,
    }
}

/// The ending of a program that could not be started.
pub fn spawn_error(program: &Program, cause: String) -> Ending {
    Ending {
        outcome: Outcome::SpawnError,
        exit_code: None,
        signal: None,
        expected: program.expect_exit.clone(),
        duration_ns: 0,
        max_rss_bytes: 0,
        user_ns: 0,
        system_ns: 0,
        output_truncated: false,
        error: Some(cause),
    }
}

pub fn describe(status: Status) -> String {
    match status {
        Status::Exited(code) => format!("exit code {code}"),
        Status::Signalled(signal) => format!("killed by {signal}"),
    }
}

fn list(codes: &[i32]) -> String {
    codes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
}
