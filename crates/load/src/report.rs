// SPDX-License-Identifier: Apache-2.0
//! The result: one JSON object on the standard output, with counts, bytes, latencies and rates.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2Serializer};
use serde::Serialize;

use crate::clock::NS_PER_S;

/// Of the result's form; `strata.workloads.generator.output` refuses another one.
pub const RESULT_VERSION: u32 = 1;

/// As `strata.model.histogram` has them: latencies of one kind can be added to one another.
pub const LATENCY_NS_MAX: u64 = 3600 * NS_PER_S;
const SIGNIFICANT_DIGITS: u8 = 3;
const COMPRESSED_COOKIE: u32 = 0x1c84_9304;
const STORED_BLOCK_BYTES: usize = 65_535;
const ADLER: u32 = 65_521;

/// How many latencies wait to be counted together, so that the processor waits for their places at the same time.
const PENDING: usize = 64;
/// Values that have a place each, of which a power of two needs half: 3 significant digits take 2000.
const PLACES: u64 = 2048;
const HALF_BITS: u32 = PLACES.ilog2() - 1;

/// One kind of operation: how often, how much, how long. Recording allocates nothing.
pub struct Tally {
    pub count: u64,
    pub bytes: u64,
    /// By place, as in `HdrHistogram`. Ours, because it is zeroed by the kernel when it is touched: of its 270 KB a
    /// thread touches only what it uses, where a `Histogram` writes them all.
    counts: Box<[u64]>,
    pending: [u32; PENDING],
    waiting: usize,
    latency_ns_sum: u128,
    latency_ns_max: u64,
}

impl Default for Tally {
    fn default() -> Self {
        Self::new()
    }
}

impl Tally {
    pub fn new() -> Self {
        Self {
            count: 0,
            bytes: 0,
            counts: vec![0; place(LATENCY_NS_MAX) as usize + 1].into_boxed_slice(),
            pending: [0; PENDING],
            waiting: 0,
            latency_ns_sum: 0,
            latency_ns_max: 0,
        }
    }

    /// Count one operation that moved `bytes` and took `latency_ns`.
    #[inline]
    pub fn record(&mut self, bytes: u64, latency_ns: u64) {
        self.count += 1;
        self.bytes += bytes;
        self.latency_ns_sum += u128::from(latency_ns);
        self.latency_ns_max = self.latency_ns_max.max(latency_ns);
        self.pending[self.waiting % PENDING] = place(clamped(latency_ns));
        self.waiting += 1;
        if self.waiting == PENDING {
            self.settle();
        }
    }

    #[inline(never)]
    fn settle(&mut self) {
        for place in &self.pending[..self.waiting] {
            self.counts[*place as usize] += 1;
        }
        self.waiting = 0;
    }

    /// The sum over all threads.
    pub fn sum<'a>(tallies: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut sum = Self::new();
        tallies.into_iter().for_each(|tally| sum.add(tally));
        sum
    }

    /// Add another thread's tally.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.latency_ns_sum += other.latency_ns_sum;
        self.latency_ns_max = self.latency_ns_max.max(other.latency_ns_max);
        for (place, count) in other.counted() {
            self.counts[place] += count;
        }
    }

    /// The places with their counts; places of pending latencies come again.
    fn counted(&self) -> impl Iterator<Item = (usize, u64)> {
        // Nothing was counted beyond the longest.
        let end = place(clamped(self.latency_ns_max)) as usize + 1;
        let settled = self.counts[..end].iter().copied().enumerate().filter(|(_, count)| *count > 0);
        settled.chain(self.pending[..self.waiting].iter().map(|place| (*place as usize, 1)))
    }

    fn histogram(&self) -> Histogram<u64> {
        let mut histogram =
            Histogram::new_with_bounds(1, LATENCY_NS_MAX, SIGNIFICANT_DIGITS).expect("the bounds are sound");
        for (place, count) in self.counted() {
            histogram.record_n(least(place), count).expect("it is within the bounds");
        }
        histogram
    }

    pub fn summary(&self) -> Summary {
        #[expect(clippy::cast_precision_loss, reason = "a mean of nanoseconds")]
        let mean = if self.count == 0 { 0.0 } else { self.latency_ns_sum as f64 / self.count as f64 };
        Summary {
            count: self.count,
            bytes: self.bytes,
            latency_ns_mean: mean,
            latency_ns_max: self.latency_ns_max,
            latency_ns: encode(&self.histogram()),
        }
    }
}

/// Within the bounds of the histogram.
#[inline]
fn clamped(latency_ns: u64) -> u64 {
    latency_ns.clamp(1, LATENCY_NS_MAX)
}

/// Where a value is counted: as in `HdrHistogram`, by its power of two and the bits that follow.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the shift leaves 11 bits")]
fn place(value: u64) -> u32 {
    let power = PLACES.leading_zeros() + 1 - (value | (PLACES - 1)).leading_zeros();
    (power << HALF_BITS) + (value >> power) as u32
}

/// The least value that is counted at a place.
fn least(place: usize) -> u64 {
    let place = place as u64;
    if place < PLACES {
        return place;
    }
    let half = PLACES / 2;
    (half + place % half) << (place / half - 1)
}

/// A tally as it stands in the result.
#[derive(Serialize, Debug)]
pub struct Summary {
    pub count: u64,
    pub bytes: u64,
    pub latency_ns_mean: f64,
    pub latency_ns_max: u64,
    /// `HdrHistogram` V2 in base64, from 1 ns to 1 h with 3 digits.
    pub latency_ns: String,
}

pub type Summaries = BTreeMap<String, Summary>;

/// The V2 format in blocks of deflate that are merely stored, as `strata.model.histogram.encode` writes it:
/// zlib's output differs between versions, and a result must not.
fn encode(histogram: &Histogram<u64>) -> String {
    let mut content = Vec::new();
    V2Serializer::new().serialize(histogram, &mut content).expect("a vector takes everything");
    let mut stored = vec![0x78, 0x01];
    let blocks = content.chunks(STORED_BLOCK_BYTES);
    let last = blocks.len() - 1;
    for (index, block) in blocks.enumerate() {
        let bytes = u16::try_from(block.len()).expect("a block is short");
        stored.push(u8::from(index == last));
        stored.extend(bytes.to_le_bytes());
        stored.extend((!bytes).to_le_bytes());
        stored.extend(block);
    }
    stored.extend(adler32(&content).to_be_bytes());
    let mut wire = COMPRESSED_COOKIE.to_be_bytes().to_vec();
    wire.extend(u32::try_from(stored.len()).expect("a histogram is small").to_be_bytes());
    wire.extend(stored);
    STANDARD.encode(wire)
}

fn adler32(bytes: &[u8]) -> u32 {
    let (low, high) = bytes.iter().fold((1, 0), |(low, high), byte| {
        let low = (low + u32::from(*byte)) % ADLER;
        (low, (high + low) % ADLER)
    });
    high << 16 | low
}

/// Print a result for the reader at the other end of a pipe.
pub fn print(result: &impl Serialize) {
    println!("{}", serde_json::to_string(result).expect("a result is JSON"));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn latencies_are_counted_as_by_the_histogram() {
        let mut random = Random::derived(1, "latencies", 0);
        let mut known = Histogram::new_with_bounds(1, LATENCY_NS_MAX, SIGNIFICANT_DIGITS).unwrap();
        let (mut one, mut other) = (Tally::new(), Tally::new());
        // Of every size, and more than a multiple of what is counted together.
        for number in 0..100_001 {
            let bits = 1 + random.below(45);
            let latency_ns = random.below(1 << bits);
            known.saturating_record(latency_ns.clamp(1, LATENCY_NS_MAX));
            if number % 3 == 0 { &mut one } else { &mut other }.record(1, latency_ns);
        }

        one.add(&other);

        let found = one.histogram();
        for percent in 0..=1000 {
            let quantile = f64::from(percent) / 1000.0;
            assert_eq!(found.value_at_quantile(quantile), known.value_at_quantile(quantile), "{quantile}");
        }
        assert_eq!((found.len(), found.max()), (known.len(), known.max()));
        assert_eq!(one.summary().latency_ns, encode(&known));
    }

    #[test]
    fn every_value_has_the_place_that_the_histogram_gives_it() {
        let known = Histogram::<u64>::new_with_bounds(1, LATENCY_NS_MAX, SIGNIFICANT_DIGITS).unwrap();
        let around = (0..42).flat_map(|bit| [(1 << bit) - 1, 1 << bit, (1 << bit) + 1]);
        for value in around.chain([LATENCY_NS_MAX]).filter(|value| (1..=LATENCY_NS_MAX).contains(value)) {
            assert_eq!(least(place(value) as usize), known.lowest_equivalent(value), "{value}");
        }
    }
}
