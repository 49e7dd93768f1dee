// SPDX-License-Identifier: Apache-2.0
//! The two clocks of an event. In the lab both are virtual.

use nix::time::{ClockId, clock_gettime};

pub const NS_PER_S: u64 = 1_000_000_000;
pub const NS_PER_MS: u64 = 1_000_000;

fn read_ns(clock: ClockId) -> u64 {
    // Linux has both clocks always; a failure would be a bug in the call.
    let time = clock_gettime(clock).expect("the kernel has this clock");
    u64::try_from(time.tv_sec()).unwrap_or(0) * NS_PER_S + u64::try_from(time.tv_nsec()).unwrap_or(0)
}

/// Time limits and durations go by this clock.
pub fn monotonic_ns() -> u64 {
    read_ns(ClockId::CLOCK_MONOTONIC)
}

/// Nanoseconds since 1970; may jump on a host.
pub fn realtime_ns() -> u64 {
    read_ns(ClockId::CLOCK_REALTIME)
}

/// A time for people: `1.5 s`.
pub fn describe_ns(time_ns: u64) -> String {
    let (whole, rest) = (time_ns / NS_PER_S, time_ns % NS_PER_S / NS_PER_MS);
    if whole == 0 && rest == 0 && time_ns > 0 {
        return format!("{time_ns} ns");
    }
    let fraction = format!("{rest:03}");
    match fraction.trim_end_matches('0') {
        "" => format!("{whole} s"),
        digits => format!("{whole}.{digits} s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_reads_as_seconds_without_trailing_zeros() {
        assert_eq!(describe_ns(1_500_000_000), "1.5 s");
        assert_eq!(describe_ns(60_000_000_000), "60 s");
        assert_eq!(describe_ns(40_000_000), "0.04 s");
        assert_eq!(describe_ns(15), "15 ns");
    }
}
