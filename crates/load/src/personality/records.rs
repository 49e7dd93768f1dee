// SPDX-License-Identifier: Apache-2.0
//! A personality: sets of files, and groups of threads that go through a loop of operations on them.

use clap::Args;
use serde::{Deserialize, Serialize};

use crate::faults::Fault;

/// How many files a thread can have open: the `fd` of an operation is below it.
pub const SLOTS: usize = 16;

#[derive(Debug, Clone)]
pub struct Personality {
    pub name: String,
    pub sets: Vec<SetSpec>,
    pub groups: Vec<Group>,
}

/// A set of files in a tree of directories, as filebench's `define fileset`.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SetSpec {
    pub name: String,
    /// Existing and not yet existing ones.
    pub files: u64,
    /// Their mean size.
    pub file_bytes: u64,
    /// Shape of the gamma distribution of sizes; 0: all have the mean size.
    pub file_shape: f64,
    /// Mean number of entries of a directory.
    pub directory_width: u64,
    /// Shape of the gamma distribution of width and depth; 0: all have the mean.
    pub directory_shape: f64,
    /// The chance of a file to exist at the start.
    pub preallocated_percent: u64,
    pub read_only: bool,
    /// Whether `--files` changes it.
    #[serde(skip)]
    pub scales: bool,
}

/// Threads with the same loop.
#[derive(Debug, Clone)]
pub struct Group {
    pub name: String,
    pub threads: u64,
    pub scales: bool,
    pub steps: Vec<Step>,
}

/// One operation of a loop. `fd` is a slot for an open file, `set` the index of the set that files are taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    Create {
        set: usize,
        fd: usize,
    },
    Open {
        set: usize,
        fd: usize,
    },
    Close {
        fd: usize,
    },
    Delete {
        set: usize,
    },
    Stat {
        set: usize,
    },
    Fsync {
        fd: usize,
    },
    ReadWhole {
        fd: usize,
        bytes: usize,
    },
    WriteWhole {
        fd: usize,
        bytes: usize,
    },
    Append(Piece),
    Read(Piece),
    Write(Piece),
    /// No operation: waits.
    Delay {
        time_ns: u64,
    },
    /// No operation: wait until the group's reads and writes are within this rate.
    Limit {
        bytes_per_s: u64,
    },
}

/// Data to be appended, read or written at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    pub fd: usize,
    /// If nothing is open, a file of this set is opened first and stays open.
    pub set: Option<usize>,
    pub bytes: usize,
    /// At a random place; for an append, of a random size in [0, `bytes` - 1]. Other reads restart at the end of the file.
    pub random: bool,
}

/// The kinds that are counted and timed apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Create,
    Open,
    Close,
    Delete,
    Stat,
    Fsync,
    ReadWhole,
    WriteWhole,
    Append,
    Read,
    Write,
}

impl Kind {
    /// All kinds with their names, in order.
    pub const ALL: [(Self, &str); 11] = [
        (Self::Create, "create"),
        (Self::Open, "open"),
        (Self::Close, "close"),
        (Self::Delete, "delete"),
        (Self::Stat, "stat"),
        (Self::Fsync, "fsync"),
        (Self::ReadWhole, "read_whole"),
        (Self::WriteWhole, "write_whole"),
        (Self::Append, "append"),
        (Self::Read, "read"),
        (Self::Write, "write"),
    ];

    pub fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }

    pub fn is_read(self) -> bool {
        matches!(self, Self::ReadWhole | Self::Read)
    }
}

impl Step {
    pub fn kind(self) -> Option<Kind> {
        Some(match self {
            Self::Create { .. } => Kind::Create,
            Self::Open { .. } => Kind::Open,
            Self::Close { .. } => Kind::Close,
            Self::Delete { .. } => Kind::Delete,
            Self::Stat { .. } => Kind::Stat,
            Self::Fsync { .. } => Kind::Fsync,
            Self::ReadWhole { .. } => Kind::ReadWhole,
            Self::WriteWhole { .. } => Kind::WriteWhole,
            Self::Append(_) => Kind::Append,
            Self::Read(_) => Kind::Read,
            Self::Write(_) => Kind::Write,
            Self::Delay { .. } | Self::Limit { .. } => return None,
        })
    }

    /// The largest piece that it reads and that it writes.
    pub fn buffers(self) -> (usize, usize) {
        match self {
            Self::ReadWhole { bytes, .. } | Self::Read(Piece { bytes, .. }) => (bytes, 0),
            Self::WriteWhole { bytes, .. }
            | Self::Append(Piece { bytes, .. })
            | Self::Write(Piece { bytes, .. }) => (0, bytes),
            _ => (0, 0),
        }
    }
}

impl Group {
    /// How many operations a pass through the loop issues, if none is left out.
    pub fn operations(&self) -> usize {
        self.steps.iter().filter(|step| step.kind().is_some()).count()
    }
}

/// Values that replace the definition's.
#[derive(Args, Debug, Clone, Default)]
pub struct Overrides {
    /// Files of the first set; the others that scale are scaled with it
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    pub files: Option<u64>,
    /// Threads of the largest group; the others that scale are scaled with it
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub threads: Option<u64>,
    /// Mean size of a file
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(0..=1 << 50))]
    pub file_bytes: Option<u64>,
    /// Mean number of entries of a directory
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(2..=1_000_000_000))]
    pub directory_width: Option<u64>,
    /// Largest piece that is read or written at once
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub io_bytes: Option<u64>,
    /// An append is smaller than this
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u64).range(1..=1 << 30))]
    pub append_bytes: Option<u64>,
    /// How many of 100 files exist at the start
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(0..=100))]
    pub preallocated_percent: Option<u64>,
}

/// A value that is not the definition's.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub struct Departure {
    /// `bigfileset.files`, `filereaderthread.threads`.
    pub what: String,
    pub definition: u64,
    pub here: u64,
}

impl Overrides {
    /// Change the personality; returns the departures from its definition.
    pub fn apply(&self, personality: &mut Personality) -> Result<Vec<Departure>, Fault> {
        let mut departures = Vec::new();
        let mut change = |what: String, value: &mut u64, here: u64| {
            if *value != here {
                departures.push(Departure { what, definition: *value, here });
                *value = here;
            }
        };
        if let Some(files) = self.files {
            let lead = personality.sets.iter().find(|set| set.scales).map(|set| set.files);
            let lead = lead.ok_or_else(|| nothing_scales("--files", "set"))?;
            for set in personality.sets.iter_mut().filter(|set| set.scales) {
                let here = scaled(set.files, files, lead);
                change(format!("{}.files", set.name), &mut set.files, here);
            }
        }
        if let Some(threads) = self.threads {
            let lead =
                personality.groups.iter().filter(|group| group.scales).map(|group| group.threads).max();
            let lead = lead.ok_or_else(|| nothing_scales("--threads", "group of threads"))?;
            for group in personality.groups.iter_mut().filter(|group| group.scales) {
                let here = scaled(group.threads, threads, lead);
                change(format!("{}.threads", group.name), &mut group.threads, here);
            }
        }
        for set in &mut personality.sets {
            if let Some(bytes) = self.file_bytes {
                change(format!("{}.file_bytes", set.name), &mut set.file_bytes, bytes);
            }
            if let Some(width) = self.directory_width {
                change(format!("{}.directory_width", set.name), &mut set.directory_width, width);
            }
            if let Some(percent) = self.preallocated_percent.filter(|_| set.scales) {
                change(format!("{}.preallocated_percent", set.name), &mut set.preallocated_percent, percent);
            }
        }
        for group in &mut personality.groups {
            for (index, step) in group.steps.iter_mut().enumerate() {
                let (value, here) = match step {
                    Step::Append(Piece { bytes, .. }) => (bytes, self.append_bytes),
                    Step::ReadWhole { bytes, .. }
                    | Step::WriteWhole { bytes, .. }
                    | Step::Read(Piece { bytes, .. })
                    | Step::Write(Piece { bytes, .. }) => (bytes, self.io_bytes),
                    _ => continue,
                };
                if let Some(here) = here {
                    let mut wide = *value as u64;
                    change(format!("{}.loop[{index}].bytes", group.name), &mut wide, here);
                    *value = usize::try_from(wide).unwrap_or(usize::MAX);
                }
            }
        }
        Ok(departures)
    }
}

fn nothing_scales(option: &str, what: &str) -> Fault {
    Fault::new(
        option,
        format!("no {what} of this personality scales"),
        "leave it out, or edit the personality's file",
    )
}

/// Scaled like the leading group, at least 1.
fn scaled(value: u64, lead_here: u64, lead: u64) -> u64 {
    let wide = u128::from(value) * u128::from(lead_here) / u128::from(lead.max(1));
    u64::try_from(wide).unwrap_or(u64::MAX).max(1)
}
