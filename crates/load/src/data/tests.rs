// SPDX-License-Identifier: Apache-2.0
#![expect(clippy::cast_precision_loss, clippy::float_cmp, reason = "shares of a few thousand blocks")]

use std::collections::HashSet;
use std::io::Write as _;

use flate2::Compression;
use flate2::write::ZlibEncoder;

use super::{BLOCK_BYTES, Content, Source};

const TOTAL_BYTES: usize = 8 << 20;
/// The bytes that ZFS and btrfs compress at once by default; ZFS compresses at most `LARGE_RECORD_BYTES`.
const RECORD_BYTES: usize = 128 << 10;
const LARGE_RECORD_BYTES: usize = 1 << 20;

fn content(compressibility_percent: u8, duplication_percent: u8) -> Content {
    Content { compressibility_percent, duplication_percent, is_zeros: false }
}

fn written(content: Content, seed: u64, write_bytes: usize) -> Vec<u8> {
    let mut source = Source::new(content, seed, write_bytes);
    let mut bytes = Vec::with_capacity(TOTAL_BYTES);
    while bytes.len() < TOTAL_BYTES {
        bytes.extend_from_slice(source.next(write_bytes));
    }
    bytes
}

fn lz4(record: &[u8]) -> usize {
    lz4_flex::block::compress(record).len().min(record.len())
}

fn zlib(record: &[u8]) -> usize {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(record).unwrap();
    encoder.finish().unwrap().len().min(record.len())
}

fn zstd(record: &[u8]) -> usize {
    zstd::bulk::compress(record, 3).unwrap().len().min(record.len())
}

fn saved_percent(bytes: &[u8], record_bytes: usize, compressed: fn(&[u8]) -> usize) -> f64 {
    let sizes: usize = bytes.chunks(record_bytes).map(compressed).sum();
    100.0 - 100.0 * sizes as f64 / bytes.len() as f64
}

fn repeated_percent(bytes: &[u8]) -> f64 {
    let blocks = bytes.len() / BLOCK_BYTES;
    let different: HashSet<&[u8]> = bytes.chunks_exact(BLOCK_BYTES).collect();
    100.0 - 100.0 * different.len() as f64 / blocks as f64
}

#[test]
fn compressors_save_what_is_declared() {
    for declared in [0, 25, 50, 75, 90] {
        let bytes = written(content(declared, 0), 1, 64 << 10);
        for (name, compressor, record_bytes) in [
            ("lz4", lz4 as fn(&[u8]) -> usize, RECORD_BYTES),
            ("zlib", zlib, RECORD_BYTES),
            ("zstd", zstd, RECORD_BYTES),
            ("zstd of large records", zstd, LARGE_RECORD_BYTES),
        ] {
            let saved = saved_percent(&bytes, record_bytes, compressor);
            assert!(
                (saved - f64::from(declared)).abs() < 2.0,
                "{name}: {declared} % declared, {saved:.2} % saved"
            );
        }
    }
}

#[test]
fn single_blocks_are_as_compressible_as_records() {
    let bytes = written(content(50, 0), 1, 64 << 10);
    let sizes: usize = bytes.chunks(BLOCK_BYTES).map(lz4).sum();

    let saved = 100.0 - 100.0 * sizes as f64 / bytes.len() as f64;

    // lz4 is slow to notice that a random part is over, which costs a short input more than a long one.
    assert!((saved - 50.0).abs() < 3.0, "{saved:.2} % saved");
}

#[test]
fn without_duplication_no_two_blocks_are_equal() {
    for write_bytes in [4096, 8192, 64 << 10, 1 << 20] {
        assert_eq!(
            repeated_percent(&written(content(50, 0), 1, write_bytes)),
            0.0,
            "writes of {write_bytes}"
        );
    }
    assert_eq!(repeated_percent(&written(content(100, 0), 1, 8192)), 0.0, "all compressible");
}

#[test]
fn as_many_blocks_repeat_as_is_declared() {
    for declared in [10, 30, 70] {
        for write_bytes in [4096, 1 << 20] {
            let repeated = repeated_percent(&written(content(50, declared), 1, write_bytes));
            assert!(
                (repeated - f64::from(declared)).abs() < 3.0,
                "{declared} % declared, {repeated:.2} % repeated in writes of {write_bytes}"
            );
        }
    }
}

#[test]
fn duplication_leaves_the_other_blocks_as_compressible() {
    let bytes = written(content(50, 40), 1, 64 << 10);
    let mut known = HashSet::new();
    let different: Vec<u8> =
        bytes.chunks_exact(BLOCK_BYTES).filter(|block| known.insert(*block)).flatten().copied().collect();

    let saved = saved_percent(&different, RECORD_BYTES, lz4);

    assert!((saved - 50.0).abs() < 2.0, "{saved:.2} % saved");
}

#[test]
fn files_of_odd_sizes_differ_from_one_another() {
    let mut source = Source::new(content(50, 30), 1, 8192);
    let mut files = HashSet::new();
    for _ in 0..2000 {
        assert!(files.insert(source.next(1000).to_vec()));
    }
}

#[test]
fn a_stream_depends_on_seed_and_number_alone() {
    let mut source = Source::new(content(50, 30), 1, 64 << 10);
    source.restart(7);
    let first: Vec<Vec<u8>> = (0..100).map(|_| source.next(64 << 10).to_vec()).collect();
    source.restart(8);
    let other: Vec<Vec<u8>> = (0..100).map(|_| source.next(64 << 10).to_vec()).collect();
    source.restart(7);
    let again: Vec<Vec<u8>> = (0..100).map(|_| source.next(64 << 10).to_vec()).collect();

    assert_eq!(first, again);
    let blocks = |stream: &[Vec<u8>]| -> HashSet<Vec<u8>> {
        stream.iter().flat_map(|write| write.chunks(BLOCK_BYTES).map(<[u8]>::to_vec)).collect()
    };
    assert!(blocks(&first).is_disjoint(&blocks(&other)));
    assert_ne!(written(content(50, 0), 1, 8192), written(content(50, 0), 2, 8192));
}

#[test]
fn zeros_flatter_whatever_compresses_or_looks_for_copies() {
    let bytes = written(Content::ZEROS, 1, 64 << 10);

    assert!(bytes.iter().all(|byte| *byte == 0));
    let saved = saved_percent(&bytes, RECORD_BYTES, lz4);
    assert!(saved > 99.0, "lz4 stores {saved:.2} % less");
    assert!(repeated_percent(&bytes) > 99.9);
}

#[test]
fn only_zeros_that_were_asked_for_are_zeros() {
    let bytes = written(content(100, 100), 1, 64 << 10);

    assert!(bytes.chunks(BLOCK_BYTES).all(|block| block.iter().any(|byte| *byte != 0)));
}

#[test]
fn writes_lie_where_direct_writes_must() {
    let mut source = Source::new(content(50, 0), 1, 64 << 10);
    for bytes in [4096, 100, 65536, 8192] {
        assert_eq!(source.next(bytes).as_ptr().align_offset(BLOCK_BYTES), 0);
    }
}
