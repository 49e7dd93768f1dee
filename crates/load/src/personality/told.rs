// SPDX-License-Identifier: Apache-2.0
//! A window that somebody else ends: its passes are told for each interval while it runs, and an interrupt ends it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::clock::now_ns;
use crate::personality::shared::Window;

/// When the interrupt came; 0 before it.
static ENDED_NS: AtomicU64 = AtomicU64::new(0);

extern "C" fn end(_: libc::c_int) {
    let _ = ENDED_NS.compare_exchange(0, now_ns(), Ordering::Relaxed, Ordering::Relaxed);
}

/// When the window was ended.
#[inline]
pub fn ended_ns() -> Option<u64> {
    match ENDED_NS.load(Ordering::Relaxed) {
        0 => None,
        at_ns => Some(at_ns),
    }
}

/// Whether something completed at this time came after the window was ended.
#[inline]
pub fn is_over(at_ns: u64) -> bool {
    ended_ns().is_some_and(|ended_ns| at_ns > ended_ns)
}

/// Let an interrupt end the window.
pub fn end_by_interrupt() {
    // SAFETY: the handler reads the clock and stores a number; zero is a value of every field of the action.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = end as extern "C" fn(libc::c_int) as libc::sighandler_t;
        action.sa_flags = libc::SA_RESTART;
        libc::sigaction(libc::SIGINT, &raw const action, std::ptr::null_mut());
    }
}

/// The passes of the interval that runs, of all threads.
#[derive(Default)]
pub struct Telling(Mutex<Passes>);

#[derive(Default)]
struct Passes {
    intervals: u64,
    latencies_ns: Vec<u64>,
}

impl Telling {
    /// Count a pass, and tell the intervals that ended before it.
    pub fn count(&self, latency_ns: u64, at_ns: u64, window: &Window) {
        let mut passes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while at_ns > window.start_ns + (passes.intervals + 1) * window.interval_ns {
            let (count, p99_ns) = figures(&mut passes.latencies_ns);
            eprintln!("strata-interval {count} {p99_ns}");
            passes.latencies_ns.clear();
            passes.intervals += 1;
        }
        passes.latencies_ns.push(latency_ns);
    }
}

/// How many, and the 99th percentile: the least that 99 % do not exceed.
fn figures(latencies_ns: &mut [u64]) -> (usize, u64) {
    let count = latencies_ns.len();
    match (count * 99).div_ceil(100) {
        0 => (0, 0),
        rank => (count, *latencies_ns.select_nth_unstable(rank - 1).1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_is_its_passes_and_their_99th_percentile() {
        assert_eq!(figures(&mut []), (0, 0));
        assert_eq!(figures(&mut [7]), (1, 7));
        let mut all: Vec<u64> = (1..=200).rev().collect();
        assert_eq!(figures(&mut all), (200, 198));
    }
}
