// SPDX-License-Identifier: Apache-2.0
//! The nodes of a sandbox's /dev that every step may use, and how one is made.

use std::fs::{self, File, Permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

use nix::sys::stat::{Mode, SFlag, makedev, mknod};

use crate::system::calls::failed;

pub const CHARACTERS: [(&str, u32, u32); 6] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];

/// The numbers of the character devices that every step may use; None: all of the major number.
pub fn characters() -> impl Iterator<Item = (u32, Option<u32>)> {
    let single = CHARACTERS.iter().map(|(_, major, minor)| (*major, Some(*minor)));
    // Documentation/admin-guide/devices.txt: /dev/ptmx, and the terminals of devpts.
    single.chain([(5, Some(2))]).chain((136..=143).map(|major| (major, None)))
}

pub fn open_folder(path: &str) -> Result<OwnedFd, String> {
    let flags = libc::O_PATH | libc::O_DIRECTORY;
    File::options().read(true).custom_flags(flags).open(path).map(OwnedFd::from).map_err(failed(path))
}

/// Make a node; in a folder of /dev that the sandbox has to itself.
pub fn make_node(path: &Path, kind: SFlag, mode: u32, (major, minor): (u32, u32)) -> Result<(), String> {
    mknod(path, kind, Mode::from_bits_truncate(mode), makedev(major.into(), minor.into()))
        .map_err(failed(&format!("the node {}", path.display())))?;
    fs::set_permissions(path, Permissions::from_mode(mode))
        .map_err(failed(&format!("the node {}", path.display())))
}
