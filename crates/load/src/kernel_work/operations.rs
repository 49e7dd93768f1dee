// SPDX-License-Identifier: Apache-2.0
//! The operations: system calls, page faults and switches; files; files on a disk.

#![allow(
    clippy::unused_self,
    clippy::unnecessary_wraps,
    clippy::needless_pass_by_value,
    reason = "all operations are called alike"
)]
#![allow(clippy::cast_possible_truncation, reason = "counts of operations and places in a buffer are small")]

use std::fs::{self, File, OpenOptions};
use std::hint::black_box;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::ptr;

use crate::buffer::Buffer;
use crate::clock::now_ns;

const PAGE: usize = 4096;
const FILE_BYTES: u64 = 32 << 20;
const FILES_AT_ONCE: u64 = 500;
const LISTED_FILES: u64 = 500;
const PIECE: usize = 1 << 20;

/// The state of a series of operations in one folder.
pub struct Bench {
    folder: PathBuf,
    buffer: Buffer,
    random: u64,
    file: Option<File>,
}

pub struct Operation {
    pub name: &'static str,
    pub times: u64,
    /// Whether the kernel's threads do a part of it.
    pub has_threads: bool,
    /// False if this machine cannot do it.
    pub prepare: fn(&mut Bench) -> io::Result<bool>,
    pub run: fn(&mut Bench, u64) -> io::Result<()>,
}

const fn of(
    name: &'static str,
    times: u64,
    prepare: fn(&mut Bench) -> io::Result<bool>,
    run: fn(&mut Bench, u64) -> io::Result<()>,
) -> Operation {
    Operation { name, times, has_threads: false, prepare, run }
}

const fn with_threads(operation: Operation) -> Operation {
    Operation { has_threads: true, ..operation }
}

pub const OF_MEMORY: &[Operation] = &[
    of("getppid", 200_000, Bench::nothing, Bench::getppid),
    of("user-code", 4_000, Bench::nothing, Bench::user_code),
    of("clock", 1_000_000, Bench::nothing, Bench::clock),
    of("page-fault", 20_480, Bench::nothing, Bench::page_faults),
    of("map-64k", 20_000, Bench::nothing, Bench::map),
    of("fork", 400, Bench::nothing, Bench::fork),
    of("socket-turn", 20_000, Bench::nothing, Bench::turns),
    of("wakeup-turn", 20_000, Bench::on_two_processors, Bench::wakeups),
];

pub const OF_FILES: &[Operation] = &[
    of("stat", 50_000, Bench::with_file, Bench::stat),
    of("open", 30_000, Bench::with_file, Bench::open),
    of("read-4k", 50_000, Bench::with_file, |bench, times| bench.read(PAGE, times)),
    of("read-64k", 6_000, Bench::with_file, |bench, times| bench.read(16 * PAGE, times)),
    of("create", 4_000, Bench::nothing, Bench::create),
    of("rename", 10_000, Bench::nothing, Bench::rename),
    of("list", 50_000, Bench::with_folder, Bench::list),
];

/// Only in memory: of a disk's file some are written back meanwhile, more or fewer of them.
pub const OF_CACHE: &[Operation] = &[
    of("write-4k", 30_000, Bench::with_file, |bench, times| bench.write(PAGE, times, 0)),
    of("write-64k", 5_000, Bench::with_file, |bench, times| bench.write(16 * PAGE, times, 0)),
];

pub const OF_DISKS: &[Operation] = &[
    with_threads(of("read-4k-direct", 10_000, Bench::with_file, |bench, times| {
        bench.read_direct(PAGE, times)
    })),
    with_threads(of("read-64k-direct", 3_000, Bench::with_file, |bench, times| {
        bench.read_direct(16 * PAGE, times)
    })),
    with_threads(of("write-4k-sync", 400, Bench::with_file, |bench, times| bench.write(PAGE, times, 1))),
    with_threads(of("write-64k-sync", 300, Bench::with_file, |bench, times| {
        bench.write(16 * PAGE, times, 1)
    })),
];

pub const OF_DATA: &[Operation] = &[with_threads(of("append-1m", 48, Bench::nothing, Bench::append))];

impl Bench {
    pub fn new(folder: PathBuf) -> Self {
        let mut buffer = Buffer::new(4 * PIECE);
        let mut random = 88_172_645_463_325_252;
        fill_with_words(&mut buffer, &mut random);
        Self { folder, buffer, random, file: None }
    }

    /// Remove the files.
    pub fn tidy(&mut self) {
        self.file = None;
        let _ = fs::remove_file(self.folder.join("file"));
        let _ = fs::remove_dir_all(self.folder.join("listed"));
    }

    fn nothing(&mut self) -> io::Result<bool> {
        Ok(true)
    }

    /// Have a file that is in the page cache.
    fn with_file(&mut self) -> io::Result<bool> {
        let path = self.folder.join("file");
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)?;
        if file.metadata()?.len() < FILE_BYTES {
            for at in (0..FILE_BYTES).step_by(PIECE) {
                file.write_all_at(&self.buffer[..PIECE], at)?;
            }
            file.sync_all()?;
        }
        for at in (0..FILE_BYTES).step_by(PIECE) {
            file.read_exact_at(&mut self.buffer[PIECE..2 * PIECE], at)?;
        }
        self.file = Some(file);
        Ok(true)
    }

    fn with_folder(&mut self) -> io::Result<bool> {
        let folder = self.folder.join("listed");
        fs::create_dir_all(&folder)?;
        for number in 0..LISTED_FILES {
            File::create(folder.join(format!("file-{number}")))?;
        }
        Ok(true)
    }

    fn on_two_processors(&mut self) -> io::Result<bool> {
        Ok(processors()?.len() > 1)
    }

    fn next(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }

    fn place(&mut self, bytes: usize) -> u64 {
        self.next() % (FILE_BYTES / bytes as u64) * bytes as u64
    }

    fn file(&self) -> &File {
        self.file.as_ref().expect("the operation is prepared with a file")
    }

    fn getppid(&mut self, times: u64) -> io::Result<()> {
        for _ in 0..times {
            black_box(std::os::unix::process::parent_id());
        }
        Ok(())
    }

    /// Code as programs have it: branches on data, loads, stores; it all fits into the second cache.
    fn user_code(&mut self, times: u64) -> io::Result<()> {
        let mut words = vec![0; 1024];
        for _ in 0..times {
            words.fill_with(|| self.next());
            words.sort_unstable();
            fill_with_words(&mut self.buffer[..2 * PAGE], &mut words[0]);
        }
        black_box(words);
        Ok(())
    }

    fn clock(&mut self, times: u64) -> io::Result<()> {
        for _ in 0..times {
            black_box(now_ns());
        }
        Ok(())
    }

    fn page_faults(&mut self, times: u64) -> io::Result<()> {
        const PAGES: u64 = 2048;
        for first in (0..times).step_by(PAGES as usize) {
            let pages = PAGES.min(times - first) as usize;
            let area = Area::new(pages * PAGE)?;
            // SAFETY: the area is ours; large pages would make one fault of many.
            unsafe { libc::madvise(area.start.cast(), area.bytes, libc::MADV_NOHUGEPAGE) };
            (0..pages).for_each(|page| area.touch(page * PAGE));
        }
        Ok(())
    }

    fn map(&mut self, times: u64) -> io::Result<()> {
        (0..times).try_for_each(|_| Area::new(16 * PAGE).map(|area| area.touch(0)))
    }

    fn fork(&mut self, times: u64) -> io::Result<()> {
        (0..times).try_for_each(|_| Child::new(|| ())?.wait())
    }

    /// A byte to another process and back: two switches and two wake-ups.
    fn turns(&mut self, times: u64) -> io::Result<()> {
        let all = processors()?;
        let (mut ours, mut theirs) = UnixStream::pair()?;
        keep_to(&all[..1])?;
        let end = ours.as_raw_fd();
        let child = Child::new(|| {
            // SAFETY: the child does not use the other end, which would keep the connection open.
            unsafe { libc::close(end) };
            let mut byte = [0];
            while theirs.read_exact(&mut byte).is_ok() && theirs.write_all(&byte).is_ok() {}
        })?;
        drop(theirs);
        let mut byte = [0];
        let done =
            (0..times).try_for_each(|_| ours.write_all(&byte).and_then(|()| ours.read_exact(&mut byte)));
        drop(ours);
        child.wait()?;
        keep_to(&all)?;
        done
    }

    /// As `turns`, but the scheduler chooses the processors, and is not told that the waker is about to sleep: as with an I/O.
    fn wakeups(&mut self, times: u64) -> io::Result<()> {
        let (there, back) = (event()?, event()?);
        let child =
            Child::new(|| _ = (0..times).try_for_each(|_| wait_for(&there).and_then(|()| signal(&back))))?;
        let done = (0..times).try_for_each(|_| signal(&there).and_then(|()| wait_for(&back)));
        child.wait()?;
        done
    }

    fn stat(&mut self, times: u64) -> io::Result<()> {
        let path = self.folder.join("file");
        (0..times).try_for_each(|_| fs::metadata(&path).map(|found| _ = black_box(found)))
    }

    fn open(&mut self, times: u64) -> io::Result<()> {
        let path = self.folder.join("file");
        (0..times).try_for_each(|_| File::open(&path).map(drop))
    }

    fn read(&mut self, bytes: usize, times: u64) -> io::Result<()> {
        for _ in 0..times {
            let at = self.place(bytes);
            let Self { file, buffer, .. } = self;
            file.as_ref().expect("prepared").read_exact_at(&mut buffer[PIECE..PIECE + bytes], at)?;
        }
        Ok(())
    }

    fn read_direct(&mut self, bytes: usize, times: u64) -> io::Result<()> {
        let mut options = OpenOptions::new();
        self.file = Some(options.read(true).custom_flags(libc::O_DIRECT).open(self.folder.join("file"))?);
        self.read(bytes, times)
    }

    fn write(&mut self, bytes: usize, times: u64, syncs: u64) -> io::Result<()> {
        for _ in 0..times {
            let at = self.place(bytes);
            self.file().write_all_at(&self.buffer[..bytes], at)?;
            (0..syncs).try_for_each(|_| self.file().sync_data())?;
        }
        Ok(())
    }

    fn create(&mut self, times: u64) -> io::Result<()> {
        let path = |number: u64| self.folder.join(format!("new-{number}"));
        for first in (0..times).step_by(FILES_AT_ONCE as usize) {
            let numbers = first..times.min(first + FILES_AT_ONCE);
            for number in numbers.clone() {
                File::create(path(number))?.write_all(&self.buffer[..1000])?;
            }
            for number in numbers {
                fs::remove_file(path(number))?;
            }
        }
        Ok(())
    }

    fn rename(&mut self, times: u64) -> io::Result<()> {
        let names = ["first", "second"].map(|name| self.folder.join(name));
        File::create(&names[0])?;
        for time in 0..times as usize {
            fs::rename(&names[time % 2], &names[(time + 1) % 2])?;
        }
        fs::remove_file(&names[times as usize % 2])
    }

    fn list(&mut self, times: u64) -> io::Result<()> {
        let mut seen = 0;
        while seen < times {
            seen += fs::read_dir(self.folder.join("listed"))?.count() as u64;
        }
        Ok(())
    }

    /// MiB after MiB of text, a sync after 16 of them.
    fn append(&mut self, times: u64) -> io::Result<()> {
        let path = self.folder.join("appended");
        let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
        for time in 1..=times {
            let from = self.next() as usize % (3 * PIECE);
            file.write_all(&self.buffer[from..from + PIECE])?;
            if time % 16 == 0 || time == times {
                file.sync_all()?;
            }
        }
        fs::remove_file(path)
    }
}

/// Text that compresses to about a third, as logs and sources do.
fn fill_with_words(buffer: &mut [u8], random: &mut u64) {
    let mut at = 0;
    while at < buffer.len() {
        *random ^= *random << 13;
        *random ^= *random >> 7;
        *random ^= *random << 17;
        let word = (*random % 400).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for letter in 0..3 + (word >> 60) % 8 {
            if let Some(byte) = buffer.get_mut(at) {
                *byte = b'a' + ((word >> (letter * 5)) & 15) as u8;
            }
            at += 1;
        }
        if let Some(byte) = buffer.get_mut(at) {
            *byte = if *random >> 61 == 0 { (*random >> 40) as u8 } else { b' ' };
        }
        at += 1;
    }
}

/// Anonymous memory, mapped and unmapped.
struct Area {
    start: *mut u8,
    bytes: usize,
}

impl Area {
    fn new(bytes: usize) -> io::Result<Self> {
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new mapping at a place that the kernel chooses.
        let start = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0) };
        if start == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(Self { start: start.cast(), bytes })
        }
    }

    fn touch(&self, at: usize) {
        debug_assert!(at < self.bytes);
        // SAFETY: the byte is within the mapping.
        unsafe { self.start.add(at).write_volatile(1) };
    }
}

impl Drop for Area {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and nobody has a reference into it.
        unsafe { libc::munmap(self.start.cast(), self.bytes) };
    }
}

struct Child(libc::pid_t);

impl Child {
    /// A process that does this and ends.
    fn new(work: impl FnOnce()) -> io::Result<Self> {
        // SAFETY: this program has no other threads, so the child may do anything.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                work();
                unsafe { libc::_exit(0) }
            }
            child => Ok(Self(child)),
        }
    }

    fn wait(self) -> io::Result<()> {
        // SAFETY: it is our child, and nobody wants its status.
        match unsafe { libc::waitpid(self.0, ptr::null_mut(), 0) } {
            -1 => Err(io::Error::last_os_error()),
            _ => Ok(()),
        }
    }
}

fn event() -> io::Result<File> {
    // SAFETY: no pointers.
    match unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) } {
        -1 => Err(io::Error::last_os_error()),
        // SAFETY: the descriptor is new, and nobody else's.
        new => Ok(unsafe { File::from_raw_fd(new) }),
    }
}

fn signal(mut event: &File) -> io::Result<()> {
    event.write_all(&1_u64.to_ne_bytes())
}

fn wait_for(mut event: &File) -> io::Result<()> {
    event.read_exact(&mut [0; 8])
}

/// The processors that this process may use.
fn processors() -> io::Result<Vec<usize>> {
    // SAFETY: the set is ours, zeroed as CPU_ZERO does, and its size is told.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    if unsafe { libc::sched_getaffinity(0, size_of_val(&set), &raw mut set) } != 0 {
        return Err(io::Error::last_os_error());
    }
    Ok((0..libc::CPU_SETSIZE as usize).filter(|number| unsafe { libc::CPU_ISSET(*number, &set) }).collect())
}

fn keep_to(processors: &[usize]) -> io::Result<()> {
    // SAFETY: as above.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    processors.iter().for_each(|number| unsafe { libc::CPU_SET(*number, &mut set) });
    match unsafe { libc::sched_setaffinity(0, size_of_val(&set), &raw const set) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
