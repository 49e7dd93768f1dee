// SPDX-License-Identifier: Apache-2.0
//! The files of a blog: their names, their sizes, and how they are written and read.

use std::ffi::CStr;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;

use rustix::fd::AsFd;
use rustix::fs::{AtFlags, Mode, OFlags, mkdirat, openat, renameat, unlinkat};
use rustix::io::Errno;

use crate::data::Source;
use crate::files::{read_to_end, write_from};
use crate::list::{List, Target};

/// Of `WRITE_CHUNK_SIZE` and `READ_CHUNK_SIZE` of the original's blogbench.h, as all sizes and names here.
pub const WRITE_BYTES: usize = 8192;
pub const READ_BYTES: usize = 65_536;
/// As many of each kind as a blog has at the most.
pub const NUMBER_MAX: u64 = 100;
pub const PATH_BYTES: usize = 64;
/// The calls by which a file is read in a list.
pub const FILE_CALLS: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Article,
    Picture,
    Comment,
}

impl Kind {
    const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::Article => ("article", "xml"),
            Self::Picture => ("picture", "jpg"),
            Self::Comment => ("comment", "xml"),
        }
    }

    /// The least size, and the one that all sizes are below. All between are equally likely.
    pub const fn sizes(self) -> (u64, u64) {
        match self {
            Self::Article => (1024, 32_768),
            Self::Picture => (8192, 65_536),
            Self::Comment => (2048, 10_240),
        }
    }
}

/// A timed operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Write(Kind),
    Read(Kind),
    /// Looking for a file that is not there, by which readers find the end of a blog.
    Miss,
}

impl Operation {
    pub const ALL: [Self; 7] = [
        Self::Write(Kind::Article),
        Self::Write(Kind::Picture),
        Self::Write(Kind::Comment),
        Self::Read(Kind::Article),
        Self::Read(Kind::Picture),
        Self::Read(Kind::Comment),
        Self::Miss,
    ];

    pub const fn index(self) -> usize {
        match self {
            Self::Write(kind) => kind as usize,
            Self::Read(kind) => 3 + kind as usize,
            Self::Miss => 6,
        }
    }

    pub const fn name(self) -> &'static str {
        [
            "write_article",
            "write_picture",
            "write_comment",
            "read_article",
            "read_picture",
            "read_comment",
            "miss",
        ][self.index()]
    }
}

/// A thread's paths, in the memory that it has reserved for them.
pub struct Paths {
    path: Vec<u8>,
    temporary: Vec<u8>,
}

impl Paths {
    pub fn new() -> Self {
        Self { path: Vec::with_capacity(PATH_BYTES), temporary: Vec::with_capacity(PATH_BYTES) }
    }

    /// Make a blog's folder, if it is not there.
    pub fn make_blog(&mut self, folder: impl AsFd, blog: u64) -> Result<(), Errno> {
        self.path.clear();
        let _ = write!(self.path, "blog-{blog}\0");
        match mkdirat(folder, text(&self.path), Mode::RWXU) {
            Err(Errno::EXIST) => Ok(()),
            result => result,
        }
    }

    /// Name a file.
    pub fn name(&mut self, blog: u64, kind: Kind, number: u64) {
        let (name, suffix) = kind.names();
        self.path.clear();
        let _ = write!(self.path, "blog-{blog}/{name}-{number}.{suffix}");
        self.temporary.clear();
        self.temporary.extend_from_slice(&self.path);
        self.temporary.extend_from_slice(b".tmp\0");
        self.path.push(0);
    }

    /// Write a file of `bytes` under a temporary name and rename it. Two threads may be at the same one: the later
    /// rename then finds nothing, and as in the original takes the file away altogether.
    pub fn write(
        &mut self,
        folder: impl AsFd,
        (blog, kind, number): (u64, Kind, u64),
        source: &mut Source,
        list: Option<&mut List>,
        bytes: u64,
    ) -> Result<(), Errno> {
        self.name(blog, kind, number);
        let (path, temporary) = (text(&self.path), text(&self.temporary));
        let flags = OFlags::CREATE | OFlags::TRUNC | OFlags::WRONLY | OFlags::CLOEXEC;
        let mode = Mode::RUSR | Mode::WUSR;
        if let Some(list) = list {
            list.clear();
            list.open(folder.as_fd().as_raw_fd(), temporary, flags, mode.bits(), u32::MAX);
            for begin in (0..bytes).step_by(WRITE_BYTES) {
                let piece = usize::try_from(bytes - begin).map_or(WRITE_BYTES, |rest| rest.min(WRITE_BYTES));
                list.write(Target::Opened, source.next(piece));
            }
            list.close(Target::Opened);
            list.run(u64::MAX);
            let written = list.sum();
            if list.result(0).is_some_and(|opened| opened.is_ok()) && written != Ok(bytes) {
                let _ = unlinkat(&folder, temporary, AtFlags::empty());
            }
            if written? < bytes {
                return Err(Errno::NOSPC);
            }
        } else {
            let file = openat(&folder, temporary, flags, mode)?;
            write_from(&file, source, bytes, WRITE_BYTES).inspect_err(|_| {
                let _ = unlinkat(&folder, temporary, AtFlags::empty());
            })?;
        }
        renameat(&folder, temporary, &folder, path).inspect_err(|_| {
            let _ = unlinkat(&folder, temporary, AtFlags::empty());
            let _ = unlinkat(&folder, path, AtFlags::empty());
        })
    }

    /// Read a file to its end; returns its size.
    pub fn read(
        &mut self,
        folder: impl AsFd,
        (blog, kind, number): (u64, Kind, u64),
        buffer: &mut [u8],
    ) -> Result<u64, Errno> {
        self.name(blog, kind, number);
        let file = openat(folder, text(&self.path), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        read_to_end(&file, buffer)
    }

    /// Add the calls that read a file to its end; a missing one `ends` the list, or is passed over.
    pub fn list_read(
        &mut self,
        list: &mut List,
        folder: impl AsFd,
        (blog, kind, number): (u64, Kind, u64),
        ends: bool,
    ) {
        self.name(blog, kind, number);
        let skip = if ends { u32::MAX } else { 2 };
        list.open(folder.as_fd().as_raw_fd(), text(&self.path), OFlags::RDONLY, 0, skip);
        list.read_to_end(Target::Opened, READ_BYTES);
        list.close(Target::Opened);
        list.stamp();
    }

    /// The file that was last at hand, for a person.
    pub fn last(&self) -> String {
        text(&self.path).to_string_lossy().into_owned()
    }
}

fn text(path: &[u8]) -> &CStr {
    CStr::from_bytes_until_nul(path).expect("a path ends with a zero")
}
