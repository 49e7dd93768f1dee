// SPDX-License-Identifier: Apache-2.0
//! What is written: bytes of a declared compressibility and duplication, because zeros flatter whatever compresses.

use crate::random::Random;

/// What the bytes are declared to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    /// How much of each block a compressor saves, in percent; 0 is random bytes.
    pub compressibility_percent: u8,
    /// How many of 100 blocks are copies of others.
    pub duplication_percent: u8,
}

/// A thread's source of bytes to write; it allocates when it is made and never after.
pub struct Source {
    buffer: Vec<u8>,
    content: Content,
    seed: u64,
}

impl Source {
    /// Bytes for writes of at most `bytes_max`.
    pub fn new(content: Content, seed: u64, bytes_max: usize) -> Self {
        let mut source = Self { buffer: vec![0; bytes_max], content, seed };
        source.restart(0);
        source
    }

    /// Begin stream `number`: what follows depends on the seed and on it alone, not on what was written before.
    pub fn restart(&mut self, number: u64) {
        Random::derived(self.seed, "content", number).fill(&mut self.buffer);
    }

    /// The next `bytes` bytes, at most `bytes_max`.
    #[inline]
    pub fn next(&mut self, bytes: usize) -> &[u8] {
        &self.buffer[..bytes]
    }
}
