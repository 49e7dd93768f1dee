// SPDX-License-Identifier: Apache-2.0
//! What a recorded application asked of its filesystem, repeated on a folder.
//!
//! `prepare` makes the folders and files that were there before. In `run` each thread of the recording has one that makes
//! its calls in their order. A call waits for the calls of other threads whose end its thread knew of when it began (a
//! message, a child's end, a lock), and then as long as the application did in between.

mod recording;
#[cfg(test)]
mod tests;
mod worker;

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use rustix::fs::OFlags;
use serde::Serialize;

use crate::buffer::Buffer;
use crate::clock::now_ns;
use crate::data::{ContentOptions, Source};
use crate::faults::{Fault, LoadError};
use crate::files::{create, write_from};
use crate::folder;
use crate::report::{self, RESULT_VERSION, Summaries, Summary, Tally};
use crate::threads;
use recording::{Before, Kind, Recording};
use worker::{Copy, Counted, PIECE_BYTES, Worker};

#[derive(Args)]
pub struct Options {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// Make the folders and files that were there before
    Prepare(Common),
    /// Repeat the calls
    Run(RunOptions),
}

#[derive(Args)]
struct Common {
    /// The folder of the application, which is made
    #[arg(long)]
    directory: PathBuf,
    /// What `strata record` wrote
    #[arg(long, value_name = "FILE")]
    calls: PathBuf,
    /// How often the application runs at the same time, each in a folder of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    copies: u32,
    /// The seed of the content
    #[arg(long)]
    seed: u64,
    #[command(flatten)]
    content: ContentOptions,
}

#[derive(Args)]
struct RunOptions {
    #[command(flatten)]
    common: Common,
    /// When a call begins
    #[arg(long, value_enum, default_value_t = Pace::Think)]
    timing: Pace,
    /// How many times as fast as in the recording, in thousandths
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    speed_thousandths: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Pace {
    /// As long after the calls that it followed as in the recording
    Think,
    /// At the recording's times
    Original,
    /// As soon as the calls that it followed have ended
    Asap,
}

#[derive(Serialize)]
struct Prepared {
    result_version: u32,
    load: &'static str,
    files: u64,
    bytes: u64,
    duration_ns: u64,
}

#[derive(Serialize)]
struct Outcome {
    result_version: u32,
    load: &'static str,
    duration_ns: u64,
    /// From the recording's begin to that of its last call, at the speed asked for.
    recorded_ns: u64,
    threads: usize,
    operations: Summaries,
    /// How much later than in the recording calls began; nothing at another timing.
    lag: Option<Summary>,
    /// Calls that succeeded in the recording and not here, and the first of them.
    failed: u64,
    first_failure: Option<String>,
    /// What the recorder could not see, by name.
    unseen: BTreeMap<String, u64>,
}

impl Common {
    fn recording(&self) -> Result<Recording, LoadError> {
        Recording::read(&self.calls).map_err(LoadError::Input)
    }

    fn folders(&self) -> Vec<PathBuf> {
        let numbered = |number: u32| self.directory.join(number.to_string());
        if self.copies == 1 { vec![self.directory.clone()] } else { (0..self.copies).map(numbered).collect() }
    }

    fn prepare(&self) -> Result<Prepared, LoadError> {
        let recording = self.recording()?;
        let begin_ns = now_ns();
        folder::empty(&self.directory)?;
        let mut source = Source::new(self.content.content(), self.seed, PIECE_BYTES);
        let (mut files, mut bytes) = (0, 0);
        for (copy, folder) in self.folders().iter().enumerate() {
            fs::create_dir_all(folder).map_err(|error| Fault::of_file(folder, "it cannot be made", error))?;
            for (number, (name, before)) in recording.paths.iter().enumerate() {
                let path = folder.join(name);
                let failed = |error: std::io::Error| Fault::of_file(&path, "it cannot be made", error);
                match before {
                    Before::Nothing => {}
                    Before::Folder => fs::create_dir_all(&path).map_err(failed)?,
                    Before::File { bytes: size } => {
                        fs::create_dir_all(path.parent().unwrap_or(folder)).map_err(failed)?;
                        source.restart((copy * recording.paths.len() + number) as u64);
                        let file = create(&c_path(&path), OFlags::WRONLY);
                        let written = file.and_then(|file| write_from(file, &mut source, *size, PIECE_BYTES));
                        written.map_err(|error| failed(error.into()))?;
                        (files, bytes) = (files + 1, bytes + size);
                    }
                }
            }
        }
        let (load, duration_ns) = ("calls-prepare", now_ns() - begin_ns);
        Ok(Prepared { result_version: RESULT_VERSION, load, files, bytes, duration_ns })
    }
}

/// A recording has no name with a NUL.
fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}

impl RunOptions {
    fn run(&self) -> Result<Outcome, LoadError> {
        let recording = self.common.recording()?;
        let folders = self.common.folders();
        let copy = |folder: &PathBuf| {
            let paths = recording.paths.iter().map(|(name, _)| c_path(&folder.join(name)));
            Copy::new(&recording, paths.collect())
        };
        let copies: Vec<_> = folders.iter().map(copy).collect();
        let (content, mut workers) = (self.common.content.content(), Vec::new());
        for (number, copy) in copies.iter().enumerate() {
            let seed = self.common.seed.wrapping_add(number as u64);
            workers.extend((0..recording.threads).map(|thread| Worker {
                copy,
                thread,
                pace: self.timing,
                speed_thousandths: self.speed_thousandths,
                begin_ns: 0,
                source: Source::new(content, seed, PIECE_BYTES),
                buffer: Buffer::new(PIECE_BYTES),
            }));
        }
        let (threads, begin_ns) = (workers.len(), now_ns());
        for worker in &mut workers {
            worker.begin_ns = begin_ns;
        }
        let counted = threads::all("--copies", workers, |worker, stop| Ok(worker.run(stop)))?;
        let duration_ns = now_ns() - begin_ns;
        let last_ns = recording.calls.last().map_or(0, |call| call.at_ns);
        let recorded_ns = u128::from(last_ns) * 1000 / u128::from(self.speed_thousandths);
        Ok(Outcome {
            result_version: RESULT_VERSION,
            load: "calls-run",
            duration_ns,
            recorded_ns: u64::try_from(recorded_ns).unwrap_or(u64::MAX),
            threads,
            operations: summaries(&recording, &counted),
            lag: (self.timing == Pace::Original)
                .then(|| Tally::sum(counted.iter().map(|each| &each.lag)).summary()),
            failed: counted.iter().map(|each| each.failed).sum(),
            first_failure: first_failure(&recording, &counted),
            unseen: recording.unseen,
        })
    }
}

fn summaries(recording: &Recording, counted: &[Counted]) -> Summaries {
    let kinds: BTreeMap<_, _> = recording.calls.iter().map(|call| (call.kind.name(), call.kind)).collect();
    let sum = |kind: Kind| Tally::sum(counted.iter().map(|each| &each.kinds[kind as usize])).summary();
    kinds.into_iter().map(|(name, kind)| (name.to_owned(), sum(kind))).collect()
}

fn first_failure(recording: &Recording, counted: &[Counted]) -> Option<String> {
    let (call, error) = counted.iter().filter_map(|each| each.first_failure).min_by_key(|each| each.0)?;
    Some(format!("call {call}, {}: {}", recording.calls[call].kind.name(), std::io::Error::from(error)))
}

pub fn run(options: &Options) -> Result<(), LoadError> {
    match &options.part {
        Part::Prepare(options) => report::print(&options.prepare()?),
        Part::Run(options) => report::print(&options.run()?),
    }
    Ok(())
}
