// SPDX-License-Identifier: Apache-2.0
//! Lists of system calls, which the lab's kernel takes in one hand-over and makes one after the other as if each had been
//! made by itself (`kernel/cpu/strata_list.c`): most of a call's real time in the lab is its hand-over.
//!
//! A list has its own memory for paths and data, reserved when it is made. Elsewhere, and where the kernel refuses
//! (a tracer), its calls are made one by one.

use std::ffi::CStr;
use std::io;
use std::os::fd::RawFd;
use std::path::Path;
use std::sync::OnceLock;

use clap::ValueEnum;
use rustix::fs::{AtFlags, OFlags};
use rustix::io::Errno;

use crate::buffer::Buffer;
use crate::clock::now_ns;

/// Of `kernel/cpu/strata_list.h`, as the two structures and the flags below.
const STRATA_LIST: libc::c_long = 21_332;
const OPENED: u32 = 1;
const REPEATED: u32 = 2;
const STAMPED: u32 = 4;
/// The lab's kernel alone has it.
const SIGN_OF_THE_LAB: &str = "/proc/strata_cpu";
const PAGE_BYTES: usize = 4096;
/// For an argument that is not used.
const NONE: u64 = 0;
/// The result of a call before it is made.
const NOT_MADE: i64 = i64::MIN;

#[derive(Debug, Clone, Copy)]
#[repr(C)]
struct Call {
    number: u64,
    arguments: [u64; 6],
    result: i64,
    at_ns: u64,
    flags: u32,
    skip: u32,
}

#[derive(Default)]
#[repr(C)]
struct Head {
    calls: u64,
    count: u32,
    next: u32,
    until_ns: u64,
    opened: i32,
    unstamped: u32,
    time: [u64; 2],
    reads_clock: u64,
}

/// How operations that are known together are carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum HandOver {
    /// Each by itself
    Single,
    /// As lists in the lab, each by itself elsewhere
    Lists,
    /// Like lists, but call by call
    Calls,
}

static HAND_OVER: OnceLock<HandOver> = OnceLock::new();

/// Choose for the whole process; the first choice holds.
pub fn choose(wanted: HandOver) {
    let is_lab = Path::new(SIGN_OF_THE_LAB).exists();
    if is_lab {
        map_program();
    }
    let _ = HAND_OVER.set(if wanted == HandOver::Lists && !is_lab { HandOver::Single } else { wanted });
}

/// Map the whole program, so that no page fault tells one hand-over's code from another's.
fn map_program() {
    unsafe extern "C" {
        static __executable_start: u8;
        static edata: u8;
    }
    let (start, end) = (&raw const __executable_start as usize, &raw const edata as usize);
    let first = start / PAGE_BYTES * PAGE_BYTES;
    // SAFETY: mapping pages of the program changes none of them. Where it fails, they are mapped at their first use.
    unsafe { libc::madvise(first as *mut libc::c_void, end - first, libc::MADV_POPULATE_READ) };
}

pub fn chosen() -> HandOver {
    *HAND_OVER.get().unwrap_or(&HandOver::Single)
}

/// A file of which a call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// The file that the list's last open has opened.
    Opened,
    Fd(RawFd),
}

pub struct List {
    calls: Vec<Call>,
    head: Head,
    room: Vec<u8>,
    read_buffer: Buffer,
    by_kernel: bool,
}

impl List {
    /// A list of at most this many calls, with this much room for paths and written data; none if operations are carried
    /// out by themselves.
    pub fn new(hand_over: HandOver, calls: usize, room_bytes: usize, read_bytes: usize) -> Option<Self> {
        (hand_over != HandOver::Single).then(|| Self {
            calls: Vec::with_capacity(calls),
            head: Head::default(),
            room: Vec::with_capacity(room_bytes),
            read_buffer: Buffer::new(read_bytes.max(size_of::<libc::stat>())),
            by_kernel: hand_over == HandOver::Lists,
        })
    }

    pub fn clear(&mut self) {
        self.calls.clear();
        self.room.clear();
    }

    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether this many calls with these bytes can be added.
    pub fn has_room(&self, calls: usize, bytes: usize) -> bool {
        self.calls.capacity() - self.calls.len() >= calls && self.room.capacity() - self.room.len() >= bytes
    }

    /// Open a file; `skip` calls are left out if that fails.
    pub fn open(&mut self, folder: RawFd, path: &CStr, flags: OFlags, mode: u32, skip: u32) {
        let path = self.kept(path.to_bytes_with_nul());
        let flags = u64::from((flags | OFlags::CLOEXEC).bits());
        self.push(libc::SYS_openat, [word(folder), path, flags, mode.into(), NONE, NONE], skip);
    }

    pub fn look_at(&mut self, folder: RawFd, path: &CStr, flags: AtFlags) {
        let path = self.kept(path.to_bytes_with_nul());
        let found = self.read_buffer.as_mut_ptr() as u64;
        self.push(
            libc::SYS_newfstatat,
            [word(folder), path, found, flags.bits().into(), NONE, NONE],
            u32::MAX,
        );
    }

    pub fn delete(&mut self, folder: RawFd, path: &CStr) {
        let path = self.kept(path.to_bytes_with_nul());
        self.push(libc::SYS_unlinkat, [word(folder), path, 0, NONE, NONE, NONE], u32::MAX);
    }

    pub fn seek(&mut self, file: Target, offset: u64, whence: libc::c_int) {
        self.push_to(file, libc::SYS_lseek, [offset, word(whence)]);
    }

    /// Read from the file's position to its end, in pieces of at most this many bytes. The result is their sum.
    pub fn read_to_end(&mut self, file: Target, bytes: usize) {
        assert!(bytes <= self.read_buffer.len());
        let buffer = self.read_buffer.as_mut_ptr() as u64;
        self.push_to(file, libc::SYS_read, [buffer, bytes as u64]);
        self.last().flags |= REPEATED;
    }

    pub fn write(&mut self, file: Target, content: &[u8]) {
        let kept = self.kept(content);
        self.push_to(file, libc::SYS_write, [kept, content.len() as u64]);
    }

    /// Write content that stays as it is until the list has run.
    pub fn write_lent(&mut self, file: Target, content: &[u8]) {
        self.push_to(file, libc::SYS_write, [content.as_ptr() as u64, content.len() as u64]);
    }

    pub fn fsync(&mut self, file: Target) {
        self.push_to(file, libc::SYS_fsync, [NONE, NONE]);
    }

    pub fn close(&mut self, file: Target) {
        self.push_to(file, libc::SYS_close, [NONE, NONE]);
    }

    /// Read the clock after the last call.
    pub fn stamp(&mut self) {
        self.last().flags |= STAMPED;
    }

    fn last(&mut self) -> &mut Call {
        self.calls.last_mut().expect("a call was added before")
    }

    fn kept(&mut self, bytes: &[u8]) -> u64 {
        // It must not move: earlier calls point to it.
        assert!(self.has_room(0, bytes.len()));
        let at = self.room.len();
        self.room.extend_from_slice(bytes);
        self.room[at..].as_ptr() as u64
    }

    fn push_to(&mut self, file: Target, number: libc::c_long, more: [u64; 2]) {
        let fd = if let Target::Fd(fd) = file { word(fd) } else { NONE };
        self.push(number, [fd, more[0], more[1], NONE, NONE, NONE], u32::MAX);
        if file == Target::Opened {
            self.last().flags |= OPENED;
        }
    }

    fn push(&mut self, number: libc::c_long, arguments: [u64; 6], skip: u32) {
        assert!(self.has_room(1, 0));
        self.calls.push(Call {
            number: number.unsigned_abs(),
            arguments,
            result: NOT_MADE,
            at_ns: 0,
            flags: 0,
            skip,
        });
    }

    /// Make the calls, until the clock shows `until_ns`. A failed call ends the list, unless it says how many to leave out.
    pub fn run(&mut self, until_ns: u64) {
        self.head = Head {
            calls: self.calls.as_ptr() as u64,
            count: u32::try_from(self.calls.len()).expect("a list is short"),
            opened: -1,
            until_ns,
            ..Head::default()
        };
        while self.head.next < self.head.count {
            if !self.by_kernel || !self.hand_over() {
                self.call();
            }
            if let Some(index) = self.head.unstamped.checked_sub(1) {
                let at_ns = now_ns();
                self.calls[index as usize].at_ns = at_ns;
                self.head.unstamped = 0;
                if at_ns >= until_ns {
                    self.head.next = self.head.count;
                }
            }
        }
    }

    /// Hand the list over; false if the kernel takes none.
    fn hand_over(&mut self) -> bool {
        // SAFETY: the kernel reads and changes the head, the calls and what they point to, which is this list's memory.
        unsafe { libc::syscall(STRATA_LIST, &raw mut self.head) == 0 }
    }

    /// Make the next call as the kernel would.
    fn call(&mut self) {
        let index = self.head.next;
        let call = &mut self.calls[index as usize];
        let mut words = call.arguments;
        if call.flags & OPENED != 0 {
            words[0] = word(self.head.opened);
        }
        let number = libc::c_long::try_from(call.number).expect("it was one");
        // SAFETY: only the functions above add calls, whose arguments point to this list's memory.
        let done =
            unsafe { libc::syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]) };
        let error = || io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO);
        let result = if done < 0 { -i64::from(error()) } else { done };
        if number == libc::SYS_openat && result >= 0 {
            self.head.opened = i32::try_from(result).expect("a descriptor is small");
        }
        call.result = if result < 0 { result } else { call.result.max(0) + result };
        if call.flags & REPEATED != 0 && result > 0 {
            return;
        }
        let left = self.head.count - index - 1;
        self.head.next += 1 + if result < 0 { call.skip.min(left) } else { 0 };
        if call.flags & STAMPED != 0 || result < 0 {
            self.head.unstamped = index + 1;
        }
    }

    /// The result of call `index`; none if it was not made.
    pub fn result(&self, index: usize) -> Option<Result<u64, Errno>> {
        let result = self.calls[index].result;
        let error = || i32::try_from(-result).map_or(Errno::IO, Errno::from_raw_os_error);
        (result != NOT_MADE).then(|| u64::try_from(result).map_err(|_| error()))
    }

    /// The bytes that the calls after the first, an opening, have moved; the first error, if there is one.
    pub fn sum(&self) -> Result<u64, Errno> {
        let moved = (0..self.len()).map_while(|index| self.result(index));
        moved.enumerate().map(|(index, moved)| Ok(if index > 0 { moved? } else { moved.map(|_| 0)? })).sum()
    }

    /// When call `index` had been made, if it was stamped or failed.
    pub fn made_ns(&self, index: usize) -> Option<u64> {
        Some(self.calls[index].at_ns).filter(|at_ns| *at_ns > 0)
    }
}

/// A number of a call's, with its sign.
#[expect(clippy::cast_sign_loss, reason = "that is how it is passed")]
fn word(number: i32) -> u64 {
    i64::from(number) as u64
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;
    use crate::files;

    fn list() -> List {
        List::new(HandOver::Calls, 16, 256, 4096).unwrap()
    }

    #[test]
    fn a_list_of_calls_does_what_they_do_and_a_failure_leaves_out_what_depends_on_it() {
        let folder = tempfile::tempdir().unwrap();
        let opened = crate::folder::existing(folder.path()).unwrap();
        let at = opened.as_raw_fd();
        let mut list = list();
        list.open(at, c"one", OFlags::CREATE | OFlags::WRONLY, 0o600, 2);
        list.write(Target::Opened, b"abc");
        list.close(Target::Opened);
        list.open(at, c"two", OFlags::RDONLY, 0, 2);
        list.read_to_end(Target::Opened, 2);
        list.close(Target::Opened);
        list.open(at, c"one", OFlags::RDONLY, 0, 2);
        list.read_to_end(Target::Opened, 2);
        list.stamp();
        list.close(Target::Opened);
        list.look_at(at, c"two", AtFlags::empty());
        list.delete(at, c"one");

        list.run(u64::MAX);

        let results: Vec<_> = (0..list.len()).map(|index| list.result(index)).collect();
        assert_eq!(results[1], Some(Ok(3)));
        assert_eq!(results[3..6], [Some(Err(Errno::NOENT)), None, None]);
        assert_eq!(results[7..], [Some(Ok(3)), Some(Ok(0)), Some(Err(Errno::NOENT)), None]);
        let stamped: Vec<_> = (0..list.len()).filter(|index| list.made_ns(*index).is_some()).collect();
        assert_eq!(stamped, [3, 7, 9]);
        assert!(list.made_ns(3) <= list.made_ns(7));
    }

    #[test]
    fn no_call_is_made_once_the_time_is_over() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("file");
        std::fs::write(&place, "").unwrap();
        let path = crate::personality::file_set::c_path(&place);
        let file = files::open(&path, OFlags::RDWR).unwrap();
        let target = Target::Fd(file.as_raw_fd());
        let mut list = list();
        list.write(target, b"1");
        list.write(target, b"2");
        list.stamp();
        list.write(target, b"3");

        list.run(1);

        assert_eq!(std::fs::read(&place).unwrap(), b"12");
        assert_eq!(list.result(2), None);
    }
}
