// SPDX-License-Identifier: Apache-2.0
//! The kinds of devices that appear while a trial assembles its stack.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::Path;

use serde::Deserialize;

use crate::system::calls::checked;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Dm,
    Md,
    Bcache,
    Zd,
}

impl Kind {
    /// The prefix of its devices' names.
    fn prefix(self) -> &'static str {
        match self {
            Self::Dm => "dm-",
            Self::Md => "md",
            Self::Bcache => "bcache",
            Self::Zd => "zd",
        }
    }

    pub fn has(self, name: &str) -> bool {
        name.strip_prefix(self.prefix()).is_some_and(|rest| rest.parse::<u32>().is_ok())
    }

    /// The name of its driver in /proc/devices.
    fn driver(self) -> &'static str {
        match self {
            Self::Dm => "device-mapper",
            Self::Md => "md",
            Self::Bcache => "bcache",
            Self::Zd => "zvol",
        }
    }
}

/// The major number of a driver of block devices.
pub fn driver(devices: &str, kind: Kind) -> Option<u32> {
    let (_, blocks) = devices.split_once("Block devices:")?;
    blocks.lines().find_map(|line| {
        let (number, name) = line.trim().split_once(' ')?;
        (name == kind.driver()).then(|| number.parse().ok())?
    })
}

/// The volume of a pool that a device is.
pub fn volume(node: &Path) -> Option<String> {
    const NAME_BYTES: usize = 256; // ZFS_MAX_DATASET_NAME_LEN
    let ask = libc::_IOR::<[u8; NAME_BYTES]>(0x12, 125); // BLKZNAME of sys/fs/zfs.h
    let (device, mut name) = (File::open(node).ok()?, [0_u8; NAME_BYTES]);
    // SAFETY: the driver writes no more than the bytes that the number of the call states.
    checked(unsafe { libc::ioctl(device.as_raw_fd(), ask, name.as_mut_ptr()) }.into()).ok()?;
    let end = name.iter().position(|byte| *byte == 0)?;
    String::from_utf8(name[..end].to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drivers_number_is_that_of_its_block_devices() {
        let said = "Character devices:\n  9 md\n\nBlock devices:\n  7 loop\n  9 md\n253 device-mapper\n";

        assert_eq!((driver(said, Kind::Dm), driver(said, Kind::Md)), (Some(253), Some(9)));
        assert_eq!(driver(said, Kind::Zd), None);
    }
}
