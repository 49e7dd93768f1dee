// SPDX-License-Identifier: Apache-2.0
//! Extents per file: into how many pieces the filesystem has divided the files below some paths.
//!
//! An extent is physically contiguous, as `filefrag` counts: adjacent extents of the filesystem's map are one.

mod fiemap;
mod summary;

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use crate::faults::{Fault, LoadError};
use crate::report;
use fiemap::{Extent, Map};
use summary::{Division, Files};

#[derive(Args)]
pub struct Options {
    /// Files, or folders with all their files
    #[arg(required = true)]
    paths: Vec<PathBuf>,
}

/// Print how the files are divided.
pub fn run(options: &Options) -> Result<(), LoadError> {
    report::print(&divided(&options.paths)?);
    Ok(())
}

/// How the files below `paths` are divided; folders of other filesystems are left out, links not followed, and a file
/// of several names counts once.
pub fn divided(paths: &[PathBuf]) -> Result<Division, Fault> {
    let mut files = Files::default();
    let mut map = Map::new();
    let mut known = HashSet::new();
    for path in paths {
        let metadata =
            fs::symlink_metadata(path).map_err(|error| Fault::of_file(path, "it is not there", error))?;
        let device = metadata.dev();
        let mut pending = vec![(path.clone(), metadata)];
        while let Some((path, metadata)) = pending.pop() {
            if metadata.dev() != device {
                continue;
            }
            if metadata.is_dir() {
                pending.extend(entries(&path)?);
            } else if metadata.is_file() && known.insert((metadata.dev(), metadata.ino())) {
                count(&path, &metadata, &mut map, &mut files)?;
            }
        }
    }
    Ok(files.division())
}

fn entries(folder: &Path) -> Result<Vec<(PathBuf, Metadata)>, Fault> {
    let unreadable = |error| Fault::of_file(folder, "the folder cannot be read", error);
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        // Files that a server deletes in the meantime do not count.
        if let Ok(metadata) = fs::symlink_metadata(&path) {
            found.push((path, metadata));
        }
    }
    Ok(found)
}

fn count(path: &Path, metadata: &Metadata, map: &mut Map, files: &mut Files) -> Result<(), Fault> {
    if metadata.len() == 0 {
        files.add_empty();
        return Ok(());
    }
    let file = match open(path, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
        Ok(file) => file,
        Err(Errno::NOENT) => return Ok(()),
        Err(error) => return Err(Fault::of_file(path, "the file cannot be opened", error)),
    };
    let mut pieces = Pieces::default();
    match map.extents(&file, |extent| pieces.add(extent)) {
        Ok(true) => files.add(metadata.len(), pieces.count, pieces.mapped, pieces.bytes),
        Ok(false) => files.add_unknown(metadata.len()),
        Err(error) => return Err(Fault::of_file(path, "its map cannot be read", error)),
    }
    Ok(())
}

/// A file's extents, in the order of its content.
#[derive(Default)]
struct Pieces {
    count: u64,
    mapped: u64,
    bytes: u64,
    last: Option<Extent>,
}

impl Pieces {
    fn add(&mut self, extent: Extent) {
        // Data in the inode, or without a place yet, need no access of their own.
        if !extent.has_place() {
            return;
        }
        self.mapped += 1;
        self.bytes += extent.bytes;
        if !self.last.is_some_and(|last| last.is_followed_by(&extent)) {
            self.count += 1;
        }
        self.last = Some(extent);
    }
}

#[cfg(test)]
mod tests;
