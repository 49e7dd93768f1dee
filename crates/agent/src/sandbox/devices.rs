// SPDX-License-Identifier: Apache-2.0
//! A trial's devices: the runner gives it some, and the trial assembles others on top of them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, symlink};
use std::path::{Path, PathBuf};

use crate::sandbox::declared::Sandbox;
use crate::sandbox::filter::{ANY, BLOCK, CHARACTER, DeviceFilter, Number};
use crate::sandbox::kinds::{Kind, driver, volume};
use crate::sandbox::nodes::{characters, make_node, open_folder};
use crate::system::calls::{checked, failed};
use nix::sys::stat::{Mode, SFlag, major, minor, mkdirat, mknodat};

/// Whose an assembled device is.
#[derive(Debug, PartialEq, Eq)]
enum Owner {
    Trial,
    Other,
    /// It stands on nothing yet, so that nothing can be read or written by it.
    Open,
}

/// A node of /dev.
#[derive(Debug)]
pub struct Node {
    pub path: PathBuf,
    pub number: Number,
    pub mode: u32,
    pub gid: u32,
}

impl Node {
    pub fn file_type(&self) -> SFlag {
        if self.number.kind == BLOCK { SFlag::S_IFBLK } else { SFlag::S_IFCHR }
    }
}

#[derive(Debug)]
pub struct Devices {
    blocks: PathBuf,
    pub nodes: Vec<Node>,
    pub links: Vec<(PathBuf, PathBuf)>,
    /// By their names in /sys/block, with the file that a loop device was attached to when it was given.
    given: BTreeMap<String, Option<String>>,
    /// Loop devices that are attached. A step could detach one, keep it open, and reach what is attached to it next.
    held: Vec<File>,
    kinds: Vec<Kind>,
    stack: String,
    /// The files behind the trial's loop devices are below it.
    files: PathBuf,
    /// The machine's /dev.
    machine: Option<OwnedFd>,
    /// The devices that the filter denies, by name and number.
    denied: RefCell<Vec<(String, Number)>>,
}

thread_local! {
    /// Inside the sandbox: the devices that complete the steps' /dev.
    static INSIDE: RefCell<Option<Devices>> = const { RefCell::new(None) };
}

/// Give the devices that have been assembled since their nodes; before each program that is started.
pub fn make_missing_nodes() {
    INSIDE.with_borrow(|devices| {
        if let Some(devices) = devices {
            devices.make_nodes();
            devices.mirror();
        }
    });
}

impl Devices {
    /// Look up what the runner gives, and let the filter allow that and no more.
    pub fn look(sandbox: &Sandbox, filter: &DeviceFilter) -> Result<Self, String> {
        let mut devices = Self {
            blocks: "/sys/block".into(),
            nodes: Vec::new(),
            links: Vec::new(),
            given: BTreeMap::new(),
            held: Vec::new(),
            kinds: sandbox.kinds.clone(),
            stack: sandbox.stack.clone(),
            files: sandbox.folder.parent().unwrap_or(&sandbox.folder).into(),
            machine: Some(open_folder("/dev")?),
            denied: RefCell::default(),
        };
        sandbox.nodes.iter().try_for_each(|path| devices.give(path))?;
        let characters = characters().map(|(major, minor)| (CHARACTER, major, minor.unwrap_or(ANY)));
        let drivers = fs::read_to_string("/proc/devices").map_err(failed("/proc/devices"))?;
        let kinds = devices.kinds.iter().filter_map(|kind| Some((BLOCK, driver(&drivers, *kind)?, ANY)));
        let known = characters.chain(kinds).map(|(kind, major, minor)| Number { kind, major, minor });
        for number in known.chain(devices.nodes.iter().map(|node| node.number)) {
            filter.set(number, true).map_err(failed("the device filter"))?;
        }
        devices.judge(filter);
        // A device that exists before the trial is not the trial's, even if it stands on no other.
        for name in devices.assembled().filter(|name| devices.owner(name) == Owner::Open) {
            devices.deny(&name, filter);
        }
        Ok(devices)
    }

    fn give(&mut self, path: &Path) -> Result<(), String> {
        let what = format!("the device {}", path.display());
        let real = fs::canonicalize(path).map_err(failed(&what))?;
        let state = fs::metadata(&real).map_err(failed(&what))?;
        let kind = match state.file_type() {
            it if it.is_block_device() => BLOCK,
            it if it.is_char_device() => CHARACTER,
            _ => return Err(format!("{what} is none")),
        };
        let number =
            Number { kind, major: numbered(major(state.rdev())), minor: numbered(minor(state.rdev())) };
        if kind == BLOCK {
            let name = fs::canonicalize(format!("/sys/dev/block/{}:{}", number.major, number.minor));
            let name = name.ok().and_then(|folder| Some(folder.file_name()?.to_str()?.to_owned()));
            if let Some(name) = name {
                let file = self.backing_file(&name);
                if file.is_some() {
                    self.held.push(File::open(&real).map_err(failed(&what))?);
                }
                self.given.insert(name, file);
            }
        }
        if real != path {
            self.links.push((path.into(), real.clone()));
        }
        self.nodes.push(Node { path: real, number, mode: state.mode() & 0o777, gid: state.gid() });
        Ok(())
    }

    /// A socket that tells when devices come, change and go.
    pub fn listen() -> Result<OwnedFd, String> {
        // SAFETY: the address is plain integers, for which zero is a value, and its size is given.
        unsafe {
            let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
            let made = libc::socket(libc::AF_NETLINK, kind, libc::NETLINK_KOBJECT_UEVENT);
            checked(made.into()).map_err(failed("the kernel's events"))?;
            let socket = OwnedFd::from_raw_fd(made);
            let mut address: libc::sockaddr_nl = std::mem::zeroed();
            address.nl_family = libc::sa_family_t::try_from(libc::AF_NETLINK).expect("a small number");
            address.nl_groups = 1; // the kernel's own group
            let size = libc::socklen_t::try_from(size_of_val(&address)).expect("a small number");
            let bound = libc::bind(socket.as_raw_fd(), (&raw const address).cast(), size);
            checked(bound.into()).map_err(failed("the kernel's events"))?;
            Ok(socket)
        }
    }

    /// Inside: complete /dev from now on.
    pub fn remember(&self) {
        let kept = Self {
            blocks: self.blocks.clone(),
            nodes: Vec::new(),
            links: Vec::new(),
            given: self.given.clone(),
            held: Vec::new(),
            kinds: self.kinds.clone(),
            stack: self.stack.clone(),
            files: self.files.clone(),
            machine: self.machine.as_ref().and_then(|folder| folder.try_clone().ok()),
            denied: RefCell::default(),
        };
        INSIDE.set(Some(kept));
    }

    /// Deny what has turned out to be somebody else's.
    pub fn judge(&self, filter: &DeviceFilter) {
        let there: BTreeSet<String> = self.assembled().chain(self.given.keys().cloned()).collect();
        let mut denied = self.denied.borrow_mut();
        denied.retain(|(name, number)| {
            // Its number may become the trial's.
            let stays = there.contains(name) && self.owner(name) != Owner::Trial;
            if !stays && self.given.contains_key(name) {
                let _ = filter.set(*number, true);
            } else if !stays {
                filter.forget(*number);
            }
            stays
        });
        let known: BTreeSet<String> = denied.iter().map(|(name, _)| name.clone()).collect();
        drop(denied);
        for name in there.difference(&known).filter(|name| self.owner(name) == Owner::Other) {
            self.deny(name, filter);
        }
    }

    fn deny(&self, name: &str, filter: &DeviceFilter) {
        let Some(number) = self.number(name) else { return };
        if filter.set(number, false).is_ok() {
            self.denied.borrow_mut().push((name.to_owned(), number));
        }
    }

    /// Make the nodes that udev would make, of what the trial has assembled.
    pub fn make_nodes(&self) {
        for name in self.assembled() {
            let path = Path::new("/dev").join(&name);
            let is_ours = || self.owner(&name) == Owner::Trial;
            let Some(number) = self.number(&name).filter(|_| !path.exists() && is_ours()) else { continue };
            // Whoever misses it, says so.
            let _ = make_node(&path, SFlag::S_IFBLK, 0o600, (number.major, number.minor));
            if let Some(dataset) = Kind::Zd.has(&name).then(|| self.dataset(&name)).flatten() {
                let link = Path::new("/dev/zvol").join(dataset);
                let _ = fs::create_dir_all(link.parent().unwrap_or(&link));
                let _ = symlink(&path, link);
            }
        }
    }

    /// Copy what steps have put into folders of /dev that carry the trial's name to the machine's /dev.
    ///
    /// The kernel's ZFS opens the devices of a pool by threads of its own, which see the machine's /dev alone.
    fn mirror(&self) {
        let Some(machine) = self.machine.as_ref().filter(|_| self.kinds.contains(&Kind::Zd)) else { return };
        for folder in entries(Path::new("/dev")).filter(|path| is_named(path, &self.stack)) {
            let Some(name) = folder.file_name() else { continue };
            let _ = mkdirat(machine, name, Mode::from_bits_truncate(0o700));
            for node in entries(&folder) {
                let Ok(state) = fs::symlink_metadata(&node) else { continue };
                let Ok(path) = node.strip_prefix("/dev") else { continue };
                if state.file_type().is_block_device() {
                    let _ =
                        mknodat(machine, path, SFlag::S_IFBLK, Mode::S_IRUSR | Mode::S_IWUSR, state.rdev());
                }
            }
        }
    }

    /// The devices of the kinds that the trial assembles, whoever has assembled them.
    fn assembled(&self) -> impl Iterator<Item = String> {
        let entries = fs::read_dir(&self.blocks).into_iter().flatten().flatten();
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        names.filter(|name| self.kinds.iter().any(|kind| kind.has(name)))
    }

    fn owner(&self, name: &str) -> Owner {
        if let Some(given) = self.given.get(name) {
            // Others can attach a loop device before the trial does, or anew once it is detached.
            let file = self.backing_file(name);
            let is_ours = file == *given || file.is_none_or(|file| Path::new(&file).starts_with(&self.files));
            return if is_ours { Owner::Trial } else { Owner::Other };
        }
        if Kind::Zd.has(name) {
            // Its pool is seen by no file of /sys.
            return match self.dataset(name) {
                Some(dataset) if dataset.starts_with(&self.stack) => Owner::Trial,
                Some(_) => Owner::Other,
                None => Owner::Open,
            };
        }
        let slaves = fs::read_dir(self.blocks.join(name).join("slaves")).into_iter().flatten().flatten();
        let slaves: Vec<String> = slaves.filter_map(|entry| entry.file_name().into_string().ok()).collect();
        match &slaves[..] {
            [] if self.kinds.iter().any(|kind| kind.has(name)) => Owner::Open,
            [] => Owner::Other,
            all if all.iter().all(|slave| self.owner(slave) == Owner::Trial) => Owner::Trial,
            _ => Owner::Other,
        }
    }

    fn backing_file(&self, name: &str) -> Option<String> {
        let file = fs::read_to_string(self.blocks.join(name).join("loop/backing_file")).ok()?;
        Some(file.trim_end_matches('\n').to_owned())
    }

    /// The volume of a pool that a device is.
    fn dataset(&self, name: &str) -> Option<String> {
        let path = Path::new("/dev").join(name);
        if path.exists() {
            return volume(&path);
        }
        let (path, number) = (Path::new("/dev").join(format!(".{name}")), self.number(name)?);
        make_node(&path, SFlag::S_IFBLK, 0o600, (number.major, number.minor)).ok()?;
        let volume = volume(&path);
        let _ = fs::remove_file(path);
        volume
    }

    fn number(&self, name: &str) -> Option<Number> {
        let text = fs::read_to_string(self.blocks.join(name).join("dev")).ok()?;
        let (major, minor) = text.trim().split_once(':')?;
        Some(Number { kind: BLOCK, major: major.parse().ok()?, minor: minor.parse().ok()? })
    }
}

fn entries(folder: &Path) -> impl Iterator<Item = PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn is_named(path: &Path, stack: &str) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(stack))
}

fn numbered(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(ANY)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn devices(machine: &Path, assembled: &[(&str, &[&str])]) -> Devices {
        for (name, slaves) in assembled {
            let folder = machine.join(name).join("slaves");
            fs::create_dir_all(&folder).unwrap();
            slaves.iter().for_each(|slave| fs::write(folder.join(slave), "").unwrap());
        }
        Devices {
            blocks: machine.into(),
            nodes: Vec::new(),
            links: Vec::new(),
            given: ["loop1", "loop2"].map(|name| (name.to_owned(), None)).into(),
            held: Vec::new(),
            kinds: vec![Kind::Dm, Kind::Md],
            stack: "strata_1".into(),
            files: "/scratch/strata-1".into(),
            machine: None,
            denied: RefCell::default(),
        }
    }

    #[test]
    fn what_stands_on_the_trials_disks_alone_is_the_trials() {
        let machine = tempfile::tempdir().unwrap();
        let devices = devices(
            machine.path(),
            &[
                ("md127", &["loop1", "loop2"]),
                ("dm-0", &["md127"]),
                ("dm-1", &["sda"]),
                ("dm-2", &["loop1", "sda"]),
                ("dm-3", &[]),
                ("bcache0", &["loop1"]),
                ("sda", &[]),
            ],
        );

        let owners = ["md127", "dm-0", "dm-1", "dm-2", "dm-3"].map(|name| devices.owner(name));
        let mut assembled: Vec<_> = devices.assembled().collect();
        assembled.sort_unstable();

        let expected = [Owner::Trial, Owner::Trial, Owner::Other, Owner::Other, Owner::Open];
        assert_eq!(owners, expected);
        assert_eq!(assembled, ["dm-0", "dm-1", "dm-2", "dm-3", "md127"], "bcache was not asked for");
    }

    #[test]
    fn a_loop_device_that_another_has_taken_is_the_trials_no_more() {
        let machine = tempfile::tempdir().unwrap();
        let devices = devices(machine.path(), &[("dm-0", &["loop1"])]);
        let folder = machine.path().join("loop1/loop");
        fs::create_dir_all(&folder).unwrap();

        let owners = ["/scratch/strata-1/trial/mounts/raw\n", "/home/other.img\n"].map(|file| {
            fs::write(folder.join("backing_file"), file).unwrap();
            (devices.owner("loop1"), devices.owner("dm-0"))
        });

        assert_eq!(owners, [(Owner::Trial, Owner::Trial), (Owner::Other, Owner::Other)]);
    }

    #[test]
    fn a_loop_device_that_the_user_named_is_the_trials_while_it_has_the_same_file() {
        let machine = tempfile::tempdir().unwrap();
        let mut devices = devices(machine.path(), &[]);
        devices.given.insert("loop1".into(), Some("/srv/disk.img".into()));
        let folder = machine.path().join("loop1/loop");
        fs::create_dir_all(&folder).unwrap();

        let owners = ["/srv/disk.img\n", "/home/other.img\n"].map(|file| {
            fs::write(folder.join("backing_file"), file).unwrap();
            devices.owner("loop1")
        });

        assert_eq!(owners, [Owner::Trial, Owner::Other]);
    }
}
