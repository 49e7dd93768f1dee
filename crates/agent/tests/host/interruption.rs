// SPDX-License-Identifier: Apache-2.0
//! Signals to the agent, and events that cannot be written.

use std::process::Stdio;

use nix::sys::signal::Signal;
use serde_json::json;

use crate::trial::{NS_PER_S, Trial, await_that, command, is_alive, step};

fn long_trial() -> Trial {
    let undo = command("echo undone > ${here}/undone", json!({}));
    let script = "echo $$$$ > pid.new; mv pid.new pid; exec sleep 1000";
    Trial::new(vec![
        step("long", script, json!({"cwd": "${here}", "undo": undo})),
        step("never", "true", json!({})),
    ])
}

#[test]
fn a_signal_interrupts_the_step_and_everything_is_torn_down() {
    for (signal, exit_code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143), (Signal::SIGHUP, 129)] {
        let trial = long_trial();
        let running = trial.start();
        running.await_file("pid");

        running.signal(signal);
        let recorded = running.finish();

        assert_eq!(recorded.exit_code, Some(exit_code), "{}", recorded.stderr);
        assert_eq!(recorded.event("step_end", "long")["outcome"], "interrupted");
        assert_eq!(recorded.steps("step_start"), ["long"]);
        assert_eq!(
            (&recorded.end()["outcome"], &recorded.end()["failed_step"]),
            (&json!("interrupted"), &json!("long"))
        );
        assert!(recorded.reason().contains(signal.as_str()), "{}", recorded.reason());
        assert!(!is_alive(&trial.text("pid")));
        assert_eq!(trial.text("undone"), "undone\n");
    }
}

#[test]
fn a_second_signal_shortens_the_teardown_without_skipping_any_of_it() {
    let slow =
        command("touch undoing; sleep 1000", json!({"cwd": "${here}", "time_limit_ns": 900 * NS_PER_S}));
    let fast = command("echo undone > ${here}/undone", json!({}));
    let trial = Trial::new(vec![
        step("one", "true", json!({"undo": fast})),
        step("two", "touch started; sleep 1000", json!({"cwd": "${here}", "undo": slow})),
    ]);
    let running = trial.start();
    running.await_file("started");
    running.signal(Signal::SIGTERM);
    running.await_file("undoing");

    running.signal(Signal::SIGTERM);
    let recorded = running.finish();

    assert_eq!(recorded.exit_code, Some(143));
    assert_eq!(recorded.event("undo_end", "two")["outcome"], "timeout");
    assert_eq!(trial.text("undone"), "undone\n");
}

#[test]
fn no_step_outlives_an_agent_that_is_killed() {
    let trial = long_trial();
    let running = trial.start();
    running.await_file("pid");

    running.signal(Signal::SIGKILL);
    drop(running);

    await_that("the step has ended", || !is_alive(&trial.text("pid")));
}

#[test]
fn events_that_cannot_be_written_end_the_plan_with_a_teardown() {
    let undo = command("echo undone > ${here}/undone", json!({}));
    let trial = Trial::new(vec![
        step("one", "echo ran > ${here}/ran", json!({"undo": undo})),
        step("two", "sleep 1000", json!({})),
    ]);

    let full = trial.agent("run").args(["--events", "/dev/full"]).output().unwrap();

    let message = String::from_utf8_lossy(&full.stderr);
    assert_eq!(full.status.code(), Some(1), "{message}");
    assert!(message.contains("the events cannot be written: No space left"), "{message}");
    assert_eq!(trial.text("ran"), "", "nothing runs when nothing can be recorded");
}

#[test]
fn a_reader_who_goes_away_ends_the_plan_with_a_teardown() {
    let undo = command("echo undone > ${here}/undone", json!({}));
    let script = "touch started; while :; do echo more; sleep 0.01; done";
    let trial = Trial::new(vec![step("long", script, json!({"cwd": "${here}", "undo": undo}))]);
    let mut command = trial.agent("run");
    let mut agent =
        command.args(["--events", "-"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    await_that("the step runs", || trial.path("started").exists());

    drop(agent.stdout.take());
    let output = agent.wait_with_output().unwrap();

    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("the events cannot be written: Broken pipe"), "{message}");
    assert_eq!(trial.text("undone"), "undone\n");
}
