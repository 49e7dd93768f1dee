// SPDX-License-Identifier: Apache-2.0
//! The agent as the first process of a virtual machine, or in a container: runs what callers outside ask for, until it
//! is switched off.

use std::env;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::thread::sleep;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, killpg, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::sync;

use crate::lab::line::PORT;
use crate::lab::modules;
use crate::lab::mounts;
use crate::lab::programs;
use crate::machine::protocol::{Call, Request, take_lines};
use crate::plan::bindings::{Bindings, Module};
use crate::plan::format::Collect;
use crate::plan::program::Program;
use crate::process::child::{Process, Target};
use crate::process::supervise::reap_one;
use crate::report::collect;
use crate::report::events::{EVENT_VERSION, Ending, Event, Kernel, Sink};
use crate::run::ending::{judge, spawn_error};
use crate::run::session::make_folders;
use crate::sandbox::privileges::deny_calls;
use crate::system::faults::complain;
use crate::system::users::Users;

/// The bindings of a machine's first process; a lab has a plan as well.
pub const BINDINGS: &str = "/strata/machine.json";
const COMMAND_LINE: &str = "/proc/cmdline";
const BUFFER_BYTES: usize = 64 << 10;
/// QEMU is ended from outside as soon as everything is written back. A power-off would let it spin in a lab, whose
/// time then stands still.
const QEMU_PATIENCE: Duration = Duration::from_secs(10);

struct Guest {
    sink: Sink,
    line: File,
    signals: SignalFd,
    incoming: Vec<u8>,
    programs: Vec<(Process, Program)>,
}

/// Returns when the machine is to be switched off.
pub fn live(line: File) -> Result<(), String> {
    let bindings = fs::read(BINDINGS).map_err(|error| format!("{BINDINGS}: {error}"))?;
    let mut bindings = Bindings::parse(&bindings).map_err(|fault| fault.to_string())?;
    let given = fs::read_to_string(COMMAND_LINE).map_err(|error| format!("{COMMAND_LINE}: {error}"))?;
    let modules: Vec<Module> =
        bindings.modules.iter().map(|module| with_parameters(module, &given)).collect();
    modules::load(&modules)?;
    let programs = programs::take(&bindings.programs)?;
    bindings.root_device =
        given.split_whitespace().find_map(|word| word.strip_prefix("root=")).map(Into::into);
    mounts::enter_root(&bindings)?;
    programs::put(&programs)?;
    make_folders(&bindings.variables)?;
    let sink = Sink::new(line.try_clone().map_err(|error| error.to_string())?);
    Guest::new(sink, line).and_then(Guest::serve).map_err(|error| error.to_string())?;
    if Path::new(PORT).exists() {
        sleep(QEMU_PATIENCE);
    }
    Ok(())
}

/// Be the agent in a container until it is switched off.
///
/// Libraries, this program's included, choose their functions by the variables in `environment` as soon as a program
/// starts: it starts itself anew with them.
pub fn serve(environment: &[String], confined: bool) -> ExitCode {
    let pairs: Vec<(&str, &str)> = environment.iter().filter_map(|each| each.split_once('=')).collect();
    if pairs.iter().any(|(name, value)| env::var(name).as_deref() != Ok(value)) {
        let option = confined.then_some("--confined");
        let words = ["machine", "serve"].into_iter().chain(option);
        let error = Command::new("/proc/self/exe").args(words).args(environment).envs(pairs).exec();
        complain(&format!("the agent in the container cannot be started: {error}"));
        return ExitCode::FAILURE;
    }
    let descriptor = |fd: BorrowedFd| fd.try_clone_to_owned().map(File::from);
    let confine = if confined { deny_calls() } else { Ok(()) };
    let served = confine
        .and_then(|()| descriptor(io::stdout().as_fd()))
        .and_then(|out| Guest::new(Sink::new(out), descriptor(io::stdin().as_fd())?))
        .and_then(Guest::serve);
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&format!("the agent in the container: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// The answer to a call that runs no program.
fn nothing_run(error: Option<String>) -> Ending {
    let none = Program { argv: vec!["none".into()], ..Program::default() };
    Ending { error, ..spawn_error(&none, String::new()) }
}

/// A module with the parameters that the kernel's command line has for it, as modprobe adds them.
fn with_parameters(module: &Module, command_line: &str) -> Module {
    let file = module.path.rsplit('/').next().unwrap_or_default();
    let name = file.trim_end_matches(".ko").trim_start_matches(|c: char| c.is_ascii_digit() || c == '-');
    let own = command_line.split_whitespace().filter_map(|word| word.strip_prefix(name)?.strip_prefix('.'));
    let parameters: Vec<&str> = module.parameters.split_whitespace().chain(own).collect();
    Module { path: module.path.clone(), parameters: parameters.join(" ") }
}

impl Guest {
    fn new(sink: Sink, line: File) -> io::Result<Self> {
        let mut mask = SigSet::empty();
        mask.add(Signal::SIGCHLD);
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&mask), None)?;
        let signals = SignalFd::with_flags(&mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)?;
        Ok(Self { sink, line, signals, incoming: Vec::new(), programs: Vec::new() })
    }

    fn serve(mut self) -> io::Result<()> {
        self.sink.emit(&Event::AgentStart {
            event_version: EVENT_VERSION,
            agent_version: env!("CARGO_PKG_VERSION"),
            plan_sha256: "",
            trial: None,
            runner: None,
            kernel: Kernel::running(),
        });
        let mut buffer = vec![0; BUFFER_BYTES];
        loop {
            for (program, stream) in self.wait()? {
                self.programs[program].0.read(stream, &mut buffer, &mut self.sink);
            }
            while let Ok(Some(_)) = self.signals.read_signal() {}
            self.reap(&mut buffer);
            for line in take_lines(&mut self.incoming) {
                let Ok(Call { call, request }) = serde_json::from_slice(&line) else { continue };
                match request {
                    Request::Run(program) => self.run(&call, program),
                    Request::Signal(number) => self.signal(&call, number),
                    Request::Read(wanted) => self.read(&call, &wanted),
                    Request::PowerOff => {
                        sync();
                        self.sink.emit(&Event::StepEnd { step: &call, ending: &nothing_run(None) });
                        return Ok(());
                    }
                }
            }
            if let Some(cause) = self.sink.failure() {
                return Err(io::Error::other(cause.to_owned()));
            }
        }
    }

    /// Wait for something; read what the line has. Returns the streams that have something, in order.
    fn wait(&mut self) -> io::Result<Vec<(usize, usize)>> {
        let mut set = vec![
            PollFd::new(self.line.as_fd(), PollFlags::POLLIN),
            PollFd::new(self.signals.as_fd(), PollFlags::POLLIN),
        ];
        let mut streams = Vec::new();
        for (index, (process, _)) in self.programs.iter().enumerate() {
            for (at, stream) in process.streams.iter().enumerate() {
                if let Some(fd) = &stream.fd {
                    set.push(PollFd::new(fd.as_fd(), PollFlags::POLLIN));
                    streams.push((index, at));
                }
            }
        }
        poll(&mut set, PollTimeout::NONE)?;
        let ready: Vec<bool> =
            set.iter().map(|fd| fd.revents().is_some_and(|events| !events.is_empty())).collect();
        if ready[0] {
            let mut buffer = vec![0; BUFFER_BYTES];
            let count = self.line.read(&mut buffer)?;
            if count == 0 {
                return Err(io::Error::other("nobody is at the other end of its line"));
            }
            self.incoming.extend_from_slice(&buffer[..count]);
        }
        Ok(streams
            .into_iter()
            .zip(&ready[2..])
            .filter(|(_, ready)| **ready)
            .map(|(stream, _)| stream)
            .collect())
    }

    fn run(&mut self, call: &str, mut program: Program) {
        let known = program.user.as_ref().map(|user| {
            Users::load().find(&user.name).ok_or_else(|| format!("there is no user \"{}\" in it", user.name))
        });
        let spawned = known.transpose().and_then(|user| {
            program.user = user;
            Process::spawn(&program, call, Target::Step, u64::MAX)
        });
        match spawned {
            Ok(process) => self.programs.push((process, program)),
            Err(cause) => {
                self.sink.emit(&Event::StepEnd { step: call, ending: &spawn_error(&program, cause) });
            }
        }
    }

    /// To the program only, which ends its own processes; SIGKILL to all of them.
    fn signal(&mut self, call: &str, number: i32) {
        let Some((process, _)) = self.programs.iter().find(|(process, _)| process.step == call) else {
            return;
        };
        let Ok(signal) = Signal::try_from(number) else { return };
        let _ =
            if signal == Signal::SIGKILL { killpg(process.pid, signal) } else { kill(process.pid, signal) };
    }

    fn read(&mut self, call: &str, wanted: &Collect) {
        let failed = collect::ship(&mut self.sink, call, wanted).err();
        self.sink.emit(&Event::StepEnd { step: call, ending: &nothing_run(failed) });
    }

    /// Reap every child that has ended, programs and orphans, and answer their calls.
    fn reap(&mut self, buffer: &mut [u8]) {
        let ended = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        while let Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, _, _)) = waitid(Id::All, ended) {
            let index = self.programs.iter().position(|(process, _)| process.pid == pid);
            if index.is_some() {
                // While its leader is not reaped, the group's number cannot be another's.
                let _ = killpg(pid, Signal::SIGKILL);
            }
            let exit = reap_one(pid);
            let Some(index) = index else { continue };
            let (mut process, program) = self.programs.remove(index);
            process.exit = exit;
            for stream in 0..process.streams.len() {
                while process.read(stream, buffer, &mut self.sink) {}
            }
            let truncated = process.finish_output(&mut self.sink);
            let ending = judge(&process, &program, None, truncated);
            self.sink.emit(&Event::StepEnd { step: &process.step, ending: &ending });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_module_takes_its_parameters_from_the_command_line() {
        let module = Module { path: "/strata/modules/03-virtio_uml.ko".into(), parameters: "a=1".into() };
        let line = "mem=64M virtio_uml.device=/tmp/a:2 virtio_uml.device=/tmp/b:2 virtio.x=3";

        let loaded = with_parameters(&module, line);

        assert_eq!(loaded.parameters, "a=1 device=/tmp/a:2 device=/tmp/b:2");
    }
}
