// SPDX-License-Identifier: Apache-2.0
//! Memory for reads and writes, at an address that is a multiple of the page's size: as `O_DIRECT` wants it, and as the
//! kernel copies fastest. Untouched pages take none.

use std::ops::{Deref, DerefMut};

const PAGE_BYTES: usize = 4096;

pub struct Buffer {
    bytes: Vec<u8>,
    first: usize,
}

impl Buffer {
    /// This many zeros.
    pub fn new(bytes: usize) -> Self {
        let mut bytes = vec![0; if bytes == 0 { 0 } else { bytes + PAGE_BYTES }];
        let first = if bytes.is_empty() { 0 } else { bytes.as_ptr().align_offset(PAGE_BYTES) };
        bytes.truncate(bytes.len().saturating_sub(PAGE_BYTES) + first);
        Self { bytes, first }
    }
}

impl Deref for Buffer {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        &self.bytes[self.first..]
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.first..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_begins_with_a_page_and_is_as_long_as_it_is_to_be() {
        for bytes in [0, 1, 4096, 1 << 20] {
            let buffer = Buffer::new(bytes);
            assert_eq!(buffer.len(), bytes);
            assert!(bytes == 0 || buffer.as_ptr().align_offset(PAGE_BYTES) == 0);
        }
    }
}
