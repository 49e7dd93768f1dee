// SPDX-License-Identifier: Apache-2.0
//! Starting a program, and its state until it has ended.

use std::fs::File;
use std::io::{self, ErrorKind, Seek, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::prctl;
use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, SigmaskHow, Signal, sigaction, sigprocmask};
use nix::unistd::{Gid, Pid, Uid, setgid, setgroups, setsid, setuid};

use crate::plan::program::Program;
use crate::report::events::{Content, Event, Sink};
use crate::report::output::Capture;
use crate::report::precision::Intervals;
use crate::sandbox::container::{ASKING, LINE};
use crate::sandbox::devices::make_missing_nodes;
use crate::system::calls::checked;
use crate::system::cgroup::Group;
use crate::system::clock;
use crate::system::environment;
use crate::system::users::User;

/// The kept part of a `ready` command's output: enough for its last message.
const TAIL_BYTES: usize = 1024;
/// A step binds a name or a path, not a file's content.
const BOUND_BYTES_MAX: usize = 4096;

/// Where a program's output goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// Events of the step.
    Step,
    /// Events of the step's undo.
    Undo,
    /// Nowhere; its end is kept.
    Tail,
}

#[derive(Debug)]
pub struct Stream {
    pub fd: Option<OwnedFd>,
    name: &'static str,
    capture: Capture,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Exited(i32),
    Signalled(&'static str),
}

/// How a process ended, and the resources that it and its reaped children used.
#[derive(Debug, Clone, Copy)]
pub struct Exit {
    pub status: Status,
    pub at_ns: u64,
    pub max_rss_bytes: u64,
    pub user_ns: u64,
    pub system_ns: u64,
}

/// A running program: the leader of a session and process group of its own.
#[derive(Debug)]
pub struct Process {
    pub pid: Pid,
    pub step: String,
    pub started_ns: u64,
    pub exit: Option<Exit>,
    pub streams: Vec<Stream>,
    target: Target,
    tail: Vec<u8>,
    /// Whether it is a service that may end by itself, if it succeeds.
    pub may_end: bool,
    /// The standard output, if it is to be bound.
    printed: Option<Vec<u8>>,
    /// The intervals that it prints, if another step wants to know.
    pub intervals: Option<Intervals>,
}

impl Process {
    /// Start `program` for `step`.
    ///
    /// Returns the reason when it cannot be started.
    pub fn spawn(
        program: &Program,
        step: &str,
        target: Target,
        output_limit_bytes: u64,
    ) -> Result<Self, String> {
        if let Some(socket) = &program.machine {
            return Self::spawn(&caller(program, socket), step, target, output_limit_bytes);
        }
        let mut command = Command::new(&program.argv[0]);
        command.args(&program.argv[1..]).current_dir(&program.cwd);
        command.env_clear().envs(environment::given()).envs(&program.environment);
        let stdin = match &program.stdin {
            None => Stdio::null(),
            Some(text) => text_file(text).map_err(|error| format!("stdin: {error}"))?.into(),
        };
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let user = program.user.clone();
        let group = program.cgroup.as_deref().map(Group::open).transpose()?.map(Arc::new);
        let entered = group.clone();
        let asking = ASKING.get().filter(|_| program.asks_for_container).map(AsRawFd::as_raw_fd);
        // SAFETY: the agent has no other thread, so that a lock held across the fork is impossible.
        unsafe {
            command.pre_exec(move || {
                entered.as_ref().map_or(Ok(()), |group| group.enter())?;
                become_step(user.as_ref())?;
                asking.map_or(Ok(()), |line| checked(libc::dup2(line, LINE).into()).map(|_| ()))
            })
        };
        make_missing_nodes();
        let started_ns = clock::monotonic_ns();
        let mut child = command.spawn().map_err(|error| {
            let refused = group.and_then(|group| group.explain(&error));
            refused.unwrap_or_else(|| explain(&error, program))
        })?;
        let mut streams = Vec::new();
        let (stdout, stderr) = match target {
            Target::Undo => ("undo_stdout", "undo_stderr"),
            Target::Step | Target::Tail => ("stdout", "stderr"),
        };
        let pipes = [
            (stdout, child.stdout.take().map(OwnedFd::from)),
            (stderr, child.stderr.take().map(OwnedFd::from)),
        ];
        for (name, fd) in pipes {
            if let Some(fd) = &fd {
                fcntl(fd, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(|error| error.to_string())?;
            }
            streams.push(Stream { fd, name, capture: Capture::new(output_limit_bytes) });
        }
        Ok(Self { streams, target, ..Self::adopt(child.id(), step, started_ns) })
    }

    /// A process that was started without capturing its output.
    pub fn adopt(pid: u32, step: &str, started_ns: u64) -> Self {
        Self {
            pid: Pid::from_raw(i32::try_from(pid).expect("process numbers are below 2^22")),
            step: step.to_owned(),
            started_ns,
            exit: None,
            streams: Vec::new(),
            target: Target::Step,
            tail: Vec::new(),
            may_end: false,
            printed: None,
            intervals: None,
        }
    }

    /// Read once from a stream, as much as `buffer` holds; the stream is closed at its end.
    ///
    /// Returns whether there may be more to read now.
    pub fn read(&mut self, index: usize, buffer: &mut [u8], sink: &mut Sink) -> bool {
        let stream = &mut self.streams[index];
        let Some(fd) = &stream.fd else { return false };
        let is_stdout = stream.name == "stdout";
        match nix::unistd::read(fd, buffer) {
            Ok(0) => stream.fd = None,
            Ok(count) => {
                let bytes = &buffer[..count];
                if let Some(printed) = self.printed.as_mut().filter(|_| is_stdout) {
                    printed.extend(bytes.iter().take((BOUND_BYTES_MAX + 1).saturating_sub(printed.len())));
                }
                if let Some(intervals) = self.intervals.as_mut().filter(|_| !is_stdout) {
                    intervals.feed(bytes);
                }
                if self.target == Target::Tail {
                    keep_tail(&mut self.tail, bytes);
                } else {
                    let (step, name) = (self.step.as_str(), stream.name);
                    stream.capture.feed(bytes, |content| emit(sink, step, name, content));
                }
                return true;
            }
            Err(nix::Error::EAGAIN | nix::Error::EINTR) => {}
            Err(_) => stream.fd = None,
        }
        false
    }

    /// Report the rest of the output. Returns whether some was dropped.
    pub fn finish_output(&mut self, sink: &mut Sink) -> bool {
        let mut truncated = false;
        for stream in &mut self.streams {
            stream.fd = None;
            if self.target != Target::Tail {
                let (step, name) = (self.step.as_str(), stream.name);
                stream.capture.finish(|content| emit(sink, step, name, content));
            }
            truncated |= stream.capture.truncated;
        }
        truncated
    }

    /// Whether it has ended and should not have.
    pub fn has_ended_early(&self) -> bool {
        self.exit.as_ref().is_some_and(|exit| !(self.may_end && matches!(exit.status, Status::Exited(0))))
    }

    /// Keep the standard output for `printed`.
    pub fn keep_printed(&mut self) {
        self.printed = Some(Vec::new());
    }

    /// The standard output, without its final line break.
    pub fn printed(&self) -> Result<String, &'static str> {
        let printed = self.printed.as_deref().unwrap_or_default();
        if printed.len() > BOUND_BYTES_MAX {
            return Err("the step printed more than 4096 bytes");
        }
        let text = std::str::from_utf8(printed).map_err(|_| "what the step printed is not UTF-8")?;
        let text = text.strip_suffix('\n').unwrap_or(text);
        if text.contains('\0') {
            return Err("the step printed a NUL character");
        }
        if text.is_empty() { Err("the step printed nothing") } else { Ok(text.to_owned()) }
    }

    /// The last line of output with `Target::Tail`.
    pub fn last_line(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.tail);
        text.lines().map(str::trim).rfind(|line| !line.is_empty()).map(str::to_owned)
    }
}

fn emit(sink: &mut Sink, step: &str, stream: &str, content: Content) {
    sink.emit(&Event::Output { step, stream, content });
}

fn keep_tail(tail: &mut Vec<u8>, bytes: &[u8]) {
    tail.extend_from_slice(bytes);
    let excess = tail.len().saturating_sub(TAIL_BYTES);
    tail.drain(..excess);
}

/// The program of ours that has `program` run in a machine, and behaves like it.
fn caller(program: &Program, socket: &str) -> Program {
    let argv = ["/proc/self/exe", "machine", "run", socket].map(str::to_owned);
    let mut asked = program.clone();
    let chosen = environment::given();
    let chosen =
        chosen.into_iter().map(|(name, value)| (name.to_owned(), value.to_string_lossy().into_owned()));
    asked.environment = chosen.chain(asked.environment).collect();
    let stdin = serde_json::to_string(&asked).expect("a program is plain text and numbers");
    Program {
        argv: argv.into(),
        cwd: "/".into(),
        stdin: Some(stdin),
        time_limit_ns: program.time_limit_ns,
        ..Program::default()
    }
}

/// A file in memory, because a pipe would have to be filled while the program runs.
fn text_file(text: &str) -> io::Result<File> {
    let mut file = File::from(memfd_create(c"stdin", MFdFlags::MFD_CLOEXEC)?);
    file.write_all(text.as_bytes())?;
    file.rewind()?;
    Ok(file)
}

/// In the new process: a session of its own, no signals blocked, the step's user.
fn become_step(user: Option<&User>) -> io::Result<()> {
    setsid()?;
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
    // Rust's own start-up ignores it.
    let default = SigAction::new(SigHandler::SigDfl, SaFlags::empty(), SigSet::empty());
    // SAFETY: the default action runs no code of ours.
    unsafe { sigaction(Signal::SIGPIPE, &default) }?;
    if let Some(user) = user {
        let groups: Vec<Gid> = user.groups.iter().copied().map(Gid::from_raw).collect();
        setgroups(&groups)?;
        setgid(Gid::from_raw(user.gid))?;
        setuid(Uid::from_raw(user.uid))?;
    }
    // After setuid, which clears it. An agent that is killed leaves no steps running.
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    Ok(())
}

fn explain(error: &io::Error, program: &Program) -> String {
    let name = &program.argv[0];
    match error.kind() {
        _ if !Path::new(&program.cwd).is_dir() => format!("the folder {} does not exist", program.cwd),
        ErrorKind::NotFound if !name.contains('/') => {
            let path = program.environment.get("PATH").map_or("(none)", String::as_str);
            format!("{name} is not in PATH ({path}): is it installed?")
        }
        _ => format!("{name} cannot be started: {error}"),
    }
}
