// SPDX-License-Identifier: Apache-2.0
use std::collections::HashSet;
use std::fs;
use std::path::Path;

use clap::Parser;

use super::{Options, Outcome, Part};
use crate::faults::Fault;

const FILE_BYTES: usize = 1 << 20;
const LAYOUT: [&str; 2] = ["--files=3", "--file-bytes=1048576"];

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: Options,
}

fn run(part: &str, folder: &Path, more: &[&str]) -> Result<Outcome, Fault> {
    let words = ["fragment", part, "--directory", folder.to_str().unwrap()];
    match Line::parse_from(words.iter().chain(&LAYOUT).chain(more)).options.part {
        Part::Fill(options) => options.run(),
        Part::Rewrite(options) => options.run(),
        Part::Read(options) => options.run(),
    }
}

fn contents(folder: &Path) -> Vec<Vec<u8>> {
    (0..3).map(|number| fs::read(folder.join(format!("file-{number}.data"))).unwrap()).collect()
}

#[test]
fn writers_fill_a_file_each_with_blocks_that_differ() {
    let folder = tempfile::tempdir().unwrap();

    let outcome = run("fill", folder.path(), &["--seed=1", "--sync-every-bytes=262144"]).unwrap();

    let contents = contents(folder.path());
    assert!(contents.iter().all(|content| content.len() == FILE_BYTES));
    let blocks: HashSet<&[u8]> = contents.iter().flat_map(|content| content.chunks(4096)).collect();
    assert_eq!(blocks.len(), 3 * FILE_BYTES / 4096);
    assert_eq!((outcome.bytes, outcome.operations["write"].count), (3 << 20, 48));
}

#[test]
fn the_same_seed_fills_and_rewrites_the_same() {
    let filled = |seed: &str| {
        let folder = tempfile::tempdir().unwrap();
        run("fill", folder.path(), &[seed]).unwrap();
        run("rewrite", folder.path(), &[seed, "--extents=5", "--extent-bytes=8192"]).unwrap();
        contents(folder.path())
    };

    assert_eq!(filled("--seed=1"), filled("--seed=1"));
    assert_ne!(filled("--seed=1"), filled("--seed=2"));
}

#[test]
fn extents_are_rewritten_in_place_and_wholly() {
    let folder = tempfile::tempdir().unwrap();
    run("fill", folder.path(), &["--seed=1"]).unwrap();
    let before = contents(folder.path());

    let outcome =
        run("rewrite", folder.path(), &["--seed=1", "--extents=20", "--extent-bytes=16384"]).unwrap();

    let after = contents(folder.path());
    let (mut changed, mut blocks_changed) = (HashSet::new(), 0);
    for (number, (old, new)) in before.iter().zip(&after).enumerate() {
        assert_eq!(old.len(), new.len());
        for (block, (old, new)) in old.chunks(4096).zip(new.chunks(4096)).enumerate() {
            if old != new {
                changed.insert((number, block / 4));
                blocks_changed += 1;
            }
        }
    }
    assert!((10..=20).contains(&changed.len()), "{} extents", changed.len());
    assert_eq!(blocks_changed, 4 * changed.len());
    assert_eq!((outcome.bytes, outcome.operations["write"].count), (20 * 16384, 20));
}

#[test]
fn the_reader_reads_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    run("fill", folder.path(), &["--seed=1"]).unwrap();

    let outcome = run("read", folder.path(), &["--read-bytes=131072"]).unwrap();

    assert_eq!((outcome.bytes, outcome.operations["read"].count), (3 << 20, 24));
}

#[test]
fn writers_can_share_a_file() {
    let folder = tempfile::tempdir().unwrap();
    run("fill", folder.path(), &["--seed=1", "--joint"]).unwrap();
    run("rewrite", folder.path(), &["--seed=1", "--joint", "--extents=10"]).unwrap();

    assert_eq!(fs::metadata(folder.path().join("joint.data")).unwrap().len(), 3 << 20);
    assert_eq!(run("read", folder.path(), &["--joint"]).unwrap().bytes, 3 << 20);
}

#[test]
fn what_was_filled_otherwise_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    assert!(run("read", folder.path(), &[]).err().unwrap().remedy.contains("fill first"));
    run("fill", folder.path(), &["--seed=1"]).unwrap();
    fs::write(folder.path().join("file-1.data"), [0; 4096]).unwrap();

    assert!(run("read", folder.path(), &[]).err().unwrap().cause.contains("hold 2101248 bytes"));
}

#[test]
fn an_extent_larger_than_a_file_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    run("fill", folder.path(), &["--seed=1"]).unwrap();

    let error =
        run("rewrite", folder.path(), &["--seed=1", "--extents=1", "--extent-bytes=2097152"]).err().unwrap();

    assert_eq!(error.place, "--extent-bytes");
}
