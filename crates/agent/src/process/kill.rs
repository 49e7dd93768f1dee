// SPDX-License-Identifier: Apache-2.0
//! Ending processes: a program's group, and whatever it left behind outside of the group.

use std::collections::BTreeSet;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use crate::process::supervise::{Protected, Supervisor};
use crate::process::table::{Identity, Row, children, rows, shares_cgroup};
use crate::system::clock::{self, NS_PER_MS, NS_PER_S};

/// The time between SIGTERM and SIGKILL.
pub const GRACE_NS: u64 = 2 * NS_PER_S;
/// The wait after SIGKILL, which cannot end a process that waits in the kernel.
pub const KILL_LIMIT_NS: u64 = 10 * NS_PER_S;
/// The interval of looking for strays: the end of a stray's child is not signalled to us.
const STRAY_INTERVAL_NS: u64 = 10 * NS_PER_MS;

impl Supervisor {
    /// Ask the groups of programs that run to end, all at once, then make them.
    ///
    /// Returns the programs that have not ended.
    pub fn end_groups(&mut self, pids: &[Pid]) -> Vec<Pid> {
        let mut left = pids.to_vec();
        for (signal, limit_ns) in [(Signal::SIGTERM, GRACE_NS), (Signal::SIGKILL, KILL_LIMIT_NS)] {
            for pid in &left {
                let _ = killpg(*pid, signal);
            }
            self.wait_for_exits(&left, limit_ns);
            left.retain(|pid| !self.has_exited(*pid));
        }
        left
    }

    /// Kill what descends from the agent but belongs to no service and to no program that is still awaited.
    ///
    /// `ended` are the processes that are to end now: a program, or a service with the processes it
    /// adopted. Returns the names of the survivors.
    pub fn kill_strays(&mut self, ended: &[Pid]) -> Vec<String> {
        let deadline_ns = clock::monotonic_ns() + KILL_LIMIT_NS;
        loop {
            let strays = self.strays(ended);
            if strays.is_empty() {
                return Vec::new();
            }
            let now_ns = clock::monotonic_ns();
            if now_ns >= deadline_ns {
                return strays.iter().map(Row::name).collect();
            }
            for row in strays {
                let _ = kill(Pid::from_raw(row.pid), Signal::SIGKILL);
            }
            self.turn((now_ns + STRAY_INTERVAL_NS).min(deadline_ns));
        }
    }

    fn is_protected(&self, pid: Pid) -> bool {
        self.protected.iter().any(|protected| protected.root == pid)
    }

    /// A service is ready: the orphans that it left while starting belong to it, not to the next step.
    ///
    /// Processes from `before` the service do not.
    pub fn adopt_orphans(&mut self, service: Pid, before: &BTreeSet<Identity>) {
        let others = self.awaited_besides(&[service]);
        for row in children().into_iter().filter(|row| !before.contains(&row.identity())) {
            let pid = row.pid();
            let anothers = others.contains(&pid) || row.is_surely_of(&others) || !shares_cgroup(pid, service);
            if !self.is_protected(pid) && !anothers {
                self.protected.push(Protected { root: pid, service: Some(service) });
            }
        }
    }

    /// A service is to end: stop protecting its processes. Returns them, with the service.
    pub fn release(&mut self, service: Pid) -> Vec<Pid> {
        let is_its = |protected: &Protected| protected.service == Some(service) && protected.root != service;
        let its: Vec<Pid> = self.protected.iter().filter(|each| is_its(each)).map(|each| each.root).collect();
        self.protected.retain(|protected| protected.service != Some(service));
        [vec![service], its].concat()
    }

    fn awaited_besides(&self, ended: &[Pid]) -> Vec<Pid> {
        self.active.iter().copied().filter(|pid| !ended.contains(pid)).collect()
    }

    /// The names of the agent's descendants that belong to no service.
    pub fn stray_names(&self) -> Vec<String> {
        self.strays(&[]).iter().map(Row::name).collect()
    }

    fn strays(&self, ended: &[Pid]) -> Vec<Row> {
        let any = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        if waitid(Id::All, any) == Err(Errno::ECHILD) {
            return Vec::new(); // no children at all, and so no reason to read /proc
        }
        let mut rows = rows();
        let own = Pid::this().as_raw();
        let mut family = vec![own];
        let awaited = self.awaited_besides(ended);
        let spared = |row: &Row| {
            let pid = row.pid();
            let is_orphan = row.lower_pid == own && !ended.contains(&pid);
            self.is_protected(pid)
                || awaited.contains(&pid)
                || (is_orphan && row.may_be_of(&awaited) && !row.is_surely_of(ended))
        };
        let mut strays = Vec::new();
        // A process may have a smaller number than the one it descends from: look until none is added.
        loop {
            let (found, rest): (Vec<Row>, Vec<Row>) =
                rows.into_iter().partition(|row| family.contains(&row.lower_pid) && !spared(row));
            if found.is_empty() {
                break;
            }
            family.extend(found.iter().map(|row| row.pid));
            strays.extend(found);
            rows = rest;
        }
        strays.retain(|row| !row.is_zombie);
        strays
    }
}
