// SPDX-License-Identifier: Apache-2.0
//! The command line.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::blog;
use crate::calls;
use crate::extents;
use crate::faults::complain;
use crate::fragment;
use crate::kernel_work;
use crate::list::{self, HandOver};
use crate::personality::options;
use crate::replay;
use crate::storm;

/// The personalities that are carried out by lists unless somebody says otherwise.
const LISTED: [&str; 3] = ["varmail", "webproxy", "webserver"];

/// Load a filesystem; the result is JSON on the standard output
#[derive(Parser)]
#[command(name = "strata-load", version, arg_required_else_help = true)]
struct CommandLine {
    /// How operations that are known together are handed to the kernel; default: as lists in the lab where results are
    /// proven equal
    #[arg(long, value_enum, global = true)]
    hand_over: Option<HandOver>,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Build the files of a personality, and sync them
    Prepare(options::PrepareOptions),
    /// Load them with a personality's threads
    Run(options::RunOptions),
    /// Look for what syncs had made durable before a power cut
    Durable(options::DurableOptions),
    /// Write, rewrite, comment and read blogs, as blogbench 1.1 does
    Blog(blog::Options),
    /// Fill files, rewrite random extents, read them linearly
    Fragment(fragment::Options),
    /// Tell how many extents files have, and how free space is divided
    Extents(extents::Options),
    /// Repeat what a recorded application asked of its filesystem
    Calls(calls::Options),
    /// Repeat the requests of a trace on a block device or a file
    Replay(replay::Options),
    /// Create, stat and delete many small files
    Storm(storm::Options),
    /// Measure the processor time of the kernel's operations, or what the lab counts of them
    Kernel(kernel_work::Options),
}

impl Action {
    /// Lists where they give the rates and percentiles of single calls within 2 %
    /// (`docs/explanation/what-the-lab-can-tell.md`); elsewhere chance is larger.
    fn hand_over(&self) -> HandOver {
        match self {
            Self::Run(options) if LISTED.contains(&options.personality()) => HandOver::Lists,
            Self::Storm(_) => HandOver::Lists,
            _ => HandOver::Single,
        }
    }
}

pub fn main() -> ExitCode {
    let line = match CommandLine::try_parse() {
        Ok(line) => line,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    list::choose(line.hand_over.unwrap_or_else(|| line.action.hand_over()));
    let done = match &line.action {
        Action::Prepare(options) => options::prepare(options),
        Action::Run(options) => options::run(options),
        Action::Durable(options) => options::durable(options),
        Action::Blog(options) => blog::run(options),
        Action::Fragment(options) => fragment::run(options),
        Action::Extents(options) => extents::run(options),
        Action::Calls(options) => calls::run(options),
        Action::Replay(options) => replay::run(options),
        Action::Storm(options) => storm::run(options),
        Action::Kernel(options) => kernel_work::run(options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            ExitCode::from(error.exit_code())
        }
    }
}
