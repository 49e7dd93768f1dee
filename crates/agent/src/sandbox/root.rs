// SPDX-License-Identifier: Apache-2.0
//! A sandbox's view of the machine: read-only, except for the trial's own files and devices.
//!
//! It is built from scratch, and the machine's own root is detached: so what lies under a mount of the sandbox never
//! allows more than the mount does.

use std::fs::{self, DirBuilder, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::stat::SFlag;
use nix::unistd::{chdir, pivot_root};

use crate::sandbox::declared::Sandbox;
use crate::sandbox::devices::Devices;
use crate::sandbox::group::{Group, SEEN_AT};
use crate::sandbox::nodes::{CHARACTERS, make_node};
use crate::system::calls::{checked, failed};

/// Where others keep their sockets, locks and temporary files.
const PRIVATE: [(&str, u32); 4] =
    [("tmp", 0o1777), ("run", 0o755), ("var/tmp", 0o1777), ("var/lib/btrfs", 0o755)];
/// Folders that are put together from their entries, since there is something private in them.
const TAKEN_APART: [&str; 3] = ["", "var", "var/lib"];
const OWN: [&str; 3] = ["dev", "proc", "sys"];
const LINKS: [(&str, &str); 5] = [
    ("ptmx", "pts/ptmx"),
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

/// Put the view together, and make it the root of the calling process, in a mount namespace of its own.
pub fn build(sandbox: &Sandbox, group: &Group, devices: &Devices) -> Result<(), String> {
    let none: Option<&str> = None;
    mount(none, "/", none, MsFlags::MS_REC | MsFlags::MS_PRIVATE, none).map_err(failed("private mounts"))?;
    let view = View(&sandbox.root);
    view.tmpfs("", 0o755)?;
    // Binds of the machine's folders must not contain the view itself.
    mount(none, &sandbox.root, none, MsFlags::MS_UNBINDABLE, none).map_err(failed("the sandbox's root"))?;
    for folder in TAKEN_APART {
        view.take_apart(folder)?;
    }
    for (folder, mode) in PRIVATE {
        if view.path(folder).is_dir() {
            view.tmpfs(folder, mode)?;
        }
    }
    // No step can put anything in the place of what leads to its own folder, or of what is shown beside it.
    let leading = leading_to(&sandbox.folder);
    for folder in &leading {
        View::make_folder(&view.path(folder))?;
        view.tmpfs(folder, 0o755)?;
    }
    for each in &sandbox.reads {
        view.show(each)?;
        set_read_only(&view.path(each), true)?;
    }
    // In memory: by a folder of the machine's filesystem that can be written to, a step could act on all of it (file
    // handles, subvolumes, remounting), and others of the machine could start what it leaves as root's (setuid).
    View::make_folder(&view.path(&sandbox.folder))?;
    view.tmpfs(&sandbox.folder, 0o755)?;
    for folder in &leading {
        set_read_only(&view.path(folder), false)?;
    }
    view.make_devices(devices)?;
    view.make_system(sandbox, group)?;
    pivot(&sandbox.root)?;
    // After this nothing is added to it.
    set_read_only(Path::new("/"), false)
}

/// The folders that become read-only in memory: the one around the steps' own folder, and before it the first one in
/// a private folder, in which steps could rename it.
fn leading_to(folder: &Path) -> Vec<PathBuf> {
    let Some(around) = folder.parent() else { return Vec::new() };
    let first = PRIVATE.iter().find_map(|(private, _)| {
        let private = Path::new("/").join(private);
        let below = around.strip_prefix(&private).ok()?.components().next()?;
        Some(private.join(below))
    });
    first.filter(|first| first != around).into_iter().chain([around.to_path_buf()]).collect()
}

fn pivot(root: &Path) -> Result<(), String> {
    chdir(root).and_then(|()| pivot_root(".", ".")).map_err(failed("the root cannot be changed"))?;
    umount2(".", MntFlags::MNT_DETACH).map_err(failed("the machine's root cannot be let go"))?;
    chdir("/").map_err(failed("/"))
}

/// In the process namespace: show its processes, and let the steps write what they have to.
pub fn mount_processes(sandbox: &Sandbox) -> Result<(), String> {
    mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), None::<&str>).map_err(failed("/proc"))?;
    for path in sandbox.writes.iter().filter(|path| path.starts_with("/proc")) {
        bind(path, path)?;
    }
    set_read_only(Path::new("/proc"), false)
}

struct View<'a>(&'a Path);

impl View<'_> {
    /// The view's place for `path`.
    fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.0.join(path.strip_prefix("/").unwrap_or(path))
    }

    fn tmpfs(&self, folder: impl AsRef<Path>, mode: u32) -> Result<(), String> {
        let (to, options) = (self.path(folder), format!("mode={mode:o}"));
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("strata"), &to, Some("tmpfs"), flags, Some(options.as_str()))
            .map_err(failed(&format!("a private folder at {}", to.display())))
    }

    /// Bind each entry of a folder by itself, and leave the private folders empty.
    fn take_apart(&self, folder: &str) -> Result<(), String> {
        let real = Path::new("/").join(folder);
        let Ok(entries) = fs::read_dir(&real) else { return Ok(()) };
        for entry in entries.flatten() {
            let Ok(kind) = entry.file_type() else { continue };
            let (from, to) = (entry.path(), self.path(entry.path()));
            let name = from.strip_prefix("/").unwrap_or(&from);
            let is_kept_empty = OWN.iter().chain(&TAKEN_APART).any(|other| Path::new(other) == name)
                || PRIVATE.iter().any(|(other, _)| Path::new(other) == name);
            if kind.is_symlink() {
                fs::read_link(&from).and_then(|target| symlink(target, &to)).map_err(failed("a link"))?;
            } else if kind.is_dir() {
                Self::make_folder(&to)?;
                // A machine's /var/run and /var/lock may be folders, and are then as /run.
                if !is_kept_empty && !matches!(name.to_str(), Some("var/run" | "var/lock")) {
                    bind(&from, &to)?;
                    set_read_only(&to, true)?;
                }
            }
        }
        Ok(())
    }

    fn make_folder(path: &Path) -> Result<(), String> {
        let made = DirBuilder::new().recursive(true).mode(0o755).create(path);
        made.map_err(failed(&format!("{}", path.display())))
    }

    /// Show a file or a folder of the machine where it is, also where the view is empty.
    fn show(&self, path: &Path) -> Result<(), String> {
        let to = self.path(path);
        if path.is_dir() {
            Self::make_folder(&to)?;
        } else if !to.exists() {
            Self::make_folder(to.parent().unwrap_or(self.0))?;
            File::create(&to).map_err(failed(&format!("{}", to.display())))?;
        }
        bind(path, &to)
    }

    fn make_devices(&self, devices: &Devices) -> Result<(), String> {
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
        let (dev, pts, shm) = (self.path("dev"), self.path("dev/pts"), self.path("dev/shm"));
        mount(Some("strata"), &dev, Some("tmpfs"), MsFlags::MS_NOSUID, Some("mode=755"))
            .map_err(failed("a private /dev"))?;
        Self::make_folder(&pts)?;
        Self::make_folder(&shm)?;
        mount(Some("devpts"), &pts, Some("devpts"), flags, Some("newinstance,ptmxmode=0666"))
            .map_err(failed("/dev/pts"))?;
        self.tmpfs("dev/shm", 0o1777)?;
        for (name, major, minor) in CHARACTERS {
            make_node(&dev.join(name), SFlag::S_IFCHR, 0o666, (major, minor))?;
        }
        for (name, target) in LINKS {
            symlink(target, dev.join(name)).map_err(failed("a link of /dev"))?;
        }
        for node in &devices.nodes {
            let path = self.path(&node.path);
            Self::make_folder(path.parent().unwrap_or(&dev))?;
            make_node(&path, node.file_type(), node.mode, (node.number.major, node.number.minor))?;
            if node.gid != 0 {
                std::os::unix::fs::chown(&path, None, Some(node.gid)).map_err(failed("a node of /dev"))?;
            }
        }
        for (link, target) in &devices.links {
            let path = self.path(link);
            Self::make_folder(path.parent().unwrap_or(&dev))?;
            symlink(target, path).map_err(failed("a link of /dev"))?;
        }
        Ok(())
    }

    fn make_system(&self, sandbox: &Sandbox, group: &Group) -> Result<(), String> {
        bind(Path::new("/sys"), &self.path("sys"))?;
        set_read_only(&self.path("sys"), true)?;
        for path in sandbox.writes.iter().filter(|path| path.starts_with("/sys")) {
            bind(path, &self.path(path))?;
        }
        bind(&group.folder, &self.path(SEEN_AT))
    }
}

fn bind(from: &Path, to: &Path) -> Result<(), String> {
    mount(Some(from), to, None::<&str>, MsFlags::MS_BIND | MsFlags::MS_REC, None::<&str>)
        .map_err(failed(&format!("{} cannot be shown to the steps", from.display())))
}

/// Let a mount, with all below it if `deep`, be written to no longer, and hold no usable device nodes if `deep`.
fn set_read_only(path: &Path, deep: bool) -> Result<(), String> {
    let no_devices = if deep { libc::MOUNT_ATTR_NODEV } else { 0 };
    let attributes = [libc::MOUNT_ATTR_RDONLY | no_devices, 0, 0, 0];
    let flags = if deep { libc::AT_RECURSIVE } else { 0 };
    let folder = File::options().read(true).custom_flags(libc::O_PATH).open(path);
    let folder = folder.map_err(failed(&format!("{}", path.display())))?;
    // SAFETY: the path is empty and ends with a NUL, and the attributes have the size that is given.
    let done = checked(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            folder.as_raw_fd(),
            c"".as_ptr(),
            flags | libc::AT_EMPTY_PATH,
            attributes.as_ptr(),
            size_of_val(&attributes),
        )
    });
    match done {
        Err(error) if error.raw_os_error() == Some(libc::ENOSYS) => {
            Err("Linux 5.12 or later is needed to show the machine read-only to the steps".into())
        }
        done => done.map(|_| ()).map_err(failed(&format!("{} cannot be made read-only", path.display()))),
    }
}
