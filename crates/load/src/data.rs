// SPDX-License-Identifier: Apache-2.0
//! What is written: bytes of a declared compressibility and duplication, because zeros flatter whatever compresses.
//!
//! A block is a random part followed by a part that every compressor folds up. The random parts are prepared once; a
//! write hands out the prepared bytes where they lie, after eight of them per block have been made unlike any other
//! block's. So it costs one cache line per block, neither a copy nor an allocation.

use clap::Args;
use serde::Serialize;

use crate::random::Random;

/// The unit that is compressible and repeats: what filesystems, thin pools and images manage at the least.
pub const BLOCK_BYTES: usize = 4096;
/// Prepared bytes; the random parts come around after so many. Larger than what filesystems compress at once
/// (ZFS and btrfs: 128 KiB), small enough for a hundred threads.
const POOL_BYTES: usize = 256 << 10;
const POOL_BLOCKS: usize = POOL_BYTES / BLOCK_BYTES;
/// How many blocks back a copy's original lies at the most.
const ORIGINALS: usize = 1024;
const TAG_BYTES: usize = 8;
/// What the foldable part is made of. No zeros: holes, thin pools and images look for those.
const FOLDABLE: &[u8; 8] = b"strata: ";
/// The increment and the finaliser of `SplitMix64` (Steele, Lea, Flood: Fast splittable pseudorandom
/// number generators, 2014).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// What the bytes are declared to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Content {
    /// How much of each block a compressor saves, in percent; 0 is random bytes.
    pub compressibility_percent: u8,
    /// How many of 100 whole blocks of 4 KiB are copies of earlier ones.
    pub duplication_percent: u8,
}

impl Content {
    /// Nothing but zeros, as the originals of some loads write: all is compressible, and each block like every other.
    pub const ZEROS: Self = Self { compressibility_percent: 100, duplication_percent: 100 };

    fn random_bytes(self) -> usize {
        let kept = 100 - usize::from(self.compressibility_percent.min(100));
        (BLOCK_BYTES * kept / 100).max(TAG_BYTES)
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
        }
    }
}

/// A whole block that was handed out, by which a copy of it can be made.
#[derive(Clone, Copy)]
struct Original {
    tag: u64,
    place: usize,
}

/// What only duplication needs.
struct Copies {
    percent: u64,
    /// The prepared blocks as they were before copies came to lie on them.
    prepared: Vec<u8>,
    /// Where in the buffer a copy lies.
    is_copy: Vec<bool>,
    originals: Vec<Original>,
    oldest: usize,
}

/// A thread's source of bytes to write; it allocates when it is made and never after.
pub struct Source {
    /// The prepared blocks, and as many of them again as the largest write takes, so that it lies in one piece.
    buffer: Vec<u8>,
    /// The first byte whose address is a multiple of the block's size, as `O_DIRECT` wants it.
    first: usize,
    is_zeros: bool,
    random_bytes: usize,
    copies: Option<Copies>,
    seed: u64,
    stream: u64,
    number: u64,
    place: usize,
}

impl Source {
    /// Bytes for writes of at most `bytes_max`.
    pub fn new(content: Content, seed: u64, bytes_max: usize) -> Self {
        let blocks = POOL_BLOCKS + bytes_max.div_ceil(BLOCK_BYTES);
        let mut buffer = vec![0; (blocks + 1) * BLOCK_BYTES];
        let first = buffer.as_ptr().align_offset(BLOCK_BYTES);
        let is_zeros = content == Content::ZEROS;
        let random_bytes = content.random_bytes();
        let mut copies = None;
        if !is_zeros {
            let bytes = &mut buffer[first..first + blocks * BLOCK_BYTES];
            prepare(bytes, seed, random_bytes);
            copies = (content.duplication_percent > 0).then(|| Copies {
                percent: u64::from(content.duplication_percent),
                prepared: bytes[..POOL_BYTES].to_vec(),
                is_copy: vec![false; blocks],
                originals: Vec::with_capacity(ORIGINALS),
                oldest: 0,
            });
        }
        let mut source =
            Self { buffer, first, is_zeros, random_bytes, copies, seed, stream: 0, number: 0, place: 0 };
        source.restart(0);
        source
    }

    /// Begin stream `number`: what follows depends on the seed and on it alone, not on what was written before.
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
        let start = self.first + self.place * BLOCK_BYTES;
        if self.is_zeros {
            return &self.buffer[start..start + bytes];
        }
        let blocks = bytes.div_ceil(BLOCK_BYTES);
        if self.copies.is_some() {
            for block in 0..blocks {
                self.lay(self.place + block, bytes - block * BLOCK_BYTES >= BLOCK_BYTES);
            }
        } else {
            let end = start + blocks * BLOCK_BYTES;
            for block in self.buffer[start..end].chunks_exact_mut(BLOCK_BYTES) {
                block[..TAG_BYTES].copy_from_slice(&tag(self.stream, self.number).to_le_bytes());
                self.number += 1;
            }
        }
        self.place = (self.place + blocks) % POOL_BLOCKS;
        &self.buffer[start..start + bytes]
    }

    /// Lay the next block at `place` of the buffer, a copy or not. One that is not written wholly is never a copy, nor
    /// copied: what it would be equal to is not on the disk.
    fn lay(&mut self, place: usize, is_whole: bool) {
        let Some(copies) = &mut self.copies else { return };
        let mut tag = tag(self.stream, self.number);
        self.number += 1;
        let start = self.first + place * BLOCK_BYTES;
        let random = &mut self.buffer[start..start + self.random_bytes];
        let drawn = mixed(tag);
        let prepared = |place: usize| place * BLOCK_BYTES..place * BLOCK_BYTES + random.len();
        if is_whole && !copies.originals.is_empty() && drawn % 100 < copies.percent {
            let original = copies.originals[below(mixed(drawn), copies.originals.len())];
            tag = original.tag;
            let bytes = prepared(original.place);
            random.copy_from_slice(&copies.prepared[bytes]);
            copies.is_copy[place] = true;
        } else {
            let place_prepared = place % POOL_BLOCKS;
            if copies.is_copy[place] {
                let bytes = prepared(place_prepared);
                random.copy_from_slice(&copies.prepared[bytes]);
                copies.is_copy[place] = false;
            }
            if is_whole {
                let original = Original { tag, place: place_prepared };
                if copies.originals.len() < ORIGINALS {
                    copies.originals.push(original);
                } else {
                    copies.originals[copies.oldest] = original;
                    copies.oldest = (copies.oldest + 1) % ORIGINALS;
                }
            }
        }
        random[..TAG_BYTES].copy_from_slice(&tag.to_le_bytes());
    }
}

fn prepare(bytes: &mut [u8], seed: u64, random_bytes: usize) {
    let mut random = Random::derived(seed, "content", 0);
    for block in bytes[..POOL_BYTES].chunks_exact_mut(BLOCK_BYTES) {
        random.fill(&mut block[..random_bytes]);
        for part in block[random_bytes..].chunks_mut(FOLDABLE.len()) {
            part.copy_from_slice(&FOLDABLE[..part.len()]);
        }
    }
    let (pool, again) = bytes.split_at_mut(POOL_BYTES);
    for chunk in again.chunks_mut(POOL_BYTES) {
        chunk.copy_from_slice(&pool[..chunk.len()]);
    }
}

/// What makes block `number` of a stream unlike every other: one to one within a stream.
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
