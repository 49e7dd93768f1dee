// SPDX-License-Identifier: Apache-2.0
//! Fill and fragment: several writers fill large files, random extents are rewritten, one reader reads all linearly.
//!
//! Each part is an invocation of its own, so that something can happen between them: a snapshot, a drop of caches.
//! Writers are threads, each with its own opened file: the filesystem sees what it would see of processes.

mod fill;
mod read;
mod rewrite;

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use serde::Serialize;

use crate::clock::now_ns;
use crate::data::BLOCK_BYTES;
use crate::faults::{Fault, LoadError};
use crate::report::{self, RESULT_VERSION, Summaries, Tally};

#[derive(Args)]
pub struct Options {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// Write the files, all writers at once
    Fill(fill::Options),
    /// Rewrite extents at random places of the files
    Rewrite(rewrite::Options),
    /// Read the files one after the other, from end to end
    Read(read::Options),
}

/// The files, which every part must be given alike.
#[derive(Args)]
struct Layout {
    /// A folder on the measured filesystem; it is created if missing, and must be empty to be filled
    #[arg(long, value_name = "PATH")]
    directory: PathBuf,
    /// How many files, or how many writers of the joint one
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    files: u32,
    /// The size of each file, or of each writer's part of the joint one; a multiple of 4096
    #[arg(long, value_parser = whole_blocks)]
    file_bytes: u64,
    /// All writers write parts of one file
    #[arg(long)]
    joint: bool,
}

impl Layout {
    /// The file and the place in it where writer `number`'s bytes begin.
    fn part(&self, number: u32) -> (PathBuf, u64) {
        if self.joint {
            (self.directory.join("joint.data"), u64::from(number) * self.file_bytes)
        } else {
            (self.directory.join(format!("file-{number}.data")), 0)
        }
    }

    fn bytes(&self) -> u64 {
        u64::from(self.files) * self.file_bytes
    }

    /// Each writer's file, opened, and where its bytes begin.
    fn open(&self, flags: OFlags) -> Result<Vec<(Opened, u64)>, Fault> {
        let parts = (0..self.files).map(|number| self.part(number));
        parts.map(|(path, start)| Opened::new(path, flags).map(|opened| (opened, start))).collect()
    }
}

/// A file and its name, for a person.
struct Opened {
    path: PathBuf,
    file: OwnedFd,
}

impl Opened {
    fn new(path: PathBuf, flags: OFlags) -> Result<Self, Fault> {
        match open(&path, flags | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR) {
            Ok(file) => Ok(Self { path, file }),
            Err(error) => Err(fault(&path, "the file cannot be opened", error)),
        }
    }

    fn fault(&self, error: Errno) -> Fault {
        fault(&self.path, "the filesystem said", error)
    }

    fn sync(&self) -> Result<(), Fault> {
        rustix::fs::fsync(&self.file).map_err(|error| self.fault(error))
    }
}

fn fault(path: &Path, what: &str, error: Errno) -> Fault {
    let remedy = match error {
        Errno::NOSPC | Errno::DQUOT => "make the files smaller, or give them a larger filesystem",
        Errno::NOENT => "fill first, with the same files, and give a folder that is there",
        Errno::INVAL => "this filesystem does not take direct I/O of this size: leave --direct out",
        _ => "see the filesystem's error, and start again on an empty folder",
    };
    Fault::new(path.display().to_string(), format!("{what}: {error}"), remedy)
}

/// A part's result.
#[derive(Serialize)]
struct Outcome {
    result_version: u32,
    load: &'static str,
    bytes: u64,
    /// From the first operation to the end of the last.
    duration_ns: u64,
    /// The time of the final writeback.
    sync_ns: u64,
    operations: Summaries,
}

impl Outcome {
    fn new(load: &'static str, operation: &str, tally: &Tally, (duration_ns, sync_ns): (u64, u64)) -> Self {
        let operations = Summaries::from([(operation.to_owned(), tally.summary())]);
        Self { result_version: RESULT_VERSION, load, bytes: tally.bytes, duration_ns, sync_ns, operations }
    }
}

/// The result of `done`, and its duration in ns.
fn timed<T>(done: impl FnOnce() -> Result<T, Fault>) -> Result<(T, u64), Fault> {
    let start_ns = now_ns();
    let result = done()?;
    Ok((result, now_ns() - start_ns))
}

fn whole_blocks(text: &str) -> Result<u64, String> {
    match text.parse::<u64>() {
        Ok(bytes) if bytes > 0 && bytes % BLOCK_BYTES as u64 == 0 => Ok(bytes),
        _ => Err(format!("it must be a multiple of {BLOCK_BYTES}, from that on")),
    }
}

/// A number of bytes that a buffer is made of.
fn buffer_bytes(text: &str) -> Result<usize, String> {
    match whole_blocks(text)? {
        bytes @ ..=0x1000_0000 => Ok(usize::try_from(bytes).expect("it is small")),
        _ => Err("it must not be more than 256 MiB".to_owned()),
    }
}

/// Carry one part out and print its result.
pub fn run(options: &Options) -> Result<(), LoadError> {
    let outcome = match &options.part {
        Part::Fill(options) => options.run(),
        Part::Rewrite(options) => options.run(),
        Part::Read(options) => options.run(),
    };
    report::print(&outcome?);
    Ok(())
}

#[cfg(test)]
mod tests;
