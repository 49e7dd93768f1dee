// SPDX-License-Identifier: Apache-2.0
//! One thread of the load: goes through its loop, and records what each operation took. It allocates nothing meanwhile.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use rustix::fs::{OFlags, SeekFrom, fsync};
use rustix::io::Errno;

use crate::clock::now_ns;
use crate::data::Source;
use crate::files;
use crate::measured::{Done, Measured, Schedule};
use crate::personality::{Group, Kind, SLOTS, Step};
use crate::random::Random;
use crate::report::Tally;
use crate::shared::{Halt, Pace, Reason, Shared, Window};
use crate::stock::{File, Outcome, Wanted};
use crate::trace::Record;

/// A file that the thread has open.
struct Slot {
    fd: OwnedFd,
    set: usize,
    file: usize,
}

pub struct Worker<'a> {
    shared: &'a Shared,
    group: &'a Group,
    pace: &'a Pace,
    random: Random,
    source: Source,
    read_buffer: Vec<u8>,
    slots: [Option<Slot>; SLOTS],
    schedule: Option<Schedule>,
    /// Passes through the loop that are left to do.
    pub passes_left: u64,
    pub measured: Measured,
    /// The operations of the window, if they are wanted.
    pub trace: Option<Vec<Record>>,
}

/// What is counted for an append of nothing, for which no file is taken.
const NO_FILE: usize = usize::MAX;

impl<'a> Worker<'a> {
    pub fn new(shared: &'a Shared, group: &'a Group, pace: &'a Pace, random: Random, source: Source) -> Self {
        let read_bytes = group.steps.iter().map(|step| step.buffers().0).max().unwrap_or(0);
        let measured = Measured::new(group);
        let slots = [const { None }; SLOTS];
        let read_buffer = vec![0; read_bytes];
        Self {
            shared,
            group,
            pace,
            random,
            source,
            read_buffer,
            slots,
            schedule: None,
            passes_left: u64::MAX,
            measured,
            trace: None,
        }
    }

    /// Make room for as many intervals; with a schedule, start passes by it.
    pub fn time_by(&mut self, schedule: Option<Schedule>, intervals: usize) {
        self.measured.intervals = vec![0; intervals];
        self.measured.lag = schedule.is_some().then(Tally::new);
        self.schedule = schedule;
    }

    /// Go through the loop until the window is over or the run is stopped.
    pub fn run(&mut self, window: &Window) {
        if let Err(halt) = self.go(window) {
            let (reason, detail) = self.explain(&halt);
            self.shared.stop(window, reason, detail);
        }
    }

    fn go(&mut self, window: &Window) -> Result<(), Halt> {
        let steps = &self.group.steps;
        let mut now = now_ns();
        while self.passes_left > 0 {
            self.passes_left -= 1;
            let mut intended = now;
            if let Some(schedule) = &mut self.schedule {
                intended = window.begin_ns + schedule.next();
                if intended >= window.end_ns {
                    return Ok(());
                }
                now = self.shared.sleep_until(intended);
                if let Some(lag) = self.measured.lag.as_mut().filter(|_| now >= window.start_ns) {
                    lag.record(0, now - intended.min(now));
                }
            }
            for step in steps {
                if now >= window.end_ns || self.shared.is_stopped() {
                    return Ok(());
                }
                let Some(done) = self.step(*step, window)? else {
                    if step.kind().is_none() {
                        now = now_ns();
                    }
                    continue;
                };
                let after = now_ns();
                self.count(&done, now, after, window);
                now = after;
            }
            if now >= window.start_ns && now <= window.end_ns {
                self.measured.passes.record(0, now - intended.min(now));
            }
        }
        Ok(())
    }

    #[inline]
    fn count(&mut self, done: &Done, before_ns: u64, after_ns: u64, window: &Window) {
        if after_ns < window.start_ns || after_ns > window.end_ns {
            return;
        }
        self.measured.count(done, after_ns - before_ns, after_ns, window);
        if let Some(trace) = &mut self.trace {
            trace.push(Record { kind: done.kind, set: done.set, file: done.file, bytes: done.bytes });
        }
    }

    /// One step; nothing if it was no operation, or one that is left out in silence.
    fn step(&mut self, step: Step, window: &Window) -> Result<Option<Done>, Halt> {
        match step {
            Step::Create { set, fd } => self.create(set, fd).map(Some),
            Step::Open { set, fd } => self.open(set, fd).map(Some),
            Step::Close { fd } => Ok(self.close(fd)),
            Step::Delete { set } => self.delete(set),
            Step::Stat { set } => self.stat(set).map(Some),
            Step::Fsync { fd } => self.on_open(fd, Kind::Fsync, |slot| fsync(&slot.fd).map(|()| 0)),
            Step::ReadWhole { fd, bytes } => self.read_whole(fd, bytes),
            Step::WriteWhole { fd, bytes } => self.write_whole(fd, bytes),
            Step::Append { fd, set, bytes, random } => self.append(fd, set, bytes, random, window),
            Step::Read { fd, set, bytes, random } => self.read(fd, set, bytes, random, window),
            Step::Write { fd, set, bytes, random } => self.write(fd, set, bytes, random, window),
            Step::Delay { time_ns } => {
                self.shared.sleep_until(now_ns().saturating_add(time_ns).min(window.end_ns));
                Ok(None)
            }
            Step::Limit { bytes_per_s } => {
                let due = window.begin_ns.saturating_add(self.pace.due_ns(bytes_per_s));
                self.shared.sleep_until(due.min(window.end_ns));
                Ok(None)
            }
        }
    }

    fn file(&self, set: usize, file: usize) -> &'a File {
        &self.shared.stocks[set].files[file]
    }

    fn create(&mut self, set: usize, fd: usize) -> Result<Done, Halt> {
        let stock = &self.shared.stocks[set];
        let file = stock.pick(Wanted::Missing).ok_or(Halt::NoFile { set })?;
        let place = &stock.files[file];
        // filebench looks whether the folder is there before it creates a file.
        let _ = files::look_at(&place.folder);
        match files::create(&place.path, OFlags::RDWR) {
            Ok(opened) => {
                place.bytes_now.store(0, Ordering::Relaxed);
                stock.put_back(file, Outcome::CreatedAndOpened);
                self.slots[fd] = Some(Slot { fd: opened, set, file });
                Ok(Done { kind: Kind::Create, set, file, bytes: 0 })
            }
            Err(error) => {
                stock.put_back(file, Outcome::Unchanged);
                Err(Halt::Failed { set, file, error })
            }
        }
    }

    fn open(&mut self, set: usize, fd: usize) -> Result<Done, Halt> {
        let stock = &self.shared.stocks[set];
        let file = stock.pick(Wanted::Existing).ok_or(Halt::NoFile { set })?;
        let flags = if stock.spec.read_only { OFlags::RDONLY } else { OFlags::RDWR };
        match files::open(&stock.files[file].path, flags) {
            Ok(opened) => {
                stock.put_back(file, Outcome::Opened);
                self.slots[fd] = Some(Slot { fd: opened, set, file });
                Ok(Done { kind: Kind::Open, set, file, bytes: 0 })
            }
            Err(error) => {
                stock.put_back(file, Outcome::Unchanged);
                Err(Halt::Failed { set, file, error })
            }
        }
    }

    fn close(&mut self, fd: usize) -> Option<Done> {
        let Slot { fd, set, file } = self.slots[fd].take()?;
        let stock = &self.shared.stocks[set];
        stock.take_to_close(file);
        drop(fd);
        stock.put_back_closed(file);
        Some(Done { kind: Kind::Close, set, file, bytes: 0 })
    }

    fn delete(&mut self, set: usize) -> Result<Option<Done>, Halt> {
        let stock = &self.shared.stocks[set];
        let wanted = if self.shared.passes_over_open { Wanted::Closed } else { Wanted::Existing };
        let file = stock.pick(wanted).ok_or(Halt::NoFile { set })?;
        if !self.shared.passes_over_open && stock.is_open(file) {
            stock.put_back(file, Outcome::Unchanged);
            self.measured.deletes_left_out += 1;
            return Ok(None);
        }
        match files::delete(&stock.files[file].path) {
            Ok(()) => {
                self.shared.shrink(stock.files[file].bytes_now.swap(0, Ordering::Relaxed));
                stock.put_back(file, Outcome::Deleted);
                Ok(Some(Done { kind: Kind::Delete, set, file, bytes: 0 }))
            }
            Err(error) => {
                stock.put_back(file, Outcome::Unchanged);
                Err(Halt::Failed { set, file, error })
            }
        }
    }

    fn stat(&mut self, set: usize) -> Result<Done, Halt> {
        let stock = &self.shared.stocks[set];
        let file = stock.pick(Wanted::Existing).ok_or(Halt::NoFile { set })?;
        let looked = files::look_at(&stock.files[file].path);
        stock.put_back(file, Outcome::Unchanged);
        looked.map_err(|error| Halt::Failed { set, file, error })?;
        Ok(Done { kind: Kind::Stat, set, file, bytes: 0 })
    }

    /// An operation on what is open as `fd`, which a personality has made sure of.
    fn on_open(
        &mut self,
        fd: usize,
        kind: Kind,
        operation: impl FnOnce(&Slot) -> Result<u64, Errno>,
    ) -> Result<Option<Done>, Halt> {
        let Some(slot) = &self.slots[fd] else { return Ok(None) };
        let (set, file) = (slot.set, slot.file);
        let bytes = operation(slot).map_err(|error| Halt::Failed { set, file, error })?;
        Ok(Some(Done { kind, set, file, bytes }))
    }

    /// Open the next file of `set` as `fd` unless it is open; that counts as an operation of its own.
    fn ensure_open(&mut self, fd: usize, set: Option<usize>, window: &Window) -> Result<(), Halt> {
        if let (None, Some(set)) = (&self.slots[fd], set) {
            let before = now_ns();
            let done = self.open(set, fd)?;
            self.count(&done, before, now_ns(), window);
        }
        Ok(())
    }

    fn read_whole(&mut self, fd: usize, bytes: usize) -> Result<Option<Done>, Halt> {
        let mut buffer = std::mem::take(&mut self.read_buffer);
        let done = self.on_open(fd, Kind::ReadWhole, |slot| {
            let mut total = 0;
            files::seek(&slot.fd, SeekFrom::Start(0))?;
            loop {
                match files::read(&slot.fd, &mut buffer[..bytes])? {
                    0 => return Ok(total),
                    count => total += count as u64,
                }
            }
        });
        self.read_buffer = buffer;
        done
    }

    fn write_whole(&mut self, fd: usize, piece_bytes: usize) -> Result<Option<Done>, Halt> {
        let Some(slot) = &self.slots[fd] else { return Ok(None) };
        let (set, file) = (slot.set, slot.file);
        let place = self.file(set, file);
        let before = place.bytes_now.load(Ordering::Relaxed);
        if !self.shared.grow(place.bytes.saturating_sub(before)) {
            return Err(Halt::NoSpace);
        }
        let mut left = place.bytes;
        while left > 0 {
            let piece = left.min(piece_bytes as u64);
            let bytes = self.source.next(usize::try_from(piece).unwrap_or(piece_bytes));
            files::write_all(&slot.fd, bytes).map_err(|error| Halt::Failed { set, file, error })?;
            left -= piece;
        }
        place.bytes_now.store(before.max(place.bytes), Ordering::Relaxed);
        Ok(Some(Done { kind: Kind::WriteWhole, set, file, bytes: place.bytes }))
    }

    fn append(
        &mut self,
        fd: usize,
        set: Option<usize>,
        bytes_max: usize,
        random: bool,
        window: &Window,
    ) -> Result<Option<Done>, Halt> {
        let bytes = if random { self.random.below(bytes_max as u64) } else { bytes_max as u64 };
        if bytes == 0 {
            // Counts, but reaches no file.
            let (set, file) =
                self.slots[fd].as_ref().map_or((set.unwrap_or(0), NO_FILE), |slot| (slot.set, slot.file));
            return Ok(Some(Done { kind: Kind::Append, set, file, bytes }));
        }
        self.ensure_open(fd, set, window)?;
        if !self.shared.grow(bytes) {
            return Err(Halt::NoSpace);
        }
        let Self { source, slots, shared, .. } = self;
        let Some(slot) = &slots[fd] else { return Ok(None) };
        let (set, file) = (slot.set, slot.file);
        let content = source.next(usize::try_from(bytes).unwrap_or(bytes_max));
        files::seek(&slot.fd, SeekFrom::End(0))
            .and_then(|()| files::write_all(&slot.fd, content))
            .map_err(|error| Halt::Failed { set, file, error })?;
        shared.stocks[set].files[file].bytes_now.fetch_add(bytes, Ordering::Relaxed);
        Ok(Some(Done { kind: Kind::Append, set, file, bytes }))
    }

    fn read(
        &mut self,
        fd: usize,
        set: Option<usize>,
        bytes: usize,
        random: bool,
        window: &Window,
    ) -> Result<Option<Done>, Halt> {
        self.ensure_open(fd, set, window)?;
        let offset = if random { self.place_in_file(fd, bytes) } else { 0 };
        let mut buffer = std::mem::take(&mut self.read_buffer);
        let done = self.on_open(fd, Kind::Read, |slot| {
            let piece = &mut buffer[..bytes];
            let count =
                if random { files::read_at(&slot.fd, piece, offset) } else { files::read(&slot.fd, piece) }?;
            if count == 0 {
                files::seek(&slot.fd, SeekFrom::Start(0))?;
            }
            Ok(count as u64)
        });
        self.read_buffer = buffer;
        if let Ok(Some(done)) = &done {
            self.pace.moved(done.bytes);
        }
        done
    }

    fn write(
        &mut self,
        fd: usize,
        set: Option<usize>,
        bytes: usize,
        random: bool,
        window: &Window,
    ) -> Result<Option<Done>, Halt> {
        self.ensure_open(fd, set, window)?;
        let offset = if random { self.place_in_file(fd, bytes) } else { 0 };
        // Within the file, or beyond it by an amount that is not known: as if all were new.
        if !random && !self.shared.grow(bytes as u64) {
            return Err(Halt::NoSpace);
        }
        let Self { source, slots, pace, .. } = self;
        let Some(slot) = &slots[fd] else { return Ok(None) };
        let (set, file) = (slot.set, slot.file);
        let content = source.next(bytes);
        if random {
            files::write_all_at(&slot.fd, content, offset)
        } else {
            files::write_all(&slot.fd, content)
        }
        .map_err(|error| Halt::Failed { set, file, error })?;
        pace.moved(bytes as u64);
        Ok(Some(Done { kind: Kind::Write, set, file, bytes: bytes as u64 }))
    }

    /// A random multiple of `bytes` at which a piece of that size lies within the file.
    fn place_in_file(&mut self, fd: usize, bytes: usize) -> u64 {
        let bytes = bytes as u64;
        let size = self.slots[fd].as_ref().map_or(0, |slot| self.file(slot.set, slot.file).bytes);
        self.random.below((size / bytes).max(1)) * bytes
    }

    fn explain(&self, halt: &Halt) -> (Reason, String) {
        match halt {
            Halt::NoFile { set } => {
                let name = &self.shared.stocks[*set].spec.name;
                (
                    Reason::Files,
                    format!("\"{name}\" had no file left to take: give more files, or a shorter window"),
                )
            }
            Halt::NoSpace => {
                let detail = "the files grew until the filesystem would have been full: take a larger one, or a shorter window";
                (Reason::Space, detail.to_owned())
            }
            Halt::Failed { set, file, error } => {
                (Reason::Error, format!("{}: {error}", self.file(*set, *file).path.to_string_lossy()))
            }
        }
    }
}
