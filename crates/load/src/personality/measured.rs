// SPDX-License-Identifier: Apache-2.0
//! The measurements of a thread, and its schedule. Nothing here allocates once the window has begun.

use crate::personality::records::{Group, Kind, Piece, Step};
use crate::personality::shared::Window;
use crate::random::Random;
use crate::report::Tally;

/// When the next passes through the loop are to start: a Poisson process.
pub struct Schedule {
    random: Random,
    interval_ns_mean: f64,
    next_ns: f64,
}

impl Schedule {
    pub fn new(random: Random, passes_per_s: f64) -> Self {
        Self { random, interval_ns_mean: 1e9 / passes_per_s, next_ns: 0.0 }
    }

    /// Since the beginning, in nanoseconds.
    pub fn next(&mut self) -> u64 {
        self.next_ns += self.random.exponential(self.interval_ns_mean);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "nanoseconds of a run")]
        let next = self.next_ns as u64;
        next
    }
}

/// A thread's measurements in the window.
pub struct Measured {
    /// By kind; None for kinds that the loop lacks.
    pub tallies: [Option<Tally>; Kind::ALL.len()],
    /// Passes through the loop, each from its due time to its completion or the end of the window.
    pub passes: Tally,
    /// How many of the passes were due and not completed, in open loop.
    pub passes_unfinished: u64,
    /// How late passes started, in open loop.
    pub lag: Option<Tally>,
    /// Operations of each interval.
    pub intervals: Vec<u64>,
    /// In the window.
    pub deletes_left_out: u64,
    interval: usize,
    interval_end_ns: u64,
}

/// A completed operation.
pub struct Done {
    pub kind: Kind,
    pub set: usize,
    pub file: usize,
    pub bytes: u64,
}

impl Measured {
    pub fn new(group: &Group) -> Self {
        let mut tallies = [const { None }; Kind::ALL.len()];
        for step in &group.steps {
            if let Some(kind) = step.kind() {
                tallies[kind as usize].get_or_insert_default();
            }
            if let Step::Append(Piece { set: Some(_), .. })
            | Step::Read(Piece { set: Some(_), .. })
            | Step::Write(Piece { set: Some(_), .. }) = step
            {
                tallies[Kind::Open as usize].get_or_insert_default();
            }
        }
        Self {
            tallies,
            passes: Tally::new(),
            passes_unfinished: 0,
            lag: None,
            intervals: Vec::new(),
            deletes_left_out: 0,
            interval: 0,
            interval_end_ns: 0,
        }
    }

    /// The window begins.
    pub fn begin(&mut self, window: &Window) {
        self.interval_end_ns = window.start_ns + window.interval_ns;
    }

    #[inline]
    pub fn count(&mut self, done: &Done, latency_ns: u64, at_ns: u64, window: &Window) {
        if let Some(tally) = &mut self.tallies[done.kind as usize] {
            tally.record(done.bytes, latency_ns);
        }
        while at_ns > self.interval_end_ns {
            self.interval += 1;
            self.interval_end_ns += window.interval_ns;
        }
        if let Some(count) = self.intervals.get_mut(self.interval) {
            *count += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_start_as_a_poisson_process() {
        let mut schedule = Schedule::new(Random::derived(1, "arrivals", 0), 1000.0);
        let mut last = 0;
        let mut apart_ns: Vec<u64> = Vec::new();
        for _ in 0..10_000 {
            let next = schedule.next();
            apart_ns.push(next - last);
            last = next;
        }
        // The mean of 10000 exponential times of 1 ms has a standard deviation of 1 %; three of them.
        assert!(last.abs_diff(10_000_000_000) < 300_000_000, "{last}");
        // Below the mean's natural logarithm of 2, half of them; standard deviation 50.
        let short = apart_ns.iter().filter(|time| **time < 693_147).count();
        assert!(short.abs_diff(5000) < 150, "{short}");
    }
}
