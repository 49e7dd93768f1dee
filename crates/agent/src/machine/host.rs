// SPDX-License-Identifier: Apache-2.0
//! The process outside that runs a machine's kernel, or the agent in a container, and passes on what callers and the
//! machine tell each other.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::Pid;

use crate::machine::protocol::{Answer, Call, Request, line_of, take_lines};
use crate::system::environment;
use crate::system::faults::complain;

/// The descriptors of the machine's line in its kernel's or QEMU's process, as `ssl0=fd:64` names it.
const KERNEL_LINE: &[i32] = &[64];
/// Where a machine's kernel finds the prices of programs and gives its counters, as `strata.cpu=65` names it.
const PRICES: &str = "/proc/strata_machine";
const KERNEL_PRICES: i32 = 65;
/// In the process that runs the agent in a container.
const CONTAINER_LINE: &[i32] = &[libc::STDIN_FILENO, libc::STDOUT_FILENO];
/// The number of the call that switches the machine off.
const POWER_OFF: u64 = 0;
const BUFFER_BYTES: usize = 64 << 10;

/// Run a kernel until its machine is switched off. The socket exists as soon as the machine is up.
///
/// With `container` the program runs the agent in a container, whose line are its standard input and output; with
/// `qemu` it is QEMU, which has these arguments besides.
pub fn start(socket: &Path, argv: &[String], container: bool, qemu: Option<&str>) -> ExitCode {
    let line = if container { CONTAINER_LINE } else { KERNEL_LINE };
    match Host::boot(socket, argv, line, qemu).and_then(Host::serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("the machine: {error}"));
            ExitCode::FAILURE
        }
    }
}

struct Host<'a> {
    socket: &'a Path,
    kernel: Child,
    signals: SignalFd,
    line: UnixStream,
    /// What the line has not taken yet.
    outgoing: Vec<u8>,
    incoming: Vec<u8>,
    /// None until the machine is up.
    listener: Option<UnixListener>,
    /// By the numbers of their calls.
    callers: BTreeMap<u64, Caller>,
    calls: u64,
    switched_off: bool,
    is_qemu: bool,
}

struct Caller {
    stream: UnixStream,
    incoming: Vec<u8>,
}

impl<'a> Host<'a> {
    fn boot(
        socket: &'a Path,
        argv: &[String],
        descriptors: &'static [i32],
        qemu: Option<&str>,
    ) -> io::Result<Self> {
        let mut mask = SigSet::empty();
        for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGCHLD] {
            mask.add(signal);
        }
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&mask), None)?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        let (line, theirs) = UnixStream::pair()?;
        line.set_nonblocking(true)?;
        let theirs = OwnedFd::from(theirs);
        // Only the lab's kernel has it, and only that as a machine takes part.
        let prices = match qemu {
            None => File::options().read(true).write(true).open(PRICES).ok(),
            Some(_) => None,
        };
        let mut command = Command::new(&argv[0]);
        command.args(&argv[1..]).env("HOME", "/");
        if let Some(further) = qemu {
            command.args(further.split_whitespace());
        } else {
            // The machine's programs choose their functions as those outside do.
            for (name, value) in environment::chosen_functions() {
                command.arg(format!("{name}={}", value.to_string_lossy()));
            }
        }
        // SAFETY: only system calls, in a process without other threads.
        unsafe {
            command.pre_exec(move || {
                sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
                prctl::set_pdeathsig(Signal::SIGKILL)?;
                let line = descriptors.iter().map(|number| (theirs.as_raw_fd(), *number));
                let prices = prices.iter().map(|file| (file.as_raw_fd(), KERNEL_PRICES));
                for (descriptor, number) in line.chain(prices) {
                    if libc::dup2(descriptor, number) != number {
                        return Err(io::Error::last_os_error());
                    }
                }
                Ok(())
            })
        };
        let kernel = command.spawn()?;
        let (outgoing, incoming, callers) = (Vec::new(), Vec::new(), BTreeMap::new());
        let (listener, calls, switched_off, is_qemu) = (None, 0, false, qemu.is_some());
        Ok(Self {
            socket,
            kernel,
            signals,
            line,
            outgoing,
            incoming,
            listener,
            callers,
            calls,
            switched_off,
            is_qemu,
        })
    }

    fn serve(mut self) -> io::Result<()> {
        loop {
            let waiting = if self.outgoing.is_empty() { PollFlags::empty() } else { PollFlags::POLLOUT };
            let mut set = vec![
                PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
                PollFd::new(self.line.as_fd(), PollFlags::POLLIN | waiting),
            ];
            set.extend(self.callers.values().map(|it| PollFd::new(it.stream.as_fd(), PollFlags::POLLIN)));
            set.extend(self.listener.iter().map(|it| PollFd::new(it.as_fd(), PollFlags::POLLIN)));
            poll(&mut set, PollTimeout::NONE)?;
            let ready: Vec<bool> =
                set.iter().map(|fd| fd.revents().is_some_and(|events| !events.is_empty())).collect();
            let speaking: Vec<u64> = self
                .callers
                .keys()
                .zip(&ready[2..])
                .filter(|(_, ready)| **ready)
                .map(|(call, _)| *call)
                .collect();
            let knocks = self.listener.is_some() && ready.last() == Some(&true);
            if ready[1] {
                self.hear()?;
            }
            for call in speaking {
                self.ask(call);
            }
            if knocks {
                self.accept()?;
            }
            self.tell()?;
            if ready[0] && self.take_signals()? {
                return self.end();
            }
        }
    }

    /// Returns whether the kernel has ended.
    fn take_signals(&mut self) -> io::Result<bool> {
        while let Some(received) = self.signals.read_signal()? {
            if received.ssi_signo != Signal::SIGCHLD as u32 && !self.switched_off {
                self.switched_off = true;
                self.request(POWER_OFF, Request::PowerOff);
                self.tell()?;
            }
        }
        Ok(self.kernel.try_wait()?.is_some())
    }

    fn end(mut self) -> io::Result<()> {
        let status = self.kernel.wait()?;
        let _ = std::fs::remove_file(self.socket);
        match (self.switched_off, status.success()) {
            (true, true) => Ok(()),
            (false, _) => Err(io::Error::other(format!("it ended by itself ({status})"))),
            (true, false) => Err(io::Error::other(format!("it was not switched off cleanly ({status})"))),
        }
    }

    fn request(&mut self, call: u64, request: Request) {
        self.outgoing.extend(line_of(&Call { call: call.to_string(), request }));
    }

    fn tell(&mut self) -> io::Result<()> {
        while !self.outgoing.is_empty() {
            match self.line.write(&self.outgoing) {
                Ok(count) => drop(self.outgoing.drain(..count)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // The kernel has ended, and a signal says so.
                Err(error) if error.kind() == ErrorKind::BrokenPipe => self.outgoing.clear(),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Pass on the machine's answers.
    fn hear(&mut self) -> io::Result<()> {
        let mut buffer = vec![0; BUFFER_BYTES];
        let count = match self.line.read(&mut buffer) {
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(_) => 0,
        };
        self.incoming.extend_from_slice(&buffer[..count]);
        for line in take_lines(&mut self.incoming) {
            let Ok(answer) = serde_json::from_slice::<Answer>(&line) else { continue };
            let Some(call) = answer.call().and_then(|call| call.parse().ok()) else {
                self.listener = Some(UnixListener::bind(self.socket)?);
                continue;
            };
            if call == POWER_OFF && self.is_qemu {
                let pid = Pid::from_raw(i32::try_from(self.kernel.id()).unwrap_or_default());
                let _ = kill(pid, Signal::SIGTERM);
            }
            let Some(caller) = self.callers.get_mut(&call) else { continue };
            let told = caller.stream.write_all(&line);
            if told.is_err() || matches!(answer, Answer::StepEnd { .. }) {
                self.callers.remove(&call);
            }
        }
        Ok(())
    }

    /// Pass on a caller's requests. The program of a caller that has gone is killed.
    fn ask(&mut self, call: u64) {
        let Some(caller) = self.callers.get_mut(&call) else { return };
        let mut buffer = vec![0; BUFFER_BYTES];
        let count = caller.stream.read(&mut buffer).unwrap_or(0);
        caller.incoming.extend_from_slice(&buffer[..count]);
        let lines = take_lines(&mut caller.incoming);
        if count == 0 {
            self.callers.remove(&call);
            self.request(call, Request::Signal(Signal::SIGKILL as i32));
        }
        for line in lines {
            match serde_json::from_slice(&line) {
                Ok(request) => self.request(call, request),
                Err(error) => complain(&format!("a request to the machine: {error}")),
            }
        }
    }

    fn accept(&mut self) -> io::Result<()> {
        let Some(listener) = &self.listener else { return Ok(()) };
        let (stream, _) = listener.accept()?;
        self.calls += 1;
        self.callers.insert(self.calls, Caller { stream, incoming: Vec::new() });
        Ok(())
    }
}
