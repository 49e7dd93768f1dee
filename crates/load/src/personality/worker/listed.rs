// SPDX-License-Identifier: Apache-2.0
//! Operations of a pass that are known beforehand, carried out as one list.
//!
//! They are those by themselves, with one difference: a file is picked, and counts as open, when the list is made. So a list
//! begins with the opening of a file, and goes on with another only where nobody changes them. Nobody has a created file
//! before it is there, so its list ends with its creation.

use std::os::fd::{AsRawFd, FromRawFd, IntoRawFd, OwnedFd};
use std::sync::atomic::Ordering;

use rustix::fs::{AtFlags, CWD, OFlags};
use rustix::io::Errno;

use super::{Slot, Worker};
use crate::files::FILE_MODE;
use crate::list::{self, List, Target};
use crate::personality::file_set::{Outcome, Wanted};
use crate::personality::measured::Done;
use crate::personality::records::{Group, Kind, Piece, Step};
use crate::personality::shared::{Halt, Window};

const PATH_BYTES_MAX: usize = 4096;
const CALLS_PER_STEP: usize = 2;

/// A file that the list has open.
#[derive(Clone, Copy)]
struct Open {
    slot: usize,
    set: usize,
    file: usize,
    call: usize,
    is_created: bool,
}

/// An operation of the list.
struct Planned {
    done: Done,
    /// The last of its calls; none if it makes none.
    call: Option<usize>,
}

/// A thread's list, with all the memory that it will ever need.
pub(super) struct Listed {
    list: List,
    planned: Vec<Planned>,
    open: Option<Open>,
    /// Whether the source's buffer is written by it: the next content would replace it.
    writes: bool,
}

impl Listed {
    pub(super) fn new(group: &Group) -> Option<Self> {
        let steps = group.steps.len();
        let paths = |step: &Step| match step {
            Step::Open { .. } => 1,
            Step::Create { .. } => 2,
            _ => 0,
        };
        let read_bytes = group.steps.iter().map(|step| step.buffers().0).max().unwrap_or(0);
        let room_bytes = group.steps.iter().map(paths).sum::<usize>() * PATH_BYTES_MAX;
        let list = List::new(list::chosen(), CALLS_PER_STEP * steps, room_bytes, read_bytes)?;
        Some(Self { list, planned: Vec::with_capacity(steps), open: None, writes: false })
    }

    fn add(&mut self, kind: Kind, (set, file): (usize, usize), bytes: u64) {
        self.list.stamp();
        let call = Some(self.list.len() - 1);
        self.planned.push(Planned { done: Done { kind, set, file, bytes }, call });
    }
}

impl Worker<'_> {
    /// Carry out as many of these steps as a list takes from the first on; returns how many, and the time after them.
    pub(super) fn listed(&mut self, steps: &[Step], now: u64, window: &Window) -> Result<(usize, u64), Halt> {
        let Some(mut listed) = self.listed.take() else { return Ok((0, now)) };
        listed.list.clear();
        listed.planned.clear();
        listed.writes = false;
        let mut taken = 0;
        let mut halt = Ok(());
        for step in steps {
            match self.plan(*step, &mut listed) {
                Ok(true) => taken += 1,
                Ok(false) => break,
                Err(error) => {
                    halt = Err(error);
                    break;
                }
            }
        }
        listed.list.run(window.end_ns);
        let done = self.settle(&mut listed, now, window);
        self.listed = Some(listed);
        let now = done?;
        halt.map(|()| (taken, now))
    }

    /// Add a step to the list, if its calls are known; picks its file.
    fn plan(&mut self, step: Step, listed: &mut Listed) -> Result<bool, Halt> {
        if listed.open.is_some_and(|open| open.is_created) {
            return Ok(false);
        }
        match step {
            Step::Create { set, fd } => return self.plan_create(set, fd, listed),
            Step::Open { set, fd } => return Ok(self.plan_open(set, fd, listed)),
            Step::Append(piece) if !listed.writes => return self.plan_append(piece, listed),
            Step::WriteWhole { fd, bytes } if !listed.writes => {
                return self.plan_write_whole(fd, bytes, listed);
            }
            Step::Close { fd } => {
                let Some((target, place)) = self.target(fd, listed) else { return Ok(false) };
                if target == Target::Opened {
                    listed.open = None;
                } else if let Some(slot) = self.slots[fd].take() {
                    // The list closes it.
                    let _ = slot.fd.into_raw_fd();
                }
                listed.list.close(target);
                listed.add(Kind::Close, place, 0);
            }
            Step::ReadWhole { fd, bytes } => {
                let Some((target, place)) = self.target(fd, listed) else { return Ok(false) };
                listed.list.seek(target, 0, libc::SEEK_SET);
                listed.list.read_to_end(target, bytes);
                listed.add(Kind::ReadWhole, place, 0);
            }
            // A promise is kept right after its sync.
            Step::Fsync { fd } if self.shared.promises.is_none() => {
                let Some((target, place)) = self.target(fd, listed) else { return Ok(false) };
                listed.list.fsync(target);
                listed.add(Kind::Fsync, place, 0);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The file of a slot: of the list, or open before it.
    fn target(&self, fd: usize, listed: &Listed) -> Option<(Target, (usize, usize))> {
        match listed.open {
            Some(open) if open.slot == fd => Some((Target::Opened, (open.set, open.file))),
            _ => self.slots[fd].as_ref().map(|slot| (Target::Fd(slot.fd.as_raw_fd()), (slot.set, slot.file))),
        }
    }

    fn plan_open(&mut self, set: usize, fd: usize, listed: &mut Listed) -> bool {
        if listed.open.is_some() || self.slots[fd].is_some() {
            return false;
        }
        let file_set = &self.shared.file_sets[set];
        // Whose turn a file is, is settled when it is opened: others may create, change or delete it before.
        if listed.list.len() > 0 && !file_set.spec.read_only {
            return false;
        }
        let Some(file) = file_set.pick(Wanted::Existing) else { return false };
        file_set.put_back(file, Outcome::Opened);
        let flags = if file_set.spec.read_only { OFlags::RDONLY } else { OFlags::RDWR };
        listed.open = Some(Open { slot: fd, set, file, call: listed.list.len(), is_created: false });
        listed.list.open(CWD.as_raw_fd(), &file_set.files[file].path, flags, 0, u32::MAX);
        listed.add(Kind::Open, (set, file), 0);
        true
    }

    fn plan_create(&mut self, set: usize, fd: usize, listed: &mut Listed) -> Result<bool, Halt> {
        if listed.list.len() > 0 || self.slots[fd].is_some() {
            return Ok(false);
        }
        let file_set = &self.shared.file_sets[set];
        let file = file_set.pick(Wanted::Missing).ok_or(Halt::NoFile { set })?;
        let place = &file_set.files[file];
        listed.list.look_at(CWD.as_raw_fd(), &place.folder, AtFlags::empty());
        listed.open = Some(Open { slot: fd, set, file, call: listed.list.len(), is_created: true });
        listed.list.open(
            CWD.as_raw_fd(),
            &place.path,
            OFlags::CREATE | OFlags::RDWR,
            FILE_MODE.bits(),
            u32::MAX,
        );
        listed.add(Kind::Create, (set, file), 0);
        Ok(true)
    }

    fn plan_write_whole(&mut self, fd: usize, piece_bytes: usize, listed: &mut Listed) -> Result<bool, Halt> {
        let Some((target, (set, file))) = self.target(fd, listed) else { return Ok(false) };
        let place = self.file(set, file);
        let Some(bytes) = usize::try_from(place.bytes).ok().filter(|bytes| (1..=piece_bytes).contains(bytes))
        else {
            return Ok(false);
        };
        if !self.shared.grow(place.bytes.saturating_sub(place.bytes_now.load(Ordering::Relaxed))) {
            return Err(Halt::NoSpace);
        }
        let all = place.bytes;
        listed.list.write_lent(target, self.source.next(bytes));
        listed.add(Kind::WriteWhole, (set, file), all);
        listed.writes = true;
        Ok(true)
    }

    fn plan_append(&mut self, piece: Piece, listed: &mut Listed) -> Result<bool, Halt> {
        let Some((target, (set, file))) = self.target(piece.fd, listed) else { return Ok(false) };
        let bytes = if piece.random { self.random.below(piece.bytes as u64) } else { piece.bytes as u64 };
        if bytes == 0 {
            let done = Done { kind: Kind::Append, set, file, bytes };
            listed.planned.push(Planned { done, call: None });
            return Ok(true);
        }
        if !self.shared.grow(bytes) {
            return Err(Halt::NoSpace);
        }
        listed.list.seek(target, 0, libc::SEEK_END);
        listed.list.write_lent(target, self.source.next(usize::try_from(bytes).unwrap_or(piece.bytes)));
        listed.add(Kind::Append, (set, file), bytes);
        listed.writes = true;
        Ok(true)
    }

    /// Count the operations that were completed, one after the other; returns the time after them.
    fn settle(&mut self, listed: &mut Listed, mut now: u64, window: &Window) -> Result<u64, Halt> {
        let Listed { list, planned, open, .. } = listed;
        if let Some(Open { slot, set, file, call, is_created }) = open.take() {
            let opened = list.result(call);
            if is_created {
                let is_there = matches!(opened, Some(Ok(_)));
                let outcome = if is_there { Outcome::CreatedAndOpened } else { Outcome::Unchanged };
                self.shared.file_sets[set].files[file].bytes_now.store(0, Ordering::Relaxed);
                self.shared.file_sets[set].put_back(file, outcome);
            }
            if let Some(Ok(fd)) = opened {
                // SAFETY: the list has opened it, and nobody else knows it.
                let fd = unsafe { OwnedFd::from_raw_fd(i32::try_from(fd).unwrap_or(-1)) };
                self.slots[slot] = Some(Slot { fd, set, file });
            }
        }
        let mut first = 0;
        for Planned { done, call } in planned {
            let Done { kind, set, file, .. } = *done;
            let mut after = now;
            if let Some(call) = *call {
                let failed = |error| Halt::Failed { set, file, error };
                for index in first..=call {
                    // Not made: the time is over.
                    let Some(result) = list.result(index) else { return Ok(now) };
                    let bytes = result.map_err(failed)?;
                    match kind {
                        Kind::ReadWhole => done.bytes = bytes,
                        Kind::Append | Kind::WriteWhole if index == call && bytes < done.bytes => {
                            return Err(failed(Errno::NOSPC));
                        }
                        _ => {}
                    }
                }
                first = call + 1;
                after = list.made_ns(call).unwrap_or(now);
            }
            let file_set = &self.shared.file_sets[set];
            match kind {
                Kind::Close => {
                    file_set.take_to_close(file);
                    file_set.put_back_closed(file);
                }
                Kind::Append => {
                    file_set.files[file].bytes_now.fetch_add(done.bytes, Ordering::Relaxed);
                }
                Kind::WriteWhole => {
                    file_set.files[file].bytes_now.fetch_max(done.bytes, Ordering::Relaxed);
                }
                _ => {}
            }
            self.count(done, now, after, window);
            now = after;
        }
        Ok(now)
    }
}
