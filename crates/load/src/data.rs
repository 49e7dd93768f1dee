// SPDX-License-Identifier: Apache-2.0
//! Written data of a declared compressibility and duplication: zeros would flatter compressing layers.
//!
//! A block is a random part followed by a part that every compressor folds up. The random parts come from a pool that all
//! threads share, each combined with a word of its own block on the way: so no block is like another, however far back a
//! compressor looks. That costs a pass over the random part, in the processor's cache, and no allocation.

use std::sync::OnceLock;

use clap::Args;
use serde::Serialize;

use crate::buffer::Buffer;
use crate::random::Random;

/// The unit that is compressible and repeats: what filesystems, thin pools and images manage at the least.
pub const BLOCK_BYTES: usize = 4096;
/// Small enough for a processor's nearest cache: not by its size, but by its blocks' words is content unlike any before.
const POOL_BYTES: usize = 16 << 10;
const POOL_BLOCKS: usize = POOL_BYTES / BLOCK_BYTES;
/// How many blocks back a copy's original lies at the most.
const ORIGINALS: usize = 1024;
const TAG_BYTES: usize = 8;
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
        (BLOCK_BYTES * kept / 100).max(TAG_BYTES).next_multiple_of(TAG_BYTES)
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

/// A whole block that was handed out, from which it can be made again.
#[derive(Clone, Copy)]
struct Original {
    tag: u64,
    place: usize,
}

/// State for duplication only.
struct Copies {
    percent: u64,
    originals: Vec<Original>,
    oldest: usize,
}

impl Copies {
    /// The data to lay in place of `next`: `next` itself, which becomes an original, or an earlier original.
    fn instead_of(&mut self, next: Original) -> Original {
        let drawn = mixed(next.tag);
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
    pool: &'static [u8],
    seed: u64,
    stream: u64,
    number: u64,
    /// The block of the pool that is next.
    place: usize,
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
            pool: if content.is_zeros { &[] } else { pool() },
            seed,
            stream: 0,
            number: 0,
            place: 0,
        };
        source.restart(0);
        source
    }

    /// Begin stream `number`: its data depend on the seed and the number alone, not on earlier writes.
    pub fn restart(&mut self, number: u64) {
        self.stream = mixed(mixed(self.seed) ^ number);
        self.number = 0;
        self.place = below(mixed(self.stream), POOL_BLOCKS);
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
        let mut laid = Original { tag: tag(self.stream, self.number), place: self.place };
        self.number += 1;
        self.place = (self.place + 1) % POOL_BLOCKS;
        if let Some(copies) = self.copies.as_mut().filter(|_| bytes == BLOCK_BYTES) {
            laid = copies.instead_of(laid);
        }
        let block = &mut self.buffer[start..start + BLOCK_BYTES];
        if start / BLOCK_BYTES == self.ready {
            for part in block[self.random_bytes..].chunks_mut(FOLDABLE.len()) {
                part.copy_from_slice(&FOLDABLE[..part.len()]);
            }
            self.ready += 1;
        }
        let random_bytes = self.random_bytes.min(bytes.next_multiple_of(TAG_BYTES));
        let from = &self.pool[laid.place * BLOCK_BYTES..][..random_bytes];
        let word = mixed(laid.tag);
        for (to, from) in block.chunks_exact_mut(TAG_BYTES).zip(from.chunks_exact(TAG_BYTES)) {
            let random = u64::from_le_bytes(from.try_into().expect("it is a word"));
            to.copy_from_slice(&(random ^ word).to_le_bytes());
        }
        block[..TAG_BYTES].copy_from_slice(&laid.tag.to_le_bytes());
    }
}

/// Random bytes, the same for all.
fn pool() -> &'static [u8] {
    static POOL: OnceLock<Box<[u8]>> = OnceLock::new();
    POOL.get_or_init(|| {
        let mut bytes = vec![0; POOL_BYTES].into_boxed_slice();
        Random::derived(0, "content", 0).fill(&mut bytes);
        bytes
    })
}

/// Make block `number` unlike every other block of the stream: a one-to-one map.
#[inline]
fn tag(stream: u64, number: u64) -> u64 {
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
