// SPDX-License-Identifier: Apache-2.0
//! The folder that a load works in.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags, openat};

use crate::faults::Fault;

fn unusable(folder: &Path) -> impl Fn(io::Error) -> Fault {
    move |error| Fault::of_file(folder, "the folder cannot be used", error)
}

/// A folder that holds nothing yet, made if it is not there.
pub fn empty(folder: &Path) -> Result<OwnedFd, Fault> {
    match fs::create_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(unusable(folder)(error)),
        _ => {}
    }
    let mut entries = fs::read_dir(folder).map_err(unusable(folder))?;
    // mkfs.ext4 makes this folder.
    if entries.any(|entry| entry.is_ok_and(|entry| entry.file_name() != "lost+found")) {
        let remedy = "give a new folder, so that every run begins alike";
        return Err(Fault::new(folder.display().to_string(), "the folder is not empty", remedy));
    }
    existing(folder)
}

/// A folder that is there.
pub fn existing(folder: &Path) -> Result<OwnedFd, Fault> {
    openat(CWD, folder, OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| unusable(folder)(error.into()))
}

#[cfg(test)]
mod tests {
    use super::empty;

    #[test]
    fn a_folder_that_is_missing_is_made_and_one_that_holds_something_refused() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("load");

        assert!(empty(&folder).is_ok() && empty(&folder).is_ok());
        std::fs::write(folder.join("something"), "").unwrap();
        assert!(empty(&folder).err().unwrap().cause.contains("not empty"));
        assert!(empty(&folder.join("a/b")).is_err());
    }
}
