// SPDX-License-Identifier: Apache-2.0
//! The lab's filesystems: the root image under a writable layer in memory, and the kernel's own.

use std::fs;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use nix::errno::Errno;
use nix::mount::{MsFlags, mount};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use nix::unistd::{chdir, chroot, sethostname};

use crate::plan::bindings::Bindings;

const IMAGE: &str = "/image";
const LAYER: &str = "/layer";
const ROOT: &str = "/root-of-lab";

fn attach(source: &str, target: &str, kind: &str, flags: MsFlags, options: &str) -> Result<(), String> {
    fs::create_dir_all(target).map_err(|error| format!("the folder {target} cannot be made: {error}"))?;
    mount(Some(source), target, Some(kind), flags, Some(options))
        .map_err(|errno| format!("{kind} cannot be mounted on {target}: {}", errno.desc()))
}

/// The agent's own needs in the initramfs: devices, processes, block devices' statistics.
pub fn mount_kernel_filesystems() -> Result<(), String> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    attach("proc", "/proc", "proc", flags | MsFlags::MS_NODEV, "")?;
    attach("sysfs", "/sys", "sysfs", flags | MsFlags::MS_NODEV, "")?;
    match attach("devtmpfs", "/dev", "devtmpfs", flags, "mode=0755") {
        // CONFIG_DEVTMPFS_MOUNT does not apply to an initramfs, but somebody may have mounted it before.
        Err(_) if Path::new("/dev/null").exists() => Ok(()),
        result => result,
    }
}

/// Move into the root image and make it a complete system.
pub fn enter_root(bindings: &Bindings) -> Result<(), String> {
    let device = bindings.root_device.as_deref().ok_or("bindings.root_device is missing")?;
    mount_image(device)?;
    attach("tmpfs", LAYER, "tmpfs", MsFlags::empty(), "mode=0755")?;
    for folder in ["upper", "work"] {
        fs::create_dir(format!("{LAYER}/{folder}")).map_err(|error| format!("{LAYER}/{folder}: {error}"))?;
    }
    let layers = format!("lowerdir={IMAGE},upperdir={LAYER}/upper,workdir={LAYER}/work");
    attach("overlay", ROOT, "overlay", MsFlags::empty(), &layers)?;
    for folder in ["/proc", "/sys", "/dev"] {
        move_mount(folder, &format!("{ROOT}{folder}"))?;
    }
    chdir(ROOT).map_err(|errno| format!("{ROOT}: {}", errno.desc()))?;
    move_mount(".", "/")?;
    chroot(".").and_then(|()| chdir("/")).map_err(|errno| format!("the new root: {}", errno.desc()))?;
    furnish()?;
    let name = bindings.hostname.as_deref().unwrap_or("lab");
    sethostname(name).map_err(|errno| format!("the host name {name}: {}", errno.desc()))?;
    raise_loopback().map_err(|error| format!("the network interface lo: {error}"))
}

fn mount_image(device: &str) -> Result<(), String> {
    fs::create_dir_all(IMAGE).map_err(|error| format!("{IMAGE}: {error}"))?;
    let mut causes = Vec::new();
    for kind in ["squashfs", "erofs"] {
        match mount(Some(device), IMAGE, Some(kind), MsFlags::MS_RDONLY, None::<&str>) {
            Ok(()) => return Ok(()),
            Err(errno) => causes.push(format!("as {kind}: {}", errno.desc())),
        }
    }
    Err(format!("the root image {device} cannot be mounted, {}", causes.join(", ")))
}

fn move_mount(from: &str, to: &str) -> Result<(), String> {
    mount(Some(from), to, None::<&str>, MsFlags::MS_MOVE, None::<&str>)
        .map_err(|errno| format!("{from} cannot be moved to {to}: {}", errno.desc()))
}

/// Mounts that distributions make at boot and programs expect.
fn furnish() -> Result<(), String> {
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    attach(
        "devpts",
        "/dev/pts",
        "devpts",
        MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC,
        "gid=5,mode=620,ptmxmode=666",
    )?;
    attach("tmpfs", "/dev/shm", "tmpfs", flags, "mode=1777")?;
    attach("tmpfs", "/run", "tmpfs", flags, "mode=0755")?;
    attach("tmpfs", "/tmp", "tmpfs", flags, "mode=1777")?;
    // Optional: a lab's kernel may lack control groups.
    if Path::new("/sys/fs/cgroup").is_dir() {
        let _ = attach("cgroup2", "/sys/fs/cgroup", "cgroup2", flags | MsFlags::MS_NOEXEC, "");
    }
    Ok(())
}

/// `ip link set lo up`, without a program for it. A kernel without a network has nothing to raise.
fn raise_loopback() -> io::Result<()> {
    let socket = match socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None) {
        Err(Errno::EAFNOSUPPORT | Errno::ENOSYS) => return Ok(()),
        socket => socket?,
    };
    // SAFETY: ifreq is plain memory, for which zeros are a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (slot, byte) in request.ifr_name.iter_mut().zip(b"lo") {
        *slot = libc::c_char::try_from(*byte).unwrap_or_default();
    }
    request.ifr_ifru.ifru_flags =
        libc::c_short::try_from(libc::IFF_UP | libc::IFF_RUNNING).expect("two of the low bits");
    // SAFETY: the request points to an ifreq of ours, and the descriptor is open.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request) } {
        0 => Ok(()),
        _ => match io::Error::last_os_error() {
            error if error.raw_os_error() == Some(libc::ENODEV) => Ok(()),
            error => Err(error),
        },
    }
}
