// SPDX-License-Identifier: Apache-2.0
//! A program's time limit: the signals that end it, and when it is given up.

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::process::kill::{GRACE_NS, KILL_LIMIT_NS};
use crate::process::supervise::Supervisor;
use crate::system::clock;

pub struct Limit {
    pub pid: Pid,
    /// The time before the first signal.
    pub limit_ns: u64,
    /// Whether it was asked to end before.
    pub asked: bool,
    /// The last signal sent.
    pub sent: Option<Signal>,
    /// When that was, or when it was started, and when more is due.
    since_ns: u64,
    next_ns: u64,
}

impl Limit {
    /// Of a program that was started at `since_ns`.
    pub fn of(pid: Pid, since_ns: u64, limit_ns: u64) -> Self {
        Self { pid, limit_ns, asked: false, sent: None, since_ns, next_ns: since_ns.saturating_add(limit_ns) }
    }

    /// Of a program that was just asked to end.
    pub fn of_asked(pid: Pid, limit_ns: u64) -> Self {
        Self { asked: true, sent: Some(Signal::SIGTERM), ..Self::of(pid, clock::monotonic_ns(), limit_ns) }
    }

    /// Send the signal that is due. Returns false if none is left and the program has not ended.
    fn press(&mut self, now_ns: u64) -> bool {
        let (signal, wait_ns) = match self.sent {
            None => (Signal::SIGTERM, GRACE_NS),
            Some(Signal::SIGTERM) => (Signal::SIGKILL, KILL_LIMIT_NS),
            Some(_) => return false,
        };
        let _ = killpg(self.pid, signal);
        (self.sent, self.since_ns, self.next_ns) = (Some(signal), now_ns, now_ns.saturating_add(wait_ns));
        true
    }
}

impl Supervisor {
    /// Check whether a program has ended; if not, send the signal that is due.
    ///
    /// Returns when to look again at the latest; None if it has ended or is given up.
    pub fn look_at(&self, limit: &mut Limit) -> Option<u64> {
        while !self.has_exited(limit.pid) {
            let (now_ns, due_ns) = (clock::monotonic_ns(), self.rushed(limit.since_ns, limit.next_ns));
            if now_ns < due_ns {
                return Some(due_ns);
            }
            if !limit.press(now_ns) {
                break;
            }
        }
        None
    }
}
