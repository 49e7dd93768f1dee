// SPDX-License-Identifier: Apache-2.0
//! Processor time on a host, and the lab's counts.

#![allow(clippy::cast_precision_loss, reason = "counts of operations are small")]

use std::collections::BTreeMap;
use std::fs;

use rustix::time::{ClockId, clock_gettime};

use crate::clock::NS_PER_S;

pub type Counts = BTreeMap<String, f64>;

/// Processor time so far of this process and of its children that have ended.
pub struct Usage {
    own_ns: u64,
    children_ns: u64,
}

impl Usage {
    pub fn now() -> Self {
        let own = clock_gettime(ClockId::ProcessCPUTime);
        let part = |value: i64| u64::try_from(value).unwrap_or(0);
        let mut children: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the structure is ours, and the call fills it.
        unsafe { libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut children) };
        let ns = |time: libc::timeval| part(time.tv_sec) * NS_PER_S + part(time.tv_usec) * 1000;
        Self {
            own_ns: part(own.tv_sec) * NS_PER_S + part(own.tv_nsec),
            children_ns: ns(children.ru_utime) + ns(children.ru_stime),
        }
    }

    pub fn since(&self, start: &Self) -> u64 {
        self.own_ns - start.own_ns + self.children_ns - start.children_ns
    }
}

/// Processor time of the kernel's threads that write back, keep journals and serve loop devices; 0 unless `wanted`.
pub fn kernel_threads_ns(wanted: bool) -> u64 {
    const NAMES: [&str; 6] = ["kworker", "loop", "jbd2", "btrfs", "xfs", "ksoftirqd"];
    if !wanted {
        return 0;
    }
    let running = |folder: fs::DirEntry| {
        let name = fs::read_to_string(folder.path().join("comm")).ok()?;
        // Only the kernel's threads have an empty command line.
        let is_kernels = fs::read(folder.path().join("cmdline")).ok()?.is_empty();
        let spent = fs::read_to_string(folder.path().join("schedstat")).ok()?;
        let is_one = is_kernels && NAMES.iter().any(|start| name.starts_with(start));
        is_one.then(|| spent.split(' ').next()?.parse::<u64>().ok()).flatten()
    };
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.filter_map(running).sum()
}

/// The lab's counts; nothing on a host.
pub fn counts() -> Counts {
    let said = fs::read_to_string("/proc/strata_cpu").unwrap_or_default();
    let pair = |line: &str| {
        let (name, value) = line.split_once(' ')?;
        Some((name.to_owned(), value.trim().parse().ok()?))
    };
    said.lines().filter_map(pair).collect()
}

/// The counts since `start` per repetition, less the cost of reading them.
pub fn counts_since(start: &Counts, times: u64) -> Counts {
    let (end, after) = (counts(), counts());
    let of = |counts: &Counts, name: &str| counts.get(name).copied().unwrap_or(0.0);
    let own = |name: &str| (of(&after, name) - of(&end, name)).max(0.0);
    end.keys()
        .map(|name| (name.clone(), (of(&end, name) - of(start, name) - own(name)).max(0.0) / times as f64))
        .collect()
}
