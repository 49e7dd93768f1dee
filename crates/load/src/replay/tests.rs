// SPDX-License-Identifier: Apache-2.0
use std::fs;
use std::path::Path;

use clap::Parser;

use super::{Options, Outcome};
use crate::faults::{Fault, LoadError};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: Options,
}

/// Replay on a file of 64 KiB, through the page cache: not every filesystem of a test has another way.
fn replayed(folder: &Path, requests: &str, more: &[&str]) -> Result<Outcome, LoadError> {
    let (target, list) = (folder.join("target"), folder.join("requests"));
    fs::write(&target, vec![1; 65_536]).unwrap();
    fs::write(&list, requests).unwrap();
    let words = ["replay", "--target", target.to_str().unwrap(), "--requests", list.to_str().unwrap()];
    let common = ["--seed=1", "--buffered"];
    Line::parse_from(words.iter().chain(&common).chain(more)).options.run()
}

fn mistakes(requests: &str) -> Vec<Fault> {
    let folder = tempfile::tempdir().unwrap();
    match replayed(folder.path(), requests, &[]).err().expect("it is refused") {
        LoadError::Input(faults) => faults,
        LoadError::World(fault) => panic!("{fault}"),
    }
}

const MIXED: &str = "0 read 0 4096\n1000 write 4096 8192\n1000 fua 16384 4096\n2000 flush 0 0\n";

#[test]
fn every_request_is_done_once_where_the_trace_has_it() {
    let folder = tempfile::tempdir().unwrap();

    let outcome = replayed(folder.path(), MIXED, &["--timing=asap", "--queue-depth=3"]).unwrap();

    let counts: Vec<_> =
        outcome.operations.iter().map(|(name, each)| (name.as_str(), each.count, each.bytes)).collect();
    assert_eq!(counts, [("flush", 1, 0), ("fua", 1, 4096), ("read", 1, 4096), ("write", 1, 8192)]);
    assert!(outcome.lag.is_none());
    let content = fs::read(folder.path().join("target")).unwrap();
    assert_eq!(content.len(), 65_536);
    let changed: Vec<_> = content.chunks(4096).map(|block| block.iter().any(|byte| *byte != 1)).collect();
    assert_eq!(changed[..6], [false, true, true, false, true, false]);
    assert!(changed[6..].iter().all(|is_changed| !is_changed));
}

#[test]
fn what_is_written_depends_on_the_seed_and_not_on_the_threads() {
    let contents = ["--queue-depth=1", "--queue-depth=4"].map(|depth| {
        let folder = tempfile::tempdir().unwrap();
        replayed(folder.path(), MIXED, &["--timing=asap", depth]).unwrap();
        fs::read(folder.path().join("target")).unwrap()
    });

    assert_eq!(contents[0], contents[1]);
}

#[test]
fn requests_begin_no_earlier_than_in_the_trace_at_its_speed() {
    let folder = tempfile::tempdir().unwrap();
    let requests = "0 read 0 4096\n40000000 read 4096 4096\n";

    let outcome = replayed(folder.path(), requests, &["--speed-thousandths=2000"]).unwrap();

    assert_eq!(outcome.trace_ns, 20_000_000);
    assert!(outcome.duration_ns >= 20_000_000);
    assert_eq!(outcome.lag.unwrap().count, 2);
}

#[test]
fn bad_lines_are_named_all_at_once() {
    let places: Vec<_> = mistakes("0 read 0 4096\n5 erase 0 1\n9 read 0 0\n7 read 0\n")
        .into_iter()
        .map(|fault| fault.place.rsplit(':').next().unwrap().to_owned())
        .collect();

    assert_eq!(places, ["2", "3", "4"]);
    assert!(mistakes("9 read 0 512\n3 read 0 512\n")[0].cause.contains("earlier"));
    assert!(mistakes("")[0].cause.contains("no requests"));
}

#[test]
fn a_request_beyond_the_target_is_refused_before_anything_is_written() {
    for beyond in ["0 write 65024 1024", "0 read 18446744073709551615 512"] {
        assert!(mistakes(beyond)[0].cause.contains("beyond the target's 65536 bytes"), "{beyond}");
    }
}
