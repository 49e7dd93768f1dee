// SPDX-License-Identifier: Apache-2.0
//! The options of `prepare` and `run`.

use std::path::PathBuf;

use clap::Args;

use crate::clock::NS_PER_MS;
use crate::data::ContentOptions;
use crate::faults::{Fault, LoadError};
use crate::personality::definition;
use crate::personality::durable;
use crate::personality::prepare;
use crate::personality::records::{Departure, Overrides, Personality};
use crate::personality::session;

/// The options of both `prepare` and `run`, which must get the same values.
#[derive(Args)]
pub struct Common {
    /// fileserver, varmail, webserver, webproxy, videoserver, the path of a TOML file, or - for its text on the
    /// standard input
    #[arg(long, value_name = "NAME")]
    personality: String,
    /// The folder that the files are in
    #[arg(long, value_name = "PATH")]
    directory: PathBuf,
    /// The file for the state between invocations: best not on the measured filesystem
    #[arg(long, value_name = "FILE")]
    state: PathBuf,
    /// The seed of all random choices
    #[arg(long, value_name = "NUMBER")]
    seed: u64,
    #[command(flatten)]
    content: ContentOptions,
    /// Write a trace here: a line for each file, or operation
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Keep here what returned syncs promise, for a power cut: best not on the measured filesystem
    #[arg(long, value_name = "FILE")]
    durable: Option<PathBuf>,
    #[command(flatten)]
    overrides: Overrides,
}

#[derive(Args)]
pub struct PrepareOptions {
    #[command(flatten)]
    common: Common,
    /// Threads that write the files
    #[arg(long, value_name = "COUNT", default_value_t = 8, value_parser = clap::value_parser!(u64).range(1..=1000))]
    builders: u64,
}

#[derive(Args)]
pub struct RunOptions {
    #[command(flatten)]
    common: Common,
    /// The measured window, in milliseconds
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    duration_ms: u64,
    /// Load before the window, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(0..=1_000_000_000))]
    warmup_ms: u64,
    /// Report rates per interval of this many milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    interval_ms: u64,
    /// Open loop: passes through the loop start at random times, at a rate of this many operations per second
    #[arg(long, value_name = "PER_S")]
    rate: Option<f64>,
    /// Where filebench leaves a deletion out because the file is open, delete the next that is not
    #[arg(long)]
    pass_over_open: bool,
    /// End every thread after this many passes through its loop, or with the window
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..))]
    passes: Option<u64>,
    /// Print the passes of each interval as it ends, and end the window early when an interrupt comes
    #[arg(long)]
    tell: bool,
    /// Another name makes other random choices on the same files
    #[arg(long, value_name = "NAME", default_value = "measure")]
    purpose: String,
}

impl RunOptions {
    /// As it is named; anything else than a name is a definition of the user's.
    pub fn personality(&self) -> &str {
        &self.common.personality
    }
}

#[derive(Args)]
pub struct DurableOptions {
    #[command(flatten)]
    common: Common,
    /// A file with a line for each promise: the file's number and its bytes
    #[arg(long, value_name = "FILE")]
    promised: PathBuf,
}

impl Common {
    fn personality(&self) -> Result<(Personality, Vec<Departure>), LoadError> {
        let mut personality = definition::load(&self.personality).map_err(LoadError::Input)?;
        let departures =
            self.overrides.apply(&mut personality).map_err(|fault| LoadError::Input(vec![fault]))?;
        Ok((personality, departures))
    }
}

pub fn prepare(options: &PrepareOptions) -> Result<(), LoadError> {
    let common = &options.common;
    let (personality, departures) = common.personality()?;
    prepare::run(&prepare::Plan {
        personality: &personality,
        departures,
        directory: &common.directory,
        seed: common.seed,
        content: common.content.content(),
        builders: options.builders,
        state: &common.state,
        trace: common.trace.as_deref(),
        durable: common.durable.as_deref(),
    })
}

pub fn durable(options: &DurableOptions) -> Result<(), LoadError> {
    let common = &options.common;
    let (personality, _) = common.personality()?;
    let has_zeros = common.content.content().is_zeros;
    durable::check(&personality.sets, &common.directory, common.seed, &options.promised, has_zeros)
}

pub fn run(options: &RunOptions) -> Result<(), LoadError> {
    let common = &options.common;
    let (personality, departures) = common.personality()?;
    if options.rate.is_some_and(|rate| !(rate > 0.0 && rate <= 1e9)) {
        let fault = Fault::new("--rate", "it is not between 0 and a billion", "give operations per second");
        return Err(LoadError::Input(vec![fault]));
    }
    session::run(&session::Plan {
        personality: &personality,
        departures,
        directory: &common.directory,
        seed: common.seed,
        content: common.content.content(),
        state: &common.state,
        trace: common.trace.as_deref(),
        durable: common.durable.as_deref(),
        warmup_ns: options.warmup_ms * NS_PER_MS,
        duration_ns: options.duration_ms * NS_PER_MS,
        interval_ns: options.interval_ms * NS_PER_MS,
        rate_per_s: options.rate,
        passes_over_open: options.pass_over_open,
        passes: options.passes,
        tells: options.tell,
        purpose: &options.purpose,
    })
}
