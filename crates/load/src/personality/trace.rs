// SPDX-License-Identifier: Apache-2.0
//! A trace for tests of the mix: every operation of each thread, with its file and bytes.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::personality::records::Kind;

/// One operation that a thread completed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record {
    pub kind: Kind,
    pub set: usize,
    pub file: usize,
    pub bytes: u64,
}

/// Write the operations as lines of `thread`, `op`, `set`, `file` and `bytes`, apart by tabs.
pub fn write(path: &Path, threads: &[Vec<Record>], sets: &[&str]) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    writeln!(out, "thread\top\tset\tfile\tbytes")?;
    for (thread, records) in threads.iter().enumerate() {
        for record in records {
            let set = sets.get(record.set).copied().unwrap_or_default();
            writeln!(out, "{thread}\t{}\t{set}\t{}\t{}", record.kind.name(), record.file, record.bytes)?;
        }
    }
    out.flush()
}
