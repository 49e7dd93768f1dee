// SPDX-License-Identifier: Apache-2.0
//! Background steps: started, polled until ready, stopped at teardown.

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::clock::{self, describe_ns};
use crate::ending::describe;
use crate::events::{Ending, Event, Outcome};
use crate::execute::{Run, Stop};
use crate::kill::{GRACE_NS, KILL_LIMIT_NS};
use crate::lanes::Halt;
use crate::process::{Process, Status, Target};
use crate::program::{Background, Program, Step};
use crate::supervise::{Protected, Supervisor};

/// A `ready` command's output is of interest only when it fails.
const READY_OUTPUT_BYTES: u64 = 0;

/// A service that was started and is not ready yet.
pub struct Starting {
    pub step: Step,
    service: Pid,
    background: Background,
    limit_at_ns: u64,
    /// When `ready` is tried next.
    next_ns: u64,
    trying: Option<Try>,
    /// Why it was not ready when it was asked last.
    last: String,
}

/// A `ready` command that runs.
struct Try {
    pid: Pid,
    limit_ns: u64,
    /// When it is ended, then killed, then given up.
    next_ns: u64,
    /// What it was sent to end it.
    sent: Option<Signal>,
}

impl Starting {
    /// The `ready` command that runs, if one does.
    pub fn trying(&self) -> Option<Pid> {
        self.trying.as_ref().map(|trying| trying.pid)
    }

    fn not_ready(&self, cause: &str) -> Halt {
        Halt::of(&self.step.id, cause)
    }
}

impl Try {
    /// Whether the limit has come and nothing has ended it, after sending it what is due.
    fn is_given_up(&mut self, now_ns: u64) -> bool {
        if now_ns < self.next_ns {
            return false;
        }
        let (signal, wait_ns) = match self.sent {
            None => (Signal::SIGTERM, GRACE_NS),
            Some(Signal::SIGTERM) => (Signal::SIGKILL, KILL_LIMIT_NS),
            Some(_) => return true,
        };
        let _ = killpg(self.pid, signal);
        self.sent = Some(signal);
        self.next_ns = now_ns.saturating_add(wait_ns);
        false
    }
}

impl Run<'_> {
    /// A service was started: watch over it until it is ready. Its end is told at teardown.
    pub fn begin_service(
        &mut self,
        step: Step,
        background: Background,
        service: Pid,
        limit_at_ns: u64,
    ) -> Starting {
        self.supervisor.protected.push(Protected { root: service, service: Some(service) });
        self.supervisor.watched.push(service);
        Starting { step, service, background, limit_at_ns, next_ns: 0, trying: None, last: String::new() }
    }

    /// Run `ready` at the interval until it succeeds.
    ///
    /// Returns when to look again at the latest; None when the service is ready.
    pub fn attend_service(&mut self, starting: &mut Starting) -> Result<Option<u64>, Halt> {
        loop {
            let now_ns = clock::monotonic_ns();
            let Some(ready) = &starting.background.ready else { break };
            if let Some(trying) = &mut starting.trying {
                if !self.supervisor.has_exited(trying.pid) && !trying.is_given_up(now_ns) {
                    return Ok(Some(trying.next_ns));
                }
                let asked = self.take_try(trying, ready);
                starting.trying = None;
                match asked {
                    Ok(()) => break,
                    // A try that our own limit cut short says nothing about the service.
                    Err(_) if !starting.last.is_empty() && clock::monotonic_ns() >= starting.limit_at_ns => {}
                    Err(cause) => starting.last = cause,
                }
            } else if now_ns >= starting.limit_at_ns {
                let limit = describe_ns(starting.step.program.time_limit_ns);
                self.give_up(starting);
                return Err(starting.not_ready(&format!("not ready within {limit}: {}", starting.last)));
            } else if now_ns >= starting.next_ns {
                starting.next_ns = now_ns.saturating_add(starting.background.ready_interval_ns);
                let trying = self.spawn_try(starting, ready);
                starting.trying = Some(trying.map_err(|cause| {
                    self.give_up(starting);
                    starting.not_ready(&format!("ready: {cause}"))
                })?);
            } else {
                return Ok(Some(starting.next_ns.min(starting.limit_at_ns)));
            }
        }
        self.supervisor.adopt_orphans(starting.service);
        self.supervisor.active.retain(|pid| *pid != starting.service);
        self.supervisor.sink.emit(&Event::StepReady { step: &starting.step.id });
        self.done(&starting.step.id);
        self.supervisor.running.retain(|id| *id != starting.step.id);
        Ok(None)
    }

    /// A service will not be asked any more. It is stopped at teardown.
    pub fn give_up(&mut self, starting: &Starting) {
        if let (Some(trying), Some(ready)) = (&starting.trying, &starting.background.ready) {
            let _ = self.take_try(trying, ready);
        }
        self.supervisor.active.retain(|pid| *pid != starting.service);
        self.supervisor.running.retain(|id| *id != starting.step.id);
    }

    fn spawn_try(&mut self, starting: &Starting, ready: &Program) -> Result<Try, String> {
        let process = Process::spawn(ready, &starting.step.id, Target::Tail, READY_OUTPUT_BYTES)?;
        let started_ns = process.started_ns;
        let limit_ns = ready.time_limit_ns.min(starting.limit_at_ns.saturating_sub(started_ns));
        let pid = self.supervisor.take_charge(process);
        Ok(Try { pid, limit_ns, next_ns: started_ns.saturating_add(limit_ns), sent: None })
    }

    /// What a `ready` command that has ended says: why the service is not ready yet, if it is not.
    fn take_try(&mut self, trying: &Try, ready: &Program) -> Result<(), String> {
        self.supervisor.drain(trying.pid);
        let said = self.supervisor.process(trying.pid).last_line();
        let stop = trying.sent.map(|_| Stop::StepLimit(trying.limit_ns));
        // Orphans are no strays now: they may be what the service is setting up.
        let ending = self.supervisor.take_ending(trying.pid, ready, stop.as_ref());
        if ending.outcome == Outcome::Ok {
            return Ok(());
        }
        let cause = ending.error.unwrap_or_default();
        Err(said.map_or_else(|| cause.clone(), |line| format!("{cause} ({line})")))
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
