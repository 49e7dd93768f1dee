// SPDX-License-Identifier: Apache-2.0
//! Containers of a sandbox's steps: systemd-nspawn needs powers that steps lack, so a process outside starts it.
//!
//! The maker and all that it starts are in a process namespace of their own, because root's steps would rule the user
//! namespace of a container that they could reach. They see the steps' view of the machine, and are in the sandbox's
//! control group. A request names a folder and a group; the command line is made here. The agent gives the line
//! for requests only to steps with the key `container`, and the container's own agent denies its programs what the
//! sandbox denies to steps, and mounting besides.

use std::fs::{self, File};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::iter;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::OnceLock;

use clap::Args;
use nix::cmsg_space;
use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, OFlag, OpenHow, ResolveFlag, openat2};
use nix::mount::{MsFlags, mount};
use nix::sys::prctl;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use nix::sys::stat::SFlag;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Pid, pipe2};
use serde::{Deserialize, Serialize};

use crate::sandbox::declared::{Sandbox, Seen};
use crate::sandbox::group::{Group, SEEN_AT};
use crate::sandbox::nodes::{CHARACTERS, make_node};
use crate::system::calls::{checked, failed};
use crate::system::faults::complain;

/// The descriptor of the line for requests, in steps that have it.
pub const LINE: RawFd = 66;
/// This process's end of the line.
pub static ASKING: OnceLock<OwnedFd> = OnceLock::new();

const REQUEST_BYTES_MAX: usize = 4096;
/// Of one trial: each has processes that no control group counts.
const REQUESTS_MAX: usize = 64;
const FILES: usize = 3;
const AGENT: &str = "/opt/strata-agent";
const ROOT: &str = "/run/root";
const MOUNT: &str = "/run/mount";
/// What systemd-nspawn hides files of /proc with, among them `sysrq-trigger`; it lacks its own in this /run.
const NOTHING: &str = "/run/nothing";
const FOLDERS: &str = "dev opt proc root run srv sys tmp usr var/lib var/log var/tmp";
/// User ids come from the end of systemd's range for containers, where others hardly have any. The container loses the
/// capabilities that steps lack, and further ones that only mounting and devices need.
const OPTIONS: &str = "--quiet --settings=no --register=no --keep-unit --link-journal=no --resolv-conf=off \
    --timezone=off --console=pipe --machine=main --private-network --private-users=1878917120:65536 \
    --private-users-ownership=chown --no-new-privileges=yes --drop-capability=CAP_SYS_ADMIN,CAP_SYS_PTRACE,\
    CAP_SYS_BOOT,CAP_SYS_TTY_CONFIG,CAP_MKNOD,CAP_NET_ADMIN,CAP_NET_RAW,CAP_NET_BROADCAST,CAP_AUDIT_CONTROL,\
    CAP_AUDIT_WRITE,CAP_LINUX_IMMUTABLE";

/// The device and the inode of a folder.
pub type Identity = (u64, u64);

impl Seen {
    /// Of the image.
    pub fn identity(&self) -> Result<Identity, String> {
        let how = folder_how().resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
        let image = openat2(AT_FDCWD, &self.image, how).map_err(failed("the containers' image"))?;
        let state = File::from(image).metadata().map_err(failed("the containers' image"))?;
        Ok((state.dev(), state.ino()))
    }
}

/// A container that a step asks for.
#[derive(Debug, Serialize, Deserialize, Args)]
pub struct Wanted {
    /// The folder of a filesystem of the trial in which its mount point is
    #[arg(value_name = "FOLDER")]
    root: PathBuf,
    /// Its control group, below the sandbox's
    #[arg(value_name = "GROUP")]
    group: String,
}

/// Have a container started whose standard input and output are this program's, and end as it does.
pub fn ask(wanted: &Wanted) -> ExitCode {
    let asked = || -> Result<u8, String> {
        let (reader, writer) = pipe2(OFlag::O_CLOEXEC).map_err(failed("a pipe"))?;
        let text = serde_json::to_vec(wanted).map_err(|error| error.to_string())?;
        let files = [libc::STDIN_FILENO, libc::STDERR_FILENO, writer.as_raw_fd()];
        let rights = [ControlMessage::ScmRights(&files)];
        sendmsg::<()>(LINE, &[IoSlice::new(&text)], &rights, MsgFlags::MSG_NOSIGNAL, None)
            .map_err(failed("no container can be asked for here"))?;
        drop(writer);
        let mut codes = Vec::new();
        File::from(reader).read_to_end(&mut codes).map_err(failed("the container's end"))?;
        codes.first().copied().ok_or_else(|| "the container could not be started".into())
    };
    asked().map_or_else(
        |cause| {
            complain(&cause);
            ExitCode::FAILURE
        },
        ExitCode::from,
    )
}

pub struct Maker<'a> {
    pub sandbox: &'a Sandbox,
    pub seen: &'a Seen,
    /// The image before the first step.
    pub image: Identity,
    pub group: &'a Group,
    /// The machine's /proc.
    pub processes: &'a OwnedFd,
    /// The first process of the inside.
    pub inside: Pid,
}

impl Maker<'_> {
    /// Start it. Its end is the end of all that it has started, because it is the first process of a namespace.
    pub fn start(&self, line: &OwnedFd) -> Result<Pid, String> {
        if let Some(pid) = divide(libc::CLONE_NEWPID).map_err(failed("the maker of containers"))? {
            return Ok(pid);
        }
        let _ = prctl::set_pdeathsig(Signal::SIGKILL);
        let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None);
        handle_children(SigHandler::SigIgn);
        for request in iter::from_fn(|| receive(line).ok()).take(REQUESTS_MAX) {
            let Some((wanted, files)) = request else { continue };
            if let Ok(None) = divide(0) {
                handle_children(SigHandler::SigDfl);
                self.attend(&wanted, files);
                end(0);
            }
        }
        end(0)
    }

    /// Until the container has ended.
    fn attend(&self, wanted: &Wanted, [line, complaints, status]: [OwnedFd; FILES]) {
        let pid = match divide(libc::CLONE_NEWPID | libc::CLONE_NEWNS) {
            Ok(Some(pid)) => pid,
            Err(_) => return,
            Ok(None) => {
                drop(status);
                let complaining = complaints.try_clone();
                let kept = self.keep(wanted, line, complaints);
                if let (Err(cause), Ok(out)) = (&kept, complaining) {
                    let _ = writeln!(File::from(out), "the container: {cause}");
                }
                end(kept.unwrap_or(1));
            }
        };
        drop((line, complaints));
        // Its mounts are gone as well then.
        if let Ok(WaitStatus::Exited(_, code)) = waitpid(pid, None) {
            let _ = File::from(status).write_all(&[u8::try_from(code).unwrap_or(1)]);
        }
    }

    /// Run systemd-nspawn, as the first process of a namespace and with a copy of the steps' mounts.
    fn keep(&self, wanted: &Wanted, line: OwnedFd, complaints: OwnedFd) -> Result<i32, String> {
        self.group.join()?;
        self.enter_group(&wanted.group)?;
        let none = None::<&str>;
        mount(Some("proc"), "/proc", Some("proc"), MsFlags::empty(), none).map_err(failed("/proc"))?;
        if self.seen.identity()? != self.image {
            return Err("refused: the image of containers is another one".into());
        }
        let root = wanted.open_root(&self.sandbox.folder)?;
        // Steps may have left anything in theirs.
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
        mount(Some("strata"), "/run", Some("tmpfs"), flags, Some("mode=755")).map_err(failed("/run"))?;
        fs::copy("/proc/self/exe", "/run/agent").map_err(failed("a copy of the agent"))?;
        // Steps could have systemd-nspawn follow what they put into theirs.
        mount(Some("strata"), "/dev", Some("tmpfs"), MsFlags::MS_NOSUID, Some("mode=755"))
            .map_err(failed("/dev"))?;
        for (name, major, minor) in CHARACTERS {
            make_node(&Path::new("/dev").join(name), SFlag::S_IFCHR, 0o666, (major, minor))?;
        }
        // A memory filesystem at the container's /tmp may hide it.
        let [measured, scratch] = ["mount", "scratch"].map(|name| self.sandbox.folder.join(name));
        let inner = measured.strip_prefix("/").unwrap_or(&measured);
        let how = folder_how().resolve(ResolveFlag::RESOLVE_NO_SYMLINKS | ResolveFlag::RESOLVE_BENEATH);
        let inner = openat2(&root, inner, how).map_err(failed("refused: its root has no mount point"))?;
        // The folder that was checked, whatever its path leads to by now.
        let inner = format!("/proc/self/fd/{}", inner.as_raw_fd());
        fs::create_dir(MOUNT).map_err(failed(MOUNT))?;
        mount(Some(inner.as_str()), MOUNT, none, MsFlags::MS_BIND, none).map_err(failed(MOUNT))?;
        self.make_root(&measured)?;
        let out = line.try_clone().map_err(failed("the line"))?;
        let shown = self.seen.reads.iter().map(|file| format!("--bind-ro={}", file.display()));
        let status = Command::new("/usr/bin/systemd-nspawn")
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("SYSTEMD_NSPAWN_UNIFIED_HIERARCHY", "1")
            .current_dir("/")
            .args(OPTIONS.split(' '))
            .args(shown)
            .arg(format!("--directory={ROOT}"))
            .arg(format!("--bind-ro={}/usr:/usr", self.seen.image.display()))
            .arg(format!("--bind-ro=/run/agent:{AGENT}"))
            .arg(format!("--bind-ro={NOTHING}:/run/systemd/inaccessible/reg"))
            .arg(format!("--bind={MOUNT}:{}:idmap", measured.display()))
            .arg(format!("--tmpfs={}:mode=1777", scratch.display()))
            .args([AGENT, "machine", "serve", "--confined"])
            .stdin(line)
            .stdout(out)
            .stderr(complaints)
            .status()
            .map_err(failed("systemd-nspawn"))?;
        Ok(status.code().unwrap_or(1))
    }

    /// Make the container's root, in memory: what systemd-nspawn resolves in it no step may change meanwhile.
    fn make_root(&self, measured: &Path) -> Result<(), String> {
        let inside = |path: &Path| Path::new(ROOT).join(path.strip_prefix("/").unwrap_or(path));
        for folder in FOLDERS.split(' ').map(Path::new).chain([measured]) {
            fs::create_dir_all(inside(folder)).map_err(failed(ROOT))?;
        }
        let copied = ["bin", "sbin", "lib", "lib64", "etc"].map(|name| self.seen.image.join(name));
        let done = Command::new("/usr/bin/cp").arg("--archive").args(copied).arg(ROOT).status();
        if !done.map_err(failed("cp"))?.success() {
            return Err("the files of the container's root cannot be copied".into());
        }
        let mut options = File::options();
        options.write(true).create_new(true).mode(0o0).open(NOTHING).map(|_| ()).map_err(failed(NOTHING))
    }

    /// Enter a group of the trial, and see the groups as steps do.
    fn enter_group(&self, name: &str) -> Result<(), String> {
        let what = "the container's control group";
        if name.contains('/') || !name.starts_with(&format!("{}_", self.sandbox.stack)) {
            return Err("refused: its control group is not the trial's".into());
        }
        let path = format!("{}/ns/cgroup\0", self.inside);
        // SAFETY: the path ends with a NUL, and the first call returns a new file descriptor.
        let seen = unsafe {
            let opened = libc::openat(self.processes.as_raw_fd(), path.as_ptr().cast(), libc::O_CLOEXEC);
            Errno::result(opened).map(|opened| OwnedFd::from_raw_fd(opened)).map_err(failed(what))?
        };
        // SAFETY: no pointers are involved.
        checked(unsafe { libc::setns(seen.as_raw_fd(), libc::CLONE_NEWCGROUP) }.into())
            .map_err(failed(what))?;
        fs::write(Path::new(SEEN_AT).join(name).join("cgroup.procs"), "0").map_err(failed(what))
    }
}

impl Wanted {
    /// Its root, without following a link: on a filesystem of the trial, not on the machine's.
    fn open_root(&self, folder: &Path) -> Result<OwnedFd, String> {
        let what = "refused: its root is no folder of a filesystem of the trial";
        let leads_out = self.root.components().any(|part| part == Component::ParentDir);
        if leads_out || !self.root.starts_with(folder) {
            return Err(what.into());
        }
        let how = folder_how().resolve(ResolveFlag::RESOLVE_NO_SYMLINKS);
        let root = openat2(AT_FDCWD, &self.root, how).map_err(failed(what))?;
        let device = |state: io::Result<fs::Metadata>| state.map(|it| it.dev()).map_err(failed(what));
        let file = File::from(root);
        let is_own = device(file.metadata())? != device(fs::metadata(folder))?;
        if is_own { Ok(file.into()) } else { Err(what.into()) }
    }
}

fn folder_how() -> OpenHow {
    OpenHow::new().flags(OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC)
}

/// Wait for a request; None for one that is none.
fn receive(line: &OwnedFd) -> nix::Result<Option<(Wanted, [OwnedFd; FILES])>> {
    let (mut bytes, mut space) = ([0; REQUEST_BYTES_MAX], cmsg_space!([RawFd; FILES]));
    let mut parts = [IoSliceMut::new(&mut bytes)];
    let message = recvmsg::<()>(line.as_raw_fd(), &mut parts, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC)?;
    let files: Vec<OwnedFd> = message
        .cmsgs()
        .into_iter() // none if there are more than fit
        .flatten()
        .filter_map(|each| if let ControlMessageOwned::ScmRights(files) = each { Some(files) } else { None })
        .flatten()
        // SAFETY: the kernel has just made them.
        .map(|file| unsafe { OwnedFd::from_raw_fd(file) })
        .collect();
    let length = message.bytes;
    if length == 0 {
        return Err(Errno::EPIPE);
    }
    Ok(serde_json::from_slice(&bytes[..length]).ok().zip(files.try_into().ok()))
}

/// As `fork`, with new namespaces: None in the new process.
fn divide(namespaces: i32) -> io::Result<Option<Pid>> {
    let flags = libc::c_long::from(namespaces | libc::SIGCHLD);
    let none: libc::c_long = 0;
    // SAFETY: there is no other thread, and without a stack the new process goes on with a copy of this one's.
    let pid = checked(unsafe { libc::syscall(libc::SYS_clone, flags, none, none, none, none) })?;
    Ok((pid != 0).then(|| Pid::from_raw(i32::try_from(pid).expect("process numbers are below 2^22"))))
}

fn handle_children(how: SigHandler) {
    // SAFETY: no code of ours handles it.
    let _ = unsafe { nix::sys::signal::signal(Signal::SIGCHLD, how) };
}

fn end(code: i32) -> ! {
    // SAFETY: nothing of the warden's is to be run for it.
    unsafe { libc::_exit(code) }
}
