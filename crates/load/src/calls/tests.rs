// SPDX-License-Identifier: Apache-2.0
use std::fs;
use std::path::Path;

use clap::Parser;

use super::{Options, Outcome, Part};
use crate::faults::LoadError;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: Options,
}

const NAMES: &str = "strata-calls 1 {}\nfolder .\nfile 5000 a/old.db\nlater new\nlater a/moved\n";

fn repeated(folder: &Path, calls: &str, more: &[&str]) -> Result<Outcome, LoadError> {
    let (directory, list) = (folder.join("data"), folder.join("calls"));
    fs::write(&list, format!("{NAMES}{calls}")).unwrap();
    let places = ["--directory", directory.to_str().unwrap(), "--calls", list.to_str().unwrap(), "--seed=1"];
    let words = |part| [&["calls", part], &places[..]].concat();
    let copies = more.iter().filter(|word| word.starts_with("--copies"));
    let prepare = Line::parse_from(words("prepare").iter().chain(copies)).options;
    let run = Line::parse_from(words("run").iter().chain(more)).options;
    match (prepare.part, run.part) {
        (Part::Prepare(prepare), Part::Run(run)) => prepare.prepare().and_then(|_| run.run()),
        _ => unreachable!(),
    }
}

const MIXED: &str = "0 1 0 0 - open 0 1 rw
10 1 5 0 - pread 0 8192 4096
20 1 5 0 - pwrite 0 100 6000
30 1 5 1 2 open 1 2 rwcx
40 1 5 1 - write 1 3000000
50 1 5 1 - fsync 1
60 1 5 1 - close 1
70 1 5 0 6 rename 2 3
80 1 5 0 - stat 2
90 1 5 0 - truncate 0 4096
100 1 5 0 - close 0
";

#[test]
fn every_call_is_made_on_the_files_that_were_there_and_those_that_are_made() {
    for more in [&["--timing=asap"][..], &[], &["--timing=original", "--copies=2"]] {
        let folder = tempfile::tempdir().unwrap();

        let outcome = repeated(folder.path(), MIXED, more).unwrap();

        let copies = if more.len() == 2 { 2 } else { 1 };
        assert_eq!((outcome.failed, outcome.first_failure), (0, None));
        assert_eq!(outcome.threads, 2 * copies);
        assert_eq!(outcome.lag.is_some(), copies == 2);
        let moved = |name: &str| outcome.operations[name].bytes / copies as u64;
        assert_eq!([moved("pread"), moved("pwrite"), moved("write")], [904, 100, 3_000_000]);
        let own = folder.path().join(if copies == 2 { "data/1" } else { "data" });
        let size = |name: &str| fs::metadata(own.join(name)).map(|each| each.len()).ok();
        assert_eq!([size("a/old.db"), size("a/moved"), size("new")], [Some(4096), Some(3_000_000), None]);
    }
}

#[test]
fn a_call_waits_for_those_that_it_followed_and_thinks_as_long() {
    let folder = tempfile::tempdir().unwrap();
    let wait = "0 1 30000000 0 - stat 1\n1 1 20000000 1 0 stat 1\n2 1 0 0 1 stat 1\n";

    let took = |more: &[&str]| {
        let place = tempfile::tempdir_in(folder.path()).unwrap();
        repeated(place.path(), wait, more).unwrap().duration_ns
    };

    assert!(took(&[]) >= 50_000_000);
    assert!(took(&["--speed-thousandths=5000"]) >= 10_000_000);
}

#[test]
fn a_call_that_fails_here_is_counted_and_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();

    let outcome = repeated(folder.path(), "0 1 0 0 - unlink 2\n1 1 0 0 - unlink 1\n", &[]).unwrap();

    assert_eq!((outcome.failed, outcome.operations["unlink"].count), (1, 1));
    assert!(outcome.first_failure.unwrap().starts_with("call 0, unlink: No such file"));
}

#[test]
fn a_line_that_no_recording_has_is_refused_with_its_number() {
    let wrong = [
        "0 1 0 0 - stat 9",
        "0 1 0 1 - stat 1",
        "0 1 0 0 0 stat 1",
        "0 1 0 0 - close 0",
        "0 1 0 0 - open 1 1 r",
        "0 1 0 0 - open 0 1 q",
        "0 1 0 0 - erase 1",
        "0 1 0 0 - stat 1 1",
        "-1 1 0 0 - stat 1",
        "later ../out",
        "later /out",
        "file x name",
    ];
    for line in wrong {
        let folder = tempfile::tempdir().unwrap();
        let refused = repeated(folder.path(), &format!("{line}\n"), &[]).err();
        let Some(LoadError::Input(faults)) = refused else { panic!("{line} is taken") };
        assert!(faults[0].place.ends_with("calls:6"), "{line}: {}", faults[0]);
    }
}
