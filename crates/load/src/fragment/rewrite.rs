// SPDX-License-Identifier: Apache-2.0
//! Rewriting random extents.

use clap::Args;
use rustix::fs::OFlags;

use super::{Layout, Outcome, buffer_bytes, timed};
use crate::clock::now_ns;
use crate::data::{ContentOptions, Source};
use crate::faults::Fault;
use crate::files::write_all_at;
use crate::random::Random;
use crate::report::Tally;

/// The content is of a stream that no writer has filled a file from.
const STREAM: u64 = 1 << 32;

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    layout: Layout,
    /// The seed of places and content
    #[arg(long)]
    seed: u64,
    /// How many extents; a place may be drawn more than once
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    extents: u64,
    /// The size of each, of which its place is a multiple
    #[arg(long, default_value = "65536", value_parser = buffer_bytes)]
    extent_bytes: usize,
    /// Write past the page cache
    #[arg(long)]
    direct: bool,
    #[command(flatten)]
    content: ContentOptions,
}

impl Options {
    /// Rewrite the extents one after the other; then sync the files.
    pub(super) fn run(&self) -> Result<Outcome, Fault> {
        let extent_bytes = self.extent_bytes as u64;
        let per_file = self.layout.file_bytes / extent_bytes;
        if per_file == 0 {
            let remedy = "rewrite smaller extents";
            return Err(Fault::new("--extent-bytes", "an extent is larger than a file", remedy));
        }
        let direct = if self.direct { OFlags::DIRECT } else { OFlags::empty() };
        let files = self.layout.open(OFlags::WRONLY | direct)?;
        let mut source = Source::new(self.content.content(), self.seed, self.extent_bytes);
        source.restart(STREAM);
        let mut random = Random::derived(self.seed, "rewrite", 0);
        let mut tally = Tally::new();
        let ((), duration_ns) = timed(|| {
            let mut last_ns = now_ns();
            for _ in 0..self.extents {
                let place = random.below(per_file * u64::from(self.layout.files));
                let number = usize::try_from(place / per_file).expect("it is below the number of files");
                let (file, start) = &files[number];
                let at = start + place % per_file * extent_bytes;
                write_all_at(&file.file, source.next(self.extent_bytes), at)
                    .map_err(|error| file.fault(error))?;
                let now_ns = now_ns();
                tally.record(extent_bytes, now_ns - last_ns);
                last_ns = now_ns;
            }
            Ok(())
        })?;
        let ((), sync_ns) = timed(|| files.iter().try_for_each(|(file, _)| file.sync()))?;
        Ok(Outcome::new("fragment-rewrite", "write", &tally, (duration_ns, sync_ns)))
    }
}
