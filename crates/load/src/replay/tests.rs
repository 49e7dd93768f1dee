// SPDX-License-Identifier: Apache-2.0
use std::fs;
use std::path::Path;

use clap::Parser;

use super::{Filled, Options, Outcome, Part};
use crate::faults::{Fault, LoadError};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: Options,
}

/// A part of the replay on a file of 64 KiB, through the page cache: not every filesystem of a test has another way.
fn part(folder: &Path, part: &str, requests: &str, more: &[&str]) -> Options {
    let (target, list) = (folder.join("target"), folder.join("requests"));
    fs::write(&list, requests).unwrap();
    let words = ["replay", part, "--target", target.to_str().unwrap(), "--requests", list.to_str().unwrap()];
    Line::parse_from(words.iter().chain(&["--seed=1"]).chain(more)).options
}

fn replayed(folder: &Path, requests: &str, more: &[&str]) -> Result<Outcome, LoadError> {
    fs::write(folder.join("target"), vec![1; 65_536]).unwrap();
    match part(folder, "run", requests, &[&["--buffered"], more].concat()).part {
        Part::Run(options) => options.run(),
        Part::Fill(_) => unreachable!(),
    }
}

fn filled(folder: &Path, requests: &str) -> Result<Filled, LoadError> {
    match part(folder, "fill", requests, &[]).part {
        Part::Fill(options) => options.run(),
        Part::Run(_) => unreachable!(),
    }
}

fn mistakes(requests: &str, more: &[&str]) -> Vec<Fault> {
    let folder = tempfile::tempdir().unwrap();
    match replayed(folder.path(), requests, more).err().expect("it is refused") {
        LoadError::Input(faults) => faults,
        LoadError::World(fault) => panic!("{fault}"),
    }
}

const MIXED: &str = "0 read 0 4096 a\n1000 write 4096 8192 a\n1000 fua 16384 4096 a\n2000 flush 0 0 a\n";

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
    let requests = "0 read 0 4096 a\n40000000 read 4096 4096 a\n";

    let outcome = replayed(folder.path(), requests, &["--speed-thousandths=2000"]).unwrap();

    assert_eq!(outcome.trace_ns, 20_000_000);
    assert!(outcome.duration_ns >= 20_000_000);
    assert_eq!(outcome.lag.unwrap().count, 2);
}

#[test]
fn bad_lines_are_named_all_at_once() {
    let places: Vec<_> = mistakes("0 read 0 4096 a\n5 erase 0 1 a\n9 read 0 0 a\n7 read 0 9\n", &[])
        .into_iter()
        .map(|fault| fault.place.rsplit(':').next().unwrap().to_owned())
        .collect();

    assert_eq!(places, ["2", "3", "4"]);
    assert!(mistakes("", &[])[0].cause.contains("no such requests"));
}

#[test]
fn a_request_beyond_the_target_is_refused_before_anything_is_written() {
    for beyond in ["0 write 65024 1024 a", "0 read 18446744073709551615 512 a"] {
        assert!(mistakes(beyond, &[])[0].cause.contains("the target has 65536"), "{beyond}");
    }
}

const TWO_DISKS: &str = "0 read 0 4096 a\n500 read 0 512 b c\n1000 write 4096 4096 a\n9000 flush 0 0 a\n";

#[test]
fn a_disk_is_chosen_and_a_time_of_the_trace() {
    assert!(mistakes(TWO_DISKS, &[])[0].cause.contains("another disk, b c"));
    assert!(mistakes(TWO_DISKS, &["--disk=d"])[0].cause.contains("no such requests"));
    let folder = tempfile::tempdir().unwrap();

    let other = replayed(folder.path(), TWO_DISKS, &["--disk=b c", "--timing=asap"]).unwrap();
    let part = replayed(folder.path(), TWO_DISKS, &["--disk=a", "--from-ns=400", "--until-ns=9000"]).unwrap();

    assert_eq!(other.operations["read"].bytes, 512);
    assert_eq!((part.trace_ns, part.operations.len()), (600, 1));
}

#[test]
fn several_disks_are_repeated_at_once_on_a_target_each() {
    let folder = tempfile::tempdir().unwrap();
    let second = folder.path().join("second");
    fs::write(&second, vec![1; 65_536]).unwrap();
    let requests = "0 write 0 4096 a\n500 write 8192 4096 b c\n500 write 0 4096 other\n9000 flush 0 0 b c\n";
    let more = ["--disk=a", "--target", second.to_str().unwrap(), "--disk=b c"];

    let outcome = replayed(folder.path(), requests, &more).unwrap();

    assert_eq!((outcome.operations["write"].count, outcome.operations["flush"].count), (2, 1));
    let changed = ["target", "second"].map(|name| {
        let content = fs::read(folder.path().join(name)).unwrap();
        content.chunks(4096).position(|block| block.iter().any(|byte| *byte != 1)).unwrap()
    });
    assert_eq!(changed, [0, 2]);
    for wrong in [&more[..3], &more[1..3]] {
        assert!(mistakes(requests, wrong)[0].cause.contains("2 targets"));
    }
}

#[test]
fn requests_are_in_the_order_of_their_times_and_zeros_may_follow_them() {
    let folder = tempfile::tempdir().unwrap();

    let outcome = replayed(folder.path(), "2000 read 0 512 a\n1000 read 0 1024 a\n\0\0", &[]).unwrap();

    assert_eq!((outcome.trace_ns, outcome.operations["read"].count), (2000, 2));
}

#[test]
fn what_the_trace_touches_is_filled_with_holes_between() {
    let folder = tempfile::tempdir().unwrap();
    let (first, far) = (3 << 20, 9 << 20);
    let requests = format!("0 read 0 512 a\n0 write {} 8192 a\n0 read {far} 512 a\n", first - 4096);

    let outcome = filled(folder.path(), &requests).unwrap();

    let content = fs::read(folder.path().join("target")).unwrap();
    let full: Vec<_> = content.chunks(1 << 20).map(|area| area.iter().any(|byte| *byte != 0)).collect();
    assert_eq!(full, [true, false, true, true, false, false, false, false, false, true]);
    assert_eq!(outcome.bytes, 4 << 20);
}
