// SPDX-License-Identifier: Apache-2.0
//! The result: one JSON object on the standard output, with counts, bytes, latencies and rates.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2Serializer};
use serde::Serialize;

use crate::clock::NS_PER_S;

/// History of the result's form.
/// 1 - (strata 0.1) first version
pub const RESULT_VERSION: u32 = 1;

/// As `strata.spec.histogram` has them: latencies of one kind can be added to one another.
pub const LATENCY_NS_MAX: u64 = 3600 * NS_PER_S;
const SIGNIFICANT_DIGITS: u8 = 3;
const COMPRESSED_COOKIE: u32 = 0x1c84_9304;
const STORED_BLOCK_BYTES: usize = 65_535;
const ADLER: u32 = 65_521;

/// One kind of operation: how often, how much, how long. Recording allocates nothing.
#[derive(Clone)]
pub struct Tally {
    pub count: u64,
    pub bytes: u64,
    pub errors: u64,
    latency_ns: Histogram<u64>,
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
        let latency_ns =
            Histogram::new_with_bounds(1, LATENCY_NS_MAX, SIGNIFICANT_DIGITS).expect("the bounds are sound");
        Self { count: 0, bytes: 0, errors: 0, latency_ns, latency_ns_sum: 0, latency_ns_max: 0 }
    }

    /// Count one operation that moved `bytes` and took `latency_ns`.
    #[inline]
    pub fn record(&mut self, bytes: u64, latency_ns: u64) {
        self.count += 1;
        self.bytes += bytes;
        self.latency_ns_sum += u128::from(latency_ns);
        self.latency_ns_max = self.latency_ns_max.max(latency_ns);
        self.latency_ns.saturating_record(latency_ns.clamp(1, LATENCY_NS_MAX));
    }

    /// Add what another thread recorded.
    pub fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.bytes += other.bytes;
        self.errors += other.errors;
        self.latency_ns_sum += other.latency_ns_sum;
        self.latency_ns_max = self.latency_ns_max.max(other.latency_ns_max);
        self.latency_ns.add(&other.latency_ns).expect("all have the same bounds");
    }

    pub fn summary(&self) -> Summary {
        #[expect(clippy::cast_precision_loss, reason = "a mean of nanoseconds")]
        let mean = if self.count == 0 { 0.0 } else { self.latency_ns_sum as f64 / self.count as f64 };
        Summary {
            count: self.count,
            bytes: self.bytes,
            errors: self.errors,
            latency_ns_mean: mean,
            latency_ns_max: self.latency_ns_max,
            latency_ns: encode(&self.latency_ns),
        }
    }
}

/// A tally as it stands in the result.
#[derive(Serialize, Debug)]
pub struct Summary {
    pub count: u64,
    pub bytes: u64,
    pub errors: u64,
    pub latency_ns_mean: f64,
    pub latency_ns_max: u64,
    /// `HdrHistogram` V2 in base64, from 1 ns to 1 h with 3 digits.
    pub latency_ns: String,
}

pub type Summaries = BTreeMap<String, Summary>;

/// The V2 format in blocks of deflate that are merely stored, as `strata.spec.histogram.encode` writes it:
/// what zlib makes differs between versions, and a result must not.
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

/// Print a result. What reads it stands at the other end of a pipe.
pub fn print(result: &impl Serialize) {
    println!("{}", serde_json::to_string(result).expect("a result is JSON"));
}
