// SPDX-License-Identifier: Apache-2.0
//! The system calls of the load, without allocation: paths are made beforehand.

use std::ffi::CStr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{self, AtFlags, CWD, Mode, OFlags, SeekFrom};
use rustix::io::{self, Errno};

use crate::data::Source;

pub const FILE_MODE: Mode = Mode::from_raw_mode(0o644);

/// Open an existing file.
#[inline]
pub fn open(path: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    fs::openat(CWD, path, flags | OFlags::CLOEXEC, Mode::empty())
}

/// Open a file, creating it if it is not there.
#[inline]
pub fn create(path: &CStr, flags: OFlags) -> Result<OwnedFd, Errno> {
    fs::openat(CWD, path, flags | OFlags::CREATE | OFlags::CLOEXEC, FILE_MODE)
}

/// Write all of `bytes` at the file's position, in one call if the filesystem takes them in one.
#[inline]
pub fn write_all(file: impl AsFd, mut bytes: &[u8]) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match io::write(&file, bytes) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Write this many bytes of a source at the file's position, in pieces.
#[inline]
pub fn write_from(
    file: impl AsFd,
    source: &mut Source,
    mut bytes: u64,
    piece_bytes: usize,
) -> Result<(), Errno> {
    while bytes > 0 {
        let piece = usize::try_from(bytes).map_or(piece_bytes, |bytes| bytes.min(piece_bytes));
        write_all(&file, source.next(piece))?;
        bytes -= piece as u64;
    }
    Ok(())
}

/// Read from the file's position to its end; how much that was.
#[inline]
pub fn read_to_end(file: impl AsFd, buffer: &mut [u8]) -> Result<u64, Errno> {
    let mut total = 0;
    loop {
        match read(&file, buffer)? {
            0 => return Ok(total),
            bytes => total += bytes as u64,
        }
    }
}

/// Read at the file's position, as much as one call gives; 0 is the end of the file.
#[inline]
pub fn read(file: impl AsFd, buffer: &mut [u8]) -> Result<usize, Errno> {
    loop {
        match io::read(&file, &mut *buffer) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Read at a place of the file.
#[inline]
pub fn read_at(file: impl AsFd, buffer: &mut [u8], offset: u64) -> Result<usize, Errno> {
    loop {
        match io::pread(&file, &mut *buffer, offset) {
            Err(Errno::INTR) => {}
            result => return result,
        }
    }
}

/// Write all of `bytes` at a place of the file.
#[inline]
pub fn write_all_at(file: impl AsFd, mut bytes: &[u8], mut offset: u64) -> Result<(), Errno> {
    while !bytes.is_empty() {
        match io::pwrite(&file, bytes, offset) {
            Ok(0) => return Err(Errno::NOSPC),
            Ok(written) => {
                bytes = &bytes[written..];
                offset += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[inline]
pub fn seek(file: impl AsFd, to: SeekFrom) -> Result<(), Errno> {
    fs::seek(file, to).map(|_| ())
}

#[inline]
pub fn look_at(path: &CStr) -> Result<(), Errno> {
    fs::statat(CWD, path, AtFlags::empty()).map(|_| ())
}

#[inline]
pub fn delete(path: &CStr) -> Result<(), Errno> {
    fs::unlinkat(CWD, path, AtFlags::empty())
}
