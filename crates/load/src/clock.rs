// SPDX-License-Identifier: Apache-2.0
//! The clock of latencies and windows. In the lab it is virtual; nothing here reads a counter of the CPU, which would be real there.

use rustix::io::Errno;
use rustix::thread::{ClockId as SleepClock, clock_nanosleep_absolute};
use rustix::time::{ClockId, Timespec, clock_gettime};

pub const NS_PER_S: u64 = 1_000_000_000;
pub const NS_PER_MS: u64 = 1_000_000;

/// Nanoseconds of `CLOCK_MONOTONIC`.
#[inline]
pub fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // Monotonic time starts at boot and is never negative.
    u64::try_from(time.tv_sec).unwrap_or(0) * NS_PER_S + u64::try_from(time.tv_nsec).unwrap_or(0)
}

/// Sleep until the monotonic clock reads `until_ns`; not at all if it is past.
pub fn sleep_until_ns(until_ns: u64) {
    let part = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    let until = Timespec { tv_sec: part(until_ns / NS_PER_S), tv_nsec: part(until_ns % NS_PER_S) };
    while clock_nanosleep_absolute(SleepClock::Monotonic, &until) == Err(Errno::INTR) {}
}

/// How long a sleep can be before it looks whether it is to go on.
const SLICE_NS: u64 = NS_PER_S / 10;

/// Sleep like that, unless `is_stopped` meanwhile; the time after it.
pub fn sleep_until_or(until_ns: u64, is_stopped: impl Fn() -> bool) -> u64 {
    let mut now = now_ns();
    while now < until_ns && !is_stopped() {
        sleep_until_ns(until_ns.min(now + SLICE_NS));
        now = now_ns();
    }
    now
}
