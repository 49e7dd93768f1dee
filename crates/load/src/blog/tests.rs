// SPDX-License-Identifier: Apache-2.0
#![expect(clippy::cast_precision_loss, reason = "sizes of files")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser;

use super::files::{Kind, Operation};
use super::roles::{Role, Stop, Thread};
use super::site::{Counts, Site};
use super::{Blogs, Options, blogs, ready, watch};
use crate::allocations;
use crate::clock::{NS_PER_MS, now_ns};
use crate::faults::{Fault, LoadError};

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    options: Options,
}

fn options(folder: &Path, more: &[&str]) -> Options {
    let seed = if more.iter().any(|word| word.starts_with("--seed")) { None } else { Some(&"--seed=1") };
    let words = ["blog", "--directory", folder.to_str().unwrap()];
    Line::parse_from(words.iter().chain(seed).chain(more)).options
}

fn run(folder: &Path, more: &[&str]) -> Result<Blogs, LoadError> {
    blogs(&options(folder, more))
}

/// The sizes of a blog's files of one kind, by number.
fn sizes(blog: &Path, name: &str, suffix: &str) -> BTreeMap<u64, u64> {
    let mut sizes = BTreeMap::new();
    for number in 1..=1000 {
        if let Ok(metadata) = fs::metadata(blog.join(format!("{name}-{number}.{suffix}"))) {
            sizes.insert(number, metadata.len());
        }
    }
    sizes
}

/// A folder for blogs, with no end of the time.
struct Place {
    folder: tempfile::TempDir,
    site: Site,
    counts: Counts,
    options: Options,
}

impl Place {
    fn new(more: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let site = Site::new(ready(folder.path()).unwrap());
        let options = options(folder.path(), more);
        Self { folder, site, counts: Counts::default(), options }
    }

    fn thread(&self, role: Role, number: u64) -> Thread<'_> {
        Thread::new(role, number, &self.site, &self.counts, &self.options)
    }

    fn blog(&self, number: u64) -> PathBuf {
        self.folder.path().join(format!("blog-{number}"))
    }
}

#[test]
fn a_writer_leaves_blogs_as_the_original_does() {
    let place = Place::new(&[]);
    let mut writer = place.thread(Role::Writer, 0);
    (0..10).for_each(|_| writer.write_blog().unwrap());

    let (mut articles, mut pictures) = (Vec::new(), Vec::new());
    for number in 0..10 {
        for (name, suffix, all, range) in
            [("article", "xml", &mut articles, 1024..32_768), ("picture", "jpg", &mut pictures, 8192..65_536)]
        {
            let sizes = sizes(&place.blog(number), name, suffix);
            assert_eq!(
                sizes.keys().copied().collect::<Vec<_>>(),
                (1..=sizes.len() as u64).collect::<Vec<_>>()
            );
            assert!((1..=100).contains(&sizes.len()));
            assert!(sizes.values().all(|size| range.contains(size)), "{name}: {sizes:?}");
            all.extend(sizes.into_values());
        }
    }
    // A uniform distribution: the mean of n is normal with a deviation of the width / sqrt(12 n).
    for (sizes, least, end) in [(&articles, 1024.0, 32_768.0), (&pictures, 8192.0, 65_536.0)] {
        let count = sizes.len() as f64;
        let mean = sizes.iter().sum::<u64>() as f64 / count;
        let deviation = (end - least) / (12.0 * count).sqrt();
        assert!((mean - f64::midpoint(least, end)).abs() < 5.0 * deviation, "mean {mean} of {count}");
    }
    assert_eq!(writer.tally(Operation::Write(Kind::Article)).count, articles.len() as u64);
    assert_eq!(writer.tally(Operation::Write(Kind::Picture)).bytes, pictures.iter().sum::<u64>());
}

#[test]
fn two_writers_of_one_seed_write_the_same() {
    let contents = |seed: &str| {
        let place = Place::new(&[seed]);
        place.thread(Role::Writer, 3).write_blog().unwrap();
        (1..=100)
            .map(|number| fs::read(place.blog(0).join(format!("article-{number}.xml"))).ok())
            .collect::<Vec<_>>()
    };

    assert_eq!(contents("--seed=1"), contents("--seed=1"));
    assert_ne!(contents("--seed=1"), contents("--seed=2"));
}

#[test]
fn comments_are_numbered_from_one_and_small() {
    let place = Place::new(&[]);
    place.thread(Role::Writer, 0).write_blog().unwrap();

    place.thread(Role::Commenter, 1).comment_some_blog().unwrap();

    let comments = sizes(&place.blog(0), "comment", "xml");
    assert_eq!(comments.len() as u64, *comments.keys().last().unwrap());
    assert!(comments.values().all(|size| (2048..10_240).contains(size)));
}

#[test]
fn readers_go_through_all_articles_and_what_pictures_and_comments_there_are() {
    let place = Place::new(&[]);
    let mut writer = place.thread(Role::Writer, 0);
    (0..3).for_each(|_| writer.write_blog().unwrap());
    let mut reader = place.thread(Role::Reader, 1);
    // The newest is never chosen, and the first never read: there is one blog left.
    fs::remove_dir_all(place.blog(0)).unwrap();
    fs::remove_dir_all(place.blog(2)).unwrap();
    let articles = sizes(&place.blog(1), "article", "xml");
    let pictures = sizes(&place.blog(1), "picture", "jpg");

    let passes = (0..20).filter(|_| reader.read_some_blog().is_ok()).count() as u64;

    assert!((1..20).contains(&passes), "{passes}");
    let (read, bytes) = (reader.tally(Operation::Read(Kind::Article)), articles.values().sum::<u64>());
    assert_eq!((read.count, read.bytes), (passes * articles.len() as u64, passes * bytes));
    // As many pictures as there are numbers of articles, and one more is looked for.
    let seen = pictures.keys().filter(|number| **number <= articles.len() as u64 + 1).count() as u64;
    assert_eq!(reader.tally(Operation::Read(Kind::Picture)).count, passes * seen);
}

#[test]
fn rewriters_replace_articles_always_and_pictures_half_the_time() {
    let place = Place::new(&[]);
    let mut writer = place.thread(Role::Writer, 0);
    (0..3).for_each(|_| writer.write_blog().unwrap());
    let mut rewriter = place.thread(Role::Rewriter, 1);

    let done = (0..400).filter(|_| rewriter.rewrite_some_blog().is_ok()).count() as u64;

    assert_eq!(rewriter.tally(Operation::Write(Kind::Article)).count, done);
    let pictures = rewriter.tally(Operation::Write(Kind::Picture)).count;
    assert!(done > 100 && pictures.abs_diff(done / 2) < done / 8, "{pictures} pictures of {done}");
}

#[test]
fn nobody_reads_or_rewrites_the_first_blog() {
    let place = Place::new(&[]);
    let mut writer = place.thread(Role::Writer, 0);
    (0..2).for_each(|_| writer.write_blog().unwrap());

    assert_eq!(place.thread(Role::Reader, 1).read_some_blog(), Err(Stop::Missing));
    assert_eq!(place.thread(Role::Rewriter, 1).rewrite_some_blog(), Err(Stop::Missing));
}

#[test]
fn a_run_counts_the_same_in_intervals_and_operations() {
    let folder = tempfile::tempdir().unwrap();

    let result = run(folder.path(), &["--readers=4", "--intervals=3", "--interval-ms=200"]).unwrap();

    let sum = |name: &str| result.intervals.iter().map(|interval| interval[name]).sum::<u64>();
    assert_eq!(result.intervals.len(), 3);
    assert_eq!((sum("blogs_written"), sum("blogs_read")), (result.score_writes, result.score_reads));
    for (operation, summary) in result.operations {
        if let Some((verb, kind)) = operation.split_once('_') {
            let past = if verb == "write" { "written" } else { "read" };
            assert_eq!(summary.count, sum(&format!("{kind}s_{past}")), "{operation}");
        }
    }
}

#[test]
fn who_finds_nothing_waits_for_a_second_or_the_end() {
    let folder = tempfile::tempdir().unwrap();

    // Without writers there are no blogs, and commenters find no folder.
    let options = ["--writers=0", "--readers=2", "--intervals=1", "--interval-ms=400"];
    let result = run(folder.path(), &options).unwrap();

    assert_eq!((result.score_reads, result.score_writes, result.waits), (0, 0, 8));
    assert!(result.operations.is_empty());
}

#[test]
fn zeros_are_written_as_the_original_does() {
    let place = Place::new(&["--zeros"]);

    place.thread(Role::Writer, 0).write_blog().unwrap();

    assert!(fs::read(place.blog(0).join("article-1.xml")).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn a_folder_that_holds_something_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("something"), "").unwrap();

    let error = run(folder.path(), &[]).err().unwrap();

    assert!(error.to_string().contains("not empty"), "{error}");
}

#[test]
fn threads_allocate_nothing_while_they_work() {
    for role in [Role::Writer, Role::Rewriter, Role::Commenter, Role::Reader] {
        let place = Place::new(&[]);
        let mut writer = place.thread(Role::Writer, 0);
        (0..3).for_each(|_| writer.write_blog().unwrap());
        let thread = place.thread(role, 1);
        // Long enough for a busy disk to come to the first byte.
        place.site.set_end_ns(now_ns() + 1000 * NS_PER_MS);

        let before = allocations::count();
        let thread = thread.run();
        let allocated = allocations::count() - before;

        let bytes: u64 = Operation::ALL.iter().map(|operation| thread.tally(*operation).bytes).sum();
        assert!(bytes > 0, "{role:?}");
        assert_eq!(allocated, 0, "{role:?}");
    }
}

#[test]
fn a_fault_ends_the_wait_for_an_interval() {
    let place = Place::new(&[]);
    let start_ns = now_ns();
    place.site.set_end_ns(u64::MAX);

    std::thread::scope(|scope| {
        let watching = scope.spawn(|| watch(&place.site, &[], start_ns, u64::MAX / 4));
        place.site.fail(Fault::new("a file", "the filesystem said: no", "see to it"));
        // It would sleep for a century.
        assert!(!watching.join().unwrap().is_empty());
    });
}
