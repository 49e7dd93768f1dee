// SPDX-License-Identifier: Apache-2.0
//! The line on which the agent of a lab or a machine reports.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc::O_NOCTTY;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{self, SetArg, cfmakeraw, tcdrain, tcgetattr, tcsetattr};

pub const EVENTS_TTY: &str = "/dev/ttyS0";
/// The line of a machine under QEMU: the first port of virtio's serial controller.
pub const PORT: &str = "/dev/vport0p1";
const PORT_PATIENCE: Duration = Duration::from_secs(10);

pub fn drain(tty: &File) -> Result<(), String> {
    tcdrain(tty).map_err(|errno| format!("{EVENTS_TTY}: {}", errno.desc()))
}

/// Raw: bytes leave as they are written, and nothing that arrives is echoed or taken for a signal.
pub fn open_events_tty() -> io::Result<File> {
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
