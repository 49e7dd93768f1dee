// SPDX-License-Identifier: Apache-2.0
//! The one event loop: signals, time limits, samples and the output of every process, in an order that is always the same.

use std::io;
use std::os::fd::AsFd;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, sigaction};
use nix::sys::signal::{SigmaskHow, killpg, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::TimeSpec;
use nix::sys::timer::TimerSetTimeFlags;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;

use crate::process::child::{Exit, Process, Status};
use crate::process::table::{name_of, pids_of_children};
use crate::report::events::{At, Event, Sink};
use crate::report::monitors::{Filesystem, Monitors};
use crate::system::clock::{self, NS_PER_S};
use crate::system::signals::INTERRUPTS;

/// After a second signal nothing in the teardown may take longer.
const RUSHED_LIMIT_NS: u64 = 5 * NS_PER_S;

const BUFFER_BYTES: usize = 64 << 10;

/// The root of a process tree that a step's end does not concern.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Protected {
    pub root: Pid,
    /// The service that it belongs to, and whose end ends the protection.
    pub service: Option<Pid>,
}

pub struct Supervisor {
    pub sink: Sink,
    pub monitors: Monitors,
    /// Processes whose end is not yet handled.
    pub processes: Vec<Process>,
    /// The steps that run, by their ids.
    pub running: Vec<String>,
    /// Signals to the agent, with their times.
    pub interrupts: Vec<(Signal, u64)>,
    /// Roots of process trees that outlive a step: services, and processes from before the plan.
    pub protected: Vec<Protected>,
    /// Programs whose end is awaited, and services that are not ready: whose orphans are no strays yet.
    pub active: Vec<Pid>,
    /// Services that must not end before the teardown.
    pub watched: Vec<Pid>,
    /// The names of the processes that programs left running, and that were killed for it.
    pub killed: Vec<String>,
    signals: SignalFd,
    alarm: TimerFd,
    buffer: Vec<u8>,
}

impl Supervisor {
    pub fn new(sink: Sink, monitors: Monitors) -> io::Result<Self> {
        prctl::set_child_subreaper(true)?;
        let mut mask = SigSet::empty();
        let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
        // An ignored SIGCHLD would reap for us, an ignored SIGHUP (nohup) would reach the steps.
        for signal in INTERRUPTS.into_iter().chain([Signal::SIGCHLD, Signal::SIGQUIT]) {
            // SAFETY: the default action runs no code of ours.
            unsafe { sigaction(signal, &default) }?;
        }
        for signal in INTERRUPTS.into_iter().chain([Signal::SIGCHLD]) {
            mask.add(signal);
        }
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&mask), None)?;
        Ok(Self {
            sink,
            monitors,
            processes: Vec::new(),
            running: Vec::new(),
            interrupts: Vec::new(),
            protected: pids_of_children().into_iter().map(|root| Protected { root, service: None }).collect(),
            active: Vec::new(),
            watched: Vec::new(),
            killed: Vec::new(),
            signals: SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?,
            alarm: TimerFd::new(
                ClockId::CLOCK_MONOTONIC,
                TimerFlags::TFD_CLOEXEC | TimerFlags::TFD_NONBLOCK,
            )?,
            buffer: vec![0; BUFFER_BYTES],
        })
    }

    /// Wait for an event until `deadline_ns`, and handle it.
    pub fn turn(&mut self, deadline_ns: u64) {
        let wake_ns = self.monitors.next_ns.map_or(deadline_ns, |next| next.min(deadline_ns));
        let readable = self.wait(wake_ns);
        for (process, stream) in readable {
            self.processes[process].read(stream, &mut self.buffer, &mut self.sink);
        }
        self.take_signals();
        self.reap();
        if self.monitors.is_due(clock::monotonic_ns()) {
            self.sample();
        }
    }

    /// Wait for the poll set; returns the streams that have something, in order.
    fn wait(&mut self, wake_ns: u64) -> Vec<(usize, usize)> {
        // 0 would disarm the timer.
        let wake =
            Expiration::OneShot(TimeSpec::from_duration(std::time::Duration::from_nanos(wake_ns.max(1))));
        self.alarm.set(wake, TimerSetTimeFlags::TFD_TIMER_ABSTIME).expect("an absolute time can be set");
        let mut set = vec![
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.alarm.as_fd(), PollFlags::POLLIN),
        ];
        let mut streams = Vec::new();
        for (index, process) in self.processes.iter().enumerate() {
            for (at, stream) in process.streams.iter().enumerate() {
                if let Some(fd) = &stream.fd {
                    set.push(PollFd::new(fd.as_fd(), PollFlags::POLLIN));
                    streams.push((index, at));
                }
            }
        }
        if poll(&mut set, PollTimeout::NONE).is_err() {
            return Vec::new();
        }
        let is_ready = |fd: &PollFd| fd.revents().is_some_and(|events| !events.is_empty());
        set[2..].iter().zip(streams).filter(|(fd, _)| is_ready(fd)).map(|(_, stream)| stream).collect()
    }

    fn take_signals(&mut self) {
        while let Ok(Some(siginfo)) = self.signals.read_signal() {
            match i32::try_from(siginfo.ssi_signo).map(Signal::try_from) {
                Ok(Ok(signal)) if INTERRUPTS.contains(&signal) => {
                    self.interrupts.push((signal, clock::monotonic_ns()));
                }
                _ => {}
            }
        }
    }

    /// Reap every child that has ended, ours and orphans.
    pub fn reap(&mut self) {
        let ended = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        while let Ok(status) = waitid(Id::All, ended) {
            let (WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, _, _)) = status else { break };
            let process = self.processes.iter_mut().find(|process| process.pid == pid);
            if process.is_some() {
                // While its leader is not reaped, the group's number cannot be another's.
                let _ = killpg(pid, Signal::SIGKILL);
            }
            let name = process.is_none().then(|| name_of(pid)).flatten();
            let exit = reap_one(pid);
            let was_killed = exit.as_ref().is_some_and(|exit| exit.status == Status::Signalled("SIGKILL"));
            self.killed.extend(name.filter(|_| was_killed));
            if let Some(process) = process {
                process.exit = exit;
            }
            // Its number may become another's; a service's own is known by its process until that is concluded.
            self.protected.retain(|protected| protected.root != pid || protected.service == Some(pid));
        }
    }

    /// Sample the monitors at the interval; a sample belongs to a step that runs alone.
    fn sample(&mut self) {
        let step = match &self.running[..] {
            [alone] => Some(alone.as_str()),
            _ => None,
        };
        let (disks, memory, cpu) = self.monitors.read();
        self.sink.emit(&Event::Sample { at: At::Interval, step, disks, memory, cpu });
    }

    /// Sample the monitors with the accounts of disks and filesystems, at the start or the end of a step.
    ///
    /// Everything is read before anything is written, so that the figures belong to one instant as nearly as possible.
    pub fn sample_at(&mut self, at: At, step: &str) {
        let (accounts, filesystems) = (self.monitors.accounts(), self.monitors.filesystems());
        let processor = Monitors::processor();
        let (disks, memory, cpu) = self.monitors.read();
        for (disk, account) in accounts {
            self.sink.emit(&Event::DiskAccount { step, at, disk, account });
        }
        for Filesystem { name, kind, account } in &filesystems {
            self.sink.emit(&Event::FilesystemAccount { step, at, filesystem: name, kind, account });
        }
        if !processor.is_empty() {
            self.sink.emit(&Event::ProcessorAccount { step, at, account: processor });
        }
        self.sink.emit(&Event::Sample { at, step: Some(step), disks, memory, cpu });
    }

    /// Look after a program that was started, until its ending is taken.
    pub fn take_charge(&mut self, process: Process) -> Pid {
        let pid = process.pid;
        self.processes.push(process);
        self.active.push(pid);
        pid
    }

    pub fn process(&mut self, pid: Pid) -> &mut Process {
        self.processes.iter_mut().find(|process| process.pid == pid).expect("a process that was started")
    }

    pub fn has_exited(&self, pid: Pid) -> bool {
        self.processes.iter().any(|process| process.pid == pid && process.exit.is_some())
    }

    /// Wait for processes that are to end, until all have or the limit is reached.
    pub fn wait_for_exits(&mut self, pids: &[Pid], limit_ns: u64) {
        let start_ns = clock::monotonic_ns();
        while !pids.iter().all(|pid| self.has_exited(*pid)) {
            let deadline_ns = self.rushed(start_ns, start_ns.saturating_add(limit_ns));
            if clock::monotonic_ns() >= deadline_ns {
                return;
            }
            self.turn(deadline_ns);
        }
    }

    /// The end of a wait that began at `start_ns`: a second signal to the agent brings it forward.
    pub fn rushed(&self, start_ns: u64, deadline_ns: u64) -> u64 {
        let rushed_ns = |second_ns: u64| start_ns.max(second_ns) + RUSHED_LIMIT_NS;
        self.interrupts.get(1).map_or(deadline_ns, |(_, second_ns)| deadline_ns.min(rushed_ns(*second_ns)))
    }

    /// Read what is in a process's pipes now, without waiting for other holders.
    pub fn drain(&mut self, pid: Pid) {
        // The largest pipe an administrator can allow by default is 1 MiB.
        let reads_max = (1 << 20) / BUFFER_BYTES + 1;
        let Some(process) = self.processes.iter_mut().find(|process| process.pid == pid) else { return };
        for stream in 0..process.streams.len() {
            for _ in 0..reads_max {
                if !process.read(stream, &mut self.buffer, &mut self.sink) {
                    break;
                }
            }
        }
    }
}

/// Reap this child if it has ended.
pub fn reap_one(pid: Pid) -> Option<Exit> {
    let mut status = 0;
    // SAFETY: rusage is plain integers, for which zero is a value, and both pointers are to our own memory.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    if unsafe { libc::wait4(pid.as_raw(), &raw mut status, libc::WNOHANG, &raw mut usage) } != pid.as_raw() {
        return None;
    }
    let status = if libc::WIFEXITED(status) {
        Status::Exited(libc::WEXITSTATUS(status))
    } else {
        let signal = Signal::try_from(libc::WTERMSIG(status));
        Status::Signalled(signal.map_or("a real-time signal", Signal::as_str))
    };
    let time_ns = |time: libc::timeval| natural(time.tv_sec) * NS_PER_S + natural(time.tv_usec) * 1000;
    Some(Exit {
        status,
        at_ns: clock::monotonic_ns(),
        max_rss_bytes: natural(usage.ru_maxrss) * 1024,
        user_ns: time_ns(usage.ru_utime),
        system_ns: time_ns(usage.ru_stime),
    })
}

/// The kernel counts in signed numbers, but never below zero.
fn natural(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}
