// SPDX-License-Identifier: Apache-2.0
//! The agent as PID 1 of a lab: makes the machine, runs the plan, powers off whatever happened.

use std::fs::{self};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};

use crate::lab::guest;
use crate::lab::line::{EVENTS_TTY, drain, open_events_tty};
use crate::lab::modules;
use crate::lab::mounts;
use crate::lab::programs;
use crate::report::events::{Event, PlanOutcome, Sink};
use crate::run::session::{self, Input};
use crate::system::faults::complain;

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
    let mounted = mounts::mount_kernel_filesystems().and_then(|()| {
        allow_threads().map_err(|error| format!("the limit of threads cannot be raised: {error}"))
    });
    let tty = open_events_tty().map_err(|error| {
        let mounted = mounted.as_ref().err().map(|cause| format!(" ({cause})")).unwrap_or_default();
        format!("{EVENTS_TTY} cannot be opened, so nobody will see any events: {error}{mounted}")
    })?;
    if Path::new(guest::BINDINGS).exists() {
        return mounted.and_then(|()| guest::live(tty));
    }
    let spare = tty.try_clone().map_err(|error| error.to_string())?;
    let input = Input { plan: fs::read("/strata/plan.json"), bindings: fs::read("/strata/bindings.json") };
    let run = || {
        session::run(Sink::new(tty), &input, |bindings| {
            let set_up = mounted.and_then(|()| {
                modules::load(&bindings.modules)?;
                let programs = programs::take(&bindings.programs)?;
                mounts::enter_root(bindings)?;
                programs::put(&programs)
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
