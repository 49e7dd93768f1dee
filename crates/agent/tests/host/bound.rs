// SPDX-License-Identifier: Apache-2.0
//! Variables that steps bind to their output.

use serde_json::json;

use crate::trial::{NS_PER_S, Trial, command, step};

#[test]
fn what_a_step_prints_stands_for_the_variable_in_later_steps_and_in_its_undo() {
    let later = json!({
        "environment": {"DEVICE": "${loop}$$"}, "cwd": "/${folder}", "stdin": "${loop}",
        "collect": [{"name": "file", "path": "/${folder}/status"}],
    });
    let recorded = Trial::new(vec![
        step(
            "attach",
            "echo noise >&2; printf '/dev/loop$$7\\n\\n'",
            json!({"binds": "loop", "undo": {"argv": ["echo", "undo ${loop}"]}}),
        ),
        step("folder", "printf proc/self", json!({"binds": "folder", "phase": "alter"})),
        step("use", "pwd -P; cat; echo \"$$DEVICE\" '${loop}' '$${loop}'", later),
    ])
    .run();

    assert_eq!(recorded.exit_code, Some(0), "{}", recorded.stderr);
    let lines: Vec<_> = recorded.output("use", "stdout").lines().map(str::to_owned).collect();
    assert!(lines[0].starts_with("/proc/"), "{lines:?}");
    // One line break at the end is the line's own; any other is part of the value.
    assert_eq!(lines[1..], ["/dev/loop$7", "/dev/loop$7", "$ /dev/loop$7", " ${loop}"]);
    assert_eq!(recorded.output("attach", "undo_stdout"), "undo /dev/loop$7\n\n");
    assert_eq!(recorded.output("attach", "stderr"), "noise\n");
    assert_eq!(recorded.event("step_start", "folder")["phase"], "alter");
}

#[test]
fn a_step_that_prints_nothing_to_bind_fails_and_its_undo_has_nothing_to_undo() {
    for (script, cause) in [
        ("true", "the step printed nothing"),
        ("echo", "the step printed nothing"),
        ("printf '\\377'", "what the step printed is not UTF-8"),
        ("printf '\\0'", "the step printed a NUL character"),
        ("head -c 5000 /dev/zero | tr '\\0' x", "the step printed more than 4096 bytes"),
    ] {
        let undo = command("echo undo ${loop}", json!({}));
        let recorded = Trial::new(vec![step("attach", script, json!({"binds": "loop", "undo": undo}))]).run();

        assert_eq!((recorded.exit_code, recorded.end()["failed_step"].as_str()), (Some(1), Some("attach")));
        assert_eq!(recorded.reason(), format!("\"loop\" cannot be bound: {cause}"));
        assert!(recorded.of_type("undo_start").is_empty());
    }
}

#[test]
fn what_a_step_printed_before_it_failed_is_undone() {
    let undo = command("echo undo ${loop}", json!({}));
    let fields = json!({"binds": "loop", "undo": undo, "time_limit_ns": NS_PER_S});

    let recorded = Trial::new(vec![step("attach", "echo loop3; sleep 1000", fields)]).run();

    assert_eq!(recorded.event("step_end", "attach")["outcome"], "timeout");
    assert_eq!(recorded.output("attach", "undo_stdout"), "undo loop3\n");
}
