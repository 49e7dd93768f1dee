// SPDX-License-Identifier: Apache-2.0
//! Teardown: undoing the steps in reverse, whatever happened before.

use nix::unistd::Pid;

use crate::process::child::{Process, Target};
use crate::process::limit::Limit;
use crate::report::events::{Ending, Event, Outcome};
use crate::run::ending::spawn_error;
use crate::run::execute::{Run, Started};
use crate::run::outcome::{Complaint, Halt, Stop};
use crate::system::clock::{self, NS_PER_MS};

/// The interval of checking what another lane takes down.
const HELD_INTERVAL_NS: u64 = 10 * NS_PER_MS;

/// A step that is being taken down: its service is stopped, then its undo is run.
pub struct TakeDown {
    started: Started,
    /// The service that is stopped, or the undo that runs.
    waiting: Option<Limit>,
    complaints: Vec<Complaint>,
    /// Whether its undo has failed.
    stays_up: bool,
}

/// The work of a step that takes others down.
pub enum Early {
    Begin(Box<TakeDown>),
    /// Another lane does it; when to look again.
    Held(u64),
    Done,
}

impl TakeDown {
    /// The program whose end is waited for.
    pub fn pid(&self) -> Option<Pid> {
        self.waiting.as_ref().map(|limit| limit.pid)
    }
}

impl Run<'_> {
    /// Stop every service and undo every step that was started, in reverse order.
    ///
    /// A failure is reported and the rest continues.
    pub fn teardown(&mut self) -> Vec<Complaint> {
        let mut complaints = std::mem::take(&mut self.complaints);
        while let Some(started) = self.started.pop() {
            let mut down = self.begin_take_down(started, false);
            self.await_take_down(&mut down);
            complaints.extend(down.complaints);
        }
        complaints
    }

    /// Begin with the next of the steps of these ids that is to be taken down, the last started first.
    ///
    /// Steps that were not started, or are down already, are left alone.
    pub fn next_early(&mut self, ids: &[String]) -> Early {
        let Some(next) = self.started.iter_mut().rfind(|started| ids.contains(&started.step.id)) else {
            return Early::Done;
        };
        if next.going_down {
            return Early::Held(clock::monotonic_ns() + HELD_INTERVAL_NS);
        }
        next.going_down = true;
        let next = next.clone();
        Early::Begin(Box::new(self.begin_take_down(next, true)))
    }

    /// See how far it is with a step that is taken down before the end.
    ///
    /// Returns when to look again at the latest; None when it is down.
    pub fn attend_early(&mut self, down: &mut TakeDown, wanted_by: &str) -> Result<Option<u64>, Halt> {
        if let Some(wake_ns) = self.attend_take_down(down) {
            return Ok(Some(wake_ns));
        }
        self.settle(down);
        match down.complaints.first() {
            Some((step, cause)) => {
                Err(Halt::of(wanted_by, format!("{step} could not be taken down: {cause}")))
            }
            None => Ok(None),
        }
    }

    /// The plan is ending: finish a lane's unfinished teardown.
    pub fn finish_early(&mut self, down: &mut TakeDown) {
        self.await_take_down(down);
        self.settle(down);
        self.complaints.append(&mut down.complaints);
    }

    /// A step was taken down before the end, or is to be once more at the end, without those who use it.
    fn settle(&mut self, down: &TakeDown) {
        let id = &down.started.step.id;
        match self.started(id) {
            Some(started) if down.stays_up => started.going_down = false,
            _ => self.started.retain(|started| started.step.id != *id),
        }
    }

    fn begin_take_down(&mut self, started: Started, early: bool) -> TakeDown {
        let mut down = TakeDown { started, waiting: None, complaints: Vec::new(), stays_up: false };
        if let (Some(pid), Some(background)) = (down.started.service, &down.started.step.background) {
            self.supervisor.running.push(down.started.step.id.clone());
            down.waiting = Some(self.supervisor.stop_service(pid, background, early));
        } else {
            self.begin_undo(&mut down);
        }
        down
    }

    fn await_take_down(&mut self, down: &mut TakeDown) {
        while let Some(wake_ns) = self.attend_take_down(down) {
            self.supervisor.turn(wake_ns);
        }
    }

    /// Returns when to look again at the latest; None when there is no more to do.
    fn attend_take_down(&mut self, down: &mut TakeDown) -> Option<u64> {
        while let Some(mut limit) = down.waiting.take() {
            if let Some(wake_ns) = self.supervisor.look_at(&mut limit) {
                down.waiting = Some(limit);
                return Some(wake_ns);
            }
            if down.started.service.take().is_some() {
                self.end_service(down, &limit);
                self.begin_undo(down);
            } else {
                self.end_undo(down, &limit);
            }
        }
        None
    }

    fn end_service(&mut self, down: &mut TakeDown, stopped: &Limit) {
        let step = &down.started.step;
        if let Some(started) = self.started(&step.id) {
            started.service = None;
        }
        let Some(background) = &step.background else { return };
        let ending = self.supervisor.conclude_service(stopped, step, background);
        let collected = self.supervisor.end_step(step, &ending);
        if ending.outcome != Outcome::Ok {
            down.complaints.push((step.id.clone(), ending.error.unwrap_or_default()));
        } else if let Err(cause) = collected {
            down.complaints.push((step.id.clone(), cause));
        }
    }

    fn begin_undo(&mut self, down: &mut TakeDown) {
        let Started { step, undo: Some(undo), .. } = &down.started else { return };
        self.supervisor.running.push(step.id.clone());
        self.supervisor.sink.emit(&Event::UndoStart { step: &step.id, argv: &undo.argv });
        match Process::spawn(undo, &step.id, Target::Undo, step.output_limit_bytes) {
            Ok(process) => {
                let started_ns = process.started_ns;
                let pid = self.supervisor.take_charge(process);
                down.waiting = Some(Limit::of(pid, started_ns, undo.time_limit_ns));
            }
            Err(cause) => {
                let ending = spawn_error(undo, cause);
                self.undone(down, ending);
            }
        }
    }

    fn end_undo(&mut self, down: &mut TakeDown, limit: &Limit) {
        let Some(undo) = &down.started.undo else { return };
        let ended = self.supervisor.has_exited(limit.pid);
        let stop = limit.sent.map(|_| Stop::StepLimit(limit.limit_ns));
        let ending = self.supervisor.conclude(limit.pid, undo, stop.as_ref(), ended);
        self.undone(down, ending);
    }

    fn undone(&mut self, down: &mut TakeDown, ending: Ending) {
        let Started { step, done, .. } = &down.started;
        self.supervisor.sink.emit(&Event::UndoEnd { step: &step.id, ending: &ending });
        self.supervisor.running.retain(|id| *id != step.id);
        // A step that failed half-way may have brought nothing up.
        // The undo's own events show it, and leftovers are reported.
        if *done && ending.outcome != Outcome::Ok {
            let cause = format!("undo failed: {}", ending.error.unwrap_or_default());
            down.complaints.push((step.id.clone(), cause));
            down.stays_up = true;
        }
    }
}
