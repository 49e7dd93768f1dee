// SPDX-License-Identifier: Apache-2.0
//! Steps: their environment, ends and collected files.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use nix::unistd::geteuid;
use serde_json::{Value, json};

use crate::trial::{NS_PER_MS, NS_PER_S, Trial, command, is_alive, step};

#[test]
fn steps_run_one_after_the_other_and_the_plan_completes() {
    let recorded = Trial::new(vec![
        step("first", "echo one; echo wrong >&2", json!({})),
        step("second", "echo two", json!({"phase": "measure"})),
    ])
    .run();

    assert_eq!(recorded.exit_code, Some(0), "{}", recorded.stderr);
    assert_eq!(recorded.end()["outcome"], "ok");
    let ends = ["step_start", "step_end"].map(|kind| recorded.steps(kind));
    assert_eq!(ends, [["first", "second"], ["first", "second"]]);
    assert_eq!(recorded.output("first", "stdout"), "one\n");
    assert_eq!(recorded.output("first", "stderr"), "wrong\n");
    assert_eq!(recorded.event("step_start", "second")["phase"], "measure");
    let numbers: Vec<_> = recorded.events.iter().map(|event| event["seq"].as_u64().unwrap()).collect();
    assert_eq!(numbers, (0..recorded.events.len() as u64).collect::<Vec<_>>());
    let start = &recorded.events[0];
    assert_eq!((&start["type"], &start["trial"]), (&json!("agent_start"), &json!("none.shell.s1")));
    assert_eq!(start["plan_sha256"].as_str().unwrap().len(), 64);
    assert!(start["monotonic_ns"].as_u64() > Some(0) && start["realtime_ns"].as_u64() > Some(0));
}

#[test]
fn a_steps_environment_is_the_plans_and_its_own_and_nothing_else() {
    let trial =
        Trial::new(vec![step("show", "", json!({"argv": ["env"], "environment": {"B": "2 ${here}"}}))])
            .with(json!({"environment": {"PATH": "/usr/bin:/bin", "A": "1", "B": "0"}}));

    let recorded = trial.run();

    let shown = recorded.output("show", "stdout");
    let mut lines: Vec<_> = shown.lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["A=1", &format!("B=2 {}", trial.folder.path().display()), "PATH=/usr/bin:/bin"]);
}

#[test]
fn variables_are_replaced_in_arguments_folder_and_standard_input() {
    let trial = Trial::new(vec![
        step("words", "", json!({"argv": ["echo", "${here}", "$${here}"]})),
        step("folder", "pwd", json!({"cwd": "${here}"})),
        step("input", "cat", json!({"stdin": "from ${here}\n"})),
    ]);

    let recorded = trial.run();

    let here = trial.folder.path().display();
    assert_eq!(recorded.output("words", "stdout"), format!("{here} ${{here}}\n"));
    assert_eq!(recorded.output("folder", "stdout"), format!("{here}\n"));
    assert_eq!(recorded.output("input", "stdout"), format!("from {here}\n"));
    assert_eq!(recorded.event("step_start", "words")["argv"][1], here.to_string());
}

#[test]
fn a_long_standard_input_reaches_a_step_that_reads_it_late() {
    let text = "0123456789abcde\n".repeat(20_000);

    let recorded = Trial::new(vec![step("late", "sleep 0.1; wc -c", json!({"stdin": text}))]).run();

    assert_eq!(recorded.output("late", "stdout").trim(), "320000");
}

#[test]
fn an_unexpected_exit_ends_the_plan_and_an_expected_one_does_not() {
    let recorded = Trial::new(vec![
        step("three", "exit 3", json!({"expect_exit": [0, 3]})),
        step("four", "exit 4", json!({"expect_exit": [0, 3]})),
        step("never", "true", json!({})),
    ])
    .run();

    assert_eq!(recorded.exit_code, Some(1));
    assert_eq!(recorded.event("step_end", "three")["outcome"], "ok");
    let four = recorded.event("step_end", "four");
    assert_eq!((&four["outcome"], &four["exit_code"]), (&json!("failed"), &json!(4)));
    assert_eq!(recorded.steps("step_start"), ["three", "four"]);
    assert_eq!(
        (&recorded.end()["outcome"], &recorded.end()["failed_step"]),
        (&json!("failed"), &json!("four"))
    );
    assert_eq!(recorded.reason(), "exit code 4, expected 0 or 3");
}

#[test]
fn a_crash_and_a_missing_program_are_distinguished() {
    let crashed = Trial::new(vec![step("crash", "kill -SEGV $$$$", json!({}))]).run();
    let missing = Trial::new(vec![step("missing", "", json!({"argv": ["no-such-program"]}))]).run();
    let nowhere = Trial::new(vec![step("nowhere", "true", json!({"cwd": "/no/such/folder"}))]).run();

    let end = crashed.event("step_end", "crash");
    assert_eq!((&end["outcome"], &end["signal"]), (&json!("signalled"), &json!("SIGSEGV")));
    assert_eq!(end["exit_code"], Value::Null);
    assert_eq!(missing.event("step_end", "missing")["outcome"], "spawn_error");
    assert!(missing.reason().contains("no-such-program is not in PATH"), "{}", missing.reason());
    assert!(nowhere.reason().contains("/no/such/folder"), "{}", nowhere.reason());
}

#[test]
fn a_step_that_reaches_its_time_limit_is_ended_with_all_it_started() {
    let script = "sh -c 'echo $$$$; exec sleep 1000' & wait";

    let recorded = Trial::new(vec![step("slow", script, json!({"time_limit_ns": 500 * NS_PER_MS}))]).run();

    let end = recorded.event("step_end", "slow");
    assert_eq!((&end["outcome"], &end["signal"]), (&json!("timeout"), &json!("SIGTERM")));
    assert!(recorded.reason().contains("time limit of 0.5 s"), "{}", recorded.reason());
    assert!(!is_alive(&recorded.output("slow", "stdout")));
}

#[test]
fn a_step_that_ignores_the_request_to_end_is_killed() {
    let script = "trap '' TERM; echo ready; while :; do sleep 1000; done";

    let recorded = Trial::new(vec![step("deaf", script, json!({"time_limit_ns": 500 * NS_PER_MS}))]).run();

    let end = recorded.event("step_end", "deaf");
    assert_eq!((&end["outcome"], &end["signal"]), (&json!("timeout"), &json!("SIGKILL")));
}

#[test]
fn the_whole_plan_has_a_time_limit_too() {
    let recorded = Trial::new(vec![step("slow", "sleep 1000", json!({})), step("never", "true", json!({}))])
        .with(json!({"time_limit_ns": 300 * NS_PER_MS}))
        .run();

    assert_eq!(recorded.event("step_end", "slow")["outcome"], "timeout");
    assert_eq!(recorded.steps("step_start"), ["slow"]);
    assert!(recorded.reason().contains("the plan's time limit of 0.3 s"), "{}", recorded.reason());
}

#[test]
fn what_a_step_leaves_behind_is_ended_even_out_of_its_session_and_holding_its_output() {
    let script = "setsid sh -c 'echo $$$$; exec sleep 1000' & while ! [ -s pid ]; do sleep 0.01; done";
    let script = script.replace("echo $$$$", "echo $$$$ | tee pid");

    let recorded = Trial::new(vec![
        step("leave", &script, json!({"cwd": "${here}"})),
        step("next", "echo went on", json!({})),
    ])
    .run();

    assert_eq!(recorded.exit_code, Some(0), "{}", recorded.stderr);
    let pid = recorded.output("leave", "stdout");
    assert!(pid.trim().parse::<u32>().is_ok() && !is_alive(&pid), "{pid}");
    assert_eq!(recorded.output("next", "stdout"), "went on\n");
    assert_eq!(recorded.event("step_end", "leave")["left_running"], json!(["sleep"]));
    assert_eq!(recorded.event("step_end", "next")["left_running"], json!([]));
}

#[test]
fn what_a_step_leaves_in_its_own_group_is_named_and_what_has_ended_is_not() {
    // The shell's child is called sh until it executes sleep.
    let leave = "sleep 1000 & until grep -q sleep /proc/$$!/comm; do sleep 0.01; done";

    let recorded =
        Trial::new(vec![step("leave", leave, json!({})), step("ended", "true & sleep 0.1", json!({}))]).run();

    assert_eq!(recorded.event("step_end", "leave")["left_running"], json!(["sleep"]));
    assert_eq!(recorded.event("step_end", "ended")["left_running"], json!([]));
}

#[test]
fn output_beyond_the_limit_is_dropped_while_the_step_runs_on() {
    let script = "head -c 300000 /dev/zero | tr '\\0' x; echo done >&2";

    let recorded = Trial::new(vec![step("loud", script, json!({"output_limit_bytes": 100_000}))]).run();

    assert_eq!(recorded.output("loud", "stdout"), "x".repeat(100_000));
    assert_eq!(recorded.output("loud", "stderr"), "done\n");
    let end = recorded.event("step_end", "loud");
    assert_eq!((&end["outcome"], &end["output_truncated"]), (&json!("ok"), &json!(true)));
    let longest = recorded.of_type("output").iter().map(|event| event["text"].as_str().unwrap().len()).max();
    assert!(longest <= Some(32 << 10), "{longest:?}");
}

#[test]
fn bytes_that_are_no_text_arrive_unchanged() {
    let recorded = Trial::new(vec![step("bytes", r"printf 'a\377\000b'", json!({}))]).run();

    let events = recorded.of_type("output");
    let bytes: Vec<u8> = events
        .iter()
        .flat_map(|event| match &event["base64"] {
            Value::String(text) => STANDARD.decode(text).unwrap(),
            _ => event["text"].as_str().unwrap().as_bytes().to_vec(),
        })
        .collect();
    assert_eq!(bytes, b"a\xff\0b");
    assert!(events.iter().any(|event| event["base64"].is_string()));
}

#[test]
fn files_are_collected_sorted_and_joined() {
    let script = "echo 2 > log.2; echo 1 > log.1; echo no > other; : > empty";
    let collect =
        json!([{"name": "logs", "path": "${here}/log.*"}, {"name": "none", "path": "${here}/empty"}]);

    let recorded =
        Trial::new(vec![step("write", script, json!({"cwd": "${here}", "collect": collect}))]).run();

    let files = recorded.of_type("file");
    let joined = |name: &str| {
        let parts = files.iter().filter(|event| event["name"] == name);
        parts.map(|event| event["text"].as_str().unwrap()).collect::<String>()
    };
    assert_eq!((joined("logs").as_str(), joined("none").as_str()), ("1\n2\n", ""));
    let last: Vec<_> =
        files.iter().filter(|event| event["last"] == true).map(|event| &event["name"]).collect();
    assert_eq!(last, ["logs", "none"]);
}

#[test]
fn a_file_that_is_not_there_to_collect_fails_the_plan() {
    let collect = json!([{"name": "log", "path": "${here}/log.*"}]);

    let recorded = Trial::new(vec![step("write", "true", json!({"collect": collect}))]).run();

    assert_eq!((recorded.exit_code, &recorded.end()["failed_step"]), (Some(1), &json!("write")));
    assert!(recorded.reason().starts_with("collecting log: no file matches"), "{}", recorded.reason());
}

#[test]
fn monitors_are_sampled_at_the_interval_and_around_every_step() {
    let recorded = Trial::new(vec![step("wait", "sleep 0.5", json!({}))])
        .with(json!({"monitors": {"interval_ns": 50 * NS_PER_MS, "disks": []}}))
        .run();

    let samples = recorded.of_type("sample");
    let at =
        |name: &str| samples.iter().filter(|sample| sample["at"] == name && sample["step"] == "wait").count();
    assert_eq!((at("step_start"), at("step_end")), (1, 1));
    assert!(at("interval") >= 1);
    for sample in samples {
        assert!(sample["memory"]["available_bytes"].as_u64() > Some(0), "{sample}");
        assert!(sample["cpu"]["idle_ns"].as_u64() > Some(0), "{sample}");
    }
}

#[test]
fn a_disks_statistics_are_in_every_sample() {
    let Some(disk) = std::fs::read_dir("/sys/block").ok().and_then(|mut disks| disks.next()?.ok()) else {
        eprintln!("skipped: this machine has no block devices");
        return;
    };
    let mut trial = Trial::new(vec![step("look", "true", json!({}))])
        .with(json!({"monitors": {"interval_ns": 1_000_000_000, "disks": ["disk0"]}}));
    trial.bindings["stat_names"] = json!({"disk0": disk.file_name().to_str().unwrap()});

    let recorded = trial.run();

    for sample in recorded.of_type("sample") {
        assert!(sample["disks"]["disk0"]["write_bytes"].is_u64(), "{sample}");
    }
}

#[test]
fn a_step_runs_as_its_user_with_that_users_groups_only() {
    if !geteuid().is_root() {
        eprintln!("skipped: only root can run a step as another user");
        return;
    }
    let recorded = Trial::new(vec![step("who", "id -u; id -G", json!({"user": "nobody"}))]).run();

    let passwd = std::fs::read_to_string("/etc/passwd").unwrap();
    let nobody: Vec<_> =
        passwd.lines().find(|line| line.starts_with("nobody:")).unwrap().split(':').collect();
    assert_eq!(recorded.output("who", "stdout"), format!("{}\n{}\n", nobody[2], nobody[3]));
}

#[test]
fn the_folders_of_a_trial_are_made_and_removed_when_they_are_empty() {
    let script = "stat -c '%F %a' ${mount} ${mounts} ${scratch}; touch ${scratch}/kept";
    let mut trial = Trial::new(vec![step("look", script, json!({}))])
        .with(json!({"variables": ["here", "mount", "mounts", "scratch"]}));
    trial.bindings["variables"]["mount"] = json!(trial.path("deep/mount"));
    trial.bindings["variables"]["mounts"] = json!(trial.path("mounts"));
    trial.bindings["variables"]["scratch"] = json!(trial.path("scratch"));

    let recorded = trial.run();

    assert_eq!(recorded.output("look", "stdout"), "directory 755\ndirectory 755\ndirectory 1777\n");
    assert!(!trial.path("deep/mount").exists() && !trial.path("mounts").exists());
    assert!(trial.path("scratch/kept").exists());
}

#[test]
fn events_are_appended_to_a_file_or_printed() {
    let trial = Trial::new(vec![step("say", "echo hello", json!({"undo": command("true", json!({}))}))]);
    trial.run();
    let recorded = trial.run();
    let printed = trial.agent("run").args(["--events", "-"]).output().unwrap();

    assert_eq!(recorded.of_type("agent_start").len(), 2);
    assert_eq!(String::from_utf8(printed.stdout).unwrap().lines().count() * 2, recorded.events.len());
}

/// A folder that looks like a control group's as far as entering it goes.
fn group(trial: &Trial, name: &str) {
    std::fs::create_dir(trial.path(name)).unwrap();
    std::fs::write(trial.path(name).join("cgroup.procs"), "").unwrap();
}

#[test]
fn a_program_and_its_ready_enter_their_control_group_and_the_undo_does_not() {
    let mut trial = Trial::new(vec![
        step(
            "guest",
            // An undo that were to enter the group would find none.
            "cat ${here}/${name}/cgroup.procs && rm ${here}/${name}/cgroup.procs",
            json!({"cgroup": "${here}/${name}", "undo": command("echo undone", json!({}))}),
        ),
        step(
            "service",
            // Each writes at the start of the file; a real group's takes one number a write.
            "cp ${here}/service/cgroup.procs ${here}/entered; printf xy >${here}/service/cgroup.procs; exec sleep 100",
            json!({
                "cgroup": "${here}/service", "background": true, "time_limit_ns": 20 * NS_PER_S,
                "ready": command("grep 0y ${here}/service/cgroup.procs", json!({})),
            }),
        ),
    ])
    .with(json!({"variables": ["here", "name"]}));
    trial.bindings["variables"]["name"] = json!("guest");
    group(&trial, "guest");
    group(&trial, "service");

    let recorded = trial.run();

    assert_eq!(recorded.exit_code, Some(0), "{}", recorded.stderr);
    assert_eq!(recorded.output("guest", "stdout"), "0");
    assert_eq!(recorded.output("guest", "undo_stdout"), "undone\n");
    assert_eq!(trial.text("entered"), "0");
}

#[test]
fn the_reason_why_a_control_group_is_not_entered_is_reported() {
    let trial = Trial::new(vec![step("guest", "touch ${here}/ran", json!({"cgroup": "${here}/full"}))]);
    std::fs::create_dir(trial.path("full")).unwrap();
    std::os::unix::fs::symlink("/dev/full", trial.path("full/cgroup.procs")).unwrap();
    let none = Trial::new(vec![step("guest", "true", json!({"cgroup": "/no/such/group"}))]);

    let (recorded, none) = (trial.run(), none.run());

    let folder = trial.path("full");
    assert_eq!(recorded.event("step_end", "guest")["outcome"], "spawn_error");
    let expected = format!("the control group {} cannot be entered: No space left", folder.display());
    assert!(recorded.reason().starts_with(&expected), "{}", recorded.reason());
    assert!(!trial.path("ran").exists());
    let expected = "the control group /no/such/group cannot be opened: No such file or directory";
    assert!(none.reason().starts_with(expected), "{}", none.reason());
}
