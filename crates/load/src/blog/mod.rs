// SPDX-License-Identifier: Apache-2.0
//! blogbench 1.1: writers, rewriters, commenters and readers of blogs, all at once for some intervals.
//!
//! Their operations are in `roles.rs`. As in the original they sync nothing and never pause. Its score of
//! writes is the number of blogs that writers completed; its score of reads, how often a reader went through a blog.
//! Four things differ: each thread has its own seeded random numbers; a thread stops after its current file
//! when the time is over, which no score counts; what is written is content as declared, in each thread's own buffer, and
//! read into one; and any error but that a file is missing ends the run, where the original waits for a second.

mod files;
mod roles;
mod site;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::thread;

use clap::Args;
use rustix::fd::OwnedFd;
use rustix::fs::syncfs;
use serde::Serialize;

use crate::clock::{NS_PER_MS, now_ns, sleep_until_or};
use crate::data::{Content, ContentOptions};
use crate::faults::{Fault, LoadError};
use crate::folder;
use crate::report::{self, RESULT_VERSION, Summaries, Tally};
use crate::threads;
use files::Operation;
use roles::{Role, Thread};
use site::{COUNTS, Counts, Event, Site};

#[derive(Args)]
pub struct Options {
    /// An empty folder on the measured filesystem; it is created if missing
    #[arg(long, value_name = "PATH")]
    directory: PathBuf,
    /// The seed of all random choices
    #[arg(long)]
    seed: u64,
    #[arg(long, default_value_t = 3)]
    writers: u32,
    #[arg(long, default_value_t = 1)]
    rewriters: u32,
    #[arg(long, default_value_t = 5)]
    commenters: u32,
    #[arg(long, default_value_t = 100)]
    readers: u32,
    /// Intervals with counts of their own
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    intervals: u32,
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    interval_ms: u64,
    /// A pause of every reader after each blog; the original has none
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=86_400_000_000))]
    reader_pause_us: u64,
    #[command(flatten)]
    content: ContentOptions,
}

impl Options {
    fn roles(&self) -> impl Iterator<Item = Role> {
        let roles = [
            (Role::Writer, self.writers),
            (Role::Rewriter, self.rewriters),
            (Role::Commenter, self.commenters),
            (Role::Reader, self.readers),
        ];
        roles.into_iter().flat_map(|(role, threads)| (0..threads).map(move |_| role))
    }
}

/// The result.
#[derive(Serialize)]
struct Blogs {
    result_version: u32,
    load: &'static str,
    seed: u64,
    content: Content,
    threads: BTreeMap<&'static str, u32>,
    interval_ns: u64,
    /// Blogs that writers completed in the intervals.
    score_writes: u64,
    /// How often readers went through a blog in the intervals.
    score_reads: u64,
    /// How often a thread found nothing to do, or was in another's way, and waited for a second.
    waits: u64,
    /// Per interval, how often each event happened.
    intervals: Vec<BTreeMap<&'static str, u64>>,
    /// A write is from creating a file to renaming it, a read from opening a file to closing it.
    operations: Summaries,
}

/// Run the blogs and print their result.
pub fn run(options: &Options) -> Result<(), LoadError> {
    report::print(&blogs(options)?);
    Ok(())
}

fn blogs(options: &Options) -> Result<Blogs, LoadError> {
    let folder = ready(&options.directory)?;
    let interval_ns = options.interval_ms * NS_PER_MS;
    let site = Site::new(folder);
    let counts: Vec<Counts> = options.roles().map(|_| Counts::default()).collect();
    let mut workers = Vec::with_capacity(counts.len());
    for (number, (role, counts)) in options.roles().zip(&counts).enumerate() {
        workers.push(Thread::new(role, number as u64, &site, counts, options));
    }
    let (mut sums, threads) = run_threads(&site, &counts, workers, (options.intervals, interval_ns));
    if let Some(fault) = site.fault() {
        return Err(fault.into());
    }
    sums.push(site::sum(&counts));
    let intervals: Vec<[u64; COUNTS]> =
        sums.windows(2).map(|pair| std::array::from_fn(|event| pair[1][event] - pair[0][event])).collect();
    let sum = |event: Event| intervals.iter().map(|interval| interval[event as usize]).sum();
    Ok(Blogs {
        result_version: RESULT_VERSION,
        load: "blog",
        seed: options.seed,
        content: options.content.content(),
        threads: BTreeMap::from([
            ("writers", options.writers),
            ("rewriters", options.rewriters),
            ("commenters", options.commenters),
            ("readers", options.readers),
        ]),
        interval_ns,
        score_writes: sum(Event::BlogWritten),
        score_reads: sum(Event::BlogRead),
        waits: sum(Event::Wait),
        intervals: intervals.iter().map(|counts| Event::NAMES.into_iter().zip(*counts).collect()).collect(),
        operations: summaries(&threads),
    })
}

/// Let the threads work for this many intervals; returns the counts at the end of each but the last.
fn run_threads<'a>(
    site: &'a Site,
    counts: &[Counts],
    workers: Vec<Thread<'a>>,
    (intervals, interval_ns): (u32, u64),
) -> (Vec<[u64; COUNTS]>, Vec<Thread<'a>>) {
    // From here on nothing is allocated by them, and the time counts.
    let start_ns = now_ns();
    site.set_end_ns(start_ns + interval_ns * u64::from(intervals));
    thread::scope(|scope| {
        let mut running = Vec::with_capacity(workers.len());
        for worker in workers {
            match threads::start(scope, "--readers", move || worker.run()) {
                Ok(thread) => running.push(thread),
                Err(fault) => {
                    site.fail(fault);
                    break;
                }
            }
        }
        let sums = watch(site, counts, start_ns, interval_ns);
        let threads =
            running.into_iter().map(|thread| thread.join().expect("a thread does not panic")).collect();
        (sums, threads)
    })
}

/// The folder, with all that came before written out, as the original does.
fn ready(folder: &Path) -> Result<OwnedFd, Fault> {
    let opened = folder::empty(folder)?;
    syncfs(&opened).map_err(|error| Fault::of_file(folder, "it cannot be synced", error))?;
    Ok(opened)
}

/// Wait for the end of each interval but the last, or a fault; returns the counts at each.
fn watch(site: &Site, counts: &[Counts], start_ns: u64, interval_ns: u64) -> Vec<[u64; COUNTS]> {
    let mut sums = vec![[0; COUNTS]];
    let mut end_ns = start_ns + interval_ns;
    while end_ns < site.end_ns() && !site.is_stopped() {
        sleep_until_or(end_ns, || site.is_stopped());
        sums.push(site::sum(counts));
        end_ns += interval_ns;
    }
    sums
}

fn summaries(threads: &[Thread]) -> Summaries {
    let mut summaries = Summaries::new();
    for operation in Operation::ALL {
        let tally = Tally::sum(threads.iter().map(|thread| thread.tally(operation)));
        if tally.count > 0 {
            summaries.insert(operation.name().to_owned(), tally.summary());
        }
    }
    summaries
}

#[cfg(test)]
mod tests;
