// SPDX-License-Identifier: Apache-2.0
//! One thread of a recording.

use std::ffi::CString;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use rustix::fs::{self, Advice, AtFlags, CWD, FallocateFlags, Mode, OFlags, RawDir, SeekFrom, Timestamps};
use rustix::io::Errno;
use rustix::time::Timespec;

use super::Pace;
use super::recording::{Call, FLAGS, Kind, Recording};
use crate::buffer::Buffer;
use crate::clock::{now_ns, sleep_until_or};
use crate::data::Source;
use crate::files;
use crate::report::Tally;

/// Larger reads and writes are done in pieces.
pub const PIECE_BYTES: usize = 1 << 20;
const LIST_BYTES: usize = 32 << 10;
const MODE: Mode = Mode::from_raw_mode(0o755);

/// One copy of the application: its files, and which calls have ended.
pub struct Copy<'a> {
    pub recording: &'a Recording,
    pub paths: Vec<CString>,
    handles: Vec<Mutex<Option<Arc<OwnedFd>>>>,
    /// By call, when it ended; 0: not yet.
    ended_ns: Vec<AtomicU64>,
    /// By call, whether another thread waits for it.
    is_awaited: Vec<bool>,
    lock: Mutex<()>,
    changed: Condvar,
}

impl<'a> Copy<'a> {
    pub fn new(recording: &'a Recording, paths: Vec<CString>) -> Self {
        let mut is_awaited = vec![false; recording.calls.len()];
        for before in recording.calls.iter().flat_map(|call| &call.after) {
            is_awaited[*before] = true;
        }
        Self {
            recording,
            paths,
            handles: (0..recording.handles).map(|_| Mutex::default()).collect(),
            ended_ns: recording.calls.iter().map(|_| AtomicU64::new(0)).collect(),
            is_awaited,
            lock: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// When a call ended, once it has; a thread that was stopped does not wait for it.
    fn wait(&self, call: usize, is_stopped: &AtomicBool) -> u64 {
        let ended = || self.ended_ns[call].load(Ordering::Acquire);
        let mut held = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while ended() == 0 && !is_stopped.load(Ordering::Relaxed) {
            let waited = self.changed.wait_timeout(held, Duration::from_millis(100));
            held = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        ended()
    }

    fn end(&self, call: usize, now_ns: u64) {
        self.ended_ns[call].store(now_ns, Ordering::Release);
        if self.is_awaited[call] {
            drop(self.lock.lock());
            self.changed.notify_all();
        }
    }

    fn handle(&self, number: usize) -> Result<Arc<OwnedFd>, Errno> {
        let held = self.handles[number].lock().unwrap_or_else(PoisonError::into_inner);
        held.clone().ok_or(Errno::BADF)
    }

    fn swap(&self, number: usize, file: Option<OwnedFd>) -> Option<Arc<OwnedFd>> {
        let mut held = self.handles[number].lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *held, file.map(Arc::new))
    }
}

/// What a thread counted.
pub struct Counted {
    pub kinds: Vec<Tally>,
    pub lag: Tally,
    pub failed: u64,
    pub first_failure: Option<(usize, Errno)>,
}

pub struct Worker<'a> {
    pub copy: &'a Copy<'a>,
    pub thread: usize,
    pub pace: Pace,
    pub speed_thousandths: u64,
    pub begin_ns: u64,
    pub source: Source,
    pub buffer: Buffer,
}

impl Worker<'_> {
    pub fn run(mut self, stop: &AtomicBool) -> Counted {
        let is_stopped = || stop.load(Ordering::Relaxed);
        let kinds = (0..Kind::COUNT).map(|_| Tally::new()).collect();
        let mut counted = Counted { kinds, lag: Tally::new(), failed: 0, first_failure: None };
        let mut ended_ns = self.begin_ns;
        // The wake-up of a sleep may come 50 us late without this.
        // SAFETY: it takes one number, and touches no memory.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
        let copy = self.copy;
        let own = |call: &&(usize, &Call)| call.1.thread == self.thread;
        let calls: Vec<_> = copy.recording.calls.iter().enumerate().collect();
        for (number, call) in calls.iter().filter(own) {
            for before in &call.after {
                ended_ns = ended_ns.max(copy.wait(*before, stop));
            }
            let due_ns = match self.pace {
                Pace::Original => self.begin_ns + self.scaled(call.at_ns),
                Pace::Think => ended_ns + self.scaled(call.think_ns),
                Pace::Asap => 0,
            };
            let begun_ns = sleep_until_or(due_ns, is_stopped);
            if is_stopped() {
                break;
            }
            if self.pace == Pace::Original {
                counted.lag.record(0, begun_ns - due_ns);
            }
            self.source.restart(*number as u64);
            let done = act(call, copy, &mut self.source, &mut self.buffer);
            ended_ns = now_ns();
            copy.end(*number, ended_ns);
            match done {
                Ok(bytes) => counted.kinds[call.kind as usize].record(bytes, ended_ns - begun_ns),
                Err(error) => {
                    counted.failed += 1;
                    counted.first_failure.get_or_insert((*number, error));
                }
            }
        }
        counted
    }

    fn scaled(&self, recorded_ns: u64) -> u64 {
        let ns = u128::from(recorded_ns) * 1000 / u128::from(self.speed_thousandths);
        u64::try_from(ns).unwrap_or(u64::MAX / 2)
    }
}

/// Make a call; the bytes that it moved.
fn act(call: &Call, copy: &Copy, source: &mut Source, buffer: &mut Buffer) -> Result<u64, Errno> {
    let [_, second, third, fourth] = call.arguments;
    let path = |number: usize| copy.paths[call.handle(number)].as_c_str();
    let file = || copy.handle(call.handle(0));
    match call.kind {
        Kind::Open => {
            let opened = fs::openat(CWD, path(1), open_flags(third), Mode::from_raw_mode(0o644))?;
            drop(copy.swap(call.handle(0), Some(opened)));
        }
        Kind::Close => drop(copy.swap(call.handle(0), None).ok_or(Errno::BADF)?),
        Kind::Read => return read(second, buffer, |piece, _| files::read(&file()?, piece)),
        Kind::ReadAt => {
            let file = file()?;
            return read(second, buffer, |piece, done| files::read_at(&file, piece, third + done));
        }
        Kind::Write => return write(second, source, |piece, _| files::write_all(&file()?, piece)),
        Kind::WriteAt => {
            let file = file()?;
            return write(second, source, |piece, done| files::write_all_at(&file, piece, third + done));
        }
        Kind::Seek => files::seek(&file()?, SeekFrom::Start(second))?,
        Kind::Fsync => fs::fsync(&file()?)?,
        Kind::Fdatasync => fs::fdatasync(&file()?)?,
        Kind::SyncRange => sync_range(&*file()?, second, third, fourth)?,
        Kind::SyncFilesystem => fs::syncfs(&file()?)?,
        Kind::Sync => fs::sync(),
        Kind::Truncate => fs::ftruncate(&file()?, second)?,
        Kind::Allocate => {
            let mode = FallocateFlags::from_bits_retain(u32::try_from(second).unwrap_or(u32::MAX));
            fs::fallocate(&file()?, mode, third, fourth)?;
        }
        Kind::Advise => fs::fadvise(&file()?, second, third.try_into().ok(), advice(fourth))?,
        Kind::Copy => {
            let (from, to) = (file()?, copy.handle(call.handle(1))?);
            return fs::copy_file_range(&from, None, &to, None, call.handle(2)).map(|bytes| bytes as u64);
        }
        Kind::List => {
            let mut room = Vec::with_capacity(LIST_BYTES);
            RawDir::new(&file()?, room.spare_capacity_mut()).next().transpose()?;
        }
        // Which pages of it were touched, nobody recorded.
        Kind::Map => drop(file()?),
        Kind::Stat => drop(fs::statat(CWD, path(0), AtFlags::SYMLINK_NOFOLLOW)),
        Kind::MakeFolder => fs::mkdirat(CWD, path(0), MODE)?,
        Kind::RemoveFolder => fs::unlinkat(CWD, path(0), AtFlags::REMOVEDIR)?,
        Kind::Unlink => files::delete(path(0))?,
        Kind::Rename => fs::renameat(CWD, path(0), CWD, path(1))?,
        Kind::Link => fs::linkat(CWD, path(0), CWD, path(1), AtFlags::empty())?,
        Kind::Symlink => fs::symlinkat(c"target", CWD, path(0))?,
        Kind::Touch => {
            let now = Timespec { tv_sec: 0, tv_nsec: fs::UTIME_NOW };
            let times = Timestamps { last_access: now, last_modification: now };
            fs::utimensat(CWD, path(0), &times, AtFlags::SYMLINK_NOFOLLOW)?;
        }
    }
    Ok(0)
}

fn read(
    bytes: u64,
    buffer: &mut Buffer,
    mut take: impl FnMut(&mut [u8], u64) -> Result<usize, Errno>,
) -> Result<u64, Errno> {
    let mut done = 0;
    loop {
        let piece = usize::try_from(bytes - done).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
        let got = take(&mut buffer[..piece], done)?;
        done += got as u64;
        if got < piece || done == bytes {
            return Ok(done);
        }
    }
}

fn write(
    bytes: u64,
    source: &mut Source,
    mut put: impl FnMut(&[u8], u64) -> Result<(), Errno>,
) -> Result<u64, Errno> {
    let mut done = 0;
    while done < bytes {
        let piece = usize::try_from(bytes - done).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
        put(source.next(piece), done)?;
        done += piece as u64;
    }
    Ok(bytes)
}

fn open_flags(letters: u64) -> OFlags {
    let known = [
        ('c', OFlags::CREATE),
        ('x', OFlags::EXCL),
        ('t', OFlags::TRUNC),
        ('a', OFlags::APPEND),
        ('d', OFlags::DIRECT),
        ('s', OFlags::SYNC),
        ('y', OFlags::DSYNC),
        ('D', OFlags::DIRECTORY),
    ];
    let has = |letter| FLAGS.find(letter).is_some_and(|bit| letters >> bit & 1 == 1);
    let access = match (has('r'), has('w')) {
        (true, true) => OFlags::RDWR,
        (false, true) => OFlags::WRONLY,
        _ => OFlags::RDONLY,
    };
    let given = known.into_iter().filter(|(letter, _)| has(*letter));
    given.fold(access | OFlags::CLOEXEC, |flags, (_, flag)| flags | flag)
}

fn sync_range(file: &OwnedFd, offset: u64, bytes: u64, flags: u64) -> Result<(), Errno> {
    let number = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let flags = u32::try_from(flags).unwrap_or(u32::MAX);
    // SAFETY: it takes numbers, of which the first is an open file, and touches no memory.
    match unsafe { libc::sync_file_range(file.as_raw_fd(), number(offset), number(bytes), flags) } {
        0 => Ok(()),
        _ => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
    }
}

/// `POSIX_FADV_NORMAL` and the others, as linux/fadvise.h numbers them.
fn advice(number: u64) -> Advice {
    let known = [
        Advice::Normal,
        Advice::Random,
        Advice::Sequential,
        Advice::WillNeed,
        Advice::DontNeed,
        Advice::NoReuse,
    ];
    usize::try_from(number).ok().and_then(|number| known.get(number)).copied().unwrap_or(Advice::Normal)
}
