// SPDX-License-Identifier: Apache-2.0
//! A byte stream cut into events: at most 32 KiB each, at UTF-8 boundaries, complete up to a limit.

use std::str::from_utf8;

use crate::report::events::Content;

pub const CHUNK_BYTES: usize = 32 << 10;

/// Cuts a stream; an incomplete character waits for its rest.
#[derive(Debug, Default)]
pub struct Chunker {
    pending: Vec<u8>,
}

impl Chunker {
    /// Take `bytes` and give every chunk that is complete to `emit`.
    pub fn feed(&mut self, bytes: &[u8], mut emit: impl FnMut(Content)) {
        self.pending.extend_from_slice(bytes);
        let mut at = 0;
        while at < self.pending.len() {
            let end = self.pending.len().min(at + CHUNK_BYTES);
            let chunk = &self.pending[at..end];
            let whole = match from_utf8(chunk) {
                Err(error) if error.error_len().is_none() => error.valid_up_to(),
                _ => chunk.len(),
            };
            if whole == 0 {
                break;
            }
            emit(Content::of(&chunk[..whole]));
            at += whole;
        }
        self.pending.drain(..at);
    }

    /// The stream has ended; the rest is not text.
    pub fn finish(&mut self, mut emit: impl FnMut(Content)) {
        if !self.pending.is_empty() {
            emit(Content::of(&self.pending));
            self.pending.clear();
        }
    }
}

/// A stream of a program, of which only the first `limit_bytes` are kept.
#[derive(Debug)]
pub struct Capture {
    chunker: Chunker,
    room_bytes: u64,
    pub truncated: bool,
}

impl Capture {
    pub fn new(limit_bytes: u64) -> Self {
        Self { chunker: Chunker::default(), room_bytes: limit_bytes, truncated: false }
    }

    pub fn feed(&mut self, bytes: &[u8], emit: impl FnMut(Content)) {
        let taken = usize::try_from(self.room_bytes).map_or(bytes.len(), |room| room.min(bytes.len()));
        self.room_bytes -= taken as u64;
        self.truncated |= taken < bytes.len();
        self.chunker.feed(&bytes[..taken], emit);
    }

    pub fn finish(&mut self, emit: impl FnMut(Content)) {
        // The limit may have torn a character, which is dropped like the rest.
        if !self.truncated {
            self.chunker.finish(emit);
        }
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[derive(Default)]
    struct Collected {
        bytes: Vec<u8>,
        texts: usize,
        encoded: usize,
        longest: usize,
    }

    impl Collected {
        fn take(&mut self, content: &Content) {
            let bytes = match content {
                Content::Text(text) => text.as_bytes().to_vec(),
                Content::Base64(text) => STANDARD.decode(text).unwrap(),
            };
            match content {
                Content::Text(_) => self.texts += 1,
                Content::Base64(_) => self.encoded += 1,
            }
            self.longest = self.longest.max(bytes.len());
            self.bytes.extend(bytes);
        }
    }

    fn cut(pieces: &[&[u8]], limit_bytes: u64) -> (Collected, bool) {
        let mut collected = Collected::default();
        let mut capture = Capture::new(limit_bytes);
        for piece in pieces {
            capture.feed(piece, |content| collected.take(&content));
        }
        capture.finish(|content| collected.take(&content));
        (collected, capture.truncated)
    }

    #[test]
    fn text_cut_anywhere_comes_out_as_text() {
        let text = "aé€😀z".as_bytes();
        for first in 0..text.len() {
            for second in first..text.len() {
                let (collected, _) = cut(&[&text[..first], &text[first..second], &text[second..]], 1000);

                assert_eq!(collected.bytes, text);
                assert_eq!(collected.encoded, 0, "cut at {first} and {second}");
            }
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_kept_as_they_are() {
        for pieces in [&[&b"ab\xff\xfe"[..], b"\x00cd"][..], &[b"tail \xe2\x82"], &[b"\x80", b"\x80"]] {
            let (collected, truncated) = cut(pieces, 1000);

            assert_eq!(collected.bytes, pieces.concat());
            assert!(!truncated);
        }
    }

    #[test]
    fn a_long_text_is_cut_into_chunks_that_stay_below_the_limit() {
        let text = "x€".repeat(30_000);

        let (collected, _) = cut(&[text.as_bytes()], 1 << 20);

        assert_eq!(collected.bytes, text.as_bytes());
        assert!(collected.longest <= CHUNK_BYTES && collected.texts == 4 && collected.encoded == 0);
    }

    #[test]
    fn output_beyond_the_limit_is_dropped_and_marked() {
        let (collected, truncated) = cut(&[b"12345", b"67890"], 7);
        assert_eq!((collected.bytes.as_slice(), truncated), (&b"1234567"[..], true));

        let (collected, truncated) = cut(&[b"1234567"], 7);
        assert_eq!((collected.bytes.as_slice(), truncated), (&b"1234567"[..], false));

        let (collected, _) = cut(&["12345€".as_bytes()], 7);
        assert_eq!((collected.bytes.as_slice(), collected.encoded), (&b"12345"[..], 0));
    }
}
