// SPDX-License-Identifier: Apache-2.0
//! The lab's interactive shell: the plan's stack is built and mounted, and a person looks around.

use std::fmt::Write;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use nix::sys::signal::{SigSet, SigmaskHow, sigprocmask};
use nix::unistd::setsid;

use crate::plan::program::ReadyPlan;
use crate::process::child::Process;
use crate::report::events::PlanOutcome;
use crate::run::execute::Run;
use crate::run::outcome::Failure;
use crate::system::clock;
use crate::system::environment;

const CONSOLE: &str = "/dev/console";

impl Run<'_> {
    /// Give the console a login shell and wait until it ends, as long as that takes.
    pub fn shell(&mut self) -> Result<(), Failure> {
        let shell_failed = |error: io::Error| Failure {
            outcome: PlanOutcome::Failed,
            step: None,
            reason: format!("the shell cannot be started on {CONSOLE}: {error}"),
            signal: None,
        };
        let pid = self.start_shell().map_err(shell_failed)?;
        let process = Process::adopt(pid, "shell", clock::monotonic_ns());
        let pid = process.pid;
        self.supervisor.processes.push(process);
        // A person's time has no limit, and in virtual time an idle hour is over at once, with its samples.
        self.deadline_ns = u64::MAX;
        self.supervisor.monitors.next_ns = None;
        let stop = self.await_exit(pid, u64::MAX);
        if stop.is_some() {
            self.supervisor.end_groups(&[pid]);
        }
        self.supervisor.kill_strays(&[pid]);
        self.supervisor.processes.retain(|process| process.pid != pid);
        stop.map_or(Ok(()), |stop| Err(Failure::stopped(&stop, None)))
    }

    fn start_shell(&self) -> io::Result<u32> {
        let console = File::options().read(true).write(true).open(CONSOLE)?;
        io::Write::write_all(&mut &console, greeting(self.plan).as_bytes())?;
        let mut command = Command::new("/bin/bash");
        command.arg("-l").env_clear().envs(environment::given());
        command.envs(&self.plan.environment).envs(&self.plan.variables);
        command.env("TERM", "linux").env("HOME", "/root");
        let mount = self.plan.variables.get("mount").filter(|mount| Path::new(mount).is_dir());
        command.current_dir(mount.map_or("/", String::as_str));
        command.stdin(console.try_clone()?).stdout(console.try_clone()?).stderr(console.try_clone()?);
        // SAFETY: the agent has no other thread, so that a lock held across the fork is impossible.
        unsafe { command.pre_exec(move || take_console(&console)) };
        Ok(command.spawn()?.id())
    }
}

/// Job control needs a session whose controlling terminal the console is.
fn take_console(console: &File) -> io::Result<()> {
    setsid()?;
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)?;
    // SAFETY: the request takes an integer, and the descriptor is open.
    if unsafe { libc::ioctl(console.as_raw_fd(), libc::TIOCSCTTY, 0) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

fn greeting(plan: &ReadyPlan) -> String {
    let mut line = String::from("Strata lab:");
    for disk in &plan.disks {
        let device = plan.variables.get(&disk.name).map_or("?", String::as_str);
        let _ = write!(line, " {} is {device},", disk.name);
    }
    if let Some(mount) = plan.variables.get("mount") {
        let _ = write!(line, " the stack is at {mount};");
    }
    format!("{line} leave with exit or Ctrl-D.\r\n")
}
