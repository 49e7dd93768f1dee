// SPDX-License-Identifier: Apache-2.0
//! Control groups: a program enters its own before it is executed, so that all that it starts is in it, too.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use nix::sys::memfd::{MFdFlags, memfd_create};

/// A control group that one program is to enter.
#[derive(Debug)]
pub struct Group {
    folder: String,
    procs: File,
    /// Written to by the new process when it is turned away: all else that it can tell is an error's number.
    refusal: File,
}

impl Group {
    pub fn open(folder: &str) -> Result<Self, String> {
        let procs = File::options().write(true).open(Path::new(folder).join("cgroup.procs"));
        let refusal = memfd_create(c"refusal", MFdFlags::MFD_CLOEXEC).map_err(io::Error::from);
        procs.and_then(|procs| Ok((procs, refusal?))).map_or_else(
            |error| Err(format!("the control group {folder} cannot be opened: {error}")),
            |(procs, refusal)| Ok(Self { folder: folder.into(), procs, refusal: refusal.into() }),
        )
    }

    /// In the new process: enter.
    pub fn enter(&self) -> io::Result<()> {
        (&self.procs).write_all(b"0").inspect_err(|_| {
            let _ = (&self.refusal).write_all(b"!");
        })
    }

    /// Why a program could not be started, if it is that it could not enter.
    pub fn explain(&self, error: &io::Error) -> Option<String> {
        let refused = self.refusal.metadata().is_ok_and(|state| state.len() > 0);
        refused.then(|| format!("the control group {} cannot be entered: {error}", self.folder))
    }
}
