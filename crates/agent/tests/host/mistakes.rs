// SPDX-License-Identifier: Apache-2.0
//! Bad plans, bad bindings, bad command lines: all mistakes are reported before anything runs.

use std::os::unix::process::CommandExt;
use std::process::Command;

use serde_json::json;

use crate::trial::{Trial, step};

#[test]
fn a_bound_variable_is_used_after_its_step_only_and_is_none_of_the_plans() {
    let trial = Trial::new(vec![
        step("early", "touch ${here}/ran; echo ${loop}", json!({})),
        step("loop", "echo ${loop}", json!({"binds": "loop", "undo": {"argv": ["echo", "${loop}"]}})),
        step("again", "echo ${loop}", json!({"binds": "loop"})),
        step("here", "true", json!({"binds": "here"})),
        step("odd", "true", json!({"binds": "a}", "cgroup": "groups/${loop}"})),
        step("service", "true", json!({"binds": "service", "background": true, "takes_down": ["late"]})),
        step("late", "true", json!({"takes_down": ["again"]})),
    ])
    .with(json!({"prerequisites": {"tools": ["echo"], "modules": ["zfs"], "features": []}}));

    let recorded = trial.run();

    let mistakes = [
        "steps[0] (early).argv[2]: unknown variable ${loop}",
        "steps[1] (loop).argv[2]: unknown variable ${loop}",
        "steps[3] (here).binds: the variable \"here\" is bound already",
        "steps[4] (odd).cgroup: not absolute",
        "steps[4] (odd).binds: \"a}\" cannot be a variable's name",
        "steps[5] (service).takes_down: \"late\" is no earlier step",
        "steps[5] (service).binds: a background step has not ended when others begin",
    ];
    assert_eq!(recorded.reason(), mistakes.join("; "));
    assert!(!trial.path("ran").exists());
}

fn wrong_trial() -> (Trial, Vec<&'static str>) {
    let trial = Trial::new(vec![
        step("touch", "touch ${here}/ran", json!({})),
        step("touch", "echo ${nothing} ${less}", json!({})),
        step("empty", "", json!({"argv": []})),
        step("stranger", "true", json!({"user": "no-such-user", "stop_signal": "NOISE", "background": true})),
        step("Odd Name", "true", json!({"destroys": ["disk9"], "ready": {"argv": ["true", "$x"]}})),
    ])
    .with(json!({"variables": ["here", "mount"], "monitors": {"interval_ns": 0, "disks": ["disk0"]}}));
    let mistakes = vec![
        "bindings.variables: the plan's variable \"mount\" is not bound",
        "bindings.stat_names: the monitored disk \"disk0\" is not bound",
        "monitors.interval_ns: must be above 0",
        "steps[1].id: \"touch\" is the id of steps[0] already",
        "steps[1] (touch).argv[2]: unknown variable ${nothing}",
        "steps[1] (touch).argv[2]: unknown variable ${less}",
        "steps[2] (empty).argv: empty",
        "steps[3] (stranger).user: there is no user \"no-such-user\"",
        "steps[3] (stranger).stop_signal: \"NOISE\" is no signal",
        "steps[4] (Odd Name).id: not in kebab case",
        "steps[4] (Odd Name).destroys: \"disk9\" is no device",
        "steps[4] (Odd Name).ready.argv[1]: a lone $",
        "steps[4] (Odd Name).ready: only a background step has it",
    ];
    (trial, mistakes)
}

#[test]
fn every_mistake_is_reported_and_nothing_runs() {
    let (trial, mistakes) = wrong_trial();

    let recorded = trial.run();

    assert_eq!((recorded.exit_code, &recorded.end()["outcome"]), (Some(2), &json!("bad_plan")));
    for mistake in mistakes {
        assert!(recorded.reason().contains(mistake), "{mistake} is not in: {}", recorded.reason());
    }
    assert!(recorded.of_type("step_start").is_empty() && !trial.path("ran").exists());
}

#[test]
fn check_tells_the_same_on_a_line_each_and_runs_nothing() {
    let (trial, mistakes) = wrong_trial();

    let output = trial.agent("check").output().unwrap();

    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    for mistake in mistakes {
        assert!(message.lines().any(|line| line.contains(mistake)), "{mistake} is not in: {message}");
    }

    let fine = Trial::new(vec![step("touch", "touch ${here}/ran", json!({}))]);
    let output = fine.agent("check").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(!fine.path("ran").exists());
}

#[test]
fn unreadable_plan_and_bindings_are_both_reported() {
    let mut trial = Trial::new(vec![]);
    trial.bindings = json!({"runner": "host", "novel": 1});
    let mut command = trial.agent("run");
    std::fs::remove_file(trial.path("plan.json")).unwrap();

    let output = command.args(["--events", "-"]).output().unwrap();

    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.contains("plan: cannot be read") && message.contains("novel"), "{message}");
}

#[test]
fn an_unwritable_place_for_events_is_reported_before_anything_runs() {
    let trial = Trial::new(vec![step("touch", "touch ${here}/ran", json!({}))]);

    let output = trial.agent("run").args(["--events", "/no/such/folder/events"]).output().unwrap();

    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/no/such/folder/events"));
    assert!(!trial.path("ran").exists());
}

#[test]
fn only_process_1_is_a_labs_first_process_whatever_its_name() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_strata-agent"));

    let output = command.arg0("/init").arg("--version").output().unwrap();

    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("plan 1") && said.contains("events 1"), "{said}");
}

#[test]
fn the_command_line_explains_itself() {
    let agent =
        |argument: &str| Command::new(env!("CARGO_BIN_EXE_strata-agent")).arg(argument).output().unwrap();

    let manual = String::from_utf8(agent("--help").stdout).unwrap();
    assert!(manual.contains("Examples:") && manual.contains("strata-agent run --plan"), "{manual}");
    assert_eq!(agent("--nonsense").status.code(), Some(2));
}
