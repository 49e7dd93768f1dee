// SPDX-License-Identifier: Apache-2.0
//! The state shared by the threads of a run: the files, the window, and the reason for an early end.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use rustix::io::Errno;
use serde::Serialize;

use crate::clock::{NS_PER_S, now_ns, sleep_until_or};
use crate::personality::durable::Promises;
use crate::personality::file_set::FileSet;
use crate::personality::told::{Telling, ended_ns};

/// The measured window, by the monotonic clock.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// The threads start.
    pub begin_ns: u64,
    /// Operations completed from here on count.
    pub start_ns: u64,
    pub end_ns: u64,
    pub interval_ns: u64,
}

impl Window {
    /// Whether an operation completed at this time counts.
    #[inline]
    pub fn counts(&self, at_ns: u64) -> bool {
        (self.start_ns..=self.end_ns).contains(&at_ns)
    }
}

/// Why a run ended before its time.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub struct Ended {
    pub reason: Reason,
    /// For people.
    pub detail: String,
    /// Since the window began.
    pub at_ns: u64,
}

#[derive(Debug, Clone, Copy, Serialize, PartialEq, Eq)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// No file was left to take, as where filebench says "reduce runtime, increase fileset entries".
    Files,
    /// The files grew until the filesystem would have been full.
    Space,
    /// A system call failed.
    Error,
    /// An interrupt: whoever waited for it knows enough.
    Known,
}

impl Ended {
    /// None if no interrupt came in the window.
    pub fn known(window: &Window) -> Option<Self> {
        let at_ns = ended_ns().filter(|at_ns| window.counts(*at_ns))? - window.start_ns;
        Some(Self { reason: Reason::Known, detail: "it was asked to".into(), at_ns })
    }
}

pub struct Shared {
    pub file_sets: Vec<FileSet>,
    /// Whether a file that is open is not deleted but passed over, where filebench leaves the deletion out.
    pub passes_over_open: bool,
    /// What returned syncs promise, if it is kept.
    pub promises: Option<Promises>,
    /// Where intervals are told.
    pub telling: Option<Telling>,
    stopped: AtomicBool,
    ended: Mutex<Option<Ended>>,
    /// The files' growth since the start, less deletions.
    growth_bytes: AtomicI64,
    growth_bytes_max: i64,
}

impl Shared {
    pub fn new(file_sets: Vec<FileSet>, growth_bytes_max: u64) -> Self {
        Self {
            file_sets,
            passes_over_open: false,
            promises: None,
            telling: None,
            stopped: AtomicBool::new(false),
            ended: Mutex::new(None),
            growth_bytes: AtomicI64::new(0),
            growth_bytes_max: i64::try_from(growth_bytes_max).unwrap_or(i64::MAX),
        }
    }

    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed) || ended_ns().is_some()
    }

    /// End the run for all; the first reason is kept.
    pub fn stop(&self, window: &Window, reason: Reason, detail: String) {
        let at_ns = now_ns().saturating_sub(window.start_ns);
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(Ended {
            reason,
            detail,
            at_ns,
        });
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub fn ended(&self) -> Option<Ended> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Account for bytes that are about to be written; false if there is no room for them.
    #[inline]
    pub fn grow(&self, bytes: u64) -> bool {
        let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
        let before = self.growth_bytes.fetch_add(bytes, Ordering::Relaxed);
        let is_room = before.saturating_add(bytes) <= self.growth_bytes_max;
        if !is_room {
            self.growth_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        is_room
    }

    #[inline]
    pub fn shrink(&self, bytes: u64) {
        self.growth_bytes.fetch_sub(i64::try_from(bytes).unwrap_or(0), Ordering::Relaxed);
    }

    pub fn growth_bytes(&self) -> i64 {
        self.growth_bytes.load(Ordering::Relaxed)
    }

    /// Sleep, unless the run is stopped meanwhile; the time after it.
    pub fn sleep_until(&self, until_ns: u64) -> u64 {
        sleep_until_or(until_ns, || self.is_stopped())
    }
}

/// A rate that a group of threads keeps together.
pub struct Pace {
    moved_bytes: AtomicU64,
}

impl Pace {
    pub const fn new() -> Self {
        Self { moved_bytes: AtomicU64::new(0) }
    }

    pub fn moved(&self, bytes: u64) {
        self.moved_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// How long after the beginning as much could have been moved.
    pub fn due_ns(&self, bytes_per_s: u64) -> u64 {
        let moved = u128::from(self.moved_bytes.load(Ordering::Relaxed));
        u64::try_from(moved * u128::from(NS_PER_S) / u128::from(bytes_per_s.max(1))).unwrap_or(u64::MAX)
    }
}

/// Why a thread ends.
#[derive(Debug)]
pub enum Halt {
    /// No file to take.
    NoFile {
        set: usize,
    },
    NoSpace,
    Failed {
        set: usize,
        file: usize,
        error: Errno,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_refused_for_want_of_space_is_not_accounted_for() {
        let shared = Shared::new(Vec::new(), 100);

        assert!(shared.grow(60));
        assert!(!shared.grow(60));
        assert_eq!(shared.growth_bytes(), 60);
        assert!(shared.grow(40));
    }
}
