// SPDX-License-Identifier: Apache-2.0
//! The requests of a trace, a line each: nanoseconds, kind, offset, bytes, and the name of the disk.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::faults::Fault;

/// Larger ones no disk takes at once; a discard moves nothing.
const DATA_BYTES_MAX: usize = 256 << 20;
const FAULTS_MAX: usize = 20;
/// What is filled lies in whole areas of this size.
const AREA_BYTES: u64 = 1 << 20;

/// Which requests of which trace.
#[derive(Args)]
pub struct Selection {
    /// A line for each request: nanoseconds, kind, offset, bytes, disk
    #[arg(long, value_name = "FILE")]
    requests: PathBuf,
    /// The disk of the trace; a trace of one disk needs none; of several disks as many as targets, in their order
    #[arg(long = "disk", value_name = "NAME")]
    disks: Vec<String>,
    /// Leave out what is earlier than this time of the trace
    #[arg(long, default_value_t = 0)]
    from_ns: u64,
    /// Leave out what is not earlier than this time of the trace
    #[arg(long)]
    until_ns: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Read,
    Write,
    /// A write that is durable when it is complete.
    Fua,
    Flush,
    Discard,
}

impl Kind {
    pub const ALL: [Self; 5] = [Self::Read, Self::Write, Self::Fua, Self::Flush, Self::Discard];

    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Fua => "fua",
            Self::Flush => "flush",
            Self::Discard => "discard",
        }
    }

    pub fn writes(self) -> bool {
        matches!(self, Self::Write | Self::Fua)
    }

    fn has_data(self) -> bool {
        self == Self::Read || self.writes()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    pub at_ns: u64,
    pub kind: Kind,
    pub offset: u64,
    pub bytes: usize,
    /// Which of the targets.
    pub target: usize,
}

impl Request {
    /// The request of a line, and the name of its disk.
    fn parse(line: &str) -> Option<(Self, &str)> {
        let [at_ns, kind, offset, bytes, disk] = line.splitn(5, ' ').collect::<Vec<_>>().try_into().ok()?;
        let kind = Kind::ALL.into_iter().find(|each| each.name() == kind)?;
        let (at_ns, offset, bytes) = (at_ns.parse().ok()?, offset.parse().ok()?, bytes.parse().ok()?);
        let is_sound = if kind == Kind::Flush { bytes == 0 } else { bytes > 0 };
        let is_small = !kind.has_data() || bytes <= DATA_BYTES_MAX;
        (is_sound && is_small).then_some((Self { at_ns, kind, offset, bytes, target: 0 }, disk))
    }

    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.bytes as u64)
    }

    /// The request in whole blocks of a target that takes no others.
    fn aligned(self, block_bytes: u64) -> Self {
        let offset = self.offset / block_bytes * block_bytes;
        let bytes = (self.end() - offset).next_multiple_of(block_bytes);
        match self.kind {
            Kind::Flush | Kind::Discard => self,
            _ => Self { offset, bytes: usize::try_from(bytes).unwrap_or(self.bytes), ..self },
        }
    }
}

impl Selection {
    /// The requests in the order of their times, which count from the begin of the selection; else the mistakes.
    pub fn read(&self) -> Result<Vec<Request>, Vec<Fault>> {
        let path = &self.requests;
        let text = fs::read_to_string(path)
            .map_err(|error| vec![Fault::of_file(path, "the requests cannot be read", error)])?;
        let (mut requests, mut faults) = (Vec::new(), Vec::new());
        let mut disks: Vec<_> = self.disks.iter().map(String::as_str).collect();
        let until_ns = self.until_ns.unwrap_or(u64::MAX);
        // The lab gives the file as a disk: zeros fill its last sector.
        for (number, line) in text.trim_end_matches('\0').lines().enumerate() {
            let Some((request, disk)) = Request::parse(line) else {
                let remedy = "write for example \"1500 read 4096 8192 sda\"";
                faults.push(Fault::new(place(path, number), "it is no request", remedy));
                continue;
            };
            if disks.is_empty() {
                disks.push(disk);
            }
            let target = disks.iter().position(|each| *each == disk);
            if self.disks.is_empty() && target.is_none() {
                let cause = format!("the trace has another disk, {disk}");
                faults.push(Fault::new(place(path, number), cause, "choose one with --disk"));
                break;
            }
            if let Some(target) = target.filter(|_| (self.from_ns..until_ns).contains(&request.at_ns)) {
                requests.push(Request { at_ns: request.at_ns - self.from_ns, target, ..request });
            }
        }
        if requests.is_empty() && faults.is_empty() {
            let place = path.display().to_string();
            faults.push(Fault::new(place, "it has no such requests", "choose another disk or time"));
        }
        requests.sort_by_key(|each| each.at_ns);
        faults.truncate(FAULTS_MAX);
        if faults.is_empty() { Ok(requests) } else { Err(faults) }
    }

    /// The requests as targets of these sizes and blocks take them; else the mistake.
    pub fn fit(&self, requests: &mut [Request], sizes: &[Sizes]) -> Result<(), Fault> {
        for request in requests.iter_mut() {
            let Sizes { bytes, block_bytes } = sizes[request.target];
            *request = request.aligned(block_bytes);
            if request.end() > bytes {
                let path = self.requests.display().to_string();
                let cause = format!("a request ends at byte {}, and the target has {bytes}", request.end());
                return Err(Fault::new(path, cause, "give a larger device or file"));
            }
        }
        Ok(())
    }

    /// Whether there is a disk for each of several targets.
    pub fn check(&self, targets: usize) -> Result<(), Fault> {
        if self.disks.len() == targets || (targets == 1 && self.disks.is_empty()) {
            return Ok(());
        }
        let cause = format!("there are {targets} targets and {} disks", self.disks.len());
        Err(Fault::new("--disk", cause, "give the disk of the trace for each target, in the same order"))
    }
}

/// What a target takes.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub bytes: u64,
    pub block_bytes: u64,
}

fn place(path: &Path, number: usize) -> String {
    format!("{}:{}", path.display(), number + 1)
}

/// The areas that reads and writes of a target touch, in order, neighbours joined.
pub fn touched(requests: &[Request], target: usize) -> Vec<Range<u64>> {
    let mut areas: Vec<_> = requests
        .iter()
        .filter(|each| each.target == target && each.kind.has_data())
        .map(|each| {
            let last = each.end().checked_next_multiple_of(AREA_BYTES).unwrap_or(u64::MAX);
            each.offset / AREA_BYTES * AREA_BYTES..last
        })
        .collect();
    areas.sort_by_key(|each| each.start);
    areas.into_iter().fold(Vec::new(), |mut joined: Vec<Range<u64>>, area| {
        match joined.last_mut() {
            Some(last) if area.start <= last.end => last.end = last.end.max(area.end),
            _ => joined.push(area),
        }
        joined
    })
}
