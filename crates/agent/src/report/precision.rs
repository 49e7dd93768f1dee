// SPDX-License-Identifier: Apache-2.0
//! When a measured window has nothing more to tell: its rate and its 99th percentile are known well enough.
//!
//! A load prints a line for each interval, with its operations and the 99th percentile of their latency. The rule is that
//! of sequential batch means (A. M. Law, J. S. Carson: A sequential procedure for determining the length of a steady-state
//! simulation, Operations Research 27, 1979): 20 to 39 batches, whose length doubles as the window grows; a batch's
//! percentile is the mean of its intervals' (A. F. Seila, Management Science 28, 1982). Batches count as independent if
//! von Neumann's ratio does not speak of a positive correlation at 10 % (G. S. Fishman: Grouping observations in digital
//! simulation, Management Science 24, 1978), which a drift would cause, too. To look often finds a lucky moment sooner or
//! later: there are four looks for each doubling, and two in succession must agree. A slow drift hides among the batches,
//! so the rest of the window must not be able to move its means either: a straight line through the batches, as steep as
//! 90 % of its uncertainty allows, is carried on to the end of the window.

use serde::Serialize;

const MARK: &str = "strata-interval ";
/// What an interval lasts.
pub const INTERVAL_NS: u64 = 1_000_000_000;
/// The numbers of batches at which is looked, with Student's t at 95 %, both sides.
const LOOKS: [(usize, f64); 4] = [(20, 2.093), (25, 2.064), (30, 2.045), (35, 2.032)];
/// The normal distribution's quantile of 90 %.
const CORRELATED: f64 = 1.282;
/// Student's t of 90 %, one side, with the fewest batches.
const STEEPEST: f64 = 1.330;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval {
    pub count: u64,
    pub p99_ns: u64,
}

/// The intervals among the lines of an error output.
#[derive(Debug, Default)]
pub struct Intervals {
    pending: Vec<u8>,
    pub known: Vec<Interval>,
}

impl Intervals {
    pub fn feed(&mut self, bytes: &[u8]) {
        self.pending.extend_from_slice(bytes);
        while let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.pending.drain(..=end).collect();
            let text = String::from_utf8_lossy(&line);
            let Some(rest) = text.strip_prefix(MARK) else { continue };
            let mut words = rest.split_whitespace().map(str::parse);
            if let (Some(Ok(count)), Some(Ok(p99_ns))) = (words.next(), words.next()) {
                self.known.push(Interval { count, p99_ns });
            }
        }
    }
}

/// A mean with the half of its 95 % interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Figure {
    pub mean: f64,
    pub half_width: f64,
    /// How far the rest of the window may move it, by a drift that the batches allow.
    pub drift: f64,
    /// Whether the batches pass for independent ones.
    pub independent: bool,
}

impl Figure {
    #[expect(clippy::cast_precision_loss, reason = "a small count")]
    fn of(batches: &[f64], t: f64, rest: f64) -> Self {
        let count = batches.len() as f64;
        let mean = batches.iter().sum::<f64>() / count;
        let squares: f64 = batches.iter().map(|each| (each - mean).powi(2)).sum();
        let steps: f64 = batches.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
        let correlation = if squares > 0.0 { 1.0 - steps / (2.0 * squares) } else { 0.0 };
        let independent = correlation <= CORRELATED * ((count - 2.0) / (count * count - 1.0)).sqrt();
        let spread = count * (count * count - 1.0) / 12.0;
        let slope =
            batches.iter().zip(0..).fold(0.0, |sum, (each, at)| sum + f64::from(at) * (each - mean)) / spread;
        let error = ((squares - slope * slope * spread).max(0.0) / (count - 2.0) / spread).sqrt();
        Self {
            mean,
            half_width: t * (squares / (count - 1.0) / count).sqrt(),
            drift: (slope.abs() + STEEPEST * error) * rest / 2.0,
            independent,
        }
    }

    fn is_within(&self, share: f64) -> bool {
        self.independent && self.half_width.max(self.drift) <= share * self.mean
    }
}

/// One look at a window.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Look {
    /// How many intervals were looked at.
    pub intervals: usize,
    /// Operations in an interval.
    pub operations: Figure,
    pub latency_ns_p99: Figure,
}

impl Look {
    /// None if a batch without operations has no percentile. ``whole``: the intervals of the whole window.
    #[expect(clippy::cast_precision_loss, reason = "counts and nanoseconds of a window")]
    fn at(intervals: &[Interval], whole: usize, batches: usize, t: f64) -> Option<Self> {
        let size = intervals.len() / batches;
        let rest = whole.saturating_sub(intervals.len()) as f64 / size as f64;
        let sums = intervals.chunks_exact(size).map(|batch| {
            let count: u64 = batch.iter().map(|each| each.count).sum();
            let p99: f64 = batch.iter().map(|each| each.count as f64 * each.p99_ns as f64).sum();
            (count as f64, p99)
        });
        let (counts, p99s): (Vec<f64>, Vec<f64>) = sums.unzip();
        if counts.contains(&0.0) {
            return None;
        }
        let rates: Vec<f64> = counts.iter().map(|count| count / size as f64).collect();
        let p99s: Vec<f64> = p99s.iter().zip(&counts).map(|(sum, count)| sum / count).collect();
        Some(Self {
            intervals: intervals.len(),
            operations: Figure::of(&rates, t, rest),
            latency_ns_p99: Figure::of(&p99s, t, rest),
        })
    }

    fn is_within(&self, share: f64) -> bool {
        self.operations.is_within(share) && self.latency_ns_p99.is_within(share)
    }
}

/// The last look at a window of `whole` intervals, and whether it and the look before agree that all is known within `share`.
pub fn look(intervals: &[Interval], whole: usize, share: f64) -> (Option<Look>, bool) {
    let lengths = (0..32).flat_map(|doubled| LOOKS.map(|(batches, t)| (batches << doubled, batches, t)));
    let mut looks =
        lengths.take_while(|(length, ..)| *length <= intervals.len()).collect::<Vec<_>>().into_iter().rev();
    let mut next =
        || looks.next().and_then(|(length, batches, t)| Look::at(&intervals[..length], whole, batches, t));
    let (last, before) = (next(), next());
    let known = [last, before].iter().all(|look| look.is_some_and(|look| look.is_within(share)));
    (last, known)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counts around 1000 whose deviations keep this share of the one before.
    fn counted(number: usize, kept: f64, deviation: f64) -> Vec<Interval> {
        let (mut state, mut last) = (12345_u64, 0.0);
        let mut uniform = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            #[expect(clippy::cast_precision_loss, reason = "24 bits")]
            let uniform = (state >> 40) as f64 / f64::from(1 << 24);
            uniform - 0.5
        };
        let mut next = || {
            let drawn = (0..12).map(|_| uniform()).sum::<f64>();
            last = kept * last + drawn * (1.0 - kept * kept).sqrt();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "about a thousand")]
            let count = (1000.0 * (1.0 + deviation * last)) as u64;
            Interval { count, p99_ns: 1000 + count }
        };
        (0..number).map(|_| next()).collect()
    }

    #[test]
    fn a_window_is_known_once_its_interval_is_narrow_enough() {
        // The half width of independent ones is about 2 × 0.05 / √n: within 1 % at a hundred, and twice.
        let rates = counted(600, 0.0, 0.05);
        let known: Vec<usize> = (1..600).filter(|n| look(&rates[..*n], 0, 0.01).1).collect();

        assert!((70..=280).contains(&known[0]), "{known:?}");
        let of_long = (1..600).find(|n| look(&rates[..*n], 800, 0.01).1).unwrap();
        assert!(known[0] < of_long, "the rest of a long window may move it more");
        let (last, _) = look(&rates, 0, 0.01);
        let last = last.unwrap();
        assert_eq!(last.intervals, 560);
        assert!((last.operations.mean - 1000.0).abs() <= last.operations.half_width, "{last:?}");
    }

    #[test]
    fn neighbours_that_resemble_each_other_and_drifts_are_no_independent_batches() {
        assert!(!(1..600).any(|n| look(&counted(600, 0.98, 0.05)[..n], 0, 0.01).1));
        let drifting: Vec<Interval> =
            (0..600).map(|at| Interval { count: 10_000 + at, p99_ns: 1000 }).collect();
        assert!(!(1..600).any(|n| look(&drifting[..n], 0, 0.01).1));
    }

    #[test]
    fn a_drift_that_hides_among_the_batches_is_carried_to_the_end_of_the_window() {
        // 3 % in 600 intervals, below a deviation of 5 %: no neighbours resemble each other.
        let mut slow = counted(600, 0.0, 0.05);
        for (each, at) in slow.iter_mut().zip(0..) {
            each.count += at / 20;
        }
        let ends = |whole| (1..600).find(|n| look(&slow[..*n], whole, 0.02).1);
        let (blind, careful) = (ends(0).unwrap(), ends(600).unwrap());
        assert!(blind < 150 && careful >= 2 * blind, "{blind} {careful}");
        let figure = look(&slow[..careful], 600, 0.02).0.unwrap().operations;
        let mean = slow.iter().map(|each| each.count).sum::<u64>() / 600;
        #[expect(clippy::cast_precision_loss, reason = "about a thousand")]
        let off = (figure.mean - mean as f64).abs();
        assert!(off <= figure.drift.max(figure.half_width), "{figure:?}");
    }

    #[test]
    fn few_intervals_and_intervals_without_operations_tell_nothing() {
        let same = [Interval { count: 5, p99_ns: 7 }; 25];
        assert!(look(&same, 99, 0.01).1 && !look(&same[..24], 99, 0.01).1);
        assert_eq!(look(&same[..19], 99, 0.01), (None, false));
        assert_eq!(look(&[Interval { count: 0, p99_ns: 0 }; 25], 99, 0.01), (None, false));
    }

    #[test]
    fn intervals_are_found_among_other_lines_however_they_are_cut() {
        let text =
            b"warning: x\nstrata-interval 12 3400\nstrata-interval few\nstrata-interval 0 0\nstrata-in";
        for cut in 0..text.len() {
            let mut found = Intervals::default();
            found.feed(&text[..cut]);
            found.feed(&text[cut..]);
            assert_eq!(found.known, [Interval { count: 12, p99_ns: 3400 }, Interval { count: 0, p99_ns: 0 }]);
        }
    }
}
