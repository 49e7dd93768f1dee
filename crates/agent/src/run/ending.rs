// SPDX-License-Identifier: Apache-2.0
//! The ends of programs and steps, and their events.

use nix::unistd::Pid;

use crate::machine::protocol;
use crate::plan::program::{Program, Step};
use crate::process::child::{Process, Status};
use crate::process::supervise::Supervisor;
use crate::report::collect;
use crate::report::events::{At, Ending, Event, Outcome};
use crate::run::outcome::{Stop, describe};
use crate::system::clock;

impl Supervisor {
    /// Handle a program's end: kill its strays, report the rest of its output, judge the outcome.
    pub fn conclude(&mut self, pid: Pid, program: &Program, stop: Option<&Stop>, ended: bool) -> Ending {
        let ended_pids = self.release(pid);
        let survivors = self.kill_strays(&ended_pids);
        self.reap();
        let left_running = std::mem::take(&mut self.killed);
        let mut ending = self.take_ending(pid, program, stop);
        // Of a program that was made to end, its processes are no surprise.
        if ending.outcome == Outcome::Ok {
            ending.left_running = left_running;
        }
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
        self.active.retain(|other| *other != pid);
        let output_truncated = process.finish_output(&mut self.sink);
        judge(&process, program, stop, output_truncated)
    }

    /// Tell a step's end, and ship the files that it wants collected.
    ///
    /// Returns the files that could not be collected.
    pub fn end_step(&mut self, step: &Step, ending: &Ending) -> Result<(), String> {
        self.sink.emit(&Event::StepEnd { step: &step.id, ending });
        self.sample_at(At::StepEnd, &step.id);
        let mut collected = Ok(());
        for wanted in &step.collect {
            let shipped = match &step.program.machine {
                Some(socket) => protocol::ship(&mut self.sink, &step.id, wanted, socket),
                None => collect::ship(&mut self.sink, &step.id, wanted),
            };
            if let Err(cause) = shipped {
                collected = collected.and(Err(format!("collecting {}: {cause}", wanted.name)));
            }
        }
        self.running.retain(|id| *id != step.id);
        collected
    }
}

/// How a program has ended.
pub fn judge(process: &Process, program: &Program, stop: Option<&Stop>, output_truncated: bool) -> Ending {
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
        left_running: Vec::new(),
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
        left_running: Vec::new(),
    }
}

fn list(codes: &[i32]) -> String {
    codes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
}
