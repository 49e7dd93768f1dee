// SPDX-License-Identifier: Apache-2.0
//! A filesystem on a loop device over a file in memory; the loop device ends with the mount.

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::ValueEnum;

use crate::faults::Fault;

const IMAGE_BYTES: u64 = 512 << 20;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Place {
    Ext4,
    Xfs,
    Btrfs,
    BtrfsZstd,
    BtrfsSha256,
}

impl fmt::Display for Place {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.to_possible_value().expect("all have names").get_name())
    }
}

/// A mounted filesystem; it is unmounted and its file removed at the end.
pub struct Mounted {
    pub folder: PathBuf,
    image: PathBuf,
}

impl Place {
    pub fn mount(self, directory: &Path) -> Result<Mounted, Fault> {
        let (make, options): (&[&str], &str) = match self {
            Self::Ext4 => (&["mkfs.ext4", "-q", "-F"], "loop"),
            Self::Xfs => (&["mkfs.xfs", "-q", "-f"], "loop"),
            Self::Btrfs => (&["mkfs.btrfs", "-q", "-f"], "loop"),
            Self::BtrfsZstd => (&["mkfs.btrfs", "-q", "-f"], "loop,compress-force=zstd"),
            Self::BtrfsSha256 => (&["mkfs.btrfs", "-q", "-f", "--csum", "sha256"], "loop"),
        };
        let (image, folder) = (directory.join("image"), directory.join("mounted"));
        let made = File::create(&image).and_then(|file| file.set_len(IMAGE_BYTES));
        made.and_then(|()| fs::create_dir(&folder))
            .map_err(|error| Fault::of_file(&image, "the file for the filesystem cannot be made", error))?;
        let mounted = Mounted { folder, image };
        run(Command::new(make[0]).args(&make[1..]).arg(&mounted.image))?;
        run(Command::new("mount").args(["-o", options]).args([&mounted.image, &mounted.folder]))?;
        Ok(mounted)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = run(Command::new("umount").arg(&self.folder));
        let _ = fs::remove_dir(&self.folder);
        let _ = fs::remove_file(&self.image);
    }
}

fn run(command: &mut Command) -> Result<(), Fault> {
    let name = command.get_program().to_string_lossy().into_owned();
    let ended = command.output().map_err(|error| {
        Fault::new(name.clone(), format!("cannot be run: {error}"), "install it, or leave the filesystem out")
    })?;
    if ended.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&ended.stderr).trim().replace('\n', "; ");
    Err(Fault::new(name, said, "mounting on a loop device needs root and the kernel's loop driver"))
}
