// SPDX-License-Identifier: Apache-2.0
//! Leftovers of a plan after its teardown: mounts, block devices, pools, control groups.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::plan::bindings::Bindings;
use crate::plan::program::ReadyPlan;
use crate::process::supervise::Supervisor;
use crate::system::clock::{self, NS_PER_MS, NS_PER_S};

/// Devices are released in the background: check this long before reporting leftovers.
const SETTLE_LIMIT_NS: u64 = 5 * NS_PER_S;
const SETTLE_INTERVAL_NS: u64 = 50 * NS_PER_MS;

/// Assembled devices and mounts in words, such as `md127 on sda and sdb`, by a unique key.
type Assembled = BTreeMap<String, String>;

/// Which of a machine's devices, mounts and control groups belong to the trial.
#[derive(Debug)]
enum Scope {
    /// A lab is the trial's own.
    Machine,
    /// On a host others assemble things, too, while the trial runs.
    Trial {
        /// The prefix of the names of all that the plan assembles.
        stack: Option<String>,
        folders: Vec<PathBuf>,
        /// In `/sys/block`.
        devices: BTreeSet<String>,
    },
}

/// The machine's state before the plan.
#[derive(Debug)]
pub struct Before {
    scope: Scope,
    root: PathBuf,
    assembled: Assembled,
}

impl Before {
    pub fn look(plan: &ReadyPlan, bindings: &Bindings) -> Self {
        let scope = if bindings.runner == "lab" { Scope::Machine } else { Scope::of_trial(plan) };
        Self::look_at("/".into(), scope)
    }

    fn look_at(root: PathBuf, scope: Scope) -> Self {
        let assembled = assembled(&root, &scope);
        Self { scope, root, assembled }
    }

    /// The devices assembled since, in words.
    fn left(&self) -> Vec<String> {
        let now = assembled(&self.root, &self.scope);
        now.into_iter().filter(|(key, _)| !self.assembled.contains_key(key)).map(|(_, words)| words).collect()
    }
}

impl Supervisor {
    /// The leftovers, after a time to settle.
    pub fn leftovers(&mut self, before: &Before) -> Vec<String> {
        let limit_at_ns = clock::monotonic_ns() + SETTLE_LIMIT_NS;
        loop {
            let mut left = before.left();
            let now_ns = clock::monotonic_ns();
            if left.is_empty() || now_ns >= limit_at_ns {
                left.extend(self.stray_names().iter().map(|stray| format!("the process {stray}")));
                return left;
            }
            self.turn((now_ns + SETTLE_INTERVAL_NS).min(limit_at_ns));
        }
    }
}

impl Scope {
    fn of_trial(plan: &ReadyPlan) -> Self {
        let variable = |name: &str| plan.variables.get(name).filter(|value| !value.is_empty()).cloned();
        let nodes = plan.variables.values().filter(|value| value.starts_with("/dev/")).cloned().map(real);
        let nodes = nodes.filter_map(|node| Some(node.file_name()?.to_str()?.to_owned()));
        let disks = plan.disks.iter().map(|disk| disk.stat_name.clone());
        Self::Trial {
            stack: variable("stack"),
            folders: ["mount", "mounts", "scratch"].into_iter().filter_map(variable).map(real).collect(),
            devices: nodes.chain(disks).collect(),
        }
    }

    fn has_name(&self, name: &str) -> bool {
        match self {
            Self::Machine => true,
            Self::Trial { stack, .. } => stack.as_deref().is_some_and(|stack| name.contains(stack)),
        }
    }

    fn has_path(&self, path: &str) -> bool {
        match self {
            Self::Machine => true,
            Self::Trial { folders, .. } => folders.iter().any(|folder| Path::new(path).starts_with(folder)),
        }
    }

    /// Whether a device is a disk of the trial, or stands on one.
    fn has_device(&self, blocks: &Path, name: &str) -> bool {
        match self {
            Self::Machine => true,
            Self::Trial { devices, .. } if devices.contains(name) => true,
            Self::Trial { .. } => {
                lower_devices(&blocks.join(name)).iter().any(|it| self.has_device(blocks, it))
            }
        }
    }
}

/// As in the kernel's paths.
fn real(folder: String) -> PathBuf {
    fs::canonicalize(&folder).unwrap_or_else(|_| folder.into())
}

fn assembled(root: &Path, scope: &Scope) -> Assembled {
    let mut found = mounts(root, scope);
    found.extend(block_devices(&root.join("sys/block"), scope));
    for pool in names_in(&root.join("proc/spl/kstat/zfs")) {
        if scope.has_name(&pool) && root.join("proc/spl/kstat/zfs").join(&pool).is_dir() {
            insert(&mut found, format!("the pool {pool}"));
        }
    }
    for set in names_in(&root.join("sys/fs/bcache")) {
        // Whose it is on a host is seen at its devices.
        if matches!(scope, Scope::Machine) && set.contains('-') {
            insert(&mut found, format!("the cache set {set}"));
        }
    }
    for group in names_in(&root.join("sys/fs/cgroup")) {
        if scope.has_name(&group) && root.join("sys/fs/cgroup").join(&group).join("cgroup.procs").exists() {
            insert(&mut found, format!("the control group {group}"));
        }
    }
    found
}

fn insert(found: &mut Assembled, words: String) {
    found.insert(words.clone(), words);
}

fn mounts(root: &Path, scope: &Scope) -> Assembled {
    let blocks = root.join("sys/block");
    let text =
        fs::read(root.join("proc/self/mountinfo")).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let text = text.unwrap_or_default();
    let mounts = text.lines().filter_map(|line| {
        // proc_pid_mountinfo(5): optional fields lie before the dash.
        let (before, after) = line.split_once(" - ")?;
        let point = unescaped(before.split(' ').nth(4)?);
        let mut after = after.split(' ');
        let (kind, source) = (after.next()?, unescaped(after.next()?));
        // The number tells two mounts on one folder apart.
        let number = before.split(' ').next()?;
        let device = source.strip_prefix("/dev/").unwrap_or_default();
        let is_ours = scope.has_path(&point) || scope.has_name(&source) || scope.has_device(&blocks, device);
        is_ours.then(|| (format!("{number} {point}"), format!("{kind} from {source} mounted on {point}")))
    });
    mounts.collect()
}

/// A space is written as \040 there, and likewise tabs, line breaks and backslashes.
fn unescaped(text: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(text.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

fn block_devices(blocks: &Path, scope: &Scope) -> Assembled {
    let mut found = Assembled::new();
    for name in names_in(blocks) {
        let folder = blocks.join(&name);
        let says = |file: &str| fs::read_to_string(folder.join(file)).ok().map(|text| text.trim().to_owned());
        let label = match name.trim_end_matches(|letter: char| letter.is_ascii_digit()) {
            "loop" => says("loop/backing_file"),
            "nbd" => says("pid").map(|pid| format!("connected by process {pid}")),
            "dm-" => says("dm/name"),
            "md" | "md_d" => says("md/array_state").filter(|state| state != "clear").map(|_| String::new()),
            "zd" | "bcache" => Some(String::new()),
            // A disk or an array that a cache set has taken.
            _ if folder.join("bcache").exists() => Some("held by bcache".to_owned()),
            _ => None,
        };
        let Some(label) = label else { continue };
        if scope.has_device(blocks, &name) || scope.has_name(&label) || scope.has_path(&label) {
            let lower = lower_devices(&folder);
            let on = if lower.is_empty() { String::new() } else { format!(" on {}", lower.join(" and ")) };
            let label = if label.is_empty() { label } else { format!(" ({label})") };
            found.insert(format!("{name}{label}"), format!("{name}{label}{on}"));
        }
    }
    found
}

/// The devices that one is made of.
fn lower_devices(folder: &Path) -> Vec<String> {
    names_in(&folder.join("slaves"))
}

/// The names in a folder, sorted.
fn names_in(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).collect();
    names.sort_unstable();
    names
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// The parts of a machine's /proc and /sys that are read.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Self {
            let machine = Self(tempfile::tempdir().unwrap());
            machine.file("proc/self/mountinfo", "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
            for disk in ["sda", "loop0", "loop1", "nbd0", "nbd1"] {
                machine.device(disk, &[], None);
            }
            machine
        }

        fn file(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn device(&self, name: &str, lower: &[&str], state: Option<(&str, &str)>) {
            let folder = self.0.path().join("sys/block").join(name);
            fs::create_dir_all(folder.join("slaves")).unwrap();
            for device in lower {
                symlink(format!("../../{device}"), folder.join("slaves").join(device)).unwrap();
            }
            if let Some((file, text)) = state {
                self.file(&format!("sys/block/{name}/{file}"), text);
            }
        }

        fn before(&self, scope: Scope) -> Before {
            Before::look_at(self.0.path().into(), scope)
        }

        /// Two nested stacks: one that carries the name `s1`, and one that does not.
        fn assemble(&self) {
            self.device("md127", &["loop0"], Some(("md/array_state", "clean\n")));
            self.device("dm-0", &["md127"], Some(("dm/name", "s1_lvm-data\n")));
            self.device("loop1", &[], Some(("loop/backing_file", "/t/mounts/xfs/raw\n")));
            self.device("nbd0", &[], Some(("pid", "77\n")));
            self.device("zd0", &[], None);
            self.device("md0", &["sda"], Some(("md/array_state", "active\n")));
            self.device("md1", &[], Some(("md/array_state", "clear\n")));
            self.device("dm-1", &["sda"], Some(("dm/name", "other\n")));
            self.device("nbd1", &[], Some(("pid", "78\n")));
            self.file("sys/block/sda/bcache/state", "");
            self.file("sys/fs/bcache/3333-33/clear_stats", "");
            self.file("sys/fs/bcache/register", "");
            self.file("proc/spl/kstat/zfs/s1_zpool/state", "ONLINE\n");
            self.file("proc/spl/kstat/zfs/tank/state", "ONLINE\n");
            self.file("proc/spl/kstat/zfs/arcstats", "");
            self.file("sys/fs/cgroup/s1_guest/cgroup.procs", "");
            self.file("sys/fs/cgroup/other/cgroup.procs", "");
            self.file("sys/fs/cgroup/cgroup.procs", "");
            self.file(
                "proc/self/mountinfo",
                "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
                 31 20 253:0 / /t/mounts/a\\040b rw shared:1 - xfs /dev/mapper/s1_lvm-data rw\n\
                 32 20 7:0 / /elsewhere rw - ext4 /dev/loop0 rw\n\
                 33 20 0:31 / /home rw - tmpfs none rw\n",
            );
        }
    }

    #[test]
    fn in_a_lab_all_that_was_not_there_before_is_left_behind() {
        let machine = Machine::new();
        let before = machine.before(Scope::Machine);
        assert!(before.left().is_empty());

        machine.assemble();

        let expected = [
            "xfs from /dev/mapper/s1_lvm-data mounted on /t/mounts/a b",
            "ext4 from /dev/loop0 mounted on /elsewhere",
            "tmpfs from none mounted on /home",
            "dm-0 (s1_lvm-data) on md127",
            "dm-1 (other) on sda",
            "loop1 (/t/mounts/xfs/raw)",
            "md0 on sda",
            "md127 on loop0",
            "nbd0 (connected by process 77)",
            "nbd1 (connected by process 78)",
            "sda (held by bcache)",
            "the cache set 3333-33",
            "the control group other",
            "the control group s1_guest",
            "the pool s1_zpool",
            "the pool tank",
            "zd0",
        ];
        assert_eq!(before.left(), expected);
    }

    #[test]
    fn on_a_host_only_what_belongs_to_the_trial_is_left_behind() {
        let machine = Machine::new();
        let before = machine.before(Scope::Trial {
            stack: Some("s1".into()),
            folders: vec!["/t/mount".into(), "/t/mounts".into()],
            devices: ["loop0", "nbd0"].map(str::to_owned).into(),
        });

        machine.assemble();

        let expected = [
            "xfs from /dev/mapper/s1_lvm-data mounted on /t/mounts/a b",
            "ext4 from /dev/loop0 mounted on /elsewhere",
            "dm-0 (s1_lvm-data) on md127",
            "loop1 (/t/mounts/xfs/raw)",
            "md127 on loop0",
            "nbd0 (connected by process 77)",
            "the control group s1_guest",
            "the pool s1_zpool",
        ];
        assert_eq!(before.left(), expected);
    }

    #[test]
    fn what_was_there_before_may_change_its_state() {
        let machine = Machine::new();
        machine.assemble();
        let before = machine.before(Scope::Machine);

        machine.file("sys/block/md127/md/array_state", "active\n");

        assert_eq!(before.left(), [""; 0]);
    }
}
