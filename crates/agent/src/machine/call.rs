// SPDX-License-Identifier: Apache-2.0
//! A program of a machine, as a process outside it: its output, its end, and the signals that it receives.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{
    SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, raise, sigaction, sigprocmask,
};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use crate::machine::protocol::{Answer, Request, Shipped, line_of, take_lines};
use crate::plan::program::Program;
use crate::system::faults::complain;

/// The signals that are passed on. Others end the caller, whose end the machine notices.
const PASSED_ON: [Signal; 7] = [
    Signal::SIGTERM,
    Signal::SIGINT,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
    Signal::SIGALRM,
];
/// As of a shell that cannot start a program.
const NOT_STARTED: u8 = 127;

/// Run the program that the standard input describes.
pub fn run(socket: &Path) -> ExitCode {
    match call(socket) {
        Ok((Some(code), _)) => ExitCode::from(u8::try_from(code).unwrap_or(1)),
        Ok((None, Some(signal))) => die_of(&signal),
        Ok((None, None)) => ExitCode::from(NOT_STARTED),
        Err(error) => {
            complain(&format!("the machine does not answer: {error}"));
            ExitCode::from(NOT_STARTED)
        }
    }
}

fn call(socket: &Path) -> io::Result<(Option<i32>, Option<String>)> {
    let mut mask = SigSet::empty();
    for signal in PASSED_ON {
        mask.add(signal);
    }
    sigprocmask(SigmaskHow::SIG_BLOCK, Some(&mask), None)?;
    let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
    let program: Program = serde_json::from_reader(io::stdin())?;
    let mut stream = UnixStream::connect(socket)?;
    stream.write_all(&line_of(&Request::Run(program)))?;
    let (mut arrived, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    loop {
        let mut set =
            [PollFd::new(signals.as_fd(), PollFlags::POLLIN), PollFd::new(stream.as_fd(), PollFlags::POLLIN)];
        poll(&mut set, PollTimeout::NONE)?;
        let [signalled, answered] = set.map(|fd| fd.revents().is_some_and(|events| !events.is_empty()));
        if signalled {
            while let Some(received) = signals.read_signal()? {
                let number = i32::try_from(received.ssi_signo).unwrap_or_default();
                stream.write_all(&line_of(&Request::Signal(number)))?;
            }
        }
        if answered {
            let count = stream.read(&mut buffer)?;
            if count == 0 {
                return Err(io::Error::other("it has ended"));
            }
            arrived.extend_from_slice(&buffer[..count]);
            for line in take_lines(&mut arrived) {
                match serde_json::from_slice(&line)? {
                    Answer::Output { stream, content, .. } => print(&stream, content)?,
                    Answer::StepEnd { exit_code, signal, error, .. } => {
                        if let (None, None, Some(cause)) = (exit_code, &signal, error) {
                            complain(&cause);
                        }
                        return Ok((exit_code, signal));
                    }
                    _ => {}
                }
            }
        }
    }
}

fn print(stream: &str, content: Shipped) -> io::Result<()> {
    let bytes = match content {
        Shipped::Text(text) => text.into_bytes(),
        Shipped::Base64(text) => {
            STANDARD.decode(text).map_err(|error| io::Error::other(error.to_string()))?
        }
    };
    if stream == "stderr" {
        return io::stderr().write_all(&bytes);
    }
    let mut stdout = io::stdout().lock();
    stdout.write_all(&bytes)?;
    stdout.flush()
}

/// End as the program has.
fn die_of(signal: &str) -> ExitCode {
    if let Ok(signal) = signal.parse::<Signal>() {
        let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
        // SAFETY: the default action runs no code of ours.
        let _ = unsafe { sigaction(signal, &default) };
        let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None);
        let _ = raise(signal);
    }
    ExitCode::FAILURE
}
