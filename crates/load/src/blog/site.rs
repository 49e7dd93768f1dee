// SPDX-License-Identifier: Apache-2.0
//! The state shared by the threads (folder, next blog, end, first fault) and each thread's counters.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rustix::fd::OwnedFd;

use crate::faults::Fault;
use crate::random::Random;

/// A thread's counters.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    BlogWritten,
    BlogRead,
    ArticleWritten,
    ArticleRead,
    PictureWritten,
    PictureRead,
    CommentWritten,
    CommentRead,
    Wait,
}

pub const COUNTS: usize = Event::NAMES.len();

impl Event {
    /// Their names in the result, in their order.
    pub const NAMES: [&str; 9] = [
        "blogs_written",
        "blogs_read",
        "articles_written",
        "articles_read",
        "pictures_written",
        "pictures_read",
        "comments_written",
        "comments_read",
        "waits",
    ];
}

/// One thread's counters, which another thread reads; on cache lines of their own, to avoid false sharing.
#[derive(Default)]
#[repr(align(128))]
pub struct Counts([AtomicU64; COUNTS]);

impl Counts {
    #[inline]
    pub fn count(&self, event: Event) {
        let count = &self.0[event as usize];
        // Nobody else writes it.
        count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

/// The counts of all threads.
pub fn sum(counts: &[Counts]) -> [u64; COUNTS] {
    std::array::from_fn(|event| counts.iter().map(|counts| counts.0[event].load(Ordering::Relaxed)).sum())
}

/// The state shared by the threads.
pub struct Site {
    pub folder: OwnedFd,
    end_ns: AtomicU64,
    next_blog: AtomicU64,
    is_stopped: AtomicBool,
    fault: OnceLock<Fault>,
}

impl Site {
    pub fn new(folder: OwnedFd) -> Self {
        Self {
            folder,
            end_ns: AtomicU64::new(u64::MAX),
            next_blog: AtomicU64::new(0),
            is_stopped: AtomicBool::new(false),
            fault: OnceLock::new(),
        }
    }

    /// When the last interval ends; until it is set, never.
    #[inline]
    pub fn end_ns(&self) -> u64 {
        self.end_ns.load(Ordering::Relaxed)
    }

    pub fn set_end_ns(&self, end_ns: u64) {
        self.end_ns.store(end_ns, Ordering::Relaxed);
    }

    /// The number of a new blog.
    pub fn new_blog(&self) -> u64 {
        self.next_blog.fetch_add(1, Ordering::Relaxed)
    }

    /// A blog at random, but never the newest; 0 also if there is no other, which readers and rewriters take for none.
    pub fn some_blog(&self, random: &mut Random) -> u64 {
        match self.next_blog.load(Ordering::Relaxed).saturating_sub(1) {
            0 => 0,
            newest => random.below(newest),
        }
    }

    /// Whether there was a fault.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Relaxed)
    }

    /// Stop all threads because of a fault; the first is reported.
    pub fn fail(&self, fault: Fault) {
        let _ = self.fault.set(fault);
        self.is_stopped.store(true, Ordering::Relaxed);
    }

    pub fn fault(&self) -> Option<Fault> {
        self.fault.get().cloned()
    }
}
