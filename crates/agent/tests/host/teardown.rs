// SPDX-License-Identifier: Apache-2.0
//! Teardown: in reverse, always, and to its end.

use serde_json::json;

use crate::trial::{NS_PER_MS, Trial, command, step};

fn noting(id: &str, script: &str, undo: &str) -> serde_json::Value {
    let undo = command(&format!("echo {id} >> ${{here}}/undone; {undo}"), json!({}));
    step(id, script, json!({"undo": undo}))
}

#[test]
fn after_a_failure_the_failed_step_is_undone_but_not_those_that_never_started() {
    let trial = Trial::new(vec![
        noting("one", "true", "true"),
        noting("two", "exit 1", "true"),
        noting("three", "true", "true"),
    ]);

    let recorded = trial.run();

    assert_eq!(recorded.exit_code, Some(1));
    assert_eq!(trial.text("undone"), "two\none\n");
}

#[test]
fn a_program_that_could_not_be_started_leaves_nothing_to_undo() {
    let undo = command("true", json!({}));

    let recorded =
        Trial::new(vec![step("missing", "", json!({"argv": ["no-such-program"], "undo": undo}))]).run();

    assert!(recorded.of_type("undo_start").is_empty());
}

#[test]
fn a_failing_undo_is_reported_and_the_rest_continues() {
    let trial = Trial::new(vec![
        noting("one", "true", "true"),
        noting("two", "true", "echo busy >&2; exit 32"),
        noting("three", "true", "true"),
    ]);

    let recorded = trial.run();

    assert_eq!(trial.text("undone"), "three\ntwo\none\n");
    let end = recorded.event("undo_end", "two");
    assert_eq!((&end["outcome"], &end["exit_code"]), (&json!("failed"), &json!(32)));
    assert_eq!(recorded.output("two", "undo_stderr"), "busy\n");
    assert_eq!((recorded.exit_code, &recorded.end()["outcome"]), (Some(0), &json!("ok")));
    assert_eq!(recorded.reason(), "teardown: two: undo failed: exit code 32, expected 0");
    assert!(recorded.stderr.contains("undo failed"), "{}", recorded.stderr);
}

#[test]
fn an_undo_that_hangs_is_ended_at_its_own_limit() {
    let undo = command("sleep 1000", json!({"time_limit_ns": 300 * NS_PER_MS}));
    let trial = Trial::new(vec![noting("one", "true", "true"), step("two", "true", json!({"undo": undo}))]);

    let recorded = trial.run();

    assert_eq!(recorded.event("undo_end", "two")["outcome"], "timeout");
    assert_eq!(trial.text("undone"), "one\n");
}
