// SPDX-License-Identifier: Apache-2.0
//! Work of the kernel, one operation after another: the processor time of each on a host, and in the lab what the kernel
//! counts of it in `/proc/strata_cpu`. Both together give the price of what is counted.

mod operations;
mod place;
mod usage;

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use crate::clock::now_ns;
use crate::faults::{Fault, LoadError};
use crate::report::{self, RESULT_VERSION};
use operations::{Bench, Operation};
use place::Place;
use usage::{Counts, Usage};

#[derive(Args)]
pub struct Options {
    /// An empty folder in memory, for files of up to 600 MiB
    #[arg(long, value_name = "PATH")]
    directory: PathBuf,
    /// Also work on this filesystem, on a loop device over a file in the folder; needs root
    #[arg(long, value_name = "NAME")]
    filesystem: Vec<Place>,
    /// How often each operation is measured; the cheapest counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeats: u32,
    /// Do each operation this many times less often
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    shorten: u64,
}

/// One operation, per time that it was done.
#[derive(Serialize)]
struct Measured {
    name: String,
    times: u64,
    /// Of this process, its children, and of the kernel's threads that work for it; of the cheapest repetition.
    processor_ns: f64,
    /// Of the fastest repetition.
    wall_ns: f64,
    /// By the names of `/proc/strata_cpu`; nothing on a host.
    counted: Counts,
}

#[derive(Serialize)]
struct Outcome {
    result_version: u32,
    load: &'static str,
    operations: Vec<Measured>,
}

/// Do everything and print the result; a line on the standard error for each operation.
pub fn run(options: &Options) -> Result<(), LoadError> {
    let mut measured = Vec::new();
    let mut bench = Bench::new(options.directory.clone());
    for operation in operations::OF_MEMORY.iter().chain(operations::OF_FILES).chain(operations::OF_CACHE) {
        measure(&mut bench, "", operation, options, &mut measured)?;
    }
    bench.tidy();
    for place in &options.filesystem {
        let mounted = place.mount(&options.directory)?;
        let mut bench = Bench::new(mounted.folder.clone());
        let operations: Vec<&Operation> = match place {
            Place::BtrfsZstd | Place::BtrfsSha256 => operations::OF_DATA.iter().collect(),
            _ => operations::OF_FILES.iter().chain(operations::OF_DISKS).chain(operations::OF_DATA).collect(),
        };
        for operation in operations {
            measure(&mut bench, &format!("{place}-"), operation, options, &mut measured)?;
        }
    }
    report::print(&Outcome { result_version: RESULT_VERSION, load: "kernel", operations: measured });
    Ok(())
}

fn measure(
    bench: &mut Bench,
    prefix: &str,
    operation: &Operation,
    options: &Options,
    measured: &mut Vec<Measured>,
) -> Result<(), Fault> {
    let name = format!("{prefix}{}", operation.name);
    let failed = |error: std::io::Error| {
        let remedy = "see the kernel's error; the folder needs 600 MiB of memory";
        Fault::new(name.clone(), format!("the operation failed: {error}"), remedy)
    };
    let times = (operation.times / options.shorten).max(16);
    if !(operation.prepare)(bench).map_err(failed)? {
        return Ok(());
    }
    (operation.run)(bench, times / 8 + 1).map_err(failed)?;
    let mut best: Option<Measured> = None;
    for _ in 0..options.repeats {
        let counted = usage::counts();
        let threads_ns = usage::kernel_threads_ns(operation.has_threads && counted.is_empty());
        let (usage, start_ns) = (Usage::now(), now_ns());
        (operation.run)(bench, times).map_err(failed)?;
        let (wall_ns, own_ns) = (now_ns() - start_ns, Usage::now().since(&usage));
        // A kernel thread that has ended takes its time with it.
        let threads_ns =
            usage::kernel_threads_ns(operation.has_threads && counted.is_empty()).saturating_sub(threads_ns);
        #[allow(clippy::cast_precision_loss, reason = "half a second has 2^29 ns")]
        let each = |sum: u64| sum as f64 / times as f64;
        let counted = usage::counts_since(&counted, times);
        let this = Measured {
            name: name.clone(),
            times,
            processor_ns: each(own_ns + threads_ns),
            wall_ns: each(wall_ns),
            counted,
        };
        best = Some(match best {
            None => this,
            Some(best) => {
                let wall_ns = best.wall_ns.min(this.wall_ns);
                let cheaper = if this.processor_ns < best.processor_ns { this } else { best };
                Measured { wall_ns, ..cheaper }
            }
        });
    }
    eprintln!("{name}");
    measured.extend(best);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_done_and_takes_time() {
        let folder = tempfile::tempdir().unwrap();
        let options =
            Options { directory: folder.path().into(), filesystem: vec![], repeats: 1, shorten: 1000 };
        let mut bench = Bench::new(options.directory.clone());
        let mut measured = Vec::new();
        for operation in operations::OF_MEMORY.iter().chain(operations::OF_FILES).chain(operations::OF_CACHE)
        {
            measure(&mut bench, "", operation, &options, &mut measured).unwrap();
        }
        bench.tidy();
        assert!(measured.len() >= 14);
        assert!(measured.iter().all(|each| each.processor_ns > 0.0 && each.times >= 16));
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
