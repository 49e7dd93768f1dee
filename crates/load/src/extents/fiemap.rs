// SPDX-License-Identifier: Apache-2.0
//! A file's map of extents (`FS_IOC_FIEMAP`, Documentation/filesystems/fiemap.rst).

use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::ioctl::{self, Opcode, Updater, opcode};

const SYNC: u32 = 0x0001;
const EXTENT_LAST: u32 = 0x0001;
const EXTENT_UNKNOWN: u32 = 0x0002;
const EXTENT_DELAYED: u32 = 0x0004;
const EXTENT_ENCODED: u32 = 0x0008;
const EXTENT_INLINE: u32 = 0x0200;
const AT_ONCE: usize = 256;
/// The call's number holds the size of the map without its extents.
const FS_IOC_FIEMAP: Opcode = opcode::read_write::<Header>(b'f', 11);

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Header {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    reserved_more: [u32; 3],
}

#[repr(C)]
struct Request {
    header: Header,
    extents: [RawExtent; AT_ONCE],
}

/// Where a part of a file lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    pub physical: u64,
    /// Its length in the file; a compressed extent may be stored in less.
    pub bytes: u64,
    pub flags: u32,
}

impl Extent {
    pub fn has_place(&self) -> bool {
        self.flags & (EXTENT_UNKNOWN | EXTENT_DELAYED | EXTENT_INLINE) == 0
    }

    /// Whether `next` lies where this one ends. How long a compressed one is on the disk is not found; it is not longer
    /// than its content, so what begins within that much behind it is taken to be adjacent.
    pub fn is_followed_by(&self, next: &Self) -> bool {
        if self.flags & EXTENT_ENCODED == 0 {
            return self.physical + self.bytes == next.physical;
        }
        next.physical > self.physical && next.physical - self.physical <= self.bytes
    }
}

/// The request, kept from file to file.
pub struct Map(Box<Request>);

impl Map {
    pub fn new() -> Self {
        Self(Box::new(Request { header: Header::default(), extents: [RawExtent::default(); AT_ONCE] }))
    }

    /// Hand each extent of a file to `take`, in the order of its content, after writing back dirty data.
    /// Returns whether the filesystem supports this.
    pub fn extents(&mut self, file: impl AsFd, mut take: impl FnMut(Extent)) -> Result<bool, Errno> {
        let mut start = 0;
        loop {
            self.0.header = Header {
                start,
                length: u64::MAX - start,
                flags: SYNC,
                count: u32::try_from(AT_ONCE).expect("it is small"),
                ..Header::default()
            };
            // SAFETY: the kernel writes at most `count` extents behind the header, and there is room for them.
            let found = unsafe { ioctl::ioctl(&file, Updater::<FS_IOC_FIEMAP, Request>::new(&mut self.0)) };
            match found {
                Ok(()) => {}
                Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::BADR) => return Ok(false),
                Err(error) => return Err(error),
            }
            let mapped = &self.0.extents[..(self.0.header.mapped as usize).min(AT_ONCE)];
            for raw in mapped {
                take(Extent { physical: raw.physical, bytes: raw.length, flags: raw.flags });
            }
            match mapped.last() {
                Some(last) if last.flags & EXTENT_LAST == 0 => start = last.logical + last.length,
                _ => return Ok(true),
            }
        }
    }
}
