// SPDX-License-Identifier: Apache-2.0
//! Samples taken beside the steps: block devices, filesystems, memory, processor time.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use crate::plan::program::Disk;
use crate::report::events::{CpuReading, DiskReading, MemoryReading};
use crate::system::clock;

const SECTOR_BYTES: u64 = 512;
const NS_PER_MS: u64 = clock::NS_PER_MS;
/// The applications' requests to each filesystem, in the lab's kernel (kernel/patches).
const FILESYSTEMS: &str = "/proc/strata_filesystems";
/// The work of the lab's processors, in the lab's kernel.
const PROCESSOR: &str = "/proc/strata_cpu";
/// `USER_HZ`, the unit of /proc/stat, is 100 on every architecture that Strata runs on.
const NS_PER_TICK: u64 = 10_000_000;

#[derive(Debug)]
pub struct Monitors {
    disks: Vec<Disk>,
    /// The block devices that steps have found, such as partitions.
    found: Vec<Disk>,
    interval_ns: u64,
    /// When the next sample is due; None before the plan starts.
    pub next_ns: Option<u64>,
}

/// The applications' requests to one filesystem since it was mounted.
#[derive(Debug, PartialEq, Eq)]
pub struct Filesystem {
    /// The plan's name of the disk or found device that it is mounted from, or the kernel's name of another.
    pub name: String,
    /// Its type, such as ext4.
    pub kind: String,
    pub account: BTreeMap<String, u64>,
}

impl Monitors {
    pub fn new(disks: Vec<Disk>, interval_ns: u64) -> Self {
        Self { disks, found: Vec::new(), interval_ns, next_ns: None }
    }

    /// A step has bound a value to a variable: if it is a block device, its filesystem is called after that.
    pub fn bound(&mut self, name: &str, value: &str) {
        self.found.retain(|device| device.name != name);
        let Some(metadata) = value.starts_with('/').then(|| fs::metadata(value).ok()).flatten() else {
            return;
        };
        if !metadata.file_type().is_block_device() {
            return;
        }
        let (major, minor) = (libc::major(metadata.rdev()), libc::minor(metadata.rdev()));
        let Ok(link) = fs::read_link(format!("/sys/dev/block/{major}:{minor}")) else { return };
        if let Some(stat_name) = link.file_name() {
            let stat_name = stat_name.to_string_lossy().into_owned();
            self.found.push(Disk { name: name.to_owned(), stat_name });
        }
    }

    /// Start sampling at the interval.
    pub fn start(&mut self) {
        self.next_ns = Some(clock::monotonic_ns().saturating_add(self.interval_ns));
    }

    /// Whether a sample is due; if so, the next one is an interval later. Missed ones are not made up for.
    pub fn is_due(&mut self, now_ns: u64) -> bool {
        match self.next_ns {
            Some(next_ns) if now_ns >= next_ns => {
                let missed = (now_ns - next_ns) / self.interval_ns;
                self.next_ns = Some(next_ns.saturating_add((missed + 1).saturating_mul(self.interval_ns)));
                true
            }
            _ => false,
        }
    }

    /// One reading of everything. A disk that is gone is left out.
    pub fn read(&self) -> (BTreeMap<&str, DiskReading>, MemoryReading, CpuReading) {
        let disks = self.disks.iter().filter_map(|disk| {
            let stat = fs::read_to_string(format!("/sys/block/{}/stat", disk.stat_name)).ok()?;
            Some((disk.name.as_str(), parse_disk(&stat)))
        });
        let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let cpu = fs::read_to_string("/proc/stat").unwrap_or_default();
        (disks.collect(), parse_memory(&memory), parse_cpu(&cpu))
    }

    /// The accounts of the disks that keep one: modelled disks do.
    pub fn accounts(&self) -> Vec<(&str, BTreeMap<String, u64>)> {
        let accounts = self.disks.iter().filter_map(|disk| {
            let account = fs::read_to_string(format!("/sys/block/{}/account", disk.stat_name)).ok()?;
            Some((disk.name.as_str(), parse_account(&account)))
        });
        accounts.collect()
    }

    /// The accounts of the mounted filesystems, where the kernel keeps them.
    pub fn filesystems(&self) -> Vec<Filesystem> {
        let text = fs::read_to_string(FILESYSTEMS).unwrap_or_default();
        text.lines().filter_map(|line| self.parse_filesystem(line)).collect()
    }

    /// The account of the lab's processors; empty elsewhere.
    pub fn processor() -> BTreeMap<String, u64> {
        parse_account(&fs::read_to_string(PROCESSOR).unwrap_or_default())
    }

    /// A line is a name, a type, and pairs of a key and a number.
    fn parse_filesystem(&self, line: &str) -> Option<Filesystem> {
        let mut words = line.split_whitespace();
        let (device, kind) = (words.next()?, words.next()?);
        let disk = self.disks.iter().chain(&self.found).find(|disk| disk.stat_name == device);
        let mut account = BTreeMap::new();
        while let (Some(key), Some(value)) = (words.next(), words.next()) {
            account.insert(key.to_owned(), value.parse().ok()?);
        }
        let name = disk.map_or(device, |disk| &disk.name).to_owned();
        Some(Filesystem { name, kind: kind.to_owned(), account })
    }
}

/// Documentation/admin-guide/iostats.rst: fields in order, times in milliseconds.
fn parse_disk(stat: &str) -> DiskReading {
    let fields: Vec<u64> = stat.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    let field = |number: usize| fields.get(number - 1).copied().unwrap_or(0);
    DiskReading {
        reads: field(1),
        read_bytes: field(3) * SECTOR_BYTES,
        read_ns: field(4) * NS_PER_MS,
        writes: field(5),
        write_bytes: field(7) * SECTOR_BYTES,
        write_ns: field(8) * NS_PER_MS,
        in_flight: field(9),
        busy_ns: field(10) * NS_PER_MS,
        discards: field(12),
        flushes: field(16),
        flush_ns: field(17) * NS_PER_MS,
    }
}

fn parse_memory(meminfo: &str) -> MemoryReading {
    let bytes = |wanted: &str| {
        meminfo.lines().find_map(|line| {
            let (name, rest) = line.split_once(':')?;
            (name == wanted).then(|| rest.split_whitespace().next()?.parse::<u64>().ok())?
        })
    };
    let bytes = |wanted| bytes(wanted).unwrap_or(0) * 1024;
    MemoryReading {
        total_bytes: bytes("MemTotal"),
        dirty_bytes: bytes("Dirty"),
        writeback_bytes: bytes("Writeback"),
        cached_bytes: bytes("Cached"),
        available_bytes: bytes("MemAvailable"),
    }
}

/// `proc_stat(5)`: user nice system idle iowait irq softirq.
fn parse_cpu(stat: &str) -> CpuReading {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or("");
    let ticks: Vec<u64> = line.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    let time_ns = |at: usize| ticks.get(at).copied().unwrap_or(0) * NS_PER_TICK;
    CpuReading {
        user_ns: time_ns(0) + time_ns(1),
        system_ns: time_ns(2) + time_ns(5) + time_ns(6),
        idle_ns: time_ns(3),
        iowait_ns: time_ns(4),
    }
}

fn parse_account(text: &str) -> BTreeMap<String, u64> {
    text.lines()
        .filter_map(|line| {
            let (key, value) = line.split_once(char::is_whitespace)?;
            Some((key.to_owned(), value.trim().parse().ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_devices_statistics_come_in_bytes_and_nanoseconds() {
        let stat = "  10  1  80  5  20  2  160  7  3  11  12  4  0  64  1  6  9\n";

        let disk = parse_disk(stat);

        assert_eq!((disk.reads, disk.read_bytes, disk.read_ns), (10, 40_960, 5_000_000));
        assert_eq!((disk.writes, disk.write_bytes, disk.write_ns), (20, 81_920, 7_000_000));
        assert_eq!((disk.in_flight, disk.busy_ns, disk.discards), (3, 11_000_000, 4));
        assert_eq!((disk.flushes, disk.flush_ns), (6, 9_000_000));
    }

    #[test]
    fn an_old_kernels_shorter_statistics_leave_zeros() {
        assert_eq!(parse_disk("1 0 8 0 2 0 16 0 0 3 3").flushes, 0);
    }

    #[test]
    fn memory_and_processor_time_are_found_by_name_and_place() {
        let memory = parse_memory(
            "MemTotal: 9 kB\nMemAvailable: 4 kB\nCached: 3 kB\nDirty: 2 kB\nWriteback: 1 kB\nWritebackTmp: 8 kB\n",
        );
        let cpu = parse_cpu("cpu  1 2 3 4 5 6 7 0 0 0\ncpu0 9 9 9 9 9 9 9\n");

        assert_eq!(
            memory,
            MemoryReading {
                total_bytes: 9216,
                dirty_bytes: 2048,
                writeback_bytes: 1024,
                cached_bytes: 3072,
                available_bytes: 4096
            }
        );
        assert_eq!(
            cpu,
            CpuReading {
                user_ns: 30_000_000,
                system_ns: 160_000_000,
                idle_ns: 40_000_000,
                iowait_ns: 50_000_000
            }
        );
    }

    #[test]
    fn an_account_is_any_keys_with_numbers() {
        let account = parse_account("reads 3\nseek_ns 12000\nmodel rotating\n");

        assert_eq!(account, BTreeMap::from([("reads".to_owned(), 3), ("seek_ns".to_owned(), 12_000)]));
    }

    #[test]
    fn a_filesystem_is_called_after_the_plans_disk_that_it_is_on() {
        let disks = vec![Disk { name: "disk0".to_owned(), stat_name: "sda".to_owned() }];
        let mut monitors = Monitors::new(disks, 10);
        monitors.found.push(Disk { name: "disk0.log".to_owned(), stat_name: "dm-1".to_owned() });
        let account = BTreeMap::from(
            [("write_bytes", 4096), ("writes", 2)].map(|(key, value)| (key.to_owned(), value)),
        );

        let on_disk = monitors.parse_filesystem("sda ext4 writes 2 write_bytes 4096").unwrap();
        let on_partition = monitors.parse_filesystem("dm-1 ext4 writes 1").unwrap();
        let on_volume = monitors.parse_filesystem("dm-0 xfs writes 7").unwrap();

        assert_eq!(on_disk, Filesystem { name: "disk0".to_owned(), kind: "ext4".to_owned(), account });
        assert_eq!(on_partition.name, "disk0.log");
        assert_eq!((on_volume.name.as_str(), on_volume.account["writes"]), ("dm-0", 7));
        assert_eq!(monitors.parse_filesystem("sda ext4 writes many"), None);
    }

    #[test]
    fn samples_keep_to_the_interval_and_missed_ones_are_skipped() {
        let mut monitors = Monitors::new(Vec::new(), 10);
        monitors.next_ns = Some(10);

        assert!(!monitors.is_due(9));
        assert!(monitors.is_due(10));
        assert!(!monitors.is_due(19));
        assert!(monitors.is_due(57));
        assert_eq!(monitors.next_ns, Some(60));
    }
}
