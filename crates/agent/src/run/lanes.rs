// SPDX-License-Identifier: Apache-2.0
//! Steps that are carried out at the same time: the lanes of a group, each a small state machine.
//!
//! A step without a lane is a group of its own. Lanes are looked after in the order in which the plan first names
//! them, so that simultaneous events are reported in the same order every time.

use std::collections::VecDeque;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::plan::program::{Step, Template};
use crate::process::table::identities;
use crate::report::events::{Event, Outcome};
use crate::report::precision::{INTERVAL_NS, Interval, Look, look};
use crate::run::ending::spawn_error;
use crate::run::execute::Run;
use crate::run::outcome::{Failure, Halt, Stop};
use crate::run::service::Starting;
use crate::run::teardown::{Early, TakeDown};
use crate::system::clock;

/// The steps of one lane, in their order.
struct Lane<'a> {
    name: Option<&'a str>,
    rest: VecDeque<&'a Template<Step>>,
    doing: Option<Doing>,
}

/// A lane's current wait.
enum Doing {
    /// That a step's program ends.
    Program(Box<Running>),
    /// That a service is ready.
    Service(Box<Starting>),
    /// That a step is taken down, for the next one of the lane.
    TakingDown(Box<TakeDown>, String),
}

/// A step whose program runs.
struct Running {
    step: Step,
    pid: Pid,
    limit_at_ns: u64,
    /// How many intervals were printed before it began.
    earlier: usize,
    /// What is known of a window that was asked to end.
    known: Option<Look>,
}

impl<'a> Lane<'a> {
    fn of(steps: &[&'a Template<Step>]) -> Vec<Self> {
        let mut lanes: Vec<Self> = Vec::new();
        for step in steps {
            match lanes.iter_mut().find(|lane| lane.name == step.lane()) {
                Some(lane) => lane.rest.push_back(step),
                None => lanes.push(Self { name: step.lane(), rest: VecDeque::from([*step]), doing: None }),
            }
        }
        lanes
    }
}

impl Doing {
    /// The step that the lane is at.
    fn id(&self) -> &str {
        match self {
            Self::Program(running) => &running.step.id,
            Self::Service(starting) => &starting.step.id,
            Self::TakingDown(_, wanted_by) => wanted_by,
        }
    }

    /// The program of a window that is to end once it is known, and was not asked to.
    fn window(&mut self) -> Option<&mut Running> {
        match self {
            Self::Program(running) => {
                Some(&mut **running).filter(|it| it.step.until.is_some() && it.known.is_none())
            }
            _ => None,
        }
    }

    /// The program whose end the lane waits for. A service itself runs on until it is taken down.
    fn pid(&self) -> Option<Pid> {
        match self {
            Self::Program(running) => Some(running.pid),
            Self::Service(starting) => starting.trying(),
            Self::TakingDown(down, _) => down.pid(),
        }
    }
}

impl Run<'_> {
    /// Carry out the steps of one group. When it cannot come to its end, all of its programs are ended.
    pub fn group(&mut self, steps: &[&Template<Step>]) -> Result<(), Failure> {
        let mut lanes = Lane::of(steps);
        self.run_lanes(&mut lanes).map_err(|halt| self.end_lanes(lanes, &halt))
    }

    fn run_lanes(&mut self, lanes: &mut [Lane]) -> Result<(), Halt> {
        let began_ns = clock::monotonic_ns();
        loop {
            let mut wake_ns = None;
            for lane in &mut *lanes {
                wake_ns = wake_ns.into_iter().chain(self.advance(lane, began_ns)?).min();
            }
            let Some(wake_ns) = wake_ns else { return Ok(()) };
            self.end_known(lanes);
            if let Some(stop) = self.pending_stop() {
                return Err(Halt::Stopped(stop, None));
            }
            // Handling one lane may have consumed the end that another waits for, without a wake-up.
            if !lanes.iter().any(|lane| self.has_news(lane)) {
                self.supervisor.turn(wake_ns.min(self.deadline_ns));
            }
        }
    }

    fn has_news(&self, lane: &Lane) -> bool {
        lane.doing.as_ref().and_then(Doing::pid).is_some_and(|pid| self.supervisor.has_exited(pid))
    }

    /// Advance a lane. Returns when to advance it again at the latest; None at its end.
    fn advance(&mut self, lane: &mut Lane, began_ns: u64) -> Result<Option<u64>, Halt> {
        loop {
            if let Some(doing) = &mut lane.doing {
                let looked = match doing {
                    Doing::Program(running) => self.attend(running),
                    Doing::Service(starting) => self.attend_service(starting),
                    Doing::TakingDown(down, wanted_by) => self.attend_early(down, wanted_by),
                };
                if let Ok(None) | Err(Halt::Failed(_)) = looked {
                    lane.doing = None;
                }
                if let Some(wake_ns) = looked? {
                    return Ok(Some(wake_ns));
                }
            }
            let Some(step) = lane.rest.front() else { return Ok(None) };
            let due_ns = began_ns.saturating_add(step.not_before_ns());
            if clock::monotonic_ns() < due_ns {
                return Ok(Some(due_ns));
            }
            // Signals and the ends of services that came since the last step.
            self.supervisor.turn(0);
            if let Some(stop) = self.pending_stop() {
                return Err(Halt::Stopped(stop, Some(step.id().to_owned())));
            }
            match self.next_early(step.takes_down()) {
                Early::Begin(down) => {
                    lane.doing = Some(Doing::TakingDown(down, step.id().to_owned()));
                }
                Early::Held(wake_ns) => return Ok(Some(wake_ns)),
                Early::Done => {
                    lane.doing = Some(self.start(step)?);
                    lane.rest.pop_front();
                }
            }
        }
    }

    fn start(&mut self, template: &Template<Step>) -> Result<Doing, Halt> {
        let id = template.id();
        let step = template.fill(&self.bound).map_err(|cause| Halt::of(id, cause))?;
        self.begin(&step);
        if let Some(name) = &step.binds {
            // Its earlier value was taken down, and is not this step's to undo.
            self.bound.remove(name);
        }
        let before = step.background.as_ref().map(|_| identities()).unwrap_or_default();
        let pid = self.spawn(&step).map_err(|cause| {
            let _ = self.supervisor.end_step(&step, &spawn_error(&step.program, cause.clone()));
            Halt::of(id, cause)
        })?;
        let started_ns = self.supervisor.process(pid).started_ns;
        let limit_at_ns = started_ns.saturating_add(step.program.time_limit_ns);
        self.remember(&step, step.background.is_some().then_some(pid));
        Ok(if let Some(background) = step.background.clone() {
            Doing::Service(Box::new(self.begin_service(step, background, pid, limit_at_ns, before)))
        } else {
            let earlier = self.intervals_of(&step).len();
            Doing::Program(Box::new(Running { step, pid, limit_at_ns, earlier, known: None }))
        })
    }

    /// The intervals that a step waits for, as far as they are printed.
    fn intervals_of(&self, step: &Step) -> &[Interval] {
        let of = step.until.as_ref().map(|until| until.of.as_str());
        let mut found = self.supervisor.processes.iter().filter(|process| Some(process.step.as_str()) == of);
        found.find_map(|process| process.intervals.as_ref()).map_or(&[], |intervals| &intervals.known)
    }

    /// The last look at a step's window, and whether it is known.
    fn look_at(&self, running: &Running) -> (Option<Look>, bool) {
        let Some(until) = &running.step.until else { return (None, false) };
        let own = self.intervals_of(&running.step).get(running.earlier..).unwrap_or_default();
        let whole = usize::try_from(until.window_ns / INTERVAL_NS).unwrap_or(usize::MAX);
        let (last, is_known) = look(own, whole, until.share);
        let began_ns = running.limit_at_ns.saturating_sub(running.step.program.time_limit_ns);
        (last, is_known && clock::monotonic_ns() >= began_ns.saturating_add(until.after_ns))
    }

    /// Ask the windows of all lanes to end once each of them is known.
    fn end_known(&self, lanes: &mut [Lane]) {
        if lanes.iter().any(|lane| lane.rest.iter().any(|step| step.until().is_some())) {
            return;
        }
        let mut open: Vec<&mut Running> =
            lanes.iter_mut().filter_map(|lane| lane.doing.as_mut()?.window()).collect();
        let looks: Vec<_> = open.iter().map(|running| self.look_at(running)).collect();
        if looks.iter().all(|(_, is_known)| *is_known) {
            for (running, (last, _)) in open.iter_mut().zip(looks) {
                running.known = last;
                let _ = kill(running.pid, Signal::SIGINT);
            }
        }
    }

    /// See whether a step's program has ended. Returns when to look again at the latest; None if it has.
    fn attend(&mut self, running: &Running) -> Result<Option<u64>, Halt> {
        if self.supervisor.has_exited(running.pid) {
            return self.finish(running, None, true).map(|()| None).map_err(Halt::Failed);
        }
        if clock::monotonic_ns() < running.limit_at_ns {
            return Ok(Some(running.limit_at_ns));
        }
        Err(Halt::Overdue(running.step.id.clone()))
    }

    /// Conclude a step whose program has ended, by itself or by `stop`.
    fn finish(&mut self, running: &Running, stop: Option<&Stop>, ended: bool) -> Result<(), Failure> {
        let Running { step, pid, .. } = running;
        let bound = self.bind(*pid, step);
        let look = running.known.or_else(|| self.look_at(running).0);
        let mut ending = self.supervisor.conclude(*pid, &step.program, stop, ended);
        if running.known.is_some() && stop.is_none() && ending.signal == Some("SIGINT") {
            (ending.outcome, ending.error) = (Outcome::Ok, None);
        }
        if step.until.is_some() {
            let known = running.known.is_some();
            self.supervisor.sink.emit(&Event::Precision { step: &step.id, known, look });
        }
        let collected = self.supervisor.end_step(step, &ending);
        if ending.outcome != Outcome::Ok {
            return Err(Failure::of(&step.id, ending.error.unwrap_or_default()));
        }
        bound.and(collected).map_err(|cause| Failure::of(&step.id, cause))?;
        self.done(&step.id);
        Ok(())
    }

    /// Bind the step's output, even if it failed: its undo may need it.
    fn bind(&mut self, pid: Pid, step: &Step) -> Result<(), String> {
        let Some(name) = &step.binds else { return Ok(()) };
        self.supervisor.drain(pid);
        let printed = self.supervisor.process(pid).printed();
        let value = printed.map_err(|cause| format!("\"{name}\" cannot be bound: {cause}"))?;
        self.supervisor.monitors.bound(name, &value);
        self.bound.insert(name.clone(), value);
        let undo = self.undo_of(step);
        if let Some(started) = self.started(&step.id) {
            started.undo = undo;
        }
        Ok(())
    }

    /// End all lanes' programs at once and report the steps' ends. Returns the plan's failure.
    fn end_lanes(&mut self, lanes: Vec<Lane>, halt: &Halt) -> Failure {
        let mut running: Vec<Doing> = lanes.into_iter().filter_map(|lane| lane.doing).collect();
        // Unfinished teardowns are finished after all others.
        let is_going_down = |doing: &Doing| matches!(doing, Doing::TakingDown(..));
        running.sort_by_key(is_going_down);
        let ended = running.iter().filter(|doing| !is_going_down(doing));
        let mut pids: Vec<Pid> = ended.filter_map(Doing::pid).collect();
        pids.retain(|pid| !self.supervisor.has_exited(*pid));
        let survivors = self.supervisor.end_groups(&pids);
        let mut reason = String::new();
        for doing in &mut running {
            match doing {
                Doing::Service(starting) => self.give_up(starting),
                Doing::TakingDown(down, _) => self.finish_early(down),
                Doing::Program(running) => {
                    // A program that had ended by itself is judged by its exit.
                    let stop = pids.contains(&running.pid).then(|| halt.stop(&running.step));
                    let failure = self.finish(running, stop.as_ref(), !survivors.contains(&running.pid));
                    if let (Some(Stop::StepLimit(_)), Err(failure)) = (stop, failure) {
                        reason = failure.reason;
                    }
                }
            }
        }
        match halt {
            Halt::Failed(failure) => failure.clone(),
            Halt::Overdue(id) => Failure::of(id, reason),
            Halt::Stopped(stop, next) => {
                let step = running.first().map(Doing::id).or(next.as_deref());
                Failure::stopped(stop, step)
            }
        }
    }
}
