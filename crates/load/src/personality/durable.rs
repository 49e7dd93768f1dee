// SPDX-License-Identifier: Apache-2.0
//! The promises of returned syncs, and the search for promised files after a power cut.
//!
//! A file outside the measured stack has a number of 8 bytes for each file of the sets, in their order: the bytes that
//! a sync covers plus one, or 0 where no sync does. Another process reads this file just before the cut. Before that it
//! makes a file of the same name with `.held`: while this exists nothing is deleted, as a later deletion would look
//! like a loss.

use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use serde::Serialize;

use crate::faults::{Fault, LoadError};
use crate::personality::file_set::set_folder;
use crate::personality::records::SetSpec;
use crate::personality::tree::Tree;
use crate::report::{self, RESULT_VERSION};

const NUMBER_BYTES: u64 = 8;
/// No content of the load has as many zeros in a row; where a block was lost, a file reads as zeros.
const ZEROS_MAX: usize = 512;
const PIECE_BYTES: usize = 1 << 20;
const NAMED_MAX: usize = 3;

const HELD_POLL: Duration = Duration::from_millis(10);

/// The file of promises.
pub struct Promises {
    file: File,
    /// While it exists, deletions wait.
    held: PathBuf,
    /// The number of each set's first file.
    firsts: Vec<u64>,
}

impl Promises {
    /// Promise nothing yet, of sets of this many files.
    pub fn create(path: &Path, counts: impl IntoIterator<Item = usize>) -> Result<Self, Fault> {
        let options = OpenOptions::new().write(true).create(true).truncate(true).clone();
        let promises = Self::at(path, &options, counts)?;
        let bytes = promises.firsts.last().copied().unwrap_or(0) * NUMBER_BYTES;
        promises.file.set_len(bytes).map_err(|error| cannot(path, &error))?;
        Ok(promises)
    }

    /// Go on with a file that `create` has made for the same sets.
    pub fn open(path: &Path, counts: impl IntoIterator<Item = usize>) -> Result<Self, Fault> {
        Self::at(path, OpenOptions::new().write(true), counts)
    }

    fn at(
        path: &Path,
        options: &OpenOptions,
        counts: impl IntoIterator<Item = usize>,
    ) -> Result<Self, Fault> {
        let file = options.open(path).map_err(|error| cannot(path, &error))?;
        let mut firsts = vec![0];
        for count in counts {
            firsts.push(firsts[firsts.len() - 1] + count as u64);
        }
        Ok(Self { file, held: held_path(path), firsts })
    }

    /// A sync that covers this many bytes of the file has returned.
    pub fn promise(&self, set: usize, file: usize, bytes: u64) -> Result<(), Errno> {
        self.write(set, file, bytes + 1)
    }

    /// The file is about to be deleted: from here on it may be gone.
    pub fn withdraw(&self, set: usize, file: usize) -> Result<(), Errno> {
        self.write(set, file, 0)?;
        // Whoever holds the promises reads them afterwards: it has seen the 0, or the file is not deleted yet.
        while self.held.exists() {
            thread::sleep(HELD_POLL);
        }
        Ok(())
    }

    fn write(&self, set: usize, file: usize, number: u64) -> Result<(), Errno> {
        let place = (self.firsts[set] + file as u64) * NUMBER_BYTES;
        self.file
            .write_all_at(&number.to_le_bytes(), place)
            .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
    }
}

fn held_path(promises: &Path) -> PathBuf {
    let mut path = promises.as_os_str().to_owned();
    path.push(".held");
    path.into()
}

fn cannot(path: &Path, error: &std::io::Error) -> Fault {
    Fault::new(
        path.display().to_string(),
        format!("the file of promises cannot be written: {error}"),
        "give --durable to prepare and run alike, best not on what is measured",
    )
}

#[derive(Serialize)]
struct Kept {
    result_version: u32,
    files: usize,
    lost: usize,
    /// Some of the lost files, for people.
    named: Vec<String>,
}

/// Look for what was promised: `promised` has a line of a file's number and its bytes for each promise.
pub fn check(
    sets: &[SetSpec],
    directory: &Path,
    seed: u64,
    promised: &Path,
    has_zeros: bool,
) -> Result<(), LoadError> {
    let text = fs::read_to_string(promised)
        .map_err(|error| Fault::of_file(promised, "the promises cannot be read", error))?;
    let paths: Vec<PathBuf> = sets
        .iter()
        .zip(0..)
        .flat_map(|(spec, number)| {
            let root = set_folder(directory, &spec.name);
            Tree::of(spec, number, seed).entries.into_iter().map(move |entry| root.join(entry.path))
        })
        .collect();
    let mut kept = Kept { result_version: RESULT_VERSION, files: 0, lost: 0, named: Vec::new() };
    let mut buffer = vec![0; PIECE_BYTES];
    for line in text.lines() {
        let (path, bytes) = promise_of(line, &paths).ok_or_else(|| {
            let remedy = "give the lines of an index and a number of bytes, of the same personality";
            LoadError::Input(vec![Fault::new(
                promised.display().to_string(),
                format!("\"{line}\" is no promise"),
                remedy,
            )])
        })?;
        kept.files += 1;
        if let Some(why) = broken(path, bytes, has_zeros, &mut buffer) {
            kept.lost += 1;
            if kept.named.len() < NAMED_MAX {
                kept.named.push(format!("{}: {why}", path.display()));
            }
        }
    }
    report::print(&kept);
    Ok(())
}

fn promise_of<'a>(line: &str, paths: &'a [PathBuf]) -> Option<(&'a Path, u64)> {
    let (index, bytes) = line.split_once(' ')?;
    let path = paths.get(index.parse::<usize>().ok()?)?;
    Some((path, bytes.parse().ok()?))
}

/// How a promise is broken, if it is.
fn broken(path: &Path, bytes: u64, has_zeros: bool, buffer: &mut [u8]) -> Option<String> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) => return Some(error.to_string()),
    };
    let (mut left, mut zeros) = (bytes, 0);
    while left > 0 {
        let wanted = usize::try_from(left).map_or(buffer.len(), |left| left.min(buffer.len()));
        let count = match file.read(&mut buffer[..wanted]) {
            Ok(0) => return Some(format!("{} of {bytes} bytes are there", bytes - left)),
            Ok(count) => count,
            Err(error) => return Some(error.to_string()),
        };
        for byte in &buffer[..count] {
            zeros = if *byte == 0 { zeros + 1 } else { 0 };
            if zeros >= ZEROS_MAX && !has_zeros {
                return Some("a part of it reads as zeros".to_owned());
            }
        }
        left -= count as u64;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_deletion_waits_while_the_promises_are_held() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("durable");
        let promises = Promises::create(&path, [1]).unwrap();
        promises.promise(0, 0, 5).unwrap();
        File::create(held_path(&path)).unwrap();
        let (done, waited) = mpsc::channel();

        thread::scope(|scope| {
            scope.spawn(|| done.send(promises.withdraw(0, 0).is_ok()).unwrap());
            assert!(waited.recv_timeout(HELD_POLL * 5).is_err());
            fs::remove_file(held_path(&path)).unwrap();
            assert!(waited.recv().unwrap());
        });
    }
}
