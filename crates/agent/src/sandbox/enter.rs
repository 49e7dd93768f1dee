// SPDX-License-Identifier: Apache-2.0
//! The sandbox of a trial on a host: its steps see the machine read-only, and no devices but the trial's.
//!
//! The agent divides into two: the warden stays outside and guards, the other half goes on inside as the first
//! process of its own namespaces. docs/explanation/host-sandbox.md states its guarantees.

use std::cell::Cell;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::process::ExitCode;

use nix::sys::prctl;
use nix::sys::signal::Signal;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::{ForkResult, Pid, fork, pipe2};

use crate::sandbox::container::{ASKING, Maker};
use crate::sandbox::declared::{Sandbox, Seen};
use crate::sandbox::devices::Devices;
use crate::sandbox::filter::DeviceFilter;
use crate::sandbox::group::Group;
use crate::sandbox::nodes::open_folder;
use crate::sandbox::privileges;
use crate::sandbox::root;
use crate::sandbox::warden::{Warden, hold_signals};
use crate::system::calls::{checked, failed};
use crate::system::faults::complain;

/// Go on inside the sandbox. Returns inside only; outside, the process stays the warden until the inside ends.
pub fn enter(sandbox: &Sandbox) -> Result<(), String> {
    let group = Group::make(sandbox)?;
    prepare(sandbox, &group).inspect_err(|_| group.remove())
}

fn prepare(sandbox: &Sandbox, group: &Group) -> Result<(), String> {
    let filter = DeviceFilter::attach(&group.folder)?;
    let devices = Devices::look(sandbox, &filter)?;
    // Both belong to the machine's namespaces, and are used after leaving these.
    let processes = open_folder("/proc")?;
    let home = File::open("/proc/self/ns/pid").map_err(failed("/proc/self/ns/pid"))?;
    let news = Devices::listen()?;
    leave_namespaces(sandbox)?;
    root::build(sandbox, group, &devices)?;
    let image = sandbox.container.as_ref().map(Seen::identity).transpose()?;
    let (reader, writer) = pipe2(nix::fcntl::OFlag::O_CLOEXEC).map_err(failed("a pipe"))?;
    let (asking, asked) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)
        .map_err(failed("a line for requests"))?;
    let signals = hold_signals().map_err(failed("signals cannot be held back"))?;
    // SAFETY: the agent has no other thread.
    match unsafe { fork() }.map_err(failed("the agent cannot divide"))? {
        ForkResult::Child => {
            drop(asked);
            if sandbox.container.is_some() {
                let _ = ASKING.set(asking);
            }
            inside(sandbox, group, &devices, writer)
        }
        ForkResult::Parent { child } => {
            drop((writer, asking));
            // The warden's own children stay outside.
            // SAFETY: no pointers are involved.
            checked(unsafe { libc::setns(home.as_raw_fd(), libc::CLONE_NEWPID) }.into())
                .map_err(failed("the machine's process namespace"))?;
            let maker = sandbox.container.as_ref().zip(image).map(|(seen, image)| {
                Maker { sandbox, seen, image, group, processes: &processes, inside: child }.start(&asked)
            });
            let maker = Cell::new(maker.transpose()?);
            drop(asked);
            let listener = take_listener(child, reader);
            let (filter, devices) = (&filter, &devices);
            let warden = Warden { sandbox, group, filter, devices, processes, news, signals, child, maker };
            std::process::exit(warden.guard(listener.as_ref()))
        }
    }
}

fn leave_namespaces(sandbox: &Sandbox) -> Result<(), String> {
    let network = if sandbox.network { 0 } else { libc::CLONE_NEWNET };
    let flags = libc::CLONE_NEWNS | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS | libc::CLONE_NEWPID | network;
    // SAFETY: no pointers are involved.
    checked(unsafe { libc::unshare(flags) }.into()).map_err(failed("namespaces cannot be made")).map(|_| ())
}

/// In the new process: give up privileges, and pass the listener to the warden.
fn inside(sandbox: &Sandbox, group: &Group, devices: &Devices, writer: OwnedFd) -> Result<(), String> {
    // Whoever ends the warden ends the trial.
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(failed("pdeathsig"))?;
    if Pid::parent().as_raw() != 0 {
        return Err("the process namespace was not made".into());
    }
    // The steps run as the same user, and would find the agent's files in /proc/1/fd.
    prctl::set_dumpable(false).map_err(failed("the agent's own files cannot be kept from the steps"))?;
    root::mount_processes(sandbox)?;
    if !sandbox.network {
        privileges::bring_loopback_up()?;
    }
    group.enter()?;
    devices.make_nodes();
    devices.remember();
    privileges::drop_capabilities()?;
    let listener = privileges::filter_calls()?;
    File::from(writer)
        .write_all(&listener.as_raw_fd().to_ne_bytes())
        .map_err(failed("the filter's listener cannot be passed to the warden"))?;
    // It closes with this process, which the warden takes it from.
    std::mem::forget(listener);
    Ok(())
}

/// The listener, taken from the inside. None if the inside failed, which reports its own error.
fn take_listener(child: Pid, reader: OwnedFd) -> Option<OwnedFd> {
    let mut number = [0; 4];
    File::from(reader).read_exact(&mut number).ok()?;
    // SAFETY: the call takes no pointers and returns a new file descriptor.
    unsafe {
        let process = checked(libc::syscall(libc::SYS_pidfd_open, child.as_raw(), 0)).ok()?;
        let process = OwnedFd::from_raw_fd(i32::try_from(process).ok()?);
        let number = i32::from_ne_bytes(number);
        let taken = checked(libc::syscall(libc::SYS_pidfd_getfd, process.as_raw_fd(), number, 0)).ok()?;
        Some(OwnedFd::from_raw_fd(i32::try_from(taken).ok()?))
    }
}

/// See whether this machine can make a sandbox, by making an empty one.
pub fn try_out(folder: PathBuf, stack: String) -> ExitCode {
    let root = folder.join("root");
    let sandbox = Sandbox {
        folder,
        root,
        stack,
        reads: Vec::new(),
        writes: Vec::new(),
        nodes: Vec::new(),
        kinds: Vec::new(),
        filesystems: Vec::new(),
        controllers: Vec::new(),
        network: false,
        container: None,
    };
    match enter(&sandbox) {
        Ok(()) => ExitCode::SUCCESS,
        Err(cause) => {
            complain(&cause);
            ExitCode::FAILURE
        }
    }
}
