// SPDX-License-Identifier: Apache-2.0
//! The agent as PID 1 of a lab: makes the machine, runs the plan, powers off whatever happened.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc::O_NOCTTY;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};
use nix::sys::termios::{self, SetArg, cfmakeraw, tcdrain, tcgetattr, tcsetattr};
use nix::unistd::Pid;

use crate::events::{Event, PlanOutcome, Sink};
use crate::faults::complain;
use crate::lab_modules;
use crate::lab_mounts;
use crate::lab_programs;
use crate::machine_guest;
use crate::session::{self, Input};

const EVENTS_TTY: &str = "/dev/ttyS0";
/// The line of a machine under QEMU: the first port of virtio's serial controller.
pub const PORT: &str = "/dev/vport0p1";
const PORT_PATIENCE: Duration = Duration::from_secs(10);

/// Whether the kernel started us from an initramfs.
///
/// Both signs are required, because the lab ends in a power-off: a container's first process is
/// PID 1, too, and a copy of the agent named /init may be tried by hand.
pub fn is_lab() -> bool {
    Pid::this().as_raw() == 1 && env::args_os().next().is_some_and(|name| name == "/init")
}

/// The variables that the kernel gives to every program of a lab: how libraries choose their functions.
pub fn environment() -> Vec<(&'static str, OsString)> {
    if is_lab() { chosen_functions() } else { Vec::new() }
}

/// The variables by which libraries choose their functions.
pub fn chosen_functions() -> Vec<(&'static str, OsString)> {
    const NAMES: [&str; 2] = ["GLIBC_TUNABLES", "OPENSSL_ia32cap"];
    NAMES.into_iter().filter_map(|name| Some((name, env::var_os(name)?))).collect()
}

/// Never returns: PID 1 must not end, a kernel panic would follow.
pub fn boot() -> ! {
    // Steps get the same mask everywhere.
    umask(Mode::from_bits_truncate(0o022));
    if let Ok(Err(cause)) = catch_unwind(live) {
        complain(&cause);
    }
    // A virtual machine that cannot power off is halted.
    let Err(_) = reboot(RebootMode::RB_POWER_OFF);
    let _ = reboot(RebootMode::RB_HALT_SYSTEM);
    loop {
        nix::unistd::pause();
    }
}

/// From the kernel's hand-over to the last event.
fn live() -> Result<(), String> {
    let mounted = lab_mounts::mount_kernel_filesystems().and_then(|()| {
        allow_threads().map_err(|error| format!("the limit of threads cannot be raised: {error}"))
    });
    let tty = open_events_tty().map_err(|error| {
        let mounted = mounted.as_ref().err().map(|cause| format!(" ({cause})")).unwrap_or_default();
        format!("{EVENTS_TTY} cannot be opened, so nobody will see any events: {error}{mounted}")
    })?;
    if Path::new(machine_guest::BINDINGS).exists() {
        return mounted.and_then(|()| machine_guest::live(tty));
    }
    let spare = tty.try_clone().map_err(|error| error.to_string())?;
    let input = Input { plan: fs::read("/strata/plan.json"), bindings: fs::read("/strata/bindings.json") };
    let run = || {
        session::run(Sink::new(tty), &input, |bindings| {
            let set_up = mounted.and_then(|()| {
                lab_modules::load(&bindings.modules)?;
                let programs = lab_programs::take(&bindings.programs)?;
                lab_mounts::enter_root(bindings)?;
                lab_programs::put(&programs)
            });
            set_up.map_err(|cause| format!("the lab cannot be set up: {cause}"))
        })
    };
    // The panic's own message is on the console.
    if catch_unwind(AssertUnwindSafe(run)).is_err() {
        let reason = "the agent has a bug; the lab's console shows its last words";
        let end = Event::AgentEnd {
            outcome: PlanOutcome::Failed,
            failed_step: None,
            reason: Some(reason),
            left_behind: &[],
        };
        let mut sink = Sink::new(spare);
        sink.emit(&end);
        drain(sink.file())
    } else {
        drain(&spare)
    }
}

/// As many threads as a machine of this memory allows: their stacks may fill an eighth of it.
///
/// The lab's stacks are four times as large as a machine's, and its kernel allows a fourth.
fn allow_threads() -> io::Result<()> {
    const LIMIT: &str = "/proc/sys/kernel/threads-max";
    const TIMES: u64 = 4;
    let allowed: u64 = fs::read_to_string(LIMIT)?.trim().parse().map_err(io::Error::other)?;
    fs::write(LIMIT, (allowed * TIMES).to_string())?;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NPROC)?;
    Ok(setrlimit(Resource::RLIMIT_NPROC, soft * TIMES, hard * TIMES)?)
}

fn drain(tty: &File) -> Result<(), String> {
    tcdrain(tty).map_err(|errno| format!("{EVENTS_TTY}: {}", errno.desc()))
}

/// Raw: bytes leave as they are written, and nothing that arrives is echoed or taken for a signal.
fn open_events_tty() -> io::Result<File> {
    if Path::new(PORT).exists() {
        let port = File::options().read(true).write(true).open(PORT)?;
        await_other_end(&port)?;
        return Ok(port);
    }
    let tty = File::options().read(true).write(true).custom_flags(O_NOCTTY).open(EVENTS_TTY)?;
    match tcgetattr(&tty) {
        // Not a terminal: as raw as can be.
        Err(Errno::ENOTTY) => {}
        Err(errno) => return Err(errno.into()),
        Ok(mut settings) => {
            cfmakeraw(&mut settings);
            settings.control_flags |= termios::ControlFlags::CLOCAL;
            tcsetattr(&tty, SetArg::TCSANOW, &settings)?;
        }
    }
    Ok(tty)
}

/// Until QEMU has said that somebody is at the other end, a port looks as if its line were cut.
fn await_other_end(port: &File) -> io::Result<()> {
    const STEP: Duration = Duration::from_millis(10);
    for _ in 0..PORT_PATIENCE.as_millis() / STEP.as_millis() {
        let mut set = [PollFd::new(port.as_fd(), PollFlags::POLLIN)];
        poll(&mut set, PollTimeout::ZERO)?;
        if !set[0].revents().is_some_and(|it| it.contains(PollFlags::POLLHUP)) {
            return Ok(());
        }
        sleep(STEP);
    }
    Err(io::Error::other("nobody is at the other end of it"))
}
