// SPDX-License-Identifier: Apache-2.0
//! One thread of a storm.

use std::ffi::{CStr, CString};
use std::os::fd::AsRawFd as _;
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
use crate::list::{self, List, Target};
use crate::report::Tally;

const IO_BYTES: usize = 65_536;
/// How many files a list is for, the calls for each at the most, and the room for its path.
const LISTED_FILES: usize = 32;
const FILE_CALLS: usize = 4;
const PATH_BYTES: usize = 64;

/// A thread, with all the memory that it will ever need: the paths of its files, in their order.
pub struct Worker<'a> {
    part: &'a Part,
    directory: OwnedFd,
    paths: Vec<CString>,
    source: Option<Source>,
    buffer: Buffer,
    list: Option<List>,
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
        let written_bytes = if let Part::Create(options) = part { options.file_bytes as usize } else { 0 };
        let room_bytes = LISTED_FILES * (written_bytes + PATH_BYTES);
        let list = (written_bytes <= IO_BYTES)
            .then(|| List::new(list::chosen(), LISTED_FILES * FILE_CALLS, room_bytes, read_bytes))
            .flatten();
        Ok(Self { part, directory, paths, source, buffer: Buffer::new(read_bytes), list })
    }

    /// Do it to every file, unless another thread's failure has stopped all.
    pub fn run(mut self, is_stopped: &AtomicBool) -> Result<Tally, Fault> {
        let mut tally = Tally::new();
        let paths = std::mem::take(&mut self.paths);
        let mut last_ns = now_ns();
        if let Some(mut list) = self.list.take() {
            for paths in paths.chunks(LISTED_FILES) {
                if is_stopped.load(Ordering::Relaxed) {
                    break;
                }
                last_ns = self.listed(paths, &mut list, &mut tally, last_ns)?;
            }
            return Ok(tally);
        }
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

    /// Do it to many files by one list; returns the time after them.
    fn listed(
        &mut self,
        paths: &[CString],
        list: &mut List,
        tally: &mut Tally,
        mut last_ns: u64,
    ) -> Result<u64, Fault> {
        list.clear();
        for path in paths {
            self.add(path, list);
            list.stamp();
        }
        list.run(u64::MAX);
        let calls = list.len() / paths.len();
        for (path, first) in paths.iter().zip((0..).step_by(calls)) {
            let mut bytes = 0;
            for index in first..first + calls {
                let result = list.result(index).expect("those before it were made");
                let moved = result.map_err(|error| self.fault(path, error))?;
                // Opening a file returns its descriptor.
                bytes += if index > first { moved } else { 0 };
            }
            if matches!(self.part, Part::Create(options) if bytes < options.file_bytes.into()) {
                return Err(self.fault(path, Errno::NOSPC));
            }
            let now_ns = list.made_ns(first + calls - 1).expect("it was stamped");
            tally.record(bytes, now_ns - last_ns);
            last_ns = now_ns;
        }
        Ok(last_ns)
    }

    /// Add what is done to one file: the calls of `treat`.
    fn add(&mut self, path: &CStr, list: &mut List) {
        let folder = self.directory.as_raw_fd();
        match self.part {
            Part::Create(options) => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
                list.open(folder, path, flags, 0o600, u32::MAX);
                if options.file_bytes > 0 {
                    let source = self.source.as_mut().expect("who creates has a source");
                    list.write(Target::Opened, source.next(options.file_bytes as usize));
                }
                if options.fsync {
                    list.fsync(Target::Opened);
                }
                list.close(Target::Opened);
            }
            Part::Stat(_) => list.look_at(folder, path, AtFlags::SYMLINK_NOFOLLOW),
            Part::Read(_) => {
                list.open(folder, path, OFlags::RDONLY, 0, u32::MAX);
                list.read_to_end(Target::Opened, IO_BYTES);
                list.close(Target::Opened);
            }
            Part::Delete(_) => list.delete(folder, path),
        }
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
