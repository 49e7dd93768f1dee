// SPDX-License-Identifier: Apache-2.0
//! Reading the files linearly.

use clap::Args;
use rustix::fs::{Advice, OFlags, fadvise};

use super::{Layout, Outcome, buffer_bytes, timed};
use crate::buffer::Buffer;
use crate::clock::now_ns;
use crate::faults::Fault;
use crate::files::read;
use crate::report::Tally;

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    layout: Layout,
    /// How much is read at once
    #[arg(long, default_value = "65536", value_parser = buffer_bytes)]
    read_bytes: usize,
}

impl Options {
    /// Read every file from its beginning to its end; it must be as long as it was filled.
    pub(super) fn run(&self) -> Result<Outcome, Fault> {
        let mut files = self.layout.open(OFlags::RDONLY)?;
        if self.layout.joint {
            files.truncate(1);
        }
        let mut buffer = Buffer::new(self.read_bytes);
        let mut tally = Tally::new();
        let ((), duration_ns) = timed(|| {
            let mut last_ns = now_ns();
            for (file, _) in &files {
                // It is only advice, which filesystems without a page cache of their own do without.
                let _ = fadvise(&file.file, 0, None, Advice::Sequential);
                loop {
                    let bytes = read(&file.file, &mut buffer).map_err(|error| file.fault(error))?;
                    if bytes == 0 {
                        break;
                    }
                    let now_ns = now_ns();
                    tally.record(bytes as u64, now_ns - last_ns);
                    last_ns = now_ns;
                }
            }
            Ok(())
        })?;
        if tally.bytes != self.layout.bytes() {
            let cause = format!("the files hold {} bytes, not {}", tally.bytes, self.layout.bytes());
            let remedy = "give the same files and sizes as when they were filled";
            return Err(Fault::new(self.layout.directory.display().to_string(), cause, remedy));
        }
        Ok(Outcome::new("fragment-read", "read", &tally, (duration_ns, 0)))
    }
}
