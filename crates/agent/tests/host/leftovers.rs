// SPDX-License-Identifier: Apache-2.0
//! Leftovers on this machine: reported if they are the trial's, and only then.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use nix::unistd::geteuid;
use serde_json::{Value, json};

use crate::trial::{Trial, await_that, command, step};

/// A trial with the folders that runners bind.
fn trial(steps: Vec<Value>) -> Trial {
    let mut trial = Trial::new(steps).with(json!({"variables": ["here", "mount", "scratch", "stack"]}));
    for folder in ["mount", "scratch"] {
        trial.bindings["variables"][folder] = json!(trial.path(folder));
    }
    let name = trial.folder.path().file_name().unwrap().to_str().unwrap().replace('.', "strata_");
    trial.bindings["variables"]["stack"] = json!(name);
    trial
}

/// Whether mounts and loop devices can be made here.
fn can_attach() -> bool {
    geteuid().is_root() && Path::new("/dev/loop-control").exists()
}

fn call(program: &str, arguments: &[&str]) {
    assert!(Command::new(program).args(arguments).status().unwrap().success(), "{program} {arguments:?}");
}

const ATTACH: &str =
    "truncate -s 1M ${scratch}/image; losetup --find --show ${scratch}/image | tee ${here}/loop";

#[test]
fn a_mount_that_stays_is_reported_after_the_teardown() {
    if !can_attach() {
        return;
    }
    let trial = trial(vec![step("mount", "mount -t tmpfs left ${mount}", json!({}))]);

    let recorded = trial.run();
    let mount = trial.path("mount");
    call("umount", &[mount.to_str().unwrap()]);

    assert_eq!((recorded.exit_code, &recorded.end()["outcome"]), (Some(0), &json!("ok")));
    let left = format!("tmpfs from left mounted on {}", mount.display());
    assert_eq!(recorded.end()["left_behind"], json!([left]));
    assert_eq!(recorded.reason(), format!("teardown: left behind: {left}"));
}

#[test]
fn a_mount_in_none_of_the_trials_folders_is_somebody_elses() {
    if !can_attach() {
        return;
    }
    let trial =
        trial(vec![step("mount", "mkdir ${here}/other; mount -t tmpfs none ${here}/other", json!({}))]);

    let recorded = trial.run();
    call("umount", &[trial.path("other").to_str().unwrap()]);

    assert_eq!((&recorded.end()["reason"], &recorded.end()["left_behind"]), (&Value::Null, &json!([])));
}

#[test]
fn a_loop_device_that_stays_is_reported_with_its_file_also_after_a_failure() {
    if !can_attach() {
        return;
    }
    let trial = trial(vec![step("attach", ATTACH, json!({})), step("fail", "exit 1", json!({}))]);

    let recorded = trial.run();
    let device = trial.text("loop").trim().to_owned();
    call("losetup", &["--detach", &device]);

    let name = device.strip_prefix("/dev/").unwrap();
    let file = fs::canonicalize(trial.path("scratch/image")).unwrap();
    let expected = format!("exit code 1, expected 0; teardown: left behind: {name} ({})", file.display());
    assert_eq!(recorded.reason(), expected);
}

#[test]
fn a_device_that_is_released_a_moment_later_is_not_left_behind() {
    if !can_attach() {
        return;
    }
    let undo = command("losetup --detach $$(cat ${here}/loop); touch ${here}/detached", json!({}));
    let trial = trial(vec![
        step("attach", ATTACH, json!({"undo": undo})),
        step("hold", "touch ${here}/attached; until [ -e ${here}/held ]; do sleep 0.01; done", json!({})),
    ]);
    let running = trial.start();
    running.await_file("attached");

    // The kernel detaches it when the last user closes it.
    let held = File::open(trial.text("loop").trim()).unwrap();
    fs::write(trial.path("held"), "").unwrap();
    await_that("it is detached", || trial.path("detached").exists());
    std::thread::sleep(Duration::from_millis(300));
    drop(held);
    let recorded = running.finish();

    assert_eq!((recorded.exit_code, &recorded.end()["reason"]), (Some(0), &Value::Null));
}

#[test]
fn the_failing_undo_of_a_step_that_failed_itself_is_no_complaint() {
    let undo = command("echo not mounted >&2; exit 32", json!({}));
    let recorded = Trial::new(vec![step("mount", "exit 1", json!({"undo": undo}))]).run();

    assert_eq!(recorded.event("undo_end", "mount")["outcome"], "failed");
    assert_eq!(recorded.output("mount", "undo_stderr"), "not mounted\n");
    assert_eq!(recorded.reason(), "exit code 1, expected 0");
}
