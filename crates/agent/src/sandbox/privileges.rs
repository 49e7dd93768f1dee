// SPDX-License-Identifier: Apache-2.0
//! Privileges that the inside of a sandbox gives up: capabilities, and system calls that would lead out.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use nix::sys::prctl;

use crate::system::calls::{checked, failed};

// linux/capability.h; layers and servers need these as root.
const KEPT: [u32; 13] = [
    0,  // CHOWN
    1,  // DAC_OVERRIDE
    2,  // DAC_READ_SEARCH
    3,  // FOWNER
    4,  // FSETID
    5,  // KILL
    6,  // SETGID
    7,  // SETUID
    14, // IPC_LOCK: LVM and cryptsetup lock their memory
    18, // SYS_CHROOT: an installation
    21, // SYS_ADMIN: mounts, the device mapper, MD, btrfs, ZFS
    24, // SYS_RESOURCE: growing a mounted ext4
    27, // MKNOD: LVM and mdadm make nodes; the device filter decides which
];
const KEPT_IF_THERE: [u32; 2] = [
    23, // SYS_NICE
    31, // SETFCAP: packages of an installation
];
const CAPABILITIES: u32 = 64;
const VERSION_3: u32 = 0x2008_0522; // _LINUX_CAPABILITY_VERSION_3

/// Keep the capabilities that steps need, and get none by executing something.
pub fn drop_capabilities() -> Result<(), String> {
    let kept = KEPT.iter().chain(&KEPT_IF_THERE).fold(0_u64, |all, each| all | 1 << each);
    for each in (0..CAPABILITIES).filter(|each| kept & 1 << each == 0) {
        // SAFETY: no pointers are involved. A kernel that knows fewer answers EINVAL.
        let done = checked(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, each, 0, 0, 0) }.into());
        if let Err(error) = done.map_err(|error| error.raw_os_error()) {
            if error != Some(libc::EINVAL) {
                return Err(format!("the capability {each} cannot be dropped"));
            }
        }
    }
    let header = [VERSION_3, 0];
    let mut sets = [0_u32; 6]; // effective, permitted, inheritable; the lower 32 first, then the others
    // SAFETY: version 3 has two sets of three words each, which the arrays hold.
    unsafe {
        checked(libc::syscall(libc::SYS_capget, header.as_ptr(), sets.as_mut_ptr()))
            .map_err(failed("capabilities"))?;
        let halves = [kept & u64::from(u32::MAX), kept >> 32].map(|half| u32::try_from(half).unwrap_or(0));
        for (at, word) in sets.iter_mut().enumerate() {
            *word &= if at % 3 == 2 { 0 } else { halves[at / 3] };
        }
        checked(libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()))
            .map_err(failed("capabilities"))?;
    }
    prctl::set_no_new_privs().map_err(failed("no_new_privs"))
}

/// The network of a sandbox is its own, and has this one interface.
pub fn bring_loopback_up() -> Result<(), String> {
    // SAFETY: the request is plain data, for which zero is a value, and has the type that the calls expect.
    unsafe {
        let made = libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
        if made < 0 {
            return Ok(()); // a kernel without IPv4
        }
        let socket = OwnedFd::from_raw_fd(made);
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
            *to = libc::c_char::try_from(*from).expect("ASCII");
        }
        request.ifr_ifru.ifru_flags = i16::try_from(libc::IFF_UP).expect("a small number");
        let done = libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request);
        checked(done.into()).map(|_| ()).map_err(failed("the loopback interface"))
    }
}

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e; // AUDIT_ARCH_X86_64 of linux/audit.h
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7; // AUDIT_ARCH_AARCH64
/// System calls of the x32 ABI have this bit; the filter's numbers do not name them.
#[cfg(target_arch = "x86_64")]
const FOREIGN_CALLS: u32 = 0x4000_0000;
#[cfg(target_arch = "aarch64")]
const FOREIGN_CALLS: u32 = u32::MAX;

/// System calls that lead out of the namespaces, or past the device filter and the read-only view.
const DENIED: [libc::c_long; 22] = [
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_pivot_root,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_getfd,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl_fd,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_reboot,
    libc::SYS_kexec_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_syslog,
    libc::SYS_userfaultfd,
];
/// Calls that programs can do without: their arguments cannot be inspected here.
const MISSING: [libc::c_long; 12] = [
    libc::SYS_add_key, // root's keyrings are the machine's
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_clone3,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    467, // open_tree_attr, Linux 6.15
];
const NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;
/// They act on a whole filesystem, by any file on it, also one that is shown read-only.
const DENIED_CONTROLS: [u32; 10] = [
    0xc004_5877, // FIFREEZE of linux/fs.h
    0xc004_5878, // FITHAW
    0xc018_5879, // FITRIM
    0x8004_587d, // EXT4_IOC_SHUTDOWN, XFS_IOC_GOINGDOWN, F2FS_IOC_SHUTDOWN
    0x5000_940a, // BTRFS_IOC_ADD_DEV of linux/btrfs.h
    0xca28_9435, // BTRFS_IOC_DEV_REPLACE
    0x0000_941c, // BTRFS_IOC_SCRUB_CANCEL
    0x4004_9421, // BTRFS_IOC_BALANCE_CTL
    0xc040_6618, // FS_IOC_REMOVE_ENCRYPTION_KEY of linux/fscrypt.h
    0xc040_6619, // FS_IOC_REMOVE_ENCRYPTION_KEY_ALL_USERS
];
/// Families of sockets that belong to a network namespace or reach nobody. `AF_VSOCK` reaches the machine's host.
const SOCKETS: [i32; 5] = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, libc::AF_ALG];

// struct seccomp_data of linux/seccomp.h; the lower half of an argument of a little-endian machine.
const CALL_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;
const FIRST_AT: u32 = 16;
const SECOND_AT: u32 = 24;

fn install(mounting: u32, flags: libc::c_ulong) -> io::Result<libc::c_long> {
    let instructions = instructions(mounting);
    let program = libc::sock_fprog {
        len: u16::try_from(instructions.len()).expect("a short program"),
        filter: instructions.as_ptr().cast_mut(),
    };
    // SAFETY: the program is not written to, and outlives the call.
    checked(unsafe {
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
    })
}

/// Deny calls from now on, mounting as well: in a container.
pub fn deny_calls() -> io::Result<()> {
    install(libc::SECCOMP_RET_ERRNO | bits_of(libc::EPERM), 0).map(|_| ())
}

/// Deny calls from now on, and leave mounting and unmounting to the returned listener.
pub fn filter_calls() -> Result<OwnedFd, String> {
    let install = |flags| install(libc::SECCOMP_RET_USER_NOTIF, flags);
    // A call that is being answered is not begun anew when its program gets a signal; Linux 5.19.
    let listen = libc::SECCOMP_FILTER_FLAG_NEW_LISTENER;
    let killable = listen | 1 << 5; // SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV
    let made = install(killable)
        .or_else(|_| install(listen))
        .map_err(failed("the kernel cannot filter system calls (CONFIG_SECCOMP_FILTER)"))?;
    // SAFETY: it is a new file descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(i32::try_from(made).map_err(|_| io::ErrorKind::Other.to_string())?) })
}

fn bits_of(number: i32) -> u32 {
    u32::from_ne_bytes(number.to_ne_bytes())
}

/// `mounting` is the answer to `mount` and `umount2`.
fn instructions(mounting: u32) -> Vec<libc::sock_filter> {
    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const IF_ABOVE: u32 = libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K;
    const IF_ANY_BIT: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
    let one = |code: u32, operand: u32, yes, no| libc::sock_filter {
        code: u16::try_from(code).expect("a small number"),
        jt: yes,
        jf: no,
        k: operand,
    };
    let end = |result| one(libc::BPF_RET | libc::BPF_K, result, 0, 0);
    let error = |number: i32| end(libc::SECCOMP_RET_ERRNO | bits_of(number));
    let call = |number: libc::c_long| u32::try_from(number).expect("a small number");
    let (denied, allowed) = (error(libc::EPERM), end(libc::SECCOMP_RET_ALLOW));
    let mut program = vec![
        one(LOAD, ARCHITECTURE_AT, 0, 0),
        one(IF_EQUAL, ARCHITECTURE, 1, 0),
        denied,
        one(LOAD, CALL_AT, 0, 0),
        one(IF_ABOVE, FOREIGN_CALLS, 0, 1),
        denied,
    ];
    for (calls, answer) in [(&DENIED[..], denied), (&MISSING[..], error(libc::ENOSYS))] {
        program.extend(calls.iter().flat_map(|number| [one(IF_EQUAL, call(*number), 0, 1), answer]));
    }
    program.extend(
        [libc::SYS_mount, libc::SYS_umount2]
            .iter()
            .flat_map(|number| [one(IF_EQUAL, call(*number), 0, 1), end(mounting)]),
    );
    let bits = |number, at, bits: i32| {
        let bits = one(IF_ANY_BIT, bits_of(bits), 0, 1);
        [one(IF_EQUAL, call(number), 0, 4), one(LOAD, at, 0, 0), bits, denied, allowed]
    };
    program.extend(bits(libc::SYS_clone, FIRST_AT, NAMESPACES));
    let families = u8::try_from(SOCKETS.len()).expect("few");
    program.extend([one(IF_EQUAL, call(libc::SYS_socket), 0, families + 3), one(LOAD, FIRST_AT, 0, 0)]);
    program.extend(
        SOCKETS
            .iter()
            .zip((1..=families).rev())
            .map(|(family, left)| one(IF_EQUAL, bits_of(*family), left, 0)),
    );
    program.extend([error(libc::EAFNOSUPPORT), allowed]);
    let controls = DENIED_CONTROLS.len();
    program.push(one(IF_EQUAL, call(libc::SYS_ioctl), 0, u8::try_from(2 * controls + 1).expect("few")));
    program.push(one(LOAD, SECOND_AT, 0, 0));
    program.extend(DENIED_CONTROLS.iter().flat_map(|number| [one(IF_EQUAL, *number, 0, 1), denied]));
    program.push(allowed);
    program
}
