// SPDX-License-Identifier: Apache-2.0
//! The requests of a trace, repeated on a block device or a file, or those of several disks on one each.
//!
//! `fill` writes what the trace reads or writes, so that no read meets a hole. In `run` as many threads as requests may be
//! in flight take them in the trace's order. A latency is from the system call's begin to its end; how much later than in
//! the trace a request began is its lag, counted apart.

mod requests;

use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use clap::{Args, Subcommand, ValueEnum};
use rustix::fs::{FallocateFlags, FileType, OFlags, SeekFrom, fallocate, fdatasync, fstat, seek};
use rustix::io::Errno;
use serde::Serialize;

use crate::buffer::Buffer;
use crate::clock::{now_ns, sleep_until_or};
use crate::data::{ContentOptions, Source};
use crate::faults::{Fault, LoadError};
use crate::files::{read_at, write_all_at};
use crate::report::{self, RESULT_VERSION, Summaries, Summary, Tally};
use crate::threads;
use requests::{Kind, Request, Selection, Sizes, touched};

/// `_IO(0x12, 119)` of linux/fs.h.
const BLKDISCARD: libc::c_ulong = 0x1277;
const FILL_BYTES: usize = 1 << 20;
/// Blocks of targets, from the smallest on.
const BLOCKS_BYTES: [usize; 6] = [512, 1024, 2048, 4096, 8192, 16384];

#[derive(Args)]
pub struct Options {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// Write whatever areas the trace reads or writes; a file is created
    Fill(FillOptions),
    /// Repeat the requests
    Run(RunOptions),
}

#[derive(Args)]
struct Common {
    /// The block device or file; several for several disks of the trace
    #[arg(long = "target", value_name = "PATH", required = true)]
    targets: Vec<PathBuf>,
    #[command(flatten)]
    selection: Selection,
    /// The seed of the content
    #[arg(long)]
    seed: u64,
    #[command(flatten)]
    content: ContentOptions,
}

#[derive(Args)]
struct FillOptions {
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct RunOptions {
    #[command(flatten)]
    common: Common,
    /// When a request begins
    #[arg(long, value_enum, default_value_t = Timing::Original)]
    timing: Timing,
    /// How many requests are in flight at the most
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..=1024))]
    queue_depth: u32,
    /// How many times as fast as in the trace requests begin, in thousandths
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    speed_thousandths: u64,
    /// Go through the page cache
    #[arg(long)]
    buffered: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Timing {
    /// At the trace's times
    Original,
    /// As soon as one before it is complete
    Asap,
}

/// What was filled.
#[derive(Serialize)]
struct Filled {
    result_version: u32,
    load: &'static str,
    requests: usize,
    bytes: u64,
    duration_ns: u64,
}

#[derive(Serialize)]
struct Outcome {
    result_version: u32,
    load: &'static str,
    /// From the first request to the end of the last.
    duration_ns: u64,
    /// Of the trace, at the speed asked for.
    trace_ns: u64,
    /// Requests were widened to whole blocks of this size, the largest of the targets'.
    block_bytes: u64,
    /// Discards that the target does not know.
    discards_ignored: u64,
    operations: Summaries,
    /// How much later than in the trace requests began; nothing without its times.
    lag: Option<Summary>,
}

/// What a thread counted, by kind.
struct Counted {
    kinds: Vec<Tally>,
    lag: Tally,
    discards_ignored: u64,
}

struct Worker<'a> {
    options: &'a RunOptions,
    requests: &'a [Request],
    next: &'a AtomicUsize,
    targets: &'a [Target],
    begin_ns: u64,
    source: Source,
    buffer: Buffer,
    counted: Counted,
}

impl Worker<'_> {
    fn run(mut self, is_stopped: &AtomicBool) -> Result<Counted, Fault> {
        let is_stopped = || is_stopped.load(Ordering::Relaxed);
        while !is_stopped() {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(request) = self.requests.get(number).copied() else { break };
            if self.options.timing == Timing::Original {
                let due_ns = self.begin_ns.saturating_add(self.options.due_ns(&request));
                let begun_ns = sleep_until_or(due_ns, is_stopped);
                if is_stopped() {
                    break;
                }
                self.counted.lag.record(0, begun_ns.saturating_sub(due_ns));
            }
            self.source.restart(number as u64);
            let start_ns = now_ns();
            match self.issue(&request) {
                // As a filesystem does it: a disk that cannot discard is not asked to.
                Err(error) if request.kind == Kind::Discard && is_unknown(&error) => {
                    self.counted.discards_ignored += 1;
                    continue;
                }
                done => done.map_err(|error| self.options.refused(&request, &error))?,
            }
            self.counted.kinds[request.kind as usize].record(request.bytes as u64, now_ns() - start_ns);
        }
        Ok(self.counted)
    }

    fn issue(&mut self, request: &Request) -> io::Result<()> {
        let Request { offset, bytes, .. } = *request;
        let Target { file, is_device, .. } = &self.targets[request.target];
        match request.kind {
            Kind::Read => {
                if read_at(file, &mut self.buffer[..bytes], offset)? < bytes {
                    return Err(io::ErrorKind::UnexpectedEof.into());
                }
            }
            Kind::Write => write_all_at(file, self.source.next(bytes), offset)?,
            // As a disk without FUA does it: the write, then a flush.
            Kind::Fua => {
                write_all_at(file, self.source.next(bytes), offset)?;
                fdatasync(file)?;
            }
            Kind::Flush => fdatasync(file)?,
            Kind::Discard => discard(file, *is_device, offset, bytes as u64)?,
        }
        Ok(())
    }
}

fn discard(target: &OwnedFd, is_device: bool, offset: u64, bytes: u64) -> io::Result<()> {
    if !is_device {
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        return Ok(fallocate(target, hole, offset, bytes)?);
    }
    let range = [offset, bytes];
    // SAFETY: BLKDISCARD reads two 64-bit numbers, which outlive the call.
    match unsafe { libc::ioctl(target.as_raw_fd(), BLKDISCARD as _, range.as_ptr()) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn is_unknown(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::EOPNOTSUPP)
}

struct Target {
    file: OwnedFd,
    is_device: bool,
    bytes: u64,
}

impl Target {
    fn open(path: &Path, flags: OFlags) -> Result<Self, Fault> {
        let opened = rustix::fs::open(path, flags | OFlags::CLOEXEC, 0o644.into());
        let looked = opened.and_then(|file| {
            let is_device = FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::BlockDevice;
            let bytes = seek(&file, SeekFrom::End(0))?;
            Ok::<_, Errno>(Self { file, is_device, bytes })
        });
        looked.map_err(|error| Fault::of_file(path, "the target cannot be used", error))
    }
}

impl Common {
    fn source(&self, bytes_max: usize) -> Source {
        Source::new(self.content.content(), self.seed, bytes_max)
    }

    fn requests(&self) -> Result<Vec<Request>, LoadError> {
        self.selection.check(self.targets.len()).map_err(wrong)?;
        self.selection.read().map_err(LoadError::Input)
    }
}

fn wrong(fault: Fault) -> LoadError {
    LoadError::Input(vec![fault])
}

impl FillOptions {
    fn run(&self) -> Result<Filled, LoadError> {
        let mut requests = self.common.requests()?;
        let begin_ns = now_ns();
        let (mut targets, mut sizes) = (Vec::new(), Vec::new());
        for path in &self.common.targets {
            // To create a device would fail; to open one needs no such flag.
            let flags = if path.exists() { OFlags::RDWR } else { OFlags::RDWR | OFlags::CREATE };
            let target = Target::open(path, flags)?;
            let bytes = if target.is_device { target.bytes } else { u64::MAX };
            sizes.push(Sizes { bytes, block_bytes: 1 });
            targets.push(target);
        }
        self.common.selection.fit(&mut requests, &sizes).map_err(wrong)?;
        let mut source = self.common.source(FILL_BYTES);
        let mut bytes = 0;
        for (number, (target, path)) in targets.iter().zip(&self.common.targets).enumerate() {
            let failed = |error| Fault::of_file(path, "it cannot be filled", error);
            for area in touched(&requests, number) {
                let end = area.end.min(sizes[number].bytes);
                fill(&target.file, &mut source, area.start..end).map_err(failed)?;
                bytes += end - area.start;
            }
            fdatasync(&target.file).map_err(failed)?;
        }
        let duration_ns = now_ns() - begin_ns;
        let load = "replay-fill";
        Ok(Filled { result_version: RESULT_VERSION, load, requests: requests.len(), bytes, duration_ns })
    }
}

fn fill(target: &OwnedFd, source: &mut Source, area: Range<u64>) -> Result<(), Errno> {
    let mut offset = area.start;
    while offset < area.end {
        let piece = FILL_BYTES.min(usize::try_from(area.end - offset).unwrap_or(FILL_BYTES));
        write_all_at(target, source.next(piece), offset)?;
        offset += piece as u64;
    }
    Ok(())
}

/// The smallest block that the target reads; of a target without any, the caller's requests tell the error.
fn block_bytes(target: &OwnedFd) -> u64 {
    let takes = |bytes: &usize| read_at(target, &mut Buffer::new(*bytes), 0) != Err(Errno::INVAL);
    BLOCKS_BYTES.into_iter().find(takes).unwrap_or(BLOCKS_BYTES[0]) as u64
}

impl RunOptions {
    /// When a request is due, after the first.
    fn due_ns(&self, request: &Request) -> u64 {
        let due_ns = u128::from(request.at_ns) * 1000 / u128::from(self.speed_thousandths);
        u64::try_from(due_ns).unwrap_or(u64::MAX)
    }

    fn refused(&self, request: &Request, error: &io::Error) -> Fault {
        let target = self.common.targets[request.target].display();
        let place = format!("{target}: {} at byte {}", request.kind.name(), request.offset);
        Fault::new(place, format!("the request failed: {error}"), "see the kernel's error")
    }

    fn run(&self) -> Result<Outcome, LoadError> {
        let mut requests = self.common.requests()?;
        let direct = if self.buffered { OFlags::empty() } else { OFlags::DIRECT };
        let (mut targets, mut sizes) = (Vec::new(), Vec::new());
        for path in &self.common.targets {
            let target = Target::open(path, OFlags::RDWR | direct)?;
            let block_bytes = if self.buffered { 1 } else { block_bytes(&target.file) };
            sizes.push(Sizes { bytes: target.bytes, block_bytes });
            targets.push(target);
        }
        self.common.selection.fit(&mut requests, &sizes).map_err(wrong)?;
        let block_bytes = sizes.iter().map(|each| each.block_bytes).max().unwrap_or(1);
        let bytes_max = |takes: fn(Kind) -> bool| {
            requests.iter().filter(|each| takes(each.kind)).map(|each| each.bytes).max().unwrap_or(0)
        };
        let write_bytes = bytes_max(Kind::writes);
        let read_bytes = bytes_max(|kind| kind == Kind::Read);
        let (next, mut workers) = (AtomicUsize::new(0), Vec::new());
        for _ in 0..self.queue_depth {
            workers.push(Worker {
                options: self,
                requests: &requests,
                next: &next,
                targets: &targets,
                begin_ns: 0,
                source: self.common.source(write_bytes),
                buffer: Buffer::new(read_bytes),
                counted: Counted {
                    kinds: Kind::ALL.map(|_| Tally::new()).into(),
                    lag: Tally::new(),
                    discards_ignored: 0,
                },
            });
        }
        let begin_ns = now_ns();
        for worker in &mut workers {
            worker.begin_ns = begin_ns;
        }
        let counted = threads::all("--queue-depth", workers, Worker::run)?;
        Ok(self.outcome(&counted, now_ns() - begin_ns, &requests, block_bytes))
    }

    fn outcome(
        &self,
        counted: &[Counted],
        duration_ns: u64,
        requests: &[Request],
        block_bytes: u64,
    ) -> Outcome {
        let sums = Kind::ALL
            .into_iter()
            .map(|kind| (kind, Tally::sum(counted.iter().map(|each| &each.kinds[kind as usize]))));
        let operations = sums.filter(|(_, tally)| tally.count > 0);
        let is_timed = self.timing == Timing::Original;
        Outcome {
            result_version: RESULT_VERSION,
            load: "replay-run",
            block_bytes,
            discards_ignored: counted.iter().map(|each| each.discards_ignored).sum(),
            duration_ns,
            trace_ns: requests.last().map_or(0, |last| self.due_ns(last)),
            operations: operations.map(|(kind, tally)| (kind.name().to_owned(), tally.summary())).collect(),
            lag: is_timed.then(|| Tally::sum(counted.iter().map(|each| &each.lag)).summary()),
        }
    }
}

/// Do one part and print its result.
pub fn run(options: &Options) -> Result<(), LoadError> {
    match &options.part {
        Part::Fill(options) => report::print(&options.run()?),
        Part::Run(options) => report::print(&options.run()?),
    }
    Ok(())
}

#[cfg(test)]
mod tests;
