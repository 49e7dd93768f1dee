// SPDX-License-Identifier: Apache-2.0
//! Steps that are taken down, and services that come and go, while other lanes run.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::lanes::{in_lane, until};
use crate::trial::{NS_PER_MS, NS_PER_S, Trial, command, step};

/// A wait in vain is a failure, not a hang.
fn undo(script: &str) -> Value {
    command(script, json!({"cwd": "${here}", "time_limit_ns": 20 * NS_PER_S}))
}

#[test]
fn a_lane_goes_on_while_another_takes_a_step_down() {
    let stop = format!("touch stopping; {}; exit 0", until("recorded"));
    let server = format!("trap '{stop}' TERM; touch up; while :; do sleep 0.01; done");
    let ready = json!({"background": true, "cwd": "${here}", "ready": command("test -e ${here}/up", json!({})),
        "ready_interval_ns": 10 * NS_PER_MS, "stop_limit_ns": 20 * NS_PER_S});
    let recorded = Trial::new(vec![
        step("server", &server, ready),
        in_lane("a", "a-one", &until("undoing"), json!({})),
        in_lane("a", "a-two", &format!("touch a2; {}", until("stopping")), json!({})),
        in_lane("a", "a-three", "touch recorded", json!({})),
        in_lane("b", "b-one", "true", json!({"undo": undo(&format!("touch undoing; {}", until("a2")))})),
        in_lane("b", "b-two", "true", json!({"takes_down": ["b-one", "server"]})),
    ])
    .run();

    assert_eq!(recorded.exit_code, Some(0), "{:#?}", recorded.events);
    assert_eq!(recorded.steps("step_end").last().copied(), Some("b-two"));
}

#[test]
fn the_end_of_a_program_is_noticed_whichever_lane_was_waited_for() {
    let recorded = Trial::new(vec![
        in_lane("a", "a-one", &until("undoing"), json!({})),
        in_lane("a", "a-two", "touch a2", json!({})),
        in_lane("b", "b-one", "true", json!({"undo": undo("touch undoing; sleep 0.3")})),
        in_lane("b", "b-two", &until("a2"), json!({"takes_down": ["b-one"], "time_limit_ns": 20 * NS_PER_S})),
    ])
    .run();

    assert_eq!(recorded.exit_code, Some(0), "{:#?}", recorded.events);
}

#[test]
fn a_limit_is_kept_while_another_lane_takes_a_step_down() {
    let recorded = Trial::new(vec![
        in_lane(
            "a",
            "slow",
            "trap 'touch ended; exit 0' TERM; touch slow; while :; do sleep 0.01; done",
            json!({"time_limit_ns": 500 * NS_PER_MS}),
        ),
        in_lane("b", "b-one", &until("slow"), json!({"undo": undo(&until("ended"))})),
        in_lane("b", "b-two", "true", json!({"takes_down": ["b-one"]})),
        in_lane("b", "b-three", "true", json!({})),
    ])
    .run();

    assert_eq!(recorded.event("step_end", "slow")["outcome"], "timeout", "{:#?}", recorded.events);
    assert_eq!(recorded.end()["failed_step"], "slow");
    assert_eq!(recorded.reason(), "the time limit of 0.5 s was reached");
    assert_eq!(recorded.steps("step_start"), ["slow", "b-one"]);
    let undone = recorded.of_type("undo_end");
    assert_eq!(undone.len(), 1, "{undone:?}");
    assert_eq!((&undone[0]["step"], &undone[0]["outcome"]), (&json!("b-one"), &json!("ok")));
}

#[test]
fn a_signal_while_a_lane_takes_a_step_down_leaves_that_done_once() {
    let trial = Trial::new(vec![
        in_lane(
            "a",
            "first",
            "true",
            json!({"undo": undo(&format!("touch undoing; {}; echo first >> undone", until("ended")))}),
        ),
        in_lane("a", "second", "true", json!({"takes_down": ["first"]})),
        in_lane(
            "b",
            "other",
            "trap 'touch ended; exit 0' TERM; while :; do sleep 0.01; done",
            json!({"undo": undo("echo other >> undone")}),
        ),
    ]);
    let running = trial.start();
    running.await_file("undoing");

    running.signal(Signal::SIGTERM);
    let recorded = running.finish();

    assert_eq!(recorded.exit_code, Some(143));
    assert_eq!(recorded.steps("step_start"), ["first", "other"]);
    assert_eq!(trial.text("undone"), "first\nother\n");
}

#[test]
fn two_lanes_may_take_down_the_same_step_which_is_undone_once() {
    let down = || json!({"takes_down": ["shared"]});
    let recorded = Trial::new(vec![
        step("shared", "true", json!({"undo": undo("sleep 0.2; touch gone")})),
        in_lane("a", "one", "test -e gone", down()),
        in_lane("b", "two", "test -e gone", down()),
    ])
    .run();

    assert_eq!(recorded.exit_code, Some(0), "{:#?}", recorded.events);
    assert_eq!(recorded.of_type("undo_start").len(), 1);
}

/// A script that leaves a process in a session of its own, and its pid in a file.
fn far(file: &str) -> String {
    format!(
        "(setsid sh -c 'echo $$$$ > {file}.new; mv {file}.new {file}; exec sleep 1000' &); {}",
        until(file)
    )
}

#[test]
fn a_service_does_not_keep_what_was_there_before_it() {
    let ready = json!({"background": true, "ready": command("test -e ${here}/last", json!({})),
        "ready_interval_ns": 10 * NS_PER_MS});
    let recorded = Trial::new(vec![
        in_lane("a", "wait", &until("b-ended"), json!({})),
        in_lane("a", "server", "touch up; exec sleep 1000", ready),
        in_lane("b", "leaves", &far("stray"), json!({})),
        in_lane("b", "tell", "touch b-ended", json!({})),
        in_lane("c", "last", &format!("{}; sleep 0.2; touch last", until("up")), json!({})),
        step("look", "kill -0 $$(cat stray) 2>/dev/null || echo gone", json!({"cwd": "${here}"})),
    ])
    .run();

    assert_eq!(recorded.output("look", "stdout"), "gone\n", "{:#?}", recorded.events);
}

#[test]
fn a_service_that_is_stopped_takes_what_it_had_set_up_along_though_other_lanes_run() {
    let server = format!("{}; touch up; exec sleep 1000", far("worker"));
    let ready = json!({"background": true, "cwd": "${here}", "ready": command("test -e ${here}/up", json!({})),
        "ready_interval_ns": 10 * NS_PER_MS});
    let look = "kill -0 $$(cat worker) 2>/dev/null || echo gone; touch looked";
    let recorded = Trial::new(vec![
        step("server", &server, ready),
        in_lane("a", "long", &format!("touch long; {}", until("looked")), json!({})),
        in_lane("b", "wait", &until("long"), json!({})),
        in_lane("b", "look", look, json!({"takes_down": ["server"]})),
    ])
    .run();

    assert_eq!(recorded.output("look", "stdout"), "gone\n", "{:#?}", recorded.events);
}
