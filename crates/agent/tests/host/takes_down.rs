// SPDX-License-Identifier: Apache-2.0
//! Steps that are taken down before the plan's end, and brought up again.

use serde_json::{Value, json};

use crate::trial::{Trial, command, step};

#[test]
fn what_a_step_takes_down_is_undone_before_it_and_not_again_at_the_end() {
    let up = |value: &str| json!({"binds": "loop", "undo": command(&format!("echo {value}-is-${{loop}}"), json!({}))});
    let recorded = Trial::new(vec![
        step("first", "echo 1", up("first")),
        step("second", "echo 2", json!({"undo": command("echo second", json!({}))})),
        step("third", "echo 3", json!({"undo": command("echo third", json!({}))})),
        step("between", "echo between", json!({"takes_down": ["first", "third"]})),
        step("again", "echo 4", up("again")),
    ])
    .run();

    assert_eq!(recorded.exit_code, Some(0), "{}", recorded.stderr);
    let expected = [
        "step_start first",
        "step_start second",
        "step_start third",
        "undo_start third",
        "undo_start first",
        "step_start between",
        "step_start again",
        "undo_start again",
        "undo_start second",
    ];
    assert_eq!(recorded.order(&["undo_start", "step_start"]), expected);
    assert_eq!(recorded.output("first", "undo_stdout"), "first-is-1\n");
    assert_eq!(recorded.output("again", "undo_stdout"), "again-is-4\n");
}

#[test]
fn a_step_is_not_started_when_what_it_takes_down_stays_up() {
    let recorded = Trial::new(vec![
        step("mount", "true", json!({"undo": command("echo busy >&2; exit 3", json!({}))})),
        step("restore", "echo restored", json!({"takes_down": ["mount"]})),
    ])
    .run();

    assert_eq!(recorded.exit_code, Some(1));
    assert_eq!(recorded.end()["failed_step"].as_str(), Some("restore"));
    assert!(recorded.reason().contains("mount could not be taken down"), "{}", recorded.reason());
    assert_eq!(recorded.of_type("step_start").len(), 1);
    assert_eq!(recorded.of_type("undo_start").len(), 2, "it is tried once more at the end");
}

/// A step that binds `loop` to the output of `script`, and its undo.
fn attached(id: &str, script: &str) -> Value {
    let undo = command(&format!("echo {id}-${{loop}}"), json!({}));
    step(id, script, json!({"binds": "loop", "undo": undo}))
}

#[test]
fn a_step_that_brings_up_nothing_again_does_not_undo_what_was_taken_down() {
    let recorded = Trial::new(vec![
        attached("first", "echo loop0"),
        step("between", "true", json!({"takes_down": ["first"]})),
        attached("again", "exit 1"),
    ])
    .run();

    assert_eq!(recorded.end()["failed_step"].as_str(), Some("again"));
    let undone: Vec<_> = recorded.of_type("undo_start").iter().map(|event| event["step"].clone()).collect();
    assert_eq!(undone, ["first"]);
}

#[test]
fn an_undo_gets_what_its_own_step_bound_whatever_was_bound_later() {
    let recorded = Trial::new(vec![attached("first", "echo loop0"), attached("second", "echo loop1")]).run();

    assert_eq!(recorded.exit_code, Some(0), "{}", recorded.stderr);
    assert_eq!(recorded.output("second", "undo_stdout"), "second-loop1\n");
    assert_eq!(recorded.output("first", "undo_stdout"), "first-loop0\n");
}
