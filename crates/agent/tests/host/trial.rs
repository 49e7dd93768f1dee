// SPDX-License-Identifier: Apache-2.0
//! A plan in a folder of its own, the agent that executes it, and its events.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

pub const NS_PER_MS: u64 = 1_000_000;
pub const NS_PER_S: u64 = 1000 * NS_PER_MS;

/// The name of the user who runs the tests.
pub fn current_user() -> String {
    let uid = geteuid().to_string();
    let passwd = fs::read_to_string("/etc/passwd").unwrap();
    let mut users = passwd.lines().map(|line| line.split(':').collect::<Vec<_>>());
    users.find(|fields| fields[2] == uid).expect("whoever runs the tests is in /etc/passwd")[0].to_owned()
}

/// A program of a plan: a shell script. `fields` are further keys.
pub fn command(script: &str, fields: Value) -> Value {
    let mut all = json!({"argv": ["sh", "-c", script], "user": current_user()});
    merge(&mut all, fields);
    all
}

/// A step of phase `build`.
pub fn step(id: &str, script: &str, fields: Value) -> Value {
    let mut all = command(script, json!({"id": id, "phase": "build", "title": format!("Step {id}")}));
    merge(&mut all, fields);
    all
}

fn merge(object: &mut Value, fields: Value) {
    let more: Map<String, Value> = serde_json::from_value(fields).unwrap();
    object.as_object_mut().unwrap().extend(more);
}

pub struct Trial {
    pub folder: TempDir,
    pub plan: Value,
    pub bindings: Value,
}

impl Trial {
    /// A plan of these steps. `${here}` is a folder of the trial's own.
    pub fn new(steps: Vec<Value>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let plan = json!({
            "plan_version": 1,
            "trial": {"study": "tests", "stack": "none", "workload": "shell", "seed": 1, "id": "none.shell.s1"},
            "devices": [],
            "variables": ["here"],
            "environment": {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            "monitors": {"interval_ns": 100 * NS_PER_S, "disks": []},
            "time_limit_ns": 300 * NS_PER_S,
            "steps": Value::Array(steps),
        });
        let bindings = json!({"runner": "host", "variables": {"here": folder.path()}});
        Self { folder, plan, bindings }
    }

    pub fn with(mut self, fields: Value) -> Self {
        merge(&mut self.plan, fields);
        self
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// The agent's command line for this trial.
    pub fn agent(&self, action: &str) -> Command {
        fs::write(self.path("plan.json"), self.plan.to_string()).unwrap();
        fs::write(self.path("bindings.json"), self.bindings.to_string()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_strata-agent"));
        command.arg(action).arg("--plan").arg(self.path("plan.json"));
        command.arg("--bindings").arg(self.path("bindings.json"));
        command.stdin(Stdio::null());
        command
    }

    pub fn run(&self) -> Recorded {
        let output = self.agent("run").arg("--events").arg(self.path("events")).output().unwrap();
        self.recorded(&output)
    }

    pub fn start(&self) -> Running<'_> {
        let mut command = self.agent("run");
        command.arg("--events").arg(self.path("events")).stdout(Stdio::piped()).stderr(Stdio::piped());
        Running { trial: self, child: command.spawn().unwrap() }
    }

    fn recorded(&self, output: &Output) -> Recorded {
        Recorded::new(&fs::read(self.path("events")).unwrap(), output)
    }
}

/// An agent at work.
pub struct Running<'a> {
    trial: &'a Trial,
    child: Child,
}

impl Running<'_> {
    /// Wait until a step has made the file `name`.
    pub fn await_file(&self, name: &str) {
        await_that(&format!("{name} appears"), || self.trial.path(name).exists());
    }

    /// Whether the agent takes the signal itself by now, instead of being ended by it.
    pub fn takes(&self, signal: Signal) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let blocked = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).unwrap_or("0");
        u64::from_str_radix(blocked.trim(), 16).unwrap_or(0) >> (signal as i32 - 1) & 1 == 1
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id().try_into().unwrap()), signal).unwrap();
    }

    pub fn finish(self) -> Recorded {
        let output = self.child.wait_with_output().unwrap();
        self.trial.recorded(&output)
    }
}

/// Wait for a condition; fail after an unreasonable time.
pub fn await_that(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process is there and no zombie.
pub fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.trim()).join("stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| !rest.trim().is_empty() && !rest.trim().starts_with('Z'))
}

/// An agent's events.
pub struct Recorded {
    pub events: Vec<Value>,
    pub exit_code: Option<i32>,
    pub stderr: String,
}

impl Recorded {
    pub fn new(events: &[u8], output: &Output) -> Self {
        let text = std::str::from_utf8(events).unwrap();
        Self {
            events: text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
            exit_code: output.status.code(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    pub fn of_type(&self, kind: &str) -> Vec<&Value> {
        self.events.iter().filter(|event| event["type"] == kind).collect()
    }

    /// The steps of the events of this type, in order.
    pub fn steps(&self, kind: &str) -> Vec<&str> {
        self.of_type(kind).iter().map(|event| event["step"].as_str().unwrap()).collect()
    }

    /// The events of these types, in order: the type and the step.
    pub fn order(&self, kinds: &[&str]) -> Vec<String> {
        let names =
            self.events.iter().filter_map(|event| Some((event["type"].as_str()?, event["step"].as_str()?)));
        names.filter(|(kind, _)| kinds.contains(kind)).map(|(kind, step)| format!("{kind} {step}")).collect()
    }

    /// The one event of this type for a step.
    pub fn event(&self, kind: &str, step: &str) -> &Value {
        let found: Vec<_> = self.of_type(kind).into_iter().filter(|event| event["step"] == step).collect();
        assert_eq!(found.len(), 1, "{kind} of {step} in {:#?}", self.events);
        found[0]
    }

    /// A step's text on a stream.
    pub fn output(&self, step: &str, stream: &str) -> String {
        let events = self.of_type("output");
        let events = events.iter().filter(|event| event["step"] == step && event["stream"] == stream);
        events.map(|event| event["text"].as_str().unwrap()).collect()
    }

    /// The last event, which must be the agent's end.
    pub fn end(&self) -> &Value {
        let last = self.events.last().unwrap();
        assert_eq!(last["type"], "agent_end", "{:#?}", self.events);
        last
    }

    pub fn reason(&self) -> &str {
        self.end()["reason"].as_str().unwrap_or_default()
    }
}
