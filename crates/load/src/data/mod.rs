// SPDX-License-Identifier: Apache-2.0
//! Written data of a declared compressibility and duplication: zeros would flatter compressing layers.
//!
//! A block is a random part followed by a part that every compressor folds up. The random part's words follow from one word
//! of the block's own: so no block is like another, however far back a compressor looks, and a modelled disk keeps the word
//! instead of the block (`kernel/disk/pattern.h`, which this must agree with). No allocation.

use clap::Args;
use serde::Serialize;

use crate::buffer::Buffer;

/// The unit that is compressible and repeats: what filesystems, thin pools and images manage at the least.
pub const BLOCK_BYTES: usize = 4096;
/// How many blocks back a copy's original lies at the most.
const ORIGINALS: usize = 1024;
const WORD_BYTES: usize = 8;
/// The compressible filler. No zeros: holes, thin pools and images detect those.
const FOLDABLE: &[u8; 8] = b"strata: ";
/// The increment and the finaliser of `SplitMix64` (Steele, Lea, Flood: Fast splittable pseudorandom
/// number generators, 2014).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The declared properties of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Content {
    /// How much of each block a compressor saves, in percent; 0 is random bytes.
    pub compressibility_percent: u8,
    /// How many of 100 whole blocks of 4 KiB are copies of earlier ones.
    pub duplication_percent: u8,
    /// Nothing but zeros, as the originals of some loads write; then all is compressible, and each block like every other.
    pub is_zeros: bool,
}

impl Content {
    pub const ZEROS: Self = Self { compressibility_percent: 100, duplication_percent: 100, is_zeros: true };

    fn random_bytes(self) -> usize {
        let kept = 100 - usize::from(self.compressibility_percent.min(100));
        (BLOCK_BYTES * kept / 100).max(WORD_BYTES).next_multiple_of(WORD_BYTES)
    }
}

/// The content, on a command line.
#[derive(Args)]
pub struct ContentOptions {
    /// How much of each block of content a compressor saves
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u8).range(0..=100))]
    compressibility_percent: u8,
    /// How many of 100 blocks of content repeat earlier ones
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=100))]
    duplication_percent: u8,
    /// Write zeros, which flatters whatever compresses or looks for zeros
    #[arg(long, conflicts_with_all = ["compressibility_percent", "duplication_percent"])]
    zeros: bool,
}

impl ContentOptions {
    pub fn content(&self) -> Content {
        if self.zeros {
            return Content::ZEROS;
        }
        Content {
            compressibility_percent: self.compressibility_percent,
            duplication_percent: self.duplication_percent,
            is_zeros: false,
        }
    }
}

/// State for duplication only: the keys of whole blocks that were handed out.
struct Copies {
    percent: u64,
    originals: Vec<u64>,
    oldest: usize,
}

impl Copies {
    /// The block to lay in place of `next`: `next` itself, which becomes an original, or an earlier original.
    fn instead_of(&mut self, next: u64) -> u64 {
        let drawn = mixed(next);
        if !self.originals.is_empty() && drawn % 100 < self.percent {
            return self.originals[below(mixed(drawn), self.originals.len())];
        }
        if self.originals.len() < ORIGINALS {
            self.originals.push(next);
        } else {
            self.originals[self.oldest] = next;
            self.oldest = (self.oldest + 1) % ORIGINALS;
        }
        next
    }
}

/// A thread's source of bytes to write; it allocates when it is made and never after.
pub struct Source {
    /// Room for the largest write; at an address for `O_DIRECT`.
    buffer: Buffer,
    /// How many blocks of it have their foldable part.
    ready: usize,
    is_zeros: bool,
    random_bytes: usize,
    copies: Option<Copies>,
    seed: u64,
    stream: u64,
    number: u64,
}

impl Source {
    /// Bytes for writes of at most `bytes_max`.
    pub fn new(content: Content, seed: u64, bytes_max: usize) -> Self {
        let copies = (content.duplication_percent > 0 && !content.is_zeros).then(|| Copies {
            percent: u64::from(content.duplication_percent),
            originals: Vec::with_capacity(ORIGINALS),
            oldest: 0,
        });
        let mut source = Self {
            buffer: Buffer::new(bytes_max.next_multiple_of(BLOCK_BYTES)),
            ready: 0,
            is_zeros: content.is_zeros,
            random_bytes: content.random_bytes(),
            copies,
            seed,
            stream: 0,
            number: 0,
        };
        source.restart(0);
        source
    }

    /// Begin stream `number`: its data depend on the seed and the number alone, not on earlier writes.
    pub fn restart(&mut self, number: u64) {
        self.stream = mixed(mixed(self.seed) ^ number);
        self.number = 0;
        if let Some(copies) = &mut self.copies {
            copies.originals.clear();
            copies.oldest = 0;
        }
    }

    /// The next `bytes` bytes, at most `bytes_max`. Each call begins with a new block, at an address for `O_DIRECT`.
    #[inline]
    pub fn next(&mut self, bytes: usize) -> &[u8] {
        if !self.is_zeros {
            for start in (0..bytes).step_by(BLOCK_BYTES) {
                self.lay(start, (bytes - start).min(BLOCK_BYTES));
            }
        }
        &self.buffer[..bytes]
    }

    /// Lay the next block at `start` of the buffer, a copy or not. One that is not written wholly is never a copy, nor
    /// copied: what it would be equal to is not on the disk.
    #[inline]
    fn lay(&mut self, start: usize, bytes: usize) {
        let mut key = key(self.stream, self.number);
        self.number += 1;
        if let Some(copies) = self.copies.as_mut().filter(|_| bytes == BLOCK_BYTES) {
            key = copies.instead_of(key);
        }
        let block = &mut self.buffer[start..start + BLOCK_BYTES];
        if start / BLOCK_BYTES == self.ready {
            for part in block[self.random_bytes..].chunks_mut(FOLDABLE.len()) {
                part.copy_from_slice(&FOLDABLE[..part.len()]);
            }
            self.ready += 1;
        }
        let random_bytes = self.random_bytes.min(bytes.next_multiple_of(WORD_BYTES));
        for (word, number) in block[..random_bytes].chunks_exact_mut(WORD_BYTES).zip(0..) {
            let begin = key.wrapping_add(number).wrapping_add(GOLDEN);
            word.copy_from_slice(&mixed(begin).to_le_bytes());
        }
    }
}

/// The key of block `number` of the stream, unlike that of every other: a one-to-one map.
#[inline]
fn key(stream: u64, number: u64) -> u64 {
    mixed(stream.wrapping_add(number.wrapping_mul(GOLDEN)))
}

#[inline]
fn mixed(mut value: u64) -> u64 {
    value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A mixed number brought into [0, `end`).
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "it is below `end`")]
fn below(mixed: u64, end: usize) -> usize {
    ((u128::from(mixed) * end as u128) >> 64) as usize
}

#[cfg(test)]
mod tests;
