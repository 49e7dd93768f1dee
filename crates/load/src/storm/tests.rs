// SPDX-License-Identifier: Apache-2.0
use std::collections::HashSet;
use std::fs;
use std::path::Path;

use clap::Parser;

use super::{Options, Outcome, Part};
use crate::faults::Fault;

const FILES: [&str; 4] = ["--seed=1", "--threads=3", "--files=100", "--folders=7"];

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: Options,
}

fn part(name: &str, folder: &Path, more: &[&str]) -> Part {
    let words = ["storm", name, "--directory", folder.to_str().unwrap()];
    Line::parse_from(words.iter().chain(&FILES).chain(more)).options.part
}

fn run(name: &str, folder: &Path, more: &[&str]) -> Result<Outcome, Fault> {
    part(name, folder, more).run()
}

#[test]
fn files_are_created_stated_read_and_deleted() {
    let folder = tempfile::tempdir().unwrap();

    let created = run("create", folder.path(), &["--file-bytes=5000", "--fsync"]).unwrap();

    assert_eq!((created.files, created.bytes, created.operations["create"].count), (100, 500_000, 100));
    let mut contents = HashSet::new();
    for number in 0..100 {
        let path = folder.path().join(format!("{:06}/{number:08}", number % 7));
        let content = fs::read(&path).unwrap();
        assert_eq!(content.len(), 5000);
        assert!(contents.insert(content), "{} is like another", path.display());
    }
    assert_eq!(run("stat", folder.path(), &[]).unwrap().files, 100);
    let read = run("read", folder.path(), &["--order=created"]).unwrap();
    assert_eq!((read.files, read.bytes), (100, 500_000));
    assert_eq!(run("delete", folder.path(), &[]).unwrap().files, 100);
    assert_eq!(fs::read_dir(folder.path().join("000003")).unwrap().count(), 0);
}

#[test]
fn every_file_has_its_turn_once_in_an_order_of_the_seed() {
    let orders = |more: &[&str]| {
        let part = part("stat", Path::new("/x"), more);
        (0..3).map(|thread| part.order(thread)).collect::<Vec<_>>()
    };

    let random = orders(&[]);

    let mut all = random.concat();
    all.sort_unstable();
    assert_eq!(all, (0..100).collect::<Vec<u32>>());
    assert!(
        random.iter().zip(0..).all(|(numbers, thread)| numbers.iter().all(|number| number % 3 == thread))
    );
    assert_eq!(random, orders(&[]));
    assert!(!random[0].is_sorted());
    assert!(orders(&["--order=created"]).iter().all(|numbers| numbers.is_sorted()));
}

#[test]
fn empty_files_are_created_without_a_write() {
    let folder = tempfile::tempdir().unwrap();

    assert_eq!(run("create", folder.path(), &["--file-bytes=0"]).unwrap().bytes, 0);
    assert_eq!(fs::metadata(folder.path().join("000000/00000000")).unwrap().len(), 0);
}

#[test]
fn files_that_were_not_created_are_named() {
    let folder = tempfile::tempdir().unwrap();

    let error = run("stat", folder.path(), &[]).err().unwrap();

    assert!(error.place.starts_with(folder.path().to_str().unwrap()));
    assert!(error.remedy.contains("create the files first"));
}
