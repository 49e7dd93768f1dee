// SPDX-License-Identifier: Apache-2.0
//! Storms of small files: several threads create, stat, read or delete them as fast as they can.
//!
//! Each part is an invocation of its own, so that the caches can be dropped between them. File `i` is in folder `i` modulo
//! the number of folders, and thread `t` of `n` is at the files `t`, `t + n`, `t + 2n`, …

mod parts;

use std::ffi::CString;
use std::fs;
use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use rustix::fs::syncfs;
use serde::Serialize;

use crate::clock::now_ns;
use crate::data::ContentOptions;
use crate::faults::{Fault, LoadError};
use crate::folder;
use crate::random::Random;
use crate::report::{self, RESULT_VERSION, Summaries, Tally};
use crate::threads;
use parts::Worker;

#[derive(Args)]
pub struct Options {
    #[command(subcommand)]
    part: Part,
}

#[derive(Subcommand)]
enum Part {
    /// Make the folders, and create and write the files
    Create(CreateOptions),
    /// Look at every file's inode
    Stat(OrderOptions),
    /// Open every file and read it to its end
    Read(OrderOptions),
    /// Delete every file
    Delete(OrderOptions),
}

/// The files, which every part must be given alike.
#[derive(Args)]
struct Files {
    /// A folder on the measured filesystem; `create` makes it, or requires it to be empty
    #[arg(long, value_name = "PATH")]
    directory: PathBuf,
    /// The seed of content and orders
    #[arg(long)]
    seed: u64,
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    files: u32,
    /// How many folders they are in
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    folders: u32,
}

#[derive(Args)]
struct CreateOptions {
    #[command(flatten)]
    files: Files,
    /// The size of each file; 0 for empty ones
    #[arg(long, default_value_t = 4096, value_parser = clap::value_parser!(u32).range(..=1 << 30))]
    file_bytes: u32,
    /// Force out each file before it is closed
    #[arg(long)]
    fsync: bool,
    #[command(flatten)]
    content: ContentOptions,
}

#[derive(Args)]
struct OrderOptions {
    #[command(flatten)]
    files: Files,
    #[arg(long, value_enum, default_value_t = Order::Random)]
    order: Order,
}

/// In which order a thread goes through its files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Order {
    /// As they were created
    Created,
    /// Drawn from the seed, anew for each part
    Random,
}

/// A part's result.
#[derive(Serialize)]
struct Outcome {
    result_version: u32,
    load: String,
    files: u64,
    bytes: u64,
    /// From the first operation to the end of the last.
    duration_ns: u64,
    /// The time of the final writeback, if something was written.
    sync_ns: u64,
    operations: Summaries,
}

impl Part {
    fn name(&self) -> &'static str {
        match self {
            Self::Create(_) => "create",
            Self::Stat(_) => "stat",
            Self::Read(_) => "read",
            Self::Delete(_) => "delete",
        }
    }

    fn files(&self) -> &Files {
        match self {
            Self::Create(options) => &options.files,
            Self::Stat(options) | Self::Read(options) | Self::Delete(options) => &options.files,
        }
    }

    fn changes(&self) -> bool {
        matches!(self, Self::Create(_) | Self::Delete(_))
    }

    /// The numbers of the files that a thread is at, in its order.
    fn order(&self, thread: u32) -> Vec<u32> {
        let files = self.files();
        let mut numbers: Vec<u32> = (thread..files.files).step_by(files.threads as usize).collect();
        let (Self::Stat(options) | Self::Read(options) | Self::Delete(options)) = self else {
            return numbers;
        };
        if options.order == Order::Random {
            Random::derived(files.seed, self.name(), u64::from(thread)).shuffle(&mut numbers);
        }
        numbers
    }

    fn run(&self) -> Result<Outcome, Fault> {
        let files = self.files();
        let unusable = |error| Fault::of_file(&files.directory, "the folder cannot be used", error);
        let directory = match self {
            Self::Create(_) => folder::empty(&files.directory)?,
            _ => folder::existing(&files.directory)?,
        };
        if matches!(self, Self::Create(_)) {
            for folder in 0..files.folders {
                fs::create_dir(files.directory.join(folder_name(folder))).map_err(unusable)?;
            }
        }
        let workers: Result<Vec<Worker>, Fault> =
            (0..files.threads).map(|thread| Worker::new(self, thread)).collect();
        let workers = workers?;
        let start_ns = now_ns();
        let tallies = threads::all("--threads", workers, Worker::run)?;
        let end_ns = now_ns();
        let tally = Tally::sum(&tallies);
        if self.changes() {
            syncfs(&directory).map_err(|error| unusable(error.into()))?;
        }
        Ok(Outcome {
            result_version: RESULT_VERSION,
            load: format!("storm-{}", self.name()),
            files: tally.count,
            bytes: tally.bytes,
            duration_ns: end_ns - start_ns,
            sync_ns: if self.changes() { now_ns() - end_ns } else { 0 },
            operations: Summaries::from([(self.name().to_owned(), tally.summary())]),
        })
    }
}

fn folder_name(folder: u32) -> String {
    format!("{folder:06}")
}

impl Files {
    fn path(&self, number: u32) -> CString {
        let path = format!("{}/{number:08}", folder_name(number % self.folders));
        CString::new(path).expect("a name holds no zero")
    }
}

/// Carry one part out and print its result.
pub fn run(options: &Options) -> Result<(), LoadError> {
    report::print(&options.part.run()?);
    Ok(())
}

#[cfg(test)]
mod tests;
