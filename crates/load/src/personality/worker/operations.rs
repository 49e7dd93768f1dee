// SPDX-License-Identifier: Apache-2.0
//! The operations of a loop, as filebench carries them out.

use std::sync::atomic::Ordering;

use rustix::fs::{OFlags, SeekFrom, fsync};
use rustix::io::Errno;

use super::{Slot, Worker};
use crate::clock::now_ns;
use crate::files;
use crate::personality::file_set::{File, Outcome, Wanted};
use crate::personality::measured::Done;
use crate::personality::records::{Kind, Piece};
use crate::personality::shared::{Halt, Window};

/// The file recorded for an empty append, which takes none.
const NO_FILE: usize = usize::MAX;

impl<'a> Worker<'a> {
    pub(super) fn file(&self, set: usize, file: usize) -> &'a File {
        &self.shared.file_sets[set].files[file]
    }

    pub(super) fn create(&mut self, set: usize, fd: usize) -> Result<Done, Halt> {
        let file_set = &self.shared.file_sets[set];
        let file = file_set.pick(Wanted::Missing).ok_or(Halt::NoFile { set })?;
        let place = &file_set.files[file];
        // filebench looks whether the folder is there before it creates a file.
        let _ = files::look_at(&place.folder);
        match files::create(&place.path, OFlags::RDWR) {
            Ok(opened) => {
                place.bytes_now.store(0, Ordering::Relaxed);
                file_set.put_back(file, Outcome::CreatedAndOpened);
                self.slots[fd] = Some(Slot { fd: opened, set, file });
                Ok(Done { kind: Kind::Create, set, file, bytes: 0 })
            }
            Err(error) => {
                file_set.put_back(file, Outcome::Unchanged);
                Err(Halt::Failed { set, file, error })
            }
        }
    }

    pub(super) fn open(&mut self, set: usize, fd: usize) -> Result<Done, Halt> {
        let file_set = &self.shared.file_sets[set];
        let file = file_set.pick(Wanted::Existing).ok_or(Halt::NoFile { set })?;
        let flags = if file_set.spec.read_only { OFlags::RDONLY } else { OFlags::RDWR };
        match files::open(&file_set.files[file].path, flags) {
            Ok(opened) => {
                file_set.put_back(file, Outcome::Opened);
                self.slots[fd] = Some(Slot { fd: opened, set, file });
                Ok(Done { kind: Kind::Open, set, file, bytes: 0 })
            }
            Err(error) => {
                file_set.put_back(file, Outcome::Unchanged);
                Err(Halt::Failed { set, file, error })
            }
        }
    }

    pub(super) fn close(&mut self, fd: usize) -> Option<Done> {
        let Slot { fd, set, file } = self.slots[fd].take()?;
        let file_set = &self.shared.file_sets[set];
        file_set.take_to_close(file);
        drop(fd);
        file_set.put_back_closed(file);
        Some(Done { kind: Kind::Close, set, file, bytes: 0 })
    }

    pub(super) fn delete(&mut self, set: usize, window: &Window) -> Result<Option<Done>, Halt> {
        let file_set = &self.shared.file_sets[set];
        let wanted = if self.shared.passes_over_open { Wanted::Closed } else { Wanted::Existing };
        let file = file_set.pick(wanted).ok_or(Halt::NoFile { set })?;
        if !self.shared.passes_over_open && file_set.is_open(file) {
            file_set.put_back(file, Outcome::Unchanged);
            if window.counts(now_ns()) {
                self.measured.deletes_left_out += 1;
            }
            return Ok(None);
        }
        if let Some(promises) = &self.shared.promises {
            promises.withdraw(set, file).map_err(|error| Halt::Failed { set, file, error })?;
        }
        match files::delete(&file_set.files[file].path) {
            Ok(()) => {
                self.shared.shrink(file_set.files[file].bytes_now.swap(0, Ordering::Relaxed));
                file_set.put_back(file, Outcome::Deleted);
                Ok(Some(Done { kind: Kind::Delete, set, file, bytes: 0 }))
            }
            Err(error) => {
                file_set.put_back(file, Outcome::Unchanged);
                Err(Halt::Failed { set, file, error })
            }
        }
    }

    pub(super) fn fsync(&mut self, fd: usize) -> Result<Option<Done>, Halt> {
        on_open(self.slots[fd].as_ref(), Kind::Fsync, |slot| {
            // What another thread appends meanwhile is perhaps not covered.
            let bytes = self.file(slot.set, slot.file).bytes_now.load(Ordering::Relaxed);
            fsync(&slot.fd)?;
            if let Some(promises) = &self.shared.promises {
                promises.promise(slot.set, slot.file, bytes)?;
            }
            Ok(0)
        })
    }

    pub(super) fn stat(&mut self, set: usize) -> Result<Done, Halt> {
        let file_set = &self.shared.file_sets[set];
        let file = file_set.pick(Wanted::Existing).ok_or(Halt::NoFile { set })?;
        let looked = files::look_at(&file_set.files[file].path);
        file_set.put_back(file, Outcome::Unchanged);
        looked.map_err(|error| Halt::Failed { set, file, error })?;
        Ok(Done { kind: Kind::Stat, set, file, bytes: 0 })
    }

    /// Open the next file of `set` as `fd` unless it is open; that counts as an operation of its own.
    pub(super) fn ensure_open(&mut self, fd: usize, set: Option<usize>, window: &Window) -> Result<(), Halt> {
        if let (None, Some(set)) = (&self.slots[fd], set) {
            let before = now_ns();
            let done = self.open(set, fd)?;
            self.count(&done, before, now_ns(), window);
        }
        Ok(())
    }

    pub(super) fn read_whole(&mut self, fd: usize, bytes: usize) -> Result<Option<Done>, Halt> {
        let Self { slots, read_buffer, .. } = self;
        on_open(slots[fd].as_ref(), Kind::ReadWhole, |slot| {
            files::seek(&slot.fd, SeekFrom::Start(0))?;
            files::read_to_end(&slot.fd, &mut read_buffer[..bytes])
        })
    }

    pub(super) fn write_whole(&mut self, fd: usize, piece_bytes: usize) -> Result<Option<Done>, Halt> {
        let Some(slot) = &self.slots[fd] else { return Ok(None) };
        let (set, file) = (slot.set, slot.file);
        let place = self.file(set, file);
        let before = place.bytes_now.load(Ordering::Relaxed);
        if !self.shared.grow(place.bytes.saturating_sub(before)) {
            return Err(Halt::NoSpace);
        }
        files::write_from(&slot.fd, &mut self.source, place.bytes, piece_bytes)
            .map_err(|error| Halt::Failed { set, file, error })?;
        place.bytes_now.store(before.max(place.bytes), Ordering::Relaxed);
        Ok(Some(Done { kind: Kind::WriteWhole, set, file, bytes: place.bytes }))
    }

    pub(super) fn append(&mut self, piece: Piece, window: &Window) -> Result<Option<Done>, Halt> {
        let Piece { fd, set, bytes: bytes_max, random } = piece;
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
        shared.file_sets[set].files[file].bytes_now.fetch_add(bytes, Ordering::Relaxed);
        Ok(Some(Done { kind: Kind::Append, set, file, bytes }))
    }

    pub(super) fn read(&mut self, piece: Piece, window: &Window) -> Result<Option<Done>, Halt> {
        let Piece { fd, set, bytes, random } = piece;
        self.ensure_open(fd, set, window)?;
        let offset = if random { self.place_in_file(fd, bytes) } else { 0 };
        let Self { slots, read_buffer, .. } = self;
        let done = on_open(slots[fd].as_ref(), Kind::Read, |slot| {
            let piece = &mut read_buffer[..bytes];
            let count =
                if random { files::read_at(&slot.fd, piece, offset) } else { files::read(&slot.fd, piece) }?;
            if count == 0 {
                files::seek(&slot.fd, SeekFrom::Start(0))?;
            }
            Ok(count as u64)
        });
        if let Ok(Some(done)) = &done {
            self.pace.moved(done.bytes);
        }
        done
    }

    pub(super) fn write(&mut self, piece: Piece, window: &Window) -> Result<Option<Done>, Halt> {
        let Piece { fd, set, bytes, random } = piece;
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
    pub(super) fn place_in_file(&mut self, fd: usize, bytes: usize) -> u64 {
        let bytes = bytes as u64;
        let size = self.slots[fd].as_ref().map_or(0, |slot| self.file(slot.set, slot.file).bytes);
        self.random.below((size / bytes).max(1)) * bytes
    }
}

/// An operation on an open file; the personality guarantees that it is open.
#[inline]
pub(super) fn on_open(
    slot: Option<&Slot>,
    kind: Kind,
    operation: impl FnOnce(&Slot) -> Result<u64, Errno>,
) -> Result<Option<Done>, Halt> {
    let Some(slot) = slot else { return Ok(None) };
    let (set, file) = (slot.set, slot.file);
    let bytes = operation(slot).map_err(|error| Halt::Failed { set, file, error })?;
    Ok(Some(Done { kind, set, file, bytes }))
}
