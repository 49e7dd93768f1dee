// SPDX-License-Identifier: Apache-2.0
//! Background steps: started, polled until ready, stopped at teardown.

use nix::sys::signal::kill;
use nix::unistd::Pid;

use crate::clock::{self, describe_ns};
use crate::events::{Ending, Event, Outcome};
use crate::execute::{Failure, Run, Stop, describe, spawn_error};
use crate::kill::children;
use crate::process::{Process, Status, Target};
use crate::program::{Background, Program, Step};
use crate::supervise::{Protected, Supervisor};

/// A `ready` command's output is of interest only when it fails.
const READY_OUTPUT_BYTES: u64 = 0;

impl Run<'_> {
    /// Start a service and wait until it is ready. Its end is told at teardown.
    pub fn start_service(&mut self, step: &Step, background: &Background) -> Result<(), Failure> {
        self.begin(step);
        let pid = match self.spawn(step) {
            Ok(pid) => pid,
            Err(cause) => {
                let _ = self.supervisor.end_step(step, &spawn_error(&step.program, cause.clone()));
                return Err(Failure::of(&step.id, cause));
            }
        };
        self.supervisor.protected.push(Protected { root: pid, service: Some(pid) });
        self.supervisor.watched.push(pid);
        self.remember(step, Some(pid));
        if let Some(ready) = &background.ready {
            self.await_ready(pid, step, background, ready)?;
        }
        // Orphans of a service that made itself at home belong to it, not to the next step.
        for child in children() {
            if !self.supervisor.is_protected(child) {
                self.supervisor.protected.push(Protected { root: child, service: Some(pid) });
            }
        }
        self.supervisor.sink.emit(&Event::StepReady { step: &step.id });
        self.done();
        self.supervisor.step = None;
        Ok(())
    }

    /// Run `ready` at the interval until it succeeds.
    fn await_ready(
        &mut self,
        service: Pid,
        step: &Step,
        background: &Background,
        ready: &Program,
    ) -> Result<(), Failure> {
        let limit_ns = step.program.time_limit_ns;
        let limit_at_ns = self.supervisor.process(service).started_ns.saturating_add(limit_ns);
        let mut last = String::new();
        loop {
            let tried_ns = clock::monotonic_ns();
            match self.try_ready(step, ready, limit_at_ns)? {
                Ok(()) => return Ok(()),
                // A try that our own limit cut short says nothing about the service.
                Err(_) if !last.is_empty() && clock::monotonic_ns() >= limit_at_ns => {}
                Err(cause) => last = cause,
            }
            let next_ns = tried_ns.saturating_add(background.ready_interval_ns);
            loop {
                if let Some(stop) = self.pending_stop() {
                    return Err(Failure::stopped(&stop, Some(&step.id)));
                }
                let now_ns = clock::monotonic_ns();
                if now_ns >= limit_at_ns {
                    let limit = describe_ns(limit_ns);
                    return Err(Failure::of(&step.id, format!("not ready within {limit}: {last}")));
                }
                if now_ns >= next_ns {
                    break;
                }
                self.supervisor.turn(next_ns.min(limit_at_ns).min(self.deadline_ns));
            }
        }
    }

    /// Ask once. The inner error is why the service is not ready yet.
    fn try_ready(
        &mut self,
        step: &Step,
        ready: &Program,
        limit_at_ns: u64,
    ) -> Result<Result<(), String>, Failure> {
        let process = Process::spawn(ready, &step.id, Target::Tail, READY_OUTPUT_BYTES)
            .map_err(|cause| Failure::of(&step.id, format!("ready: {cause}")))?;
        let pid = process.pid;
        let started_ns = process.started_ns;
        self.supervisor.processes.push(process);
        let limit_ns = ready.time_limit_ns.min(limit_at_ns.saturating_sub(started_ns));
        let stop = self.await_exit(pid, limit_ns);
        if stop.is_some() {
            self.supervisor.end_group(pid);
        }
        self.supervisor.drain(pid);
        let said = self.supervisor.process(pid).last_line();
        // Orphans are no strays now: they may be what the service is setting up.
        let ending = self.supervisor.take_ending(pid, ready, stop.as_ref());
        match (ending.outcome, stop) {
            (Outcome::Ok, _) => Ok(Ok(())),
            (_, Some(stop)) if !matches!(stop, Stop::StepLimit(_)) => {
                Err(Failure::stopped(&stop, Some(&step.id)))
            }
            _ => {
                let cause = ending.error.unwrap_or_default();
                Ok(Err(said.map_or_else(|| cause.clone(), |line| format!("{cause} ({line})"))))
            }
        }
    }
}

impl Supervisor {
    /// Stop a service, with what it started.
    pub fn stop_service(&mut self, pid: Pid, step: &Step, background: &Background) -> Ending {
        self.watched.retain(|other| *other != pid);
        let ended_early = self.has_exited(pid);
        let mut killed = false;
        let mut ended = true;
        if !ended_early {
            // To the service only: how its processes end is its own affair.
            let _ = kill(pid, background.stop_signal);
            if !self.wait_for_exit(pid, background.stop_limit_ns) {
                killed = true;
                ended = self.kill_group(pid);
            }
        }
        self.protected.retain(|protected| protected.service != Some(pid));
        let status = self.process(pid).exit.map(|exit| exit.status);
        let mut ending = self.conclude(pid, &step.program, None, ended);
        if ended_early {
            ending.outcome = Outcome::Failed;
            let how = status.map_or_else(String::new, describe);
            ending.error = Some(format!("the service ended early: {how}"));
        } else if killed {
            ending.outcome = Outcome::Timeout;
            let (signal, limit) = (background.stop_signal, describe_ns(background.stop_limit_ns));
            ending.error = Some(format!("{signal} did not end the service within {limit}; it was killed"));
        } else if status == Some(Status::Signalled(background.stop_signal.as_str())) {
            // It has no handler for the signal that the plan stops it with: as good as an exit.
            ending.outcome = Outcome::Ok;
            ending.error = None;
        }
        ending
    }
}
