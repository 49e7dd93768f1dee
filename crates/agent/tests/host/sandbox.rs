// SPDX-License-Identifier: Apache-2.0
//! A plan in a sandbox: everything outside stays unchanged, and the sandbox is gone at the end.

use std::fs;
use std::path::{Path, PathBuf};

use nix::sys::signal::Signal;
use nix::unistd::geteuid;
use serde_json::{Value, json};

use crate::trial::{Trial, await_that, is_alive, step};

/// A trial with the folders that a runner makes; None where no sandbox can be made.
fn trial(steps: Vec<Value>) -> Option<Trial> {
    let groups = fs::read_to_string("/proc/self/mountinfo").unwrap().contains(" - cgroup2 ");
    if !geteuid().is_root() || !groups {
        return None;
    }
    let mut trial = Trial::new(steps).with(json!({"variables": ["here", "inner"]}));
    for folder in ["inner", "view"] {
        fs::create_dir(trial.path(folder)).unwrap();
    }
    let here = trial.folder.path().file_name().unwrap().to_str().unwrap().replace('.', "strata_");
    trial.bindings["variables"]["inner"] = json!(trial.path("inner"));
    trial.bindings["sandbox"] = json!({"folder": trial.path("inner"), "root": trial.path("view"), "stack": here, "filesystems": ["tmpfs"]});
    Some(trial)
}

fn group(trial: &Trial) -> PathBuf {
    let name = trial.bindings["sandbox"]["stack"].as_str().unwrap();
    let places = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"].map(Path::new);
    places.into_iter().find(|place| place.join("cgroup.procs").exists()).unwrap().join(name)
}

/// The process of a step that sleeps. What a step writes cannot be seen from outside.
fn sleeper(trial: &Trial) -> Option<String> {
    let processes = fs::read_to_string(group(trial).join("steps/cgroup.procs")).ok()?;
    let sleeps = |pid: &&str| fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|it| it == "sleep\n");
    processes.lines().find(sleeps).map(str::to_owned)
}

#[test]
fn a_step_writes_to_its_folder_and_nowhere_else() {
    let Some(trial) = trial(vec![
        step("inside", "echo x > ${inner}/file; cat ${inner}/file", json!({})),
        step("outside", "echo x > ${here}/file; echo x > /etc/strata-x", json!({"expect_exit": [1, 2]})),
        step("first", "test $$PPID = 1 && test -z \"$$(ls /run)\"", json!({})),
    ]) else {
        return;
    };

    let recorded = trial.run();

    assert_eq!(recorded.reason(), "");
    assert_eq!(recorded.output("inside", "stdout"), "x\n");
    assert!(!trial.path("inner/file").exists(), "it is in memory");
    assert!(!trial.path("file").exists() && !Path::new("/etc/strata-x").exists());
    assert!(!group(&trial).exists());
}

#[test]
fn a_step_mounts_in_its_folder_what_the_plan_needs_and_no_more() {
    let refused = json!({"expect_exit": [32]});
    let Some(trial) = trial(vec![
        step("mount", "mkdir ${inner}/m; mount -t tmpfs -o size=1m none ${inner}/m", json!({})),
        step("resize", "mount -o remount,size=2m ${inner}/m", json!({})),
        step("unmount", "grep ' ${inner}/m .*size=2048k' /proc/mounts && umount ${inner}/m", json!({})),
        step("proc", "mount -t proc none ${inner}/m", refused.clone()),
        step("elsewhere", "mount -t tmpfs none /etc", refused.clone()),
        step("bind", "mount --bind /etc ${inner}/m", refused.clone()),
        step("again", "mount -o remount,rw /etc", refused),
    ]) else {
        return;
    };

    let recorded = trial.run();

    assert_eq!(recorded.reason(), "");
}

#[test]
fn an_agent_that_is_killed_takes_all_of_the_inside_with_it() {
    let Some(trial) = trial(vec![step("sleep", "setsid sleep 300 & wait", json!({}))]) else { return };
    let running = trial.start();
    await_that("it sleeps", || sleeper(&trial).is_some());
    let procs = fs::read_to_string(group(&trial).join("steps/cgroup.procs")).unwrap();

    running.signal(Signal::SIGKILL);

    await_that("all have ended", || !procs.lines().any(is_alive));
    let removed = || fs::remove_dir(group(&trial).join("steps")).and_then(|()| fs::remove_dir(group(&trial)));
    await_that("the control group is empty", || removed().is_ok());
}

#[test]
fn a_signal_to_the_agent_ends_the_plan_in_order() {
    let undo = crate::trial::command("echo undone", json!({}));
    let Some(trial) = trial(vec![step("sleep", "sleep 300", json!({"undo": undo}))]) else { return };
    let running = trial.start();
    await_that("it sleeps", || sleeper(&trial).is_some());
    await_that("its warden listens", || running.takes(Signal::SIGTERM));

    running.signal(Signal::SIGTERM);
    let recorded = running.finish();

    assert_eq!((recorded.exit_code, &recorded.end()["outcome"]), (Some(128 + 15), &json!("interrupted")));
    assert_eq!(recorded.output("sleep", "undo_stdout"), "undone\n");
    assert!(!group(&trial).exists());
}
