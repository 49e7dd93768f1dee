// SPDX-License-Identifier: Apache-2.0
//! The clock of latencies and windows. In the lab it is virtual; nothing here reads a counter of the CPU, which would be real there.

use rustix::thread::{ClockId as SleepClock, clock_nanosleep_absolute};
use rustix::time::{ClockId, Timespec, clock_gettime};

pub const NS_PER_S: u64 = 1_000_000_000;
pub const NS_PER_MS: u64 = 1_000_000;

/// Nanoseconds of `CLOCK_MONOTONIC`.
#[inline]
pub fn now_ns() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    // Monotonic time starts at boot and is never negative.
    time.tv_sec.cast_unsigned() * NS_PER_S + time.tv_nsec.cast_unsigned()
}

/// Sleep until the monotonic clock reads `until_ns`; at once if it is past.
pub fn sleep_until_ns(until_ns: u64) {
    let until = Timespec {
        tv_sec: (until_ns / NS_PER_S).cast_signed(),
        tv_nsec: (until_ns % NS_PER_S).cast_signed(),
    };
    while clock_nanosleep_absolute(SleepClock::Monotonic, &until) == Err(rustix::io::Errno::INTR) {}
}
