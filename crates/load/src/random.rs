// SPDX-License-Identifier: Apache-2.0
//! Seeded randomness. Every use derives its own stream by name, so that adding one moves no other.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore, SeedableRng};

const FNV_OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;
/// 2^-53.
const UNIT: f64 = f64::EPSILON / 2.0;

/// A stream of random numbers that depends on a seed, a purpose and a number alone.
pub struct Random(ChaCha8Rng);

impl Random {
    /// The stream of the `index`th thing of its kind: `Random::derived(seed, "file", 17)`.
    pub fn derived(seed: u64, purpose: &str, index: u64) -> Self {
        let name =
            purpose.bytes().fold(FNV_OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
        let mut key = [0; 32];
        for (part, value) in key.chunks_exact_mut(8).zip([seed, name, index, 0]) {
            part.copy_from_slice(&value.to_le_bytes());
        }
        Self(ChaCha8Rng::from_seed(key))
    }

    #[inline]
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in [0, 1), with 53 bits.
    #[inline]
    #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * UNIT
    }

    /// Uniform in (0, 1).
    pub fn unit_above_zero(&mut self) -> f64 {
        loop {
            let drawn = self.unit();
            if drawn > 0.0 {
                return drawn;
            }
        }
    }

    /// The time to the next arrival of a Poisson process: exponentially distributed with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        -libm::log(self.unit_above_zero()) * mean
    }

    /// Uniform in [0, `end`): Lemire's method, without bias. `end` must not be 0.
    #[inline]
    pub fn below(&mut self, end: u64) -> u64 {
        debug_assert!(end > 0);
        loop {
            let product = u128::from(self.bits()) * u128::from(end);
            #[expect(clippy::cast_possible_truncation, reason = "the low half is what is wanted")]
            let low = product as u64;
            // The division is rarely needed.
            if low >= end || low >= end.wrapping_neg() % end {
                return (product >> 64) as u64;
            }
        }
    }

    /// Fisher and Yates' shuffle: every order is equally likely.
    pub fn shuffle<T>(&mut self, things: &mut [T]) {
        for last in (1..things.len()).rev() {
            let other = usize::try_from(self.below(last as u64 + 1)).expect("it is an index");
            things.swap(last, other);
        }
    }
}
