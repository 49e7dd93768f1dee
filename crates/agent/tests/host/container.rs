// SPDX-License-Identifier: Apache-2.0
//! The agent that serves at its standard input and output, as it does in a container, and programs that it runs.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

const AGENT: &str = env!("CARGO_BIN_EXE_strata-agent");

fn started(socket: &Path) -> Child {
    let serving =
        ["machine", "start", "--container", socket.to_str().unwrap(), "--", AGENT, "machine", "serve"];
    let child = Command::new(AGENT).args(serving).spawn().unwrap();
    while !socket.exists() {
        sleep(Duration::from_millis(10));
    }
    child
}

fn run(socket: &Path, script: &str) -> Output {
    run_as(socket, &json!(null), script)
}

fn run_as(socket: &Path, user: &Value, script: &str) -> Output {
    let program = json!({
        "argv": ["sh", "-c", script], "environment": {"PATH": "/usr/bin:/bin", "WORD": "seen"}, "user": user,
        "cwd": "/", "stdin": "given", "time_limit_ns": 60_000_000_000_u64, "expect_exit": [0], "cgroup": null,
    });
    let mut child = Command::new(AGENT)
        .args(["machine", "run", socket.to_str().unwrap()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(program.to_string().as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn a_program_in_a_container_ends_as_it_does_there() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("container.sock");
    let mut outside = started(&socket);

    let ended = run(&socket, "cat; echo $WORD; echo wrong >&2; exit 3");
    let killed = run(&socket, "kill -KILL $$");

    assert_eq!(
        (ended.status.code(), &ended.stdout[..], &ended.stderr[..]),
        (Some(3), &b"givenseen\n"[..], &b"wrong\n"[..])
    );
    assert_eq!(killed.status.code(), None);
    kill(Pid::from_raw(outside.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    assert!(outside.wait().unwrap().success());
    assert!(!socket.exists());
}

#[test]
fn a_container_that_ends_by_itself_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("container.sock");

    let starting = ["machine", "start", "--container", socket.to_str().unwrap(), "--", "false"];
    let ended = Command::new(AGENT).args(starting).output().unwrap();

    assert!(!ended.status.success());
    assert!(String::from_utf8_lossy(&ended.stderr).contains("ended by itself"), "{ended:?}");
}

#[test]
fn a_user_is_the_containers_own() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("container.sock");
    let mut outside = started(&socket);
    let user = json!({"name": "no-such-user", "uid": 65534, "gid": 65534, "groups": []});

    let ended = run_as(&socket, &user, "id");

    assert_eq!(ended.status.code(), Some(127));
    assert!(
        String::from_utf8_lossy(&ended.stderr).contains("there is no user \"no-such-user\""),
        "{ended:?}"
    );
    kill(Pid::from_raw(outside.id().try_into().unwrap()), Signal::SIGTERM).unwrap();
    assert!(outside.wait().unwrap().success());
}
