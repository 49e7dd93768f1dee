// SPDX-License-Identifier: Apache-2.0
//! Writing the files.

use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use rustix::fs::{OFlags, fdatasync};

use super::{Layout, Opened, Outcome, buffer_bytes, timed, whole_blocks};
use crate::clock::now_ns;
use crate::data::{ContentOptions, Source};
use crate::faults::Fault;
use crate::files::write_all_at;
use crate::folder;
use crate::report::Tally;
use crate::threads;

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    layout: Layout,
    /// The seed of the content
    #[arg(long)]
    seed: u64,
    /// How much is written at once
    #[arg(long, default_value = "65536", value_parser = buffer_bytes)]
    write_bytes: usize,
    /// Sync each file after this many written bytes, as a database or a log does
    #[arg(long, value_parser = whole_blocks)]
    sync_every_bytes: Option<u64>,
    #[command(flatten)]
    content: ContentOptions,
}

impl Options {
    /// Write all files, each by a thread; then sync them.
    pub(super) fn run(&self) -> Result<Outcome, Fault> {
        folder::empty(&self.layout.directory)?;
        let files = self.layout.open(OFlags::CREATE | OFlags::WRONLY)?;
        let mut sources = Vec::with_capacity(files.len());
        for number in 0..files.len() as u64 {
            let mut source = Source::new(self.content.content(), self.seed, self.write_bytes);
            source.restart(number);
            sources.push(source);
        }
        let writers: Vec<_> = files.iter().zip(sources).collect();
        let (tallies, duration_ns) = timed(|| {
            threads::all("--files", writers, |((file, start), source), is_stopped| {
                self.write(file, *start, source, is_stopped)
            })
        })?;
        let tally = Tally::sum(&tallies);
        let ((), sync_ns) = timed(|| files.iter().try_for_each(|(file, _)| file.sync()))?;
        Ok(Outcome::new("fragment-fill", "write", &tally, (duration_ns, sync_ns)))
    }

    fn write(
        &self,
        file: &Opened,
        start: u64,
        mut source: Source,
        is_stopped: &AtomicBool,
    ) -> Result<Tally, Fault> {
        let mut tally = Tally::new();
        let mut last_ns = now_ns();
        let mut dirty_bytes = 0;
        let mut at = start;
        let end = start + self.layout.file_bytes;
        while at < end && !is_stopped.load(Ordering::Relaxed) {
            let bytes = (self.write_bytes as u64).min(end - at);
            #[expect(clippy::cast_possible_truncation, reason = "it is at most `write_bytes`")]
            let content = source.next(bytes as usize);
            write_all_at(&file.file, content, at).map_err(|error| file.fault(error))?;
            at += bytes;
            dirty_bytes += bytes;
            if self.sync_every_bytes.is_some_and(|every| dirty_bytes >= every) {
                fdatasync(&file.file).map_err(|error| file.fault(error))?;
                dirty_bytes = 0;
            }
            let now_ns = now_ns();
            tally.record(bytes, now_ns - last_ns);
            last_ns = now_ns;
        }
        Ok(tally)
    }
}
