// SPDX-License-Identifier: Apache-2.0
//! The plan as it stands in its file; docs/reference/plan-format.md describes it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::system::clock::{NS_PER_MS, NS_PER_S};
use crate::system::faults::Fault;

/// Of the plan format (docs/reference/plan-format.md).
pub const PLAN_VERSION: u64 = 1;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "keys of the format that runners use")]
pub struct Plan {
    pub plan_version: u64,
    pub trial: Trial,
    #[serde(default)]
    pub prerequisites: Prerequisites,
    pub devices: Vec<Device>,
    pub variables: Vec<String>,
    pub environment: BTreeMap<String, String>,
    #[serde(default)]
    pub inputs: Vec<Input>,
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    #[serde(default)]
    pub processor: Vec<String>,
    pub monitors: Monitors,
    pub time_limit_ns: u64,
    pub steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "keys of the format that others read")]
pub struct Trial {
    pub study: String,
    pub stack: String,
    pub workload: String,
    pub seed: u64,
    pub id: String,
}

/// The steps' requirements of the machine.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Prerequisites {
    pub tools: Vec<String>,
    pub modules: Vec<String>,
    pub features: Vec<String>,
    pub packages: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    pub name: String,
    #[expect(dead_code, reason = "a key of the format that others read")]
    pub capacity_bytes: u64,
}

/// A file that the runner provides.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(dead_code, reason = "keys of the format that runners use")]
pub struct Input {
    pub name: String,
    pub source: String,
    #[serde(default)]
    pub sha256: Option<String>,
    #[serde(default)]
    pub kind: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Monitors {
    pub interval_ns: u64,
    pub disks: Vec<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    Build,
    Prepare,
    Alter,
    Warmup,
    Measure,
    Inspect,
}

/// A program to run: a step's `ready` and `undo`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Command {
    pub argv: Vec<String>,
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    #[serde(default = "root")]
    pub user: String,
    #[serde(default = "slash")]
    pub cwd: String,
    #[serde(default)]
    pub stdin: Option<String>,
    #[serde(default = "time_limit_ns")]
    pub time_limit_ns: u64,
    #[serde(default = "expect_exit")]
    pub expect_exit: Vec<i32>,
}

// serde cannot refuse unknown keys of a flattened struct, so a step repeats a command's fields.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    pub id: String,
    pub phase: Phase,
    #[serde(default)]
    #[expect(dead_code, reason = "a key of the format that others read")]
    pub title: String,
    pub argv: Vec<String>,
    #[serde(default)]
    pub environment: BTreeMap<String, String>,
    #[serde(default = "root")]
    pub user: String,
    #[serde(default = "slash")]
    pub cwd: String,
    #[serde(default)]
    pub stdin: Option<String>,
    #[serde(default = "time_limit_ns")]
    pub time_limit_ns: u64,
    #[serde(default = "expect_exit")]
    pub expect_exit: Vec<i32>,
    #[serde(default)]
    pub destroys: Vec<String>,
    #[serde(default)]
    pub background: bool,
    #[serde(default)]
    pub ready: Option<Command>,
    #[serde(default = "ready_interval_ns")]
    pub ready_interval_ns: u64,
    #[serde(default = "stop_signal")]
    pub stop_signal: Option<String>,
    #[serde(default = "stop_limit_ns")]
    pub stop_limit_ns: u64,
    #[serde(default)]
    pub collect: Vec<Collect>,
    #[serde(default = "output_limit_bytes")]
    pub output_limit_bytes: u64,
    #[serde(default)]
    pub undo: Option<Command>,
    #[serde(default)]
    pub binds: Option<String>,
    #[serde(default)]
    pub takes_down: Vec<String>,
    #[serde(default)]
    pub cgroup: Option<String>,
    #[serde(default)]
    pub machine: Option<String>,
    #[serde(default)]
    pub container: bool,
    #[serde(default)]
    pub lane: Option<String>,
    #[serde(default)]
    pub not_before_ns: u64,
    #[serde(default)]
    pub until: Option<Until>,
}

/// When a step has nothing more to tell: `report::precision` has the rule.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Until {
    /// The step whose error output has the intervals: this one, or a service.
    pub of: String,
    /// The half of the 95 % interval, as a share of the mean.
    pub share: f64,
    /// Not earlier after its start.
    pub after_ns: u64,
    /// What it lasts at most; 0: not known.
    #[serde(default)]
    pub window_ns: u64,
}

#[derive(Debug, Clone, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Collect {
    pub name: String,
    pub path: String,
}

// The defaults of src/strata/model/step.py, so that a plan written by hand may be short.
fn root() -> String {
    "root".into()
}
fn slash() -> String {
    "/".into()
}
fn time_limit_ns() -> u64 {
    120 * NS_PER_S
}
fn expect_exit() -> Vec<i32> {
    vec![0]
}
fn ready_interval_ns() -> u64 {
    100 * NS_PER_MS
}
#[expect(clippy::unnecessary_wraps, reason = "the default of a key that may be null")]
fn stop_signal() -> Option<String> {
    Some("TERM".into())
}
fn stop_limit_ns() -> u64 {
    60 * NS_PER_S
}
fn output_limit_bytes() -> u64 {
    16 << 20
}

impl Step {
    /// The program of the step itself.
    pub fn command(&self) -> Command {
        Command {
            argv: self.argv.clone(),
            environment: self.environment.clone(),
            user: self.user.clone(),
            cwd: self.cwd.clone(),
            stdin: self.stdin.clone(),
            time_limit_ns: self.time_limit_ns,
            expect_exit: self.expect_exit.clone(),
        }
    }
}

impl Plan {
    /// Read a plan's bytes; its version first, because another version may have any other form.
    pub fn parse(bytes: &[u8]) -> Result<Self, Fault> {
        let value: Value = serde_json::from_slice(bytes)
            .map_err(|error| Fault::new("plan", format!("not JSON: {error}")))?;
        match value.get("plan_version").map(Value::as_u64) {
            Some(Some(PLAN_VERSION)) => {}
            Some(_) => {
                let found = &value["plan_version"];
                return Err(Fault::new(
                    "plan.plan_version",
                    format!("version {found} is unknown; this agent executes version {PLAN_VERSION}"),
                ));
            }
            None => return Err(Fault::new("plan", "plan_version is missing: not a plan")),
        }
        serde_path_to_error::deserialize(value)
            .map_err(|error| Fault::new(format!("plan.{}", error.path()), error.inner().to_string()))
    }
}

/// Whether two steps, of which the second follows the first, are of one group: by their phases and lanes.
pub fn are_together(step: (Phase, Option<&str>), next: (Phase, Option<&str>)) -> bool {
    step.0 == next.0 && step.1.is_some() && next.1.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_refused_whatever_else_is_in_the_plan() {
        let fault = Plan::parse(br#"{"plan_version": 7, "novel": true}"#).unwrap_err();

        assert_eq!(fault.place, "plan.plan_version");
        assert!(fault.cause.contains("version 7") && fault.cause.contains("version 1"), "{fault}");
    }

    #[test]
    fn a_misspelt_key_is_named_with_its_place() {
        let plan = br#"{"plan_version":1,"trial":{"study":"s","stack":"a","workload":"w","seed":1,"id":"i"},
            "devices":[],"variables":[],"environment":{},"monitors":{"interval_ns":1,"disks":[]},
            "time_limit_ns":1,"steps":[{"id":"a","phase":"build","argv":["true"],"tme_limit_ns":3}]}"#;

        let fault = Plan::parse(plan).unwrap_err();

        assert!(fault.place.starts_with("plan.steps[0]"), "{fault}");
        assert!(fault.cause.contains("tme_limit_ns"), "{fault}");
    }
}
