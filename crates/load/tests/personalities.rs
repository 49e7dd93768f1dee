// SPDX-License-Identifier: Apache-2.0
//! The personalities' operations, by the program's own trace, against filebench's definitions.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

const READ: [&str; 3] = ["open", "read_whole", "close"];

/// The operations of a pass, from filebench's workloads/*.f.
fn loop_of(personality: &str) -> Vec<&'static str> {
    let mut pass = match personality {
        "fileserver" => vec!["create", "write_whole", "close", "open", "append", "close"],
        "varmail" => {
            vec![
                "delete",
                "create",
                "append",
                "fsync",
                "close",
                "open",
                "read_whole",
                "append",
                "fsync",
                "close",
            ]
        }
        "webproxy" => vec!["delete", "create", "append", "close"],
        _ => vec![],
    };
    let reads = match personality {
        "webserver" => 10,
        "webproxy" => 5,
        _ => 1,
    };
    pass.extend(READ.iter().cycle().take(3 * reads));
    match personality {
        "fileserver" => pass.extend(["delete", "stat"]),
        "webserver" => pass.push("append"),
        _ => {}
    }
    pass
}

struct Run {
    folder: TempDir,
    options: Vec<String>,
}

#[derive(Debug, PartialEq, Eq, Clone)]
struct Issued {
    op: String,
    set: String,
    file: u64,
    bytes: u64,
}

impl Run {
    /// A prepared set of files.
    fn prepared(personality: &str, options: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        let files = folder.path().join("files");
        fs::create_dir(&files).unwrap();
        let state = folder.path().join("state");
        let mut common = vec!["--personality".to_owned(), personality.to_owned()];
        common.extend(["--directory".to_owned(), files.display().to_string()]);
        common.extend(["--state".to_owned(), state.display().to_string()]);
        common.extend(options.iter().map(|option| (*option).to_owned()));
        let run = Self { folder, options: common };
        let output = run.call("prepare", &["--trace", &run.path("prepared")]);
        assert!(output.status.success(), "{output:?}");
        run
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn call(&self, action: &str, options: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_strata-load"));
        command.arg(action).args(&self.options).args(options).output().unwrap()
    }

    /// The result of a run, and the operations of its threads.
    fn run(&self, options: &[&str]) -> (Value, BTreeMap<u64, Vec<Issued>>) {
        let trace = self.path("trace");
        let output = self.call("run", &[&["--duration-ms", "600000", "--trace", &trace], options].concat());
        assert!(output.status.success(), "{output:?}");
        (serde_json::from_slice(&output.stdout).unwrap(), issued(Path::new(&trace)))
    }

    fn prepared_files(&self) -> Vec<(PathBuf, u64, bool)> {
        let rows = rows(Path::new(&self.path("prepared")));
        let root = self.folder.path().join("files");
        let file =
            |row: &Vec<String>| (root.join(&row[0]).join(&row[2]), row[3].parse().unwrap(), row[4] == "1");
        rows.iter().map(file).collect()
    }
}

fn rows(path: &Path) -> Vec<Vec<String>> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().skip(1).map(|line| line.split('\t').map(str::to_owned).collect()).collect()
}

fn issued(path: &Path) -> BTreeMap<u64, Vec<Issued>> {
    let mut threads: BTreeMap<u64, Vec<Issued>> = BTreeMap::new();
    for row in rows(path) {
        let number = |index: usize| row[index].parse().unwrap();
        let one = Issued { op: row[1].clone(), set: row[2].clone(), file: number(3), bytes: number(4) };
        threads.entry(number(0)).or_default().push(one);
    }
    threads
}

fn of_kind<'a>(threads: &'a BTreeMap<u64, Vec<Issued>>, op: &'a str) -> impl Iterator<Item = &'a Issued> {
    threads.values().flatten().filter(move |one| one.op == op)
}

#[test]
fn a_prepared_set_is_on_the_disk_as_it_was_drawn() {
    let run = Run::prepared("fileserver", &["--seed", "5", "--files", "300"]);
    let files = run.prepared_files();
    assert_eq!(files.len(), 300);
    for (path, bytes, exists) in files {
        assert_eq!(
            fs::metadata(&path).map(|found| found.len()).ok(),
            exists.then_some(bytes),
            "{}",
            path.display()
        );
    }
}

#[test]
fn every_thread_goes_through_the_loop_of_the_definition() {
    for (personality, threads) in [("fileserver", 50), ("varmail", 16), ("webserver", 100), ("webproxy", 100)]
    {
        // So many are missing that deletions which are left out do not matter.
        let preallocated = if personality == "webserver" { "100" } else { "60" };
        let run = Run::prepared(
            personality,
            &["--seed", "5", "--file-bytes", "4096", "--preallocated-percent", preallocated],
        );
        let (result, issued) = run.run(&["--passes", "20"]);
        assert_eq!(issued.len(), threads, "{personality}");
        assert_eq!(result["ended_early"], Value::Null);
        let pass = loop_of(personality);
        let left_out: u64 = issued.values().map(|operations| follow(personality, &pass, operations)).sum();
        assert_eq!(result["deletes_left_out"].as_u64(), Some(left_out), "{personality}");
        let deletes = 20 * threads * pass.iter().filter(|op| **op == "delete").count();
        assert_eq!(of_kind(&issued, "delete").count() as u64 + left_out, deletes as u64, "{personality}");
        let counted: u64 = result["by_operation"]
            .as_object()
            .unwrap()
            .values()
            .map(|op| op["count"].as_u64().unwrap())
            .sum();
        assert_eq!(counted, issued.values().map(|operations| operations.len() as u64).sum::<u64>());
        assert_eq!(result["operations"].as_u64(), Some(counted));
        for (op, summary) in result["by_operation"].as_object().unwrap() {
            assert_eq!(
                summary["bytes"].as_u64().unwrap(),
                of_kind(&issued, op).map(|one| one.bytes).sum::<u64>()
            );
        }
    }
}

/// Hold one thread's operations against the loop; how many deletions were left out, as they are of files that are open.
/// A log is opened once.
fn follow(personality: &str, pass: &[&str], operations: &[Issued]) -> u64 {
    let (mut place, mut left_out) = (0, 0);
    for one in operations {
        if one.set == "logfiles" && one.op == "open" {
            continue;
        }
        if pass[place % pass.len()] == "delete" && one.op != "delete" {
            place += 1;
            left_out += 1;
        }
        assert_eq!(one.op, pass[place % pass.len()], "{personality} at {place}");
        place += 1;
    }
    left_out
}

#[test]
fn appends_are_uniform_below_16_kib() {
    let run = Run::prepared("varmail", &["--seed", "6"]);
    let (_, issued) = run.run(&["--passes", "100"]);
    let sizes: Vec<u64> = of_kind(&issued, "append").map(|one| one.bytes).collect();
    assert!(sizes.len() > 1000, "{}", sizes.len());
    assert!(sizes.iter().all(|bytes| *bytes < 16_384));
    let mut bins = [0.0; 16];
    for bytes in &sizes {
        bins[usize::try_from(bytes / 1024).unwrap()] += 1.0;
    }
    #[expect(clippy::cast_precision_loss, reason = "a count")]
    let wanted = sizes.len() as f64 / 16.0;
    let chi_square: f64 = bins.iter().map(|found| (found - wanted) * (found - wanted) / wanted).sum();
    // 15 degrees of freedom at 1 in 100; the sizes are the same in every run.
    assert!(chi_square < 30.6, "{chi_square}");
}

#[test]
fn whole_files_are_written_and_read_as_they_were_drawn() {
    let run = Run::prepared("fileserver", &["--seed", "7", "--files", "400", "--threads", "1"]);
    let sizes: Vec<u64> = run.prepared_files().iter().map(|(_, bytes, _)| *bytes).collect();
    let (_, issued) = run.run(&["--passes", "100"]);
    assert!(of_kind(&issued, "write_whole").count() > 20);
    let mut now: BTreeMap<u64, u64> = BTreeMap::new();
    for one in &issued[&0] {
        let drawn = sizes[usize::try_from(one.file).unwrap_or(0).min(sizes.len() - 1)];
        match one.op.as_str() {
            "write_whole" => assert_eq!(one.bytes, drawn),
            "read_whole" => assert_eq!(one.bytes, now.get(&one.file).copied().unwrap_or(drawn)),
            _ => {}
        }
        match one.op.as_str() {
            "write_whole" => drop(now.insert(one.file, one.bytes)),
            "append" => *now.entry(one.file).or_insert(drawn) += one.bytes,
            _ => {}
        }
    }
}

#[test]
fn existing_files_are_taken_in_rotation_not_at_random() {
    let run = Run::prepared("webserver", &["--seed", "8", "--files", "50", "--threads", "1"]);
    let (_, issued) = run.run(&["--passes", "30"]);
    let opened: Vec<u64> =
        of_kind(&issued, "open").filter(|one| one.set == "bigfileset").map(|one| one.file).collect();
    assert!(opened.len() > 100);
    assert!(opened.iter().zip(0..).all(|(file, place)| *file == place % 50), "{opened:?}");
}

#[test]
fn two_runs_issue_the_same_operations() {
    let sample = |threads: &str, purpose: &str| {
        let options = ["--seed", "9", "--files", "300", "--file-bytes", "4096", "--threads", threads];
        let run = Run::prepared("varmail", &options);
        run.run(&["--passes", "20", "--purpose", purpose]).1
    };
    let (first, second) = (sample("1", "measure"), sample("1", "measure"));
    assert_eq!(first, second);
    // Which file is next depends on the other threads, what is done with it does not.
    let done = |operations: &[Issued]| {
        let appends = operations.iter().filter(|one| one.op == "append");
        appends.map(|one| one.bytes).take(20).collect::<Vec<_>>()
    };
    let (first, second, other) = (sample("8", "measure"), sample("8", "measure"), sample("8", "warmup"));
    for thread in 0..8 {
        assert_eq!(done(&first[&thread]), done(&second[&thread]));
        assert_ne!(done(&first[&thread]), done(&other[&thread]));
        assert_ne!(done(&first[&thread]), done(&first[&((thread + 1) % 8)]));
    }
}

#[test]
fn lists_issue_the_operations_of_single_calls() {
    for personality in ["fileserver", "varmail", "webserver", "webproxy"] {
        let options = ["--seed", "5", "--files", "60", "--threads", "1"];
        let [single, calls] = ["single", "calls"].map(|way| {
            let run = Run::prepared(personality, &options);
            let (result, issued) = run.run(&["--passes", "20", "--hand-over", way]);
            let sums = ["operations", "read_bytes", "written_bytes", "growth_bytes", "sets"];
            (sums.map(|name| result[name].clone()), issued)
        });
        assert_eq!(single, calls, "{personality}");
    }
}

#[test]
fn a_run_goes_on_where_the_one_before_it_ended() {
    let run = Run::prepared(
        "fileserver",
        &["--seed", "10", "--files", "200", "--file-bytes", "4096", "--threads", "2"],
    );
    for _ in 0..3 {
        let (result, _) = run.run(&["--passes", "20"]);
        assert_eq!(result["ended_early"], Value::Null);
    }
    let (result, _) = run.run(&["--passes", "1"]);
    let existing = run.prepared_files().iter().filter(|(path, ..)| path.exists()).count();
    assert_eq!(result["sets"][0]["files_existing"].as_u64(), Some(existing as u64));
}

#[test]
fn a_run_that_has_no_file_left_ends_and_says_so() {
    let options = ["--seed", "11", "--files", "20", "--file-bytes", "4096", "--preallocated-percent", "100"];
    let run = Run::prepared("fileserver", &options);
    let (result, _) = run.run(&[]);
    assert_eq!(result["ended_early"]["reason"], "files");
}

#[test]
fn files_do_not_run_out_where_deletions_take_the_next_file() {
    let run = Run::prepared(
        "fileserver",
        &["--seed", "11", "--files", "200", "--file-bytes", "4096", "--threads", "16"],
    );
    let (result, issued) = run.run(&["--pass-over-open", "--passes", "300"]);
    assert_eq!(result["ended_early"], Value::Null);
    assert_eq!(of_kind(&issued, "delete").count(), of_kind(&issued, "create").count());
}

#[test]
fn an_open_loop_tells_its_lag() {
    let run = Run::prepared("varmail", &["--seed", "12", "--files", "300"]);
    let (result, _) = run.run(&["--passes", "10", "--rate", "26000"]);
    assert_eq!(result["passes"]["count"].as_u64(), Some(160));
    assert_eq!(result["lag"]["count"].as_u64(), Some(160));
    // A pass counts from its due time.
    let mean = |of: &str| result[of]["latency_ns_mean"].as_f64().unwrap();
    assert!(mean("passes") > mean("lag"));
}

#[test]
fn operations_that_an_open_loop_misses_are_reported_with_their_due_time() {
    let run = Run::prepared("varmail", &["--seed", "12", "--files", "300", "--threads", "2"]);
    // Far more than any machine gets done: 13 operations a pass.
    let output = run.call("run", &["--duration-ms", "200", "--rate", "13000000"]);
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();

    let count = |of: &str| result[of]["count"].as_u64().unwrap();
    // 200000 passes are due; the standard deviation is 447.
    assert!(count("passes").abs_diff(200_000) < 2500, "{}", count("passes"));
    assert_eq!(count("lag"), count("passes"));
    let unfinished = result["passes_unfinished"].as_u64().unwrap();
    // A starved machine finishes none.
    assert!((100_000..=count("passes")).contains(&unfinished), "{unfinished}");
    // On average they have been due for almost half of the time.
    for of in ["passes", "lag"] {
        let mean = result[of]["latency_ns_mean"].as_f64().unwrap();
        assert!((50e6..110e6).contains(&mean), "{of}: {mean}");
    }
}

#[test]
fn one_group_of_equally_large_ones_keeps_the_rate() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("two.toml");
    let text = include_str!("../../../bench/load/visit.toml");
    let (sets, group) = text.split_at(text.find("[[groups]]").unwrap());
    fs::write(&path, format!("{sets}{group}{}", group.replace("reader", "other"))).unwrap();
    let run = Run::prepared(path.to_str().unwrap(), &["--seed", "1", "--files", "20"]);

    let (result, _) = run.run(&["--passes", "5", "--rate", "30000"]);

    assert_eq!(result["passes"]["count"].as_u64(), Some(10));
    assert_eq!(result["lag"]["count"].as_u64(), Some(5));
    assert_eq!(result["passes_unfinished"].as_u64(), Some(0));
}

#[test]
fn files_that_were_prepared_otherwise_are_refused() {
    let run = Run::prepared("varmail", &["--seed", "1", "--files", "50"]);

    let output = run.call("run", &["--duration-ms", "10", "--file-bytes", "4096"]);

    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("file_bytes was 16384 when the files were made, not 4096"), "{said}");
}

#[test]
fn mistakes_have_a_place_and_a_remedy() {
    let folder = TempDir::new().unwrap();
    let call = |arguments: &[&str]| {
        let directory = folder.path().display().to_string();
        let state = folder.path().join("state").display().to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_strata-load"));
        command.args(arguments).args(["--directory", &directory, "--state", &state, "--seed", "1"]);
        let output = command.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, said) = call(&["prepare", "--personality", "mailserver"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("varmail"), "{said}");
    let (code, said) = call(&["prepare", "--personality", "fileserver", "--file-bytes", "1000000000000"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("are free"), "{said}");
    let (code, said) = call(&["run", "--personality", "varmail", "--duration-ms", "10"]);
    assert_eq!(code, Some(2));
    assert!(said.contains("strata-load prepare"), "{said}");
}

/// The promises of a run that keeps them, by the file's number.
fn promises(path: &str) -> BTreeMap<usize, u64> {
    let numbers = fs::read(path).unwrap();
    let numbers = numbers.chunks_exact(8).map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()));
    numbers.enumerate().filter(|(_, number)| *number > 0).map(|(file, number)| (file, number - 1)).collect()
}

#[test]
fn what_syncs_promise_is_kept_and_what_is_missing_is_found() {
    let folder = TempDir::new().unwrap();
    let durable = folder.path().join("durable").display().to_string();
    let options = ["--seed", "5", "--files", "60", "--threads", "2", "--durable", &durable];
    let run = Run::prepared("varmail", &options);
    let prepared = promises(&durable);
    let files = run.prepared_files();
    assert_eq!(prepared.len(), files.iter().filter(|(_, _, exists)| *exists).count());

    run.run(&["--passes", "40"]);
    let kept = promises(&durable);
    let sizes = |file: &usize| fs::metadata(&files[*file].0).map(|found| found.len());
    assert!(kept.iter().all(|(file, bytes)| sizes(file).unwrap() >= *bytes), "{kept:?}");
    assert!(kept.iter().any(|(file, bytes)| prepared.get(file) != Some(bytes)));
    let gone = prepared.keys().filter(|file| sizes(file).is_err());
    assert!(gone.clone().all(|file| !kept.contains_key(file)));

    let promised = run.path("promised");
    let lines: Vec<String> = kept.iter().map(|(file, bytes)| format!("{file} {bytes}\n")).collect();
    fs::write(&promised, lines.concat()).unwrap();
    let check = || -> Value {
        let output = run.call("durable", &["--promised", &promised]);
        assert!(output.status.success(), "{output:?}");
        serde_json::from_slice(&output.stdout).unwrap()
    };
    assert_eq!((check()["files"].as_u64(), check()["lost"].as_u64()), (Some(kept.len() as u64), Some(0)));

    let mut large = kept.iter().filter(|(_, bytes)| **bytes > 2048).map(|(file, _)| &files[*file].0);
    let (first, second, third) = (large.next().unwrap(), large.next().unwrap(), large.next().unwrap());
    fs::remove_file(first).unwrap();
    let short = fs::OpenOptions::new().write(true).open(second).unwrap();
    short.set_len(700).unwrap();
    let hollow = fs::read(third).unwrap();
    fs::write(third, [&hollow[..300], &vec![0; hollow.len() - 300]].concat()).unwrap();
    let lost = check();
    assert_eq!(lost["lost"].as_u64(), Some(3));
    let named = lost["named"].to_string();
    assert!(["No such file", "700 of ", "reads as zeros"].iter().all(|why| named.contains(why)), "{named}");
}

#[test]
fn a_promise_of_another_set_is_refused() {
    let run = Run::prepared("varmail", &["--seed", "5", "--files", "60"]);
    let promised = run.path("promised");
    fs::write(&promised, "60 7\n").unwrap();

    let output = run.call("durable", &["--promised", &promised]);

    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("\"60 7\" is no promise"), "{output:?}");
}

#[test]
fn a_blog_by_lists_is_that_by_single_calls() {
    let written = |way: &str, interval_ms: u32| {
        let folder = TempDir::new().unwrap();
        let roles = ["--writers=1", "--rewriters=0", "--commenters=0", "--readers=0", "--intervals=1"];
        let mut command = Command::new(env!("CARGO_BIN_EXE_strata-load"));
        command.args(["--hand-over", way, "blog", "--seed=1"]);
        command.arg(format!("--interval-ms={interval_ms}")).arg("--directory");
        let output = command.arg(folder.path()).args(roles).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let all =
            fs::read_dir(folder.path().join("blog-1")).into_iter().flatten().map(|file| file.unwrap().path());
        let whole = all.filter(|path| path.extension().is_some_and(|suffix| suffix != "tmp"));
        whole
            .map(|path| (path.file_name().unwrap().to_owned(), fs::read(path).unwrap()))
            .collect::<BTreeMap<_, _>>()
    };
    // On a busy machine a short interval may be over before the writer has begun.
    let is_alike = [400, 2_000, 20_000].into_iter().any(|interval_ms| {
        let (single, listed) = (written("single", interval_ms), written("calls", interval_ms));
        let both: Vec<_> = single.keys().filter(|name| listed.contains_key(*name)).collect();
        assert!(both.iter().all(|name| single[*name] == listed[*name]));
        both.len() > 10
    });
    assert!(is_alike, "hardly a file was written");
}
