// SPDX-License-Identifier: Apache-2.0
//! Background steps.

use serde_json::{Value, json};

use crate::trial::{NS_PER_MS, NS_PER_S, Trial, command, is_alive, step};

const SERVER: &str =
    "trap 'echo stopped; exit 0' INT; sleep 0.2; touch up; echo $$$$; while :; do sleep 0.05; done";

fn service(script: &str, fields: Value) -> Value {
    let ready = command("echo asleep >&2; test -e ${here}/up", json!({}));
    let mut all = step(
        "server",
        script,
        json!({"background": true, "cwd": "${here}", "ready": ready, "ready_interval_ns": 20 * NS_PER_MS, "stop_signal": "INT"}),
    );
    let more: serde_json::Map<String, Value> = serde_json::from_value(fields).unwrap();
    all.as_object_mut().unwrap().extend(more);
    all
}

#[test]
fn steps_wait_for_a_service_that_runs_until_the_teardown() {
    let trial = Trial::new(vec![
        service(SERVER, json!({"undo": command("echo undone > ${here}/undone", json!({}))})),
        step("client", "test -e up && echo served", json!({"cwd": "${here}"})),
    ]);

    let recorded = trial.run();

    assert_eq!(recorded.exit_code, Some(0), "{}", recorded.stderr);
    let expected = [
        "step_start server",
        "step_ready server",
        "step_start client",
        "step_end client",
        "step_end server",
        "undo_end server",
    ];
    assert_eq!(recorded.order(&["step_ready", "step_start", "step_end", "undo_end"]), expected);
    let said = recorded.output("server", "stdout");
    assert!(said.ends_with("stopped\n"), "{said}");
    assert!(!is_alive(said.lines().next().unwrap()));
    assert_eq!(recorded.event("step_end", "server")["exit_code"], 0);
}

#[test]
fn a_service_without_a_handler_for_its_stop_signal_ends_well() {
    let recorded =
        Trial::new(vec![service("touch up; exec sleep 1000", json!({"stop_signal": "TERM"}))]).run();

    let end = recorded.event("step_end", "server");
    assert_eq!((&end["outcome"], &end["signal"]), (&json!("ok"), &json!("SIGTERM")));
    assert_eq!(recorded.exit_code, Some(0));
}

#[test]
fn a_service_that_dies_fails_the_plan_and_interrupts_the_step() {
    let recorded = Trial::new(vec![
        service("touch up; while ! [ -e started ]; do sleep 0.01; done; exit 7", json!({})),
        step("client", "touch started; sleep 1000", json!({"cwd": "${here}"})),
    ])
    .run();

    assert_eq!(recorded.exit_code, Some(1));
    assert_eq!(recorded.event("step_end", "client")["outcome"], "interrupted");
    assert_eq!(recorded.event("step_end", "server")["outcome"], "failed");
    assert_eq!(recorded.end()["failed_step"], "server");
    assert!(
        recorded.reason().contains("the service server ended early: exit code 7"),
        "{}",
        recorded.reason()
    );
}

#[test]
fn a_service_that_dies_before_it_is_ready_is_not_waited_for() {
    let recorded = Trial::new(vec![
        service("echo no licence >&2; exit 1", json!({"time_limit_ns": 100 * NS_PER_S})),
        step("client", "true", json!({})),
    ])
    .run();

    assert_eq!(recorded.steps("step_start"), ["server"]);
    assert!(recorded.reason().contains("ended early: exit code 1"), "{}", recorded.reason());
    assert_eq!(recorded.output("server", "stderr"), "no licence\n");
}

#[test]
fn a_service_that_never_gets_ready_fails_with_what_ready_said() {
    let recorded =
        Trial::new(vec![service("exec sleep 1000", json!({"time_limit_ns": 400 * NS_PER_MS}))]).run();

    assert_eq!(recorded.exit_code, Some(1));
    assert!(recorded.reason().starts_with("not ready within 0.4 s: "), "{}", recorded.reason());
    assert!(recorded.reason().contains("asleep"), "{}", recorded.reason());
    assert!(recorded.of_type("step_ready").is_empty());
}

#[test]
fn a_ready_command_that_hangs_is_ended_at_the_services_limit() {
    let ready = command("sleep 1000", json!({}));

    let recorded = Trial::new(vec![service(
        "exec sleep 1000",
        json!({"ready": ready, "time_limit_ns": 400 * NS_PER_MS}),
    )])
    .run();

    assert!(recorded.reason().starts_with("not ready within 0.4 s"), "{}", recorded.reason());
}

#[test]
fn a_service_that_does_not_stop_is_killed_and_the_rest_is_torn_down() {
    let script = "trap '' INT; touch up; while :; do sleep 1000; done";

    let trial = Trial::new(vec![
        step("first", "true", json!({"undo": command("echo first > ${here}/undone", json!({}))})),
        service(script, json!({"stop_limit_ns": 300 * NS_PER_MS})),
    ]);
    let recorded = trial.run();

    let end = recorded.event("step_end", "server");
    assert_eq!((&end["outcome"], &end["signal"]), (&json!("timeout"), &json!("SIGKILL")));
    assert!(
        recorded.reason().contains("SIGINT did not end the service within 0.3 s"),
        "{}",
        recorded.reason()
    );
    assert_eq!(trial.text("undone"), "first\n");
}

#[test]
fn a_steps_strays_are_ended_but_not_a_services_processes() {
    let server = "sh -c 'while :; do sleep 0.05; done' & echo $$! > worker; touch up; wait";

    let recorded = Trial::new(vec![
        service(server, json!({"stop_signal": "TERM"})),
        step("stray", "setsid sleep 1000 & true", json!({})),
        step("look", "kill -0 $$(cat worker) && echo alive", json!({"cwd": "${here}"})),
    ])
    .run();

    assert_eq!(recorded.output("look", "stdout"), "alive\n", "{:#?}", recorded.events);
}

#[test]
fn what_a_service_set_up_before_it_was_ready_lives_as_long_as_the_service() {
    let worker = "(setsid sh -c 'echo $$$$ > worker.new; mv worker.new worker; exec sleep 1000' &)";
    let script = format!("{worker}; sleep 0.3; touch up; exec sleep 1000");

    let trial = Trial::new(vec![
        service(&script, json!({"stop_signal": "TERM"})),
        step("look", "kill -0 $$(cat worker) && echo alive", json!({"cwd": "${here}"})),
    ]);
    let recorded = trial.run();

    assert_eq!(recorded.output("look", "stdout"), "alive\n", "{:#?}", recorded.events);
    assert!(!is_alive(&trial.text("worker")));
}

#[test]
fn a_service_that_ends_by_itself_is_waited_for_by_the_step_that_takes_it_down() {
    let own = json!({"stop_signal": null, "ready": null});
    let recorded = Trial::new(vec![
        service("sleep 0.3; echo done", own),
        step("beside", "true", json!({})),
        step("after", "true", json!({"takes_down": ["server"]})),
    ])
    .run();

    assert_eq!(recorded.exit_code, Some(0), "{}", recorded.stderr);
    let expected = [
        "step_start server",
        "step_start beside",
        "step_end beside",
        "step_end server",
        "step_start after",
        "step_end after",
    ];
    assert_eq!(recorded.order(&["step_start", "step_end"]), expected);
    assert_eq!(recorded.output("server", "stdout"), "done\n");
    assert_eq!(recorded.event("step_end", "server")["exit_code"], 0);
}

#[test]
fn a_service_that_may_end_must_succeed() {
    let own = json!({"stop_signal": null, "ready": null});
    let steps = |script| vec![service(script, own.clone()), step("long", "sleep 1", json!({}))];

    let ended = Trial::new(steps("exit 0")).run();
    let failed = Trial::new(steps("exit 3")).run();

    assert_eq!(ended.exit_code, Some(0), "{}", ended.stderr);
    assert!(failed.reason().contains("the service server ended early: exit code 3"), "{}", failed.reason());
}

#[test]
fn a_service_that_does_not_end_by_itself_is_ended_at_its_limit() {
    let own = json!({"stop_signal": null, "ready": null, "stop_limit_ns": NS_PER_S / 5});
    let steps =
        vec![service("exec sleep 1000", own), step("after", "true", json!({"takes_down": ["server"]}))];

    let recorded = Trial::new(steps).run();

    assert!(
        recorded.reason().contains("server could not be taken down: the time limit of"),
        "{}",
        recorded.reason()
    );
}

#[test]
fn a_failing_plan_does_not_wait_for_a_service_that_would_end_by_itself() {
    let own = json!({"stop_signal": null, "ready": null});
    let steps = vec![service("exec sleep 1000", own), step("wrong", "exit 1", json!({}))];

    let recorded = Trial::new(steps).run();

    let end = recorded.event("step_end", "server");
    assert_eq!((&end["outcome"], &end["signal"]), (&json!("ok"), &json!("SIGTERM")));
}
