// SPDX-License-Identifier: Apache-2.0
//! The command line, on a host.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};
use nix::sys::stat::{Mode, umask};

use crate::lab::guest;
use crate::machine::{call, host};
use crate::plan::format::PLAN_VERSION;
use crate::plan::resolve::resolve;
use crate::report::events::{EVENT_VERSION, Sink};
use crate::run::session::{self, Input};
use crate::sandbox::container::{self, Wanted};
use crate::sandbox::enter;
use crate::system::faults::complain;
use crate::system::users::Users;

const EXAMPLES: &str = "\
Examples:
  strata plan study.toml --trial xfs.oltp.s1 --json > plan.json
  echo '{\"runner\": \"host\", \"variables\": {\"disk0\": \"/dev/loop3\", \"mount\": \"/mnt/strata\", \"scratch\": \"/run/strata\"}, \
\"stat_names\": {\"disk0\": \"loop3\"}}' > bindings.json
  strata-agent check --plan plan.json --bindings bindings.json
  strata-agent run --plan plan.json --bindings bindings.json --events events.jsonl

Exit codes: 0 the plan was completed; 1 a step failed; 2 the plan, the bindings or the command line are wrong;
128 + the signal's number after a signal. What was started is undone in every case.";

/// Execute a Strata plan, or look for mistakes in it
#[derive(Parser)]
#[command(name = "strata-agent", after_help = EXAMPLES, arg_required_else_help = true)]
struct CommandLine {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Execute a plan; its steps destroy the devices that they name
    Run {
        #[command(flatten)]
        files: Files,
        /// Where to append events; - is the standard output
        #[arg(long, value_name = "FILE")]
        events: PathBuf,
    },
    /// Report all mistakes in a plan and its bindings; run nothing
    Check {
        #[command(flatten)]
        files: Files,
    },
    /// Run a virtual machine or a container in which this agent runs, or a program in it
    #[command(subcommand)]
    Machine(Machine),
    /// Check whether this machine can make a sandbox for the steps of a plan, by making one
    Sandbox {
        /// An empty folder
        #[arg(value_name = "FOLDER")]
        folder: PathBuf,
        /// The name of the sandbox's control group
        #[arg(value_name = "NAME")]
        name: String,
    },
}

#[derive(Subcommand)]
enum Machine {
    /// Run the machine's kernel until SIGTERM, which switches the machine off
    Start {
        /// The program runs `machine serve` in a container, in place of a kernel
        #[arg(long)]
        container: bool,
        /// The program is QEMU in place of a kernel; with further arguments, separated by spaces
        #[arg(long, value_name = "ARGUMENTS", allow_hyphen_values = true, conflicts_with = "container")]
        qemu: Option<String>,
        /// The socket for those who run programs in it; it exists as soon as the machine is up
        #[arg(value_name = "SOCKET")]
        socket: PathBuf,
        /// The kernel and its arguments
        #[arg(last = true, required = true, value_name = "KERNEL")]
        argv: Vec<String>,
    },
    /// Be the agent in a container, for `machine start --container` at the standard input and output
    Serve {
        /// Deny its programs what a sandbox denies to steps
        #[arg(long)]
        confined: bool,
        /// Variables of the programs' environment, as NAME=VALUE
        #[arg(value_name = "VARIABLE")]
        environment: Vec<String>,
    },
    /// Have a container started in a host's sandbox, at the standard input and output, and end as it does
    Contain(Wanted),
    /// Run the program that the standard input describes as JSON, and end as it does
    Run {
        /// The machine's socket
        #[arg(value_name = "SOCKET")]
        socket: PathBuf,
    },
}

#[derive(Args)]
struct Files {
    /// The plan: JSON, as `strata plan --json` prints it
    #[arg(long, value_name = "FILE")]
    plan: PathBuf,
    /// The values of the plan's variables on this machine: JSON
    #[arg(long, value_name = "FILE")]
    bindings: PathBuf,
}

impl Files {
    fn read(&self) -> Input {
        Input { plan: fs::read(&self.plan), bindings: fs::read(&self.bindings) }
    }
}

pub fn main() -> ExitCode {
    let version = format!("{} (plan {PLAN_VERSION}, events {EVENT_VERSION})", env!("CARGO_PKG_VERSION"));
    // Once in a process's life.
    let command = CommandLine::command().version(&*version.leak());
    let parsed = command.try_get_matches().and_then(|matches| CommandLine::from_arg_matches(&matches));
    let line = match parsed {
        Ok(line) => line,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    match line.action {
        Action::Run { files, events } => run(&files, &events),
        Action::Check { files } => check(&files),
        Action::Machine(Machine::Start { container, qemu, socket, argv }) => {
            host::start(&socket, &argv, container, qemu.as_deref())
        }
        Action::Machine(Machine::Serve { confined, environment }) => guest::serve(&environment, confined),
        Action::Machine(Machine::Contain(wanted)) => container::ask(&wanted),
        Action::Machine(Machine::Run { socket }) => call::run(&socket),
        Action::Sandbox { folder, name } => enter::try_out(folder, name),
    }
}

fn run(files: &Files, events: &Path) -> ExitCode {
    // Steps get the same mask everywhere.
    umask(Mode::from_bits_truncate(0o022));
    let sink = match open_events(events) {
        Ok(file) => Sink::new(file),
        Err(error) => {
            complain(&format!("the events cannot be written to {}: {error}", events.display()));
            return ExitCode::from(2);
        }
    };
    let (conclusion, _) = session::run(sink, &files.read(), |bindings| {
        let made = bindings.sandbox.as_ref().map_or(Ok(()), enter::enter);
        made.map_err(|cause| format!("the sandbox of the steps cannot be made: {cause}"))
    });
    if let Some(reason) = &conclusion.reason {
        complain(reason);
    }
    ExitCode::from(conclusion.exit_code())
}

fn open_events(path: &Path) -> io::Result<File> {
    if path == Path::new("-") {
        return Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?));
    }
    File::options().append(true).create(true).open(path)
}

fn check(files: &Files) -> ExitCode {
    let (plan, bindings, mut found) = session::parse(&files.read());
    if let (Some(plan), Some(bindings)) = (plan, bindings) {
        match resolve(&plan, &bindings, &Users::load()) {
            Ok(ready) => println!("{}: {} steps, nothing wrong", plan.trial.id, ready.steps.len()),
            Err(faults) => found.extend(faults),
        }
    }
    for fault in &found {
        complain(&fault.to_string());
    }
    if found.is_empty() {
        return ExitCode::SUCCESS;
    }
    ExitCode::from(2)
}
