// SPDX-License-Identifier: Apache-2.0
//! The warden of a sandbox: the half of the agent that stays outside. It passes signals on, looks after devices
//! that appear, mounts and unmounts for the steps, and ends as the inside ends.

use std::cell::Cell;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork};

use crate::sandbox::declared::Sandbox;
use crate::sandbox::devices::Devices;
use crate::sandbox::filter::DeviceFilter;
use crate::sandbox::group::Group;
use crate::sandbox::mount::{self, Mounter};
use crate::system::signals::INTERRUPTS;

const EVENT_BYTES: usize = 8192;

pub struct Warden<'a> {
    pub sandbox: &'a Sandbox,
    pub group: &'a Group,
    pub filter: &'a DeviceFilter,
    pub devices: &'a Devices,
    /// The machine's /proc.
    pub processes: OwnedFd,
    /// The kernel's events about devices.
    pub news: OwnedFd,
    /// The signals that are passed on, and the ends of children.
    pub signals: SignalFd,
    /// The first process of the inside.
    pub child: Pid,
    /// The maker of containers, until it has ended.
    pub maker: Cell<Option<Pid>>,
}

/// Hold back the signals that a warden handles, until it reads them here. Before the inside is made: one that
/// comes in between would end the agent.
pub fn hold_signals() -> Result<SignalFd, Errno> {
    let mut mask = SigSet::empty();
    INTERRUPTS.into_iter().chain([Signal::SIGCHLD]).for_each(|signal| mask.add(signal));
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&mask), None)?;
    SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
}

impl Warden<'_> {
    /// Guard until the inside ends. Returns the exit status to end with.
    pub fn guard(&self, listener: Option<&OwnedFd>) -> i32 {
        loop {
            // The listener hangs up once no process is left.
            if let Some(status) = self.ended() {
                if let Some(maker) = self.maker.take() {
                    let _ = kill(maker, Signal::SIGKILL).and_then(|()| waitpid(maker, None));
                }
                self.group.remove();
                return status;
            }
            let fds: Vec<BorrowedFd> = [self.signals.as_fd(), self.news.as_fd()]
                .into_iter()
                .chain(listener.map(AsFd::as_fd))
                .collect();
            let mut set: Vec<PollFd> = fds.iter().map(|fd| PollFd::new(*fd, PollFlags::POLLIN)).collect();
            let _ = poll(&mut set, PollTimeout::NONE);
            let has_news = |at: usize| set.get(at).and_then(PollFd::any).unwrap_or(false);
            if has_news(1) {
                self.drain();
                self.devices.judge(self.filter);
                self.devices.make_nodes();
            }
            let is_asked =
                set.get(2).and_then(PollFd::revents).is_some_and(|it| it.contains(PollFlags::POLLIN));
            if let Some(listener) = listener.filter(|_| is_asked) {
                self.answer(listener);
            }
            while let Ok(Some(signal)) = self.signals.read_signal() {
                let signal = i32::try_from(signal.ssi_signo).ok().and_then(|it| Signal::try_from(it).ok());
                if let Some(signal) = signal.filter(|signal| INTERRUPTS.contains(signal)) {
                    let _ = kill(self.child, signal);
                }
            }
        }
    }

    /// The inside's exit status, once it has ended; whoever else has ended is reaped.
    fn ended(&self) -> Option<i32> {
        loop {
            match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == self.child => return Some(code),
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == self.child => {
                    return Some(128 + signal as i32);
                }
                Ok(WaitStatus::StillAlive) | Err(_) => return None,
                Ok(status) if status.pid() == self.maker.get() => self.maker.set(None),
                Ok(_) => {}
            }
        }
    }

    /// The events themselves do not matter: everything is checked again.
    fn drain(&self) {
        let mut buffer = [0; EVENT_BYTES];
        loop {
            match nix::unistd::read(&self.news, &mut buffer) {
                Ok(_) | Err(Errno::ENOBUFS | Errno::EINTR) => {}
                Err(_) => return,
            }
        }
    }

    /// Have a filesystem mounted or unmounted by a process of its own: it may take long.
    fn answer(&self, listener: &OwnedFd) {
        let Some(request) = mount::receive(listener.as_raw_fd()) else { return };
        let mounter = Mounter {
            sandbox: self.sandbox,
            filter: self.filter,
            group: self.group,
            processes: &self.processes,
            listener: listener.as_raw_fd(),
        };
        // SAFETY: the agent has no other thread.
        match unsafe { fork() } {
            Ok(ForkResult::Child) => {
                mounter.answer(&request);
                // SAFETY: it ends at once, and nothing of the warden's is to be run for it.
                unsafe { libc::_exit(0) }
            }
            Ok(ForkResult::Parent { .. }) => {}
            Err(error) => mounter.send(&request, Err(error)),
        }
    }
}
