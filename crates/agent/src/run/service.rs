// SPDX-License-Identifier: Apache-2.0
//! Background steps: started, polled until ready, stopped at teardown.

use std::collections::BTreeSet;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::plan::program::{Background, Program, Step};
use crate::process::child::{Process, Status, Target};
use crate::process::limit::Limit;
use crate::process::supervise::{Protected, Supervisor};
use crate::process::table::Identity;
use crate::report::events::{Ending, Event, Outcome};
use crate::run::execute::Run;
use crate::run::outcome::{Halt, Stop, describe_early};
use crate::system::clock::{self, describe_ns};

/// A `ready` command's output is of interest only when it fails.
const READY_OUTPUT_BYTES: u64 = 0;

/// A service that was started and is not ready yet.
pub struct Starting {
    pub step: Step,
    service: Pid,
    background: Background,
    limit_at_ns: u64,
    /// The processes before it.
    before: BTreeSet<Identity>,
    /// When `ready` is tried next.
    next_ns: u64,
    /// The `ready` command that runs.
    trying: Option<Limit>,
    /// Why it was not ready when it was asked last.
    last: String,
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

impl Run<'_> {
    /// A service was started: watch it until it is ready. Its end is reported at teardown.
    pub fn begin_service(
        &mut self,
        step: Step,
        background: Background,
        service: Pid,
        limit_at_ns: u64,
        before: BTreeSet<Identity>,
    ) -> Starting {
        self.supervisor.protected.push(Protected { root: service, service: Some(service) });
        self.supervisor.watched.push(service);
        self.supervisor.process(service).may_end = background.stop_signal.is_none();
        let last = String::new();
        Starting { step, service, background, limit_at_ns, before, next_ns: 0, trying: None, last }
    }

    /// Run `ready` at the interval until it succeeds.
    ///
    /// Returns when to look again at the latest; None when the service is ready.
    pub fn attend_service(&mut self, starting: &mut Starting) -> Result<Option<u64>, Halt> {
        loop {
            let now_ns = clock::monotonic_ns();
            let Some(ready) = &starting.background.ready else { break };
            if let Some(trying) = &mut starting.trying {
                if let Some(wake_ns) = self.supervisor.look_at(trying) {
                    return Ok(Some(wake_ns));
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
        self.supervisor.adopt_orphans(starting.service, &starting.before);
        self.supervisor.active.retain(|pid| *pid != starting.service);
        // Orphans that were spared as possibly the service's.
        self.supervisor.kill_strays(&[]);
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

    fn spawn_try(&mut self, starting: &Starting, ready: &Program) -> Result<Limit, String> {
        let process = Process::spawn(ready, &starting.step.id, Target::Tail, READY_OUTPUT_BYTES)?;
        let started_ns = process.started_ns;
        let limit_ns = ready.time_limit_ns.min(starting.limit_at_ns.saturating_sub(started_ns));
        let pid = self.supervisor.take_charge(process);
        Ok(Limit::of(pid, started_ns, limit_ns))
    }

    /// The result of a finished `ready` command: why the service is not ready yet.
    fn take_try(&mut self, trying: &Limit, ready: &Program) -> Result<(), String> {
        self.supervisor.drain(trying.pid);
        let said = self.supervisor.process(trying.pid).last_line();
        let stop = trying.sent.map(|_| Stop::StepLimit(trying.limit_ns));
        // Orphans are not strays now: the service may be starting them.
        let ending = self.supervisor.take_ending(trying.pid, ready, stop.as_ref());
        if ending.outcome == Outcome::Ok {
            return Ok(());
        }
        let cause = ending.error.unwrap_or_default();
        Err(said.map_or_else(|| cause.clone(), |line| format!("{cause} ({line})")))
    }
}

impl Supervisor {
    /// Ask a service to end, unless it has ended early; `early` is the teardown for a later step.
    pub fn stop_service(&mut self, pid: Pid, background: &Background, early: bool) -> Limit {
        self.watched.retain(|other| *other != pid);
        let signal = background.stop_signal.or((!early).then_some(Signal::SIGTERM));
        let Some(signal) = signal.filter(|_| !self.has_exited(pid)) else {
            return Limit::of(pid, clock::monotonic_ns(), background.stop_limit_ns);
        };
        // To the service only, which ends its own processes.
        let _ = kill(pid, signal);
        Limit::of_asked(pid, background.stop_limit_ns)
    }

    /// Handle the end of a service, and end its processes.
    pub fn conclude_service(&mut self, stopped: &Limit, step: &Step, background: &Background) -> Ending {
        let status = self.process(stopped.pid).exit.map(|exit| exit.status);
        let waited_for = background.stop_signal.is_none();
        let limit = stopped.sent.filter(|_| waited_for && !stopped.asked);
        let limit = limit.map(|_| Stop::StepLimit(background.stop_limit_ns));
        let mut ending = self.conclude(stopped.pid, &step.program, limit.as_ref(), status.is_some());
        let signal = background.stop_signal.unwrap_or(Signal::SIGTERM);
        if waited_for && !stopped.asked {
            return ending;
        }
        if stopped.sent.is_none() {
            ending.outcome = Outcome::Failed;
            let how = status.map_or_else(String::new, describe_early);
            ending.error = Some(format!("the service ended early: {how}"));
        } else if stopped.sent == Some(Signal::SIGKILL) {
            ending.outcome = Outcome::Timeout;
            let limit = describe_ns(background.stop_limit_ns);
            ending.error = Some(format!("{signal} did not end the service within {limit}; it was killed"));
        } else if status == Some(Status::Signalled(signal.as_str())) {
            // It has no handler for the signal that the plan stops it with: as good as an exit.
            ending.outcome = Outcome::Ok;
            ending.error = None;
        }
        ending
    }
}
