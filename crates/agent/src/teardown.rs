// SPDX-License-Identifier: Apache-2.0
//! Undoing what was done, in reverse, whatever happened before.

use crate::ending::spawn_error;
use crate::events::{Ending, Event, Outcome};
use crate::execute::{Run, Started, Stop};
use crate::process::{Process, Target};
use crate::program::{Program, Step};

/// What did not go well in a teardown, each with its step.
pub type Complaint = (String, String);

impl Run<'_> {
    /// Stop every service and undo every step that was started, in reverse order.
    ///
    /// A failure is told and the rest continues.
    pub fn teardown(&mut self) -> Vec<Complaint> {
        let mut complaints = Vec::new();
        while let Some(started) = self.started.pop() {
            complaints.extend(self.take_down(&started));
        }
        complaints
    }

    /// Take down the steps of these ids, as at the end, the last started first.
    ///
    /// Those that were not started, or were taken down already, are left alone.
    pub fn take_down_early(&mut self, ids: &[String]) -> Result<(), String> {
        for index in (0..self.started.len()).rev() {
            if ids.contains(&self.started[index].step.id) {
                let started = self.started.remove(index);
                if let Some((step, cause)) = self.take_down(&started).into_iter().next() {
                    if started.service.is_none() {
                        self.started.insert(index, started); // once more at the end, without those who use it
                    }
                    return Err(format!("{step} could not be taken down: {cause}"));
                }
            }
        }
        Ok(())
    }

    fn take_down(&mut self, started: &Started) -> Vec<Complaint> {
        let mut complaints = Vec::new();
        let Started { step, service, undo, done } = started;
        if let (Some(pid), Some(background)) = (service, &step.background) {
            self.supervisor.running.push(step.id.clone());
            let ending = self.supervisor.stop_service(*pid, step, background);
            let collected = self.supervisor.end_step(step, &ending);
            if ending.outcome != Outcome::Ok {
                complaints.push((step.id.clone(), ending.error.unwrap_or_default()));
            } else if let Err(cause) = collected {
                complaints.push((step.id.clone(), cause));
            }
        }
        if let Some(Err(cause)) = undo.as_ref().map(|undo| self.undo(step, undo)) {
            // What failed half-way may have brought nothing up either, and then cannot be taken down.
            // The undo's own events tell it, and whatever is still there is told as left behind.
            if *done {
                complaints.push((step.id.clone(), format!("undo failed: {cause}")));
            }
        }
        complaints
    }

    fn undo(&mut self, step: &Step, undo: &Program) -> Result<(), String> {
        self.supervisor.running.push(step.id.clone());
        self.supervisor.sink.emit(&Event::UndoStart { step: &step.id, argv: &undo.argv });
        let ending = self.run_undo(step, undo);
        self.supervisor.sink.emit(&Event::UndoEnd { step: &step.id, ending: &ending });
        self.supervisor.running.retain(|id| *id != step.id);
        match ending.outcome {
            Outcome::Ok => Ok(()),
            _ => Err(ending.error.unwrap_or_default()),
        }
    }

    fn run_undo(&mut self, step: &Step, undo: &Program) -> Ending {
        let process = match Process::spawn(undo, &step.id, Target::Undo, step.output_limit_bytes) {
            Ok(process) => process,
            Err(cause) => return spawn_error(undo, cause),
        };
        let pid = self.supervisor.take_charge(process);
        if self.supervisor.wait_for_exit(pid, undo.time_limit_ns) {
            return self.supervisor.conclude(pid, undo, None, true);
        }
        let ended = self.supervisor.end_group(pid);
        self.supervisor.conclude(pid, undo, Some(&Stop::StepLimit(undo.time_limit_ns)), ended)
    }
}
