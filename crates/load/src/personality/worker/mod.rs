// SPDX-License-Identifier: Apache-2.0
//! One thread of the load: it goes through its loop and records latencies, without allocating memory.
//!
//! Differences from filebench: data come from `data.rs`, where filebench writes from anywhere in 10 MiB that it never
//! fills, and each thread has its own buffers. A file is written wholly with the size that was drawn for it, in pieces. A
//! latency is from the end of the operation before to its own: picking a file and waiting for the lock of its set are in
//! it, and so is a deletion that was left out just before.
//!
//! In open loop a pass counts from when it was due. Passes that were due before the end and not completed by then count
//! with the time that they had been due for, which is less than they would have taken: without them, the slower a
//! filesystem, the fewer of its long latencies would be seen.

mod listed;
mod operations;

use std::os::fd::OwnedFd;

use crate::buffer::Buffer;
use crate::clock::now_ns;
use crate::data::Source;
use crate::personality::measured::{Done, Measured, Schedule};
use crate::personality::records::{Group, SLOTS, Step};
use crate::personality::shared::{Halt, Pace, Reason, Shared, Window};
use crate::personality::told;
use crate::personality::trace::Record;
use crate::random::Random;
use crate::report::Tally;
use listed::Listed;

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
    read_buffer: Buffer,
    slots: [Option<Slot>; SLOTS],
    listed: Option<Listed>,
    schedule: Option<Schedule>,
    /// When the pass was due that is not completed, in open loop.
    due_ns: Option<u64>,
    /// Passes through the loop that are left to do.
    pub passes_left: u64,
    pub measured: Measured,
    /// The operations of the window, if they are wanted.
    pub trace: Option<Vec<Record>>,
}

impl<'a> Worker<'a> {
    pub fn new(shared: &'a Shared, group: &'a Group, pace: &'a Pace, random: Random, source: Source) -> Self {
        let read_bytes = group.steps.iter().map(|step| step.buffers().0).max().unwrap_or(0);
        let measured = Measured::new(group);
        let slots = [const { None }; SLOTS];
        let read_buffer = Buffer::new(read_bytes);
        Self {
            shared,
            group,
            pace,
            random,
            source,
            read_buffer,
            slots,
            listed: Listed::new(group),
            schedule: None,
            due_ns: None,
            passes_left: u64::MAX,
            measured,
            trace: None,
        }
    }

    /// Make room for this many intervals; with a schedule, start passes by it.
    pub fn time_by(&mut self, schedule: Option<Schedule>, intervals: usize) {
        self.measured.intervals = vec![0; intervals];
        self.measured.lag = schedule.is_some().then(Tally::new);
        self.schedule = schedule;
    }

    /// Go through the loop until the window is over or the run is stopped.
    pub fn run(&mut self, window: &Window) {
        self.measured.begin(window);
        if let Err(halt) = self.go(window) {
            let (reason, detail) = self.explain(&halt);
            self.shared.stop(window, reason, detail);
        }
        self.count_unfinished(window);
    }

    fn go(&mut self, window: &Window) -> Result<(), Halt> {
        let group = self.group;
        let mut now = now_ns();
        while self.passes_left > 0 {
            self.passes_left -= 1;
            let mut intended = now;
            if let Some(schedule) = &mut self.schedule {
                intended = window.begin_ns + schedule.next();
                if intended >= window.end_ns {
                    return Ok(());
                }
                self.due_ns = Some(intended);
                now = self.shared.sleep_until(intended);
                if let Some(lag) = self.measured.lag.as_mut().filter(|_| now >= window.start_ns) {
                    lag.record(0, now - intended.min(now));
                }
            }
            let mut steps = group.steps.as_slice();
            while let [step, rest @ ..] = steps {
                if now >= window.end_ns || self.shared.is_stopped() {
                    return Ok(());
                }
                let (taken, after) = self.listed(steps, now, window)?;
                if taken > 0 {
                    now = after;
                    steps = &steps[taken..];
                    continue;
                }
                steps = rest;
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
            if now > window.end_ns || told::is_over(now) {
                return Ok(());
            }
            self.due_ns = None;
            if now >= window.start_ns {
                let latency_ns = now - intended.min(now);
                self.measured.passes.record(0, latency_ns);
                if let Some(telling) = &self.shared.telling {
                    telling.count(latency_ns, now, window);
                }
            }
        }
        Ok(())
    }

    /// Count the passes of an open loop that were due and are not completed: the one that was begun, and those after it.
    fn count_unfinished(&mut self, window: &Window) {
        let Some(schedule) = &mut self.schedule else { return };
        let end_ns = now_ns().min(window.end_ns).min(told::ended_ns().unwrap_or(u64::MAX));
        if end_ns < window.start_ns {
            return;
        }
        let Measured { passes, passes_unfinished, lag, .. } = &mut self.measured;
        if let Some(due_ns) = self.due_ns.filter(|due_ns| *due_ns < end_ns) {
            passes.record(0, end_ns - due_ns);
            *passes_unfinished += 1;
        }
        for _ in 0..self.passes_left {
            let due_ns = window.begin_ns + schedule.next();
            if due_ns >= end_ns {
                return;
            }
            passes.record(0, end_ns - due_ns);
            lag.get_or_insert_default().record(0, end_ns - due_ns);
            *passes_unfinished += 1;
        }
    }

    #[inline]
    fn count(&mut self, done: &Done, before_ns: u64, after_ns: u64, window: &Window) {
        if !window.counts(after_ns) || told::is_over(after_ns) {
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
            Step::Delete { set } => self.delete(set, window),
            Step::Stat { set } => self.stat(set).map(Some),
            Step::Fsync { fd } => self.fsync(fd),
            Step::ReadWhole { fd, bytes } => self.read_whole(fd, bytes),
            Step::WriteWhole { fd, bytes } => self.write_whole(fd, bytes),
            Step::Append(piece) => self.append(piece, window),
            Step::Read(piece) => self.read(piece, window),
            Step::Write(piece) => self.write(piece, window),
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

    fn explain(&self, halt: &Halt) -> (Reason, String) {
        match halt {
            Halt::NoFile { set } => {
                let name = &self.shared.file_sets[*set].spec.name;
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
