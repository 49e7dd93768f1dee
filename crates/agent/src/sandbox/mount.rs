// SPDX-License-Identifier: Apache-2.0
//! Mounting for the steps of a sandbox: they may mount the trial's own devices in its own folder, and unmount what
//! is mounted there, and no more.
//!
//! A step's request is copied out of its memory, judged, and carried out here, so that it cannot change in between.
//! Without this a step could mount sysfs or devtmpfs, write to what is mounted read-only, or mount by a device
//! node that it has made inside a filesystem of its own; by unmounting it could see what was covered.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::mount::{MntFlags, MsFlags, umount2};
use nix::sys::stat::{fstat, major, minor, stat};
use nix::unistd::{chdir, chroot, fchdir};

use crate::sandbox::declared::Sandbox;
use crate::sandbox::filter::{BLOCK, DeviceFilter, Number};
use crate::sandbox::group::Group;
use crate::system::calls::checked;

const PAGE_BYTES: usize = 4096;
const MAGIC: u64 = 0xffff_0000; // MS_MGC_MSK: old programs set MS_MGC_VAL
const MAGIC_VALUE: u64 = 0xc0ed_0000;
const SYS_ADMIN: u32 = 21;
const WITHOUT_DEVICE: [&str; 2] = ["tmpfs", "zfs"];

pub struct Mounter<'a> {
    pub sandbox: &'a Sandbox,
    pub filter: &'a DeviceFilter,
    pub group: &'a Group,
    pub processes: &'a OwnedFd,
    pub listener: RawFd,
}

/// The arguments of `mount(2)`, copied.
struct Call {
    source: Option<CString>,
    target: CString,
    kind: Option<CString>,
    flags: MsFlags,
    options: Option<CString>,
}

/// Take a call that a step waits in. None when its program has ended meanwhile.
pub fn receive(listener: RawFd) -> Option<libc::seccomp_notif> {
    // SAFETY: the kernel wants zeros, and fills a structure of this type.
    unsafe {
        let mut request: libc::seccomp_notif = std::mem::zeroed();
        let done = libc::ioctl(listener, libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut request);
        (done == 0).then_some(request)
    }
}

impl Mounter<'_> {
    pub fn answer(&self, request: &libc::seccomp_notif) {
        let is_unmount = i64::from(request.data.nr) == libc::SYS_umount2;
        let done = if is_unmount { self.unmount(request) } else { self.mount(request) };
        // Whoever stands in a filesystem keeps it busy, also for the step's next call.
        let _ = chdir("/");
        self.send(request, done);
    }

    pub fn send(&self, request: &libc::seccomp_notif, done: Result<(), Errno>) {
        // SAFETY: the structures are plain data, of the types that the calls expect.
        unsafe {
            let mut response: libc::seccomp_notif_resp = std::mem::zeroed();
            response.id = request.id;
            response.error = done.err().map_or(0, |error| -(error as i32));
            libc::ioctl(self.listener, libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut response);
        }
    }

    fn mount(&self, request: &libc::seccomp_notif) -> Result<(), Errno> {
        let call = self.copy(request)?;
        self.stand_where(request)?;
        // The kernel opens the source on behalf of this process.
        self.group.join().map_err(|_| Errno::EPERM)?;
        // Mount on the folder that was judged: a link could lead elsewhere when followed again.
        enter(path(&call.target))?;
        let flags = self.judge(&call)?;
        let pointer = |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
        // SAFETY: all are NULL or end with a NUL.
        checked(
            unsafe {
                libc::mount(
                    pointer(&call.source),
                    c".".as_ptr(),
                    pointer(&call.kind),
                    flags.bits(),
                    pointer(&call.options).cast(),
                )
            }
            .into(),
        )
        .map(|_| ())
        .map_err(|_| Errno::last())
    }

    fn unmount(&self, request: &libc::seccomp_notif) -> Result<(), Errno> {
        let [target, flags, ..] = request.data.args;
        let target = text_at(&mut self.memory(request.pid)?, target)?.ok_or(Errno::EFAULT)?;
        let flags = i32::try_from(flags).ok().and_then(MntFlags::from_bits).ok_or(Errno::EINVAL)?;
        self.stand_where(request)?;
        self.group.join().map_err(|_| Errno::EPERM)?;
        enter(path(&target))?;
        let target = current_folder()?;
        let (name, folder) = target.file_name().zip(target.parent()).ok_or(Errno::EPERM)?;
        // The folder that holds it, from which no link can lead out any more.
        enter(folder)?;
        // No layer has to end the requests of others by force.
        if !current_folder()?.starts_with(&self.sandbox.folder) || flags.contains(MntFlags::MNT_FORCE) {
            return Err(Errno::EPERM);
        }
        umount2(name, flags | MntFlags::UMOUNT_NOFOLLOW)
    }

    /// Take the root and the current folder of the requesting program.
    fn stand_where(&self, request: &libc::seccomp_notif) -> Result<(), Errno> {
        let pid = request.pid;
        let status = self.text(&format!("{pid}/status"))?;
        let (root, folder) = (self.open(&format!("{pid}/root"))?, self.open(&format!("{pid}/cwd"))?);
        // SAFETY: the call reads a number. It confirms that the pid still is the requesting program's.
        let valid =
            unsafe { libc::ioctl(self.listener, libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const request.id) };
        // A step that has changed its root could give a folder of its own the name of the trial's.
        let state = fstat(&root)?;
        let own = stat("/")?;
        let is_whole = (state.st_dev, state.st_ino) == (own.st_dev, own.st_ino);
        if valid != 0 || !may_mount(&status) || !is_whole {
            return Err(Errno::EPERM);
        }
        fchdir(&root).and_then(|()| chroot(".")).and_then(|()| fchdir(&folder))
    }

    /// Whether it may be mounted on the current folder, and the flags that it is done with.
    fn judge(&self, call: &Call) -> Result<MsFlags, Errno> {
        let target = current_folder()?;
        if !target.starts_with(&self.sandbox.folder) || target == self.sandbox.folder {
            return Err(Errno::EPERM);
        }
        let forbidden = MsFlags::MS_BIND
            | MsFlags::MS_MOVE
            | MsFlags::MS_SHARED
            | MsFlags::MS_SLAVE
            | MsFlags::MS_PRIVATE
            | MsFlags::MS_UNBINDABLE;
        if call.flags.intersects(forbidden) {
            return Err(Errno::EPERM);
        }
        let flags = call.flags | MsFlags::MS_NODEV;
        if call.flags.contains(MsFlags::MS_REMOUNT) {
            // What is mounted in the folder is the trial's.
            let device =
                |path: &Path| fs::metadata(path).map(|state| state.dev()).map_err(|error| errno(&error));
            let is_own = device(Path::new("."))? != device(&self.sandbox.folder)?;
            return if is_own { Ok(flags) } else { Err(Errno::EPERM) };
        }
        let kind = call.kind.as_ref().and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        if !self.sandbox.filesystems.iter().any(|allowed| allowed == kind) {
            return Err(Errno::EPERM);
        }
        let source = call.source.as_deref().ok_or(Errno::EINVAL)?;
        if kind == "zfs" && !source.to_bytes().starts_with(self.sandbox.stack.as_bytes()) {
            return Err(Errno::EPERM);
        }
        if !WITHOUT_DEVICE.contains(&kind) {
            self.check_device(path(source))?;
        }
        Ok(flags)
    }

    /// A filesystem that is mounted already is not opened again, so that the device filter is not asked.
    fn check_device(&self, source: &Path) -> Result<(), Errno> {
        if source.is_relative() {
            return Err(Errno::EPERM); // to a folder that the asking program has left by now
        }
        let state = fs::metadata(source).map_err(|error| errno(&error))?;
        if !state.file_type().is_block_device() {
            return Err(Errno::ENOTBLK);
        }
        let number = |number: u64| u32::try_from(number).map_err(|_| Errno::EPERM);
        let (major, minor) = (number(major(state.rdev()))?, number(minor(state.rdev()))?);
        if self.filter.allows(Number { kind: BLOCK, major, minor }) { Ok(()) } else { Err(Errno::EPERM) }
    }

    fn copy(&self, request: &libc::seccomp_notif) -> Result<Call, Errno> {
        let mut memory = self.memory(request.pid)?;
        let [source, target, kind, flags, options, _] = request.data.args;
        let flags = if flags & MAGIC == MAGIC_VALUE { flags & !MAGIC } else { flags };
        let flags = MsFlags::from_bits(flags).ok_or(Errno::EPERM)?;
        Ok(Call {
            source: text_at(&mut memory, source)?,
            target: text_at(&mut memory, target)?.ok_or(Errno::EFAULT)?,
            kind: text_at(&mut memory, kind)?,
            flags,
            options: text_at(&mut memory, options)?,
        })
    }

    fn memory(&self, pid: u32) -> Result<File, Errno> {
        self.open_for(&format!("{pid}/mem"), libc::O_RDONLY).map(File::from)
    }

    fn text(&self, path: &str) -> Result<String, Errno> {
        let mut text = String::new();
        File::from(self.open_for(path, libc::O_RDONLY)?)
            .read_to_string(&mut text)
            .map_err(|error| errno(&error))?;
        Ok(text)
    }

    fn open(&self, path: &str) -> Result<OwnedFd, Errno> {
        self.open_for(path, libc::O_PATH)
    }

    /// Of the machine's /proc.
    fn open_for(&self, path: &str, flags: i32) -> Result<OwnedFd, Errno> {
        let path = CString::new(path).map_err(|_| Errno::EINVAL)?;
        // SAFETY: the path ends with a NUL, and the call returns a new file descriptor.
        unsafe {
            let opened = libc::openat(self.processes.as_raw_fd(), path.as_ptr(), flags | libc::O_CLOEXEC);
            Errno::result(opened).map(|fd| OwnedFd::from_raw_fd(fd))
        }
    }
}

/// Whether a program has the capability that mounting needs, by its /proc/PID/status.
fn may_mount(status: &str) -> bool {
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = set.and_then(|digits| u64::from_str_radix(digits.trim(), 16).ok()).unwrap_or(0);
    set & 1 << SYS_ADMIN != 0
}

/// The text at an address of a program's memory: None at 0.
fn text_at(memory: &mut File, address: u64) -> Result<Option<CString>, Errno> {
    if address == 0 {
        return Ok(None);
    }
    memory.seek(SeekFrom::Start(address)).map_err(|_| Errno::EFAULT)?;
    let mut bytes = Vec::new();
    let mut page = [0; PAGE_BYTES];
    while bytes.len() < PAGE_BYTES {
        // The next page may be no memory of the program.
        let at = usize::try_from(address).map_err(|_| Errno::EFAULT)? + bytes.len();
        let rest = PAGE_BYTES - at % PAGE_BYTES;
        let count = memory.read(&mut page[..rest]).map_err(|_| Errno::EFAULT)?;
        if let Some(end) = page[..count].iter().position(|byte| *byte == 0) {
            bytes.extend_from_slice(&page[..end]);
            if bytes.len() >= PAGE_BYTES {
                break;
            }
            return CString::new(bytes).map(Some).map_err(|_| Errno::EINVAL);
        }
        if count == 0 {
            return Err(Errno::EFAULT);
        }
        bytes.extend_from_slice(&page[..count]);
    }
    Err(Errno::ENAMETOOLONG)
}

fn enter(folder: &Path) -> Result<(), Errno> {
    let mut only = File::options();
    only.read(true).custom_flags(libc::O_PATH | libc::O_DIRECTORY);
    fchdir(only.open(folder).map_err(|error| errno(&error))?)
}

fn current_folder() -> Result<PathBuf, Errno> {
    std::env::current_dir().map_err(|error| errno(&error))
}

fn path(text: &std::ffi::CStr) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(text.to_bytes()))
}

fn errno(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_lacks_the_capability_cannot_have_anything_mounted() {
        assert!(may_mount("Name:\tmount\nCapEff:\t00000000a9a400ff\n"));
        assert!(!may_mount("Name:\tmount\nCapEff:\t0000000000000000\n"));
        assert!(!may_mount(""));
    }

    #[test]
    fn a_text_is_read_to_its_end_and_not_over_the_end_of_memory() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("mem");
        fs::write(&file, [vec![b'a'; 5000], b"\0rest".to_vec()].concat()).unwrap();
        let mut memory = File::open(file).unwrap();

        assert_eq!(text_at(&mut memory, 0), Ok(None));
        assert_eq!(text_at(&mut memory, 4990).unwrap().unwrap().as_bytes(), [b'a'; 10]);
        assert_eq!(text_at(&mut memory, 1), Err(Errno::ENAMETOOLONG));
        assert_eq!(text_at(&mut memory, 5001), Err(Errno::EFAULT));
    }
}
