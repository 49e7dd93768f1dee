// SPDX-License-Identifier: Apache-2.0
//! The control group of a sandbox: the device filter applies to it and all below it.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use nix::unistd::fchdir;

use crate::sandbox::declared::Sandbox;
use crate::system::calls::{checked, failed};

/// Where the inside sees its control group; layers make theirs there.
pub const SEEN_AT: &str = "/sys/fs/cgroup";

#[derive(Debug)]
pub struct Group {
    pub folder: PathBuf,
    name: String,
    /// The hierarchy above it, unreachable by path from inside.
    hierarchy: File,
    top: File,
    /// For processes without a group of their own: a group that passes controllers on has no processes itself.
    steps: File,
}

impl Group {
    pub fn make(sandbox: &Sandbox) -> Result<Self, String> {
        let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(failed("/proc/self/mountinfo"))?;
        let hierarchy = unified(&mounts).ok_or(
            "this machine has no control groups of version 2, which keep steps from other devices: mount them \
             with `mount -t cgroup2 none /sys/fs/cgroup`, or run the study in the lab",
        )?;
        for controller in &sandbox.controllers {
            let control = hierarchy.join("cgroup.subtree_control");
            fs::write(control, format!("+{controller}\n"))
                .map_err(failed(&format!("the controller {controller}")))?;
        }
        let folder = hierarchy.join(&sandbox.stack);
        let steps = folder.join("steps");
        fs::create_dir_all(&steps).map_err(failed(&format!("the control group {}", steps.display())))?;
        let open = |group: &Path| {
            let procs = group.join("cgroup.procs");
            File::options().write(true).open(&procs).map_err(failed(&format!("{}", procs.display())))
        };
        Ok(Self {
            name: sandbox.stack.clone(),
            hierarchy: File::open(&hierarchy).map_err(failed("the control groups"))?,
            top: open(&folder)?,
            steps: open(&steps)?,
            folder,
        })
    }

    /// Enter it, and make it the root of the control groups that the calling process sees.
    pub fn enter(&self) -> Result<(), String> {
        (&self.top).write_all(b"0").map_err(failed("the sandbox's control group cannot be entered"))?;
        // SAFETY: no pointers are involved.
        checked(unsafe { libc::unshare(libc::CLONE_NEWCGROUP) }.into())
            .map_err(failed("a namespace of control groups"))?;
        self.join()
    }

    /// Be held to the device filter, too.
    pub fn join(&self) -> Result<(), String> {
        (&self.steps).write_all(b"0").map_err(failed("the sandbox's control group cannot be entered"))
    }

    /// Remove it and all below it, as far as empty; the runner removes the rest.
    pub fn remove(&self) {
        if fchdir(&self.hierarchy).is_ok() {
            remove(Path::new(&self.name));
        }
    }
}

fn remove(group: &Path) {
    let below = fs::read_dir(group).into_iter().flatten().flatten().map(|entry| entry.path());
    below.filter(|path| path.is_dir()).for_each(|path| remove(&path));
    let _ = fs::remove_dir(group);
}

/// Where control groups of version 2 are mounted.
fn unified(mountinfo: &str) -> Option<PathBuf> {
    let fields = |line: &'_ str| {
        let (before, after) = line.split_once(" - ")?;
        after.starts_with("cgroup2 ").then(|| before.split(' ').nth(4).map(PathBuf::from))?
    };
    mountinfo.lines().find_map(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_2_is_found_beside_version_1() {
        let mounts = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                      32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw shared:9 - cgroup2 cgroup2 rw\n";

        assert_eq!(unified(mounts), Some("/sys/fs/cgroup/unified".into()));
        assert_eq!(unified("32 31 0:29 / /sys/fs/cgroup rw - cgroup cgroup rw\n"), None);
    }
}
