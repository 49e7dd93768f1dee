// SPDX-License-Identifier: Apache-2.0
//! Steps that are carried out at the same time.

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::trial::{NS_PER_MS, NS_PER_S, Trial, command, is_alive, step};

/// A step in a lane, in the trial's own folder.
pub fn in_lane(lane: &str, id: &str, script: &str, fields: Value) -> Value {
    let mut all = step(id, script, json!({"lane": lane, "cwd": "${here}"}));
    let more: serde_json::Map<String, Value> = serde_json::from_value(fields).unwrap();
    all.as_object_mut().unwrap().extend(more);
    all
}

/// A script that waits until another lane has made a file.
pub fn until(file: &str) -> String {
    format!("while ! [ -e {file} ]; do sleep 0.01; done")
}

fn monotonic_ns(event: &Value) -> u64 {
    event["monotonic_ns"].as_u64().unwrap()
}

#[test]
fn lanes_run_at_the_same_time_and_what_follows_waits_for_all() {
    // Not before the agent has handled it.
    let gone = "while kill -0 $$(cat a2) 2>/dev/null; do sleep 0.01; done";
    let recorded = Trial::new(vec![
        in_lane("a", "a-one", &format!("touch a; {}", until("b")), json!({})),
        in_lane("a", "a-two", "test -e b && echo $$$$ > a2.new && mv a2.new a2", json!({})),
        in_lane("b", "b-one", &format!("touch b; {}; {gone}", until("a2")), json!({})),
        step("after", "test -e a2", json!({"cwd": "${here}"})),
    ])
    .run();

    assert_eq!(recorded.exit_code, Some(0), "{:#?}", recorded.events);
    let expected = [
        "step_start a-one",
        "step_start b-one",
        "step_end a-one",
        "step_start a-two",
        "step_end a-two",
        "step_end b-one",
        "step_start after",
        "step_end after",
    ];
    assert_eq!(recorded.order(&["step_start", "step_end"]), expected);
}

#[test]
fn a_step_without_a_lane_or_another_phase_ends_a_group() {
    let recorded = Trial::new(vec![
        in_lane("a", "one", "sleep 0.2", json!({})),
        step("between", "true", json!({})),
        in_lane("b", "two", "sleep 0.2", json!({})),
        in_lane("c", "three", "true", json!({"phase": "measure"})),
    ])
    .run();

    assert_eq!(recorded.steps("step_start"), ["one", "between", "two", "three"]);
    let (two, three) = (recorded.event("step_end", "two"), recorded.event("step_start", "three"));
    assert!(two["seq"].as_u64() < three["seq"].as_u64());
}

#[test]
fn a_step_does_not_begin_before_its_time_in_the_group() {
    let recorded = Trial::new(vec![
        in_lane("a", "long", "sleep 0.5", json!({})),
        in_lane("b", "early", "true", json!({})),
        in_lane("b", "late", "true", json!({"not_before_ns": 300 * NS_PER_MS})),
        in_lane("b", "at-once", "true", json!({"not_before_ns": 100 * NS_PER_MS})),
    ])
    .run();

    let start_ns = monotonic_ns(recorded.event("step_start", "long"));
    let late_ns = monotonic_ns(recorded.event("step_start", "late")) - start_ns;
    assert!(late_ns >= 290 * NS_PER_MS, "{late_ns}");
    assert_eq!(recorded.steps("step_end"), ["early", "late", "at-once", "long"]);
}

#[test]
fn a_step_that_fails_ends_the_other_lanes_and_everything_is_undone() {
    let undo = |name: &str| command(&format!("echo {name} >> ${{here}}/undone"), json!({}));
    let long = "echo $$$$ > pid.new; mv pid.new pid; exec sleep 1000";
    let trial = Trial::new(vec![
        in_lane("a", "long", long, json!({"undo": undo("long")})),
        in_lane("a", "never", "true", json!({})),
        in_lane("b", "fails", &format!("{}; exit 3", until("pid")), json!({"undo": undo("fails")})),
        step("after", "true", json!({})),
    ]);

    let recorded = trial.run();

    assert_eq!(recorded.exit_code, Some(1));
    assert_eq!(recorded.steps("step_start"), ["long", "fails"]);
    assert_eq!(
        (&recorded.end()["outcome"], &recorded.end()["failed_step"]),
        (&json!("failed"), &json!("fails"))
    );
    assert!(recorded.reason().starts_with("exit code 3, expected 0"), "{}", recorded.reason());
    let long = recorded.event("step_end", "long");
    assert_eq!(long["outcome"], "interrupted");
    assert_eq!(long["error"], "the step fails, which ran beside it, failed");
    assert!(!is_alive(&trial.text("pid")));
    assert_eq!(trial.text("undone"), "fails\nlong\n");
}

#[test]
fn a_step_that_reaches_its_limit_ends_the_other_lanes() {
    let recorded = Trial::new(vec![
        in_lane("a", "other", "sleep 1000", json!({})),
        in_lane("b", "slow", "sleep 1000", json!({"time_limit_ns": 200 * NS_PER_MS})),
    ])
    .run();

    assert_eq!(recorded.event("step_end", "slow")["outcome"], "timeout");
    assert_eq!(recorded.event("step_end", "other")["outcome"], "interrupted");
    assert_eq!(recorded.end()["failed_step"], "slow");
    assert_eq!(recorded.reason(), "the time limit of 0.2 s was reached");
}

#[test]
fn a_signal_ends_all_lanes() {
    let script = |name: &str| format!("echo $$$$ > {name}.new; mv {name}.new {name}; exec sleep 1000");
    let trial = Trial::new(vec![
        in_lane("a", "one", &script("one"), json!({})),
        in_lane("b", "two", &script("two"), json!({})),
    ]);
    let running = trial.start();
    running.await_file("one");
    running.await_file("two");

    running.signal(Signal::SIGTERM);
    let recorded = running.finish();

    assert_eq!(recorded.exit_code, Some(143));
    assert_eq!(recorded.end()["outcome"], "interrupted");
    for step in ["one", "two"] {
        assert_eq!(recorded.event("step_end", step)["outcome"], "interrupted");
        assert!(!is_alive(&trial.text(step)));
    }
}

#[test]
fn services_in_two_lanes_wait_for_their_readiness_beside_one_another() {
    let service = |up: &str| {
        let ready = command(&format!("test -e ${{here}}/{up}"), json!({}));
        json!({"background": true, "ready": ready, "ready_interval_ns": 10 * NS_PER_MS})
    };
    // Each is ready only after the other has been asked: were one waited for alone, neither would be.
    let recorded = Trial::new(vec![
        in_lane(
            "a",
            "server-a",
            &format!("touch a; {}; touch a-up; exec sleep 1000", until("b")),
            service("a-up"),
        ),
        in_lane("a", "client-a", "test -e a-up", json!({})),
        in_lane(
            "b",
            "server-b",
            &format!("touch b; {}; touch b-up; exec sleep 1000", until("a")),
            service("b-up"),
        ),
        in_lane("b", "client-b", "test -e b-up", json!({})),
        step("after", "test -e a-up && test -e b-up", json!({"cwd": "${here}"})),
    ])
    .run();

    assert_eq!(recorded.exit_code, Some(0), "{:#?}", recorded.events);
    assert_eq!(recorded.of_type("step_ready").len(), 2);
    assert_eq!(recorded.event("step_end", "server-a")["outcome"], "ok");
    assert_eq!(recorded.event("step_end", "server-b")["outcome"], "ok");
}

#[test]
fn a_service_that_does_not_get_ready_ends_the_other_lanes() {
    let ready = command("echo asleep; false", json!({}));
    let fields = json!({"background": true, "ready": ready, "ready_interval_ns": 20 * NS_PER_MS, "time_limit_ns": 200 * NS_PER_MS});
    let recorded = Trial::new(vec![
        in_lane("a", "server", "exec sleep 1000", fields),
        in_lane("b", "other", "sleep 1000", json!({})),
    ])
    .run();

    assert!(recorded.reason().starts_with("not ready within 0.2 s: "), "{}", recorded.reason());
    assert_eq!(recorded.end()["failed_step"], "server");
    assert_eq!(recorded.event("step_end", "other")["outcome"], "interrupted");
}

#[test]
fn a_service_that_ends_early_ends_all_lanes() {
    let recorded = Trial::new(vec![
        in_lane("a", "server", &format!("{}; exit 7", until("started")), json!({"background": true})),
        in_lane("a", "client", "sleep 1000", json!({})),
        in_lane("b", "other", "touch started; sleep 1000", json!({})),
    ])
    .run();

    assert_eq!(recorded.end()["failed_step"], "server");
    assert_eq!(recorded.event("step_end", "client")["outcome"], "interrupted");
    assert_eq!(recorded.event("step_end", "other")["outcome"], "interrupted");
}

#[test]
fn a_lanes_end_spares_what_other_lanes_have_started() {
    let background = "(sh -c 'echo $$$$ > in-session.new; mv in-session.new in-session; exec sleep 1000' &); \
        (setsid sh -c 'echo $$$$ > far.new; mv far.new far; exec sleep 1000' &)";
    let look = "kill -0 $$(cat in-session) && kill -0 $$(cat far) && echo alive";
    let trial = Trial::new(vec![
        in_lane("a", "long", &format!("{background}; {}; {look}", until("ended")), json!({})),
        in_lane("b", "short", &format!("{}; {}", until("in-session"), until("far")), json!({})),
        in_lane("b", "tell", "touch ended", json!({})),
        step(
            "after",
            "kill -0 $$(cat in-session) || kill -0 $$(cat far) || echo gone",
            json!({"cwd": "${here}"}),
        ),
    ]);

    let recorded = trial.run();

    assert_eq!(recorded.output("long", "stdout"), "alive\n", "{:#?}", recorded.events);
    assert_eq!(recorded.output("after", "stdout"), "gone\n");
}

#[test]
fn a_lanes_strays_are_ended_at_its_steps_end_though_others_run() {
    let stray = "(sleep 1000 & echo $$! > stray.new); mv stray.new stray";
    let trial = Trial::new(vec![
        in_lane("a", "long", &until("looked"), json!({})),
        in_lane("b", "leaves", stray, json!({})),
        in_lane("b", "look", "kill -0 $$(cat stray) 2>/dev/null || echo gone; touch looked", json!({})),
    ]);

    let recorded = trial.run();

    assert_eq!(recorded.output("look", "stdout"), "gone\n", "{:#?}", recorded.events);
}

#[test]
fn binding_and_taking_down_work_in_a_lane() {
    let undo = command("echo ${volume} >> ${here}/undone", json!({}));
    let print = "cat > /dev/null; echo";
    let trial = Trial::new(vec![
        in_lane("a", "one", &format!("{print} first"), json!({"binds": "volume", "undo": undo})),
        in_lane("a", "use", "echo used ${volume}", json!({})),
        in_lane(
            "a",
            "two",
            &format!("{print} second"),
            json!({"binds": "volume", "undo": undo, "takes_down": ["one"]}),
        ),
        in_lane(
            "b",
            "other",
            "sleep 0.2",
            json!({"collect": [{"name": "note", "path": "${here}/plan.json"}]}),
        ),
        step("after", "echo ${volume}", json!({})),
    ]);

    let recorded = trial.run();

    assert_eq!(recorded.exit_code, Some(0), "{:#?}", recorded.events);
    assert_eq!(recorded.output("use", "stdout"), "used first\n");
    assert_eq!(recorded.output("after", "stdout"), "second\n");
    assert_eq!(trial.text("undone"), "first\nsecond\n");
    assert!(!recorded.of_type("file").is_empty());
}

#[test]
fn a_sample_at_the_interval_names_its_step_only_if_that_runs_alone() {
    let recorded = Trial::new(vec![
        in_lane("a", "long", "sleep 0.6", json!({})),
        in_lane("b", "short", "sleep 0.3", json!({})),
    ])
    .with(json!({"monitors": {"interval_ns": 50 * NS_PER_MS, "disks": []}}))
    .run();

    let short_seq = recorded.event("step_end", "short")["seq"].as_u64();
    let samples = recorded.of_type("sample");
    let at =
        |when: &str| samples.iter().filter(|event| event["at"] == when).copied().collect::<Vec<&Value>>();
    let (beside, alone): (Vec<&Value>, Vec<&Value>) =
        at("interval").into_iter().partition(|event| event["seq"].as_u64() < short_seq);
    assert!(beside.iter().all(|event| event["step"].is_null()) && !beside.is_empty(), "{beside:?}");
    assert!(alone.iter().any(|event| event["step"] == "long"), "{alone:?}");
    let ends: Vec<_> = at("step_end").iter().map(|event| event["step"].clone()).collect();
    assert_eq!(ends, [json!("short"), json!("long")]);
}

#[test]
fn lanes_that_use_one_anothers_variables_or_steps_are_mistakes() {
    let recorded = Trial::new(vec![
        in_lane("a", "one", "echo x", json!({"binds": "volume"})),
        in_lane("b", "two", "echo ${volume}", json!({"takes_down": ["one"]})),
        in_lane("b", "three", "echo y", json!({"binds": "volume"})),
        in_lane("Not kebab", "four", "true", json!({})),
        step("five", "true", json!({"not_before_ns": NS_PER_S})),
        step("six", "echo ${volume}", json!({"takes_down": ["one"]})),
    ])
    .run();

    assert_eq!(recorded.end()["outcome"], "bad_plan");
    for mistake in [
        "unknown variable ${volume}",
        "\"one\" is of a lane that runs beside it",
        "the variable \"volume\" is bound by a lane that runs beside it",
        "steps[3] (four).lane: not in kebab case",
        "only a step with a lane has it",
    ] {
        assert!(recorded.reason().contains(mistake), "{mistake} in {}", recorded.reason());
    }
    assert!(!recorded.reason().contains("(six)"), "{}", recorded.reason());
}

#[test]
fn windows_end_together_as_soon_as_each_of_them_is_known() {
    let tells = "for i in $$(seq 30); do echo strata-interval 100 5000 >&2; done";
    let own = format!("trap 'echo summary; exit 0' INT; {tells}; sleep 20 & wait");
    let until =
        |of: &str| json!({"phase": "measure", "until": {"of": of, "share": 0.01, "after_ns": NS_PER_S / 5}});
    let ready = command("true", json!({}));
    let service = json!({"phase": "warmup", "background": true, "ready": ready});
    let recorded = Trial::new(vec![
        step("service", &format!("sleep 0.3; {tells}; sleep 20"), service),
        in_lane("a", "own", &own, until("own")),
        in_lane("b", "other", "exec sleep 20", until("service")),
        step(
            "alone",
            tells,
            json!({"phase": "measure", "until": {"of": "alone", "share": 0.01, "after_ns": 300 * NS_PER_S}}),
        ),
    ])
    .run();

    assert_eq!(recorded.exit_code, Some(0), "{:#?}", recorded.events);
    assert_eq!(recorded.output("own", "stdout"), "summary\n");
    assert_eq!(recorded.event("step_end", "other")["signal"], "SIGINT");
    for id in ["own", "other"] {
        let found = recorded.event("precision", id);
        assert_eq!(found["known"], true);
        assert!(found["look"]["intervals"].as_u64() >= Some(25), "{found}");
        assert!(recorded.event("step_end", id)["duration_ns"].as_u64().unwrap() < 10 * NS_PER_S);
    }
    // It ended by itself.
    assert_eq!(recorded.event("precision", "alone")["known"], false);
}
