// SPDX-License-Identifier: Apache-2.0
//! One thread of a storm.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, fsync, openat, statat, unlinkat};
use rustix::io::Errno;

use super::Part;
use crate::buffer::Buffer;
use crate::clock::now_ns;
use crate::data::Source;
use crate::faults::Fault;
use crate::files::{read_to_end, write_from};
use crate::folder;
use crate::report::Tally;

const IO_BYTES: usize = 65_536;

/// A thread, with all the memory that it will ever need: the paths of its files, in their order.
pub struct Worker<'a> {
    part: &'a Part,
    directory: OwnedFd,
    paths: Vec<CString>,
    source: Option<Source>,
    buffer: Buffer,
}

impl<'a> Worker<'a> {
    pub fn new(part: &'a Part, thread: u32) -> Result<Self, Fault> {
        let files = part.files();
        let directory = folder::existing(&files.directory)?;
        let mut source = None;
        if let Part::Create(options) = part {
            let mut made = Source::new(options.content.content(), files.seed, IO_BYTES);
            made.restart(u64::from(thread));
            source = Some(made);
        }
        let paths = part.order(thread).into_iter().map(|number| files.path(number)).collect();
        let read_bytes = if matches!(part, Part::Read(_)) { IO_BYTES } else { 0 };
        Ok(Self { part, directory, paths, source, buffer: Buffer::new(read_bytes) })
    }

    /// Do it to every file, unless another thread's failure has stopped all.
    pub fn run(mut self, is_stopped: &AtomicBool) -> Result<Tally, Fault> {
        let mut tally = Tally::new();
        let paths = std::mem::take(&mut self.paths);
        let mut last_ns = now_ns();
        for path in &paths {
            if is_stopped.load(Ordering::Relaxed) {
                break;
            }
            let bytes = self.treat(path).map_err(|error| self.fault(path, error))?;
            let now_ns = now_ns();
            tally.record(bytes, now_ns - last_ns);
            last_ns = now_ns;
        }
        Ok(tally)
    }

    /// Do it to one file; returns the bytes that were moved.
    fn treat(&mut self, path: &CStr) -> Result<u64, Errno> {
        match self.part {
            Part::Create(options) => self.create(path, options.file_bytes.into(), options.fsync),
            Part::Stat(_) => statat(&self.directory, path, AtFlags::SYMLINK_NOFOLLOW).map(|_| 0),
            Part::Read(_) => self.read(path),
            Part::Delete(_) => unlinkat(&self.directory, path, AtFlags::empty()).map(|()| 0),
        }
    }

    fn create(&mut self, path: &CStr, bytes: u64, is_synced: bool) -> Result<u64, Errno> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = openat(&self.directory, path, flags, Mode::RUSR | Mode::WUSR)?;
        let source = self.source.as_mut().expect("who creates has a source");
        write_from(&file, source, bytes, IO_BYTES)?;
        if is_synced {
            fsync(&file)?;
        }
        Ok(bytes)
    }

    fn read(&mut self, path: &CStr) -> Result<u64, Errno> {
        let file = openat(&self.directory, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        read_to_end(&file, &mut self.buffer)
    }

    fn fault(&self, path: &CStr, error: Errno) -> Fault {
        let remedy = match error {
            Errno::NOSPC | Errno::DQUOT => "create fewer or smaller files, or give them a larger filesystem",
            Errno::NOENT => "create the files first, with the same number of files and folders",
            Errno::EXIST => "give an empty folder",
            _ => "see the filesystem's error, and start again on an empty folder",
        };
        let place = self.part.files().directory.join(path.to_string_lossy().as_ref());
        Fault::new(place.display().to_string(), format!("the filesystem said: {error}"), remedy)
    }
}
