// SPDX-License-Identifier: Apache-2.0
//! A plan made ready to execute: variables replaced, users looked up, nothing left that can be wrong in its text.

use std::collections::BTreeMap;

use nix::sys::signal::Signal;

use crate::plan::{Collect, Phase};
use crate::users::User;

/// One program to run.
#[derive(Debug, Clone)]
pub struct Program {
    pub argv: Vec<String>,
    /// Complete: nothing is inherited.
    pub environment: BTreeMap<String, String>,
    /// None when the agent is that user already and cannot be another.
    pub user: Option<User>,
    pub cwd: String,
    pub stdin: Option<String>,
    pub time_limit_ns: u64,
    pub expect_exit: Vec<i32>,
}

/// A step that is started, waited for until it is ready, and stopped at teardown.
#[derive(Debug, Clone)]
pub struct Background {
    pub ready: Option<Program>,
    pub ready_interval_ns: u64,
    pub stop_signal: Signal,
    pub stop_limit_ns: u64,
}

#[derive(Debug, Clone)]
pub struct Step {
    pub id: String,
    pub phase: Phase,
    pub program: Program,
    pub background: Option<Background>,
    pub collect: Vec<Collect>,
    pub output_limit_bytes: u64,
    pub undo: Option<Program>,
}

/// A disk to monitor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    pub name: String,
    /// Its name in `/sys/block`.
    pub stat_name: String,
}

#[derive(Debug)]
pub struct ReadyPlan {
    pub environment: BTreeMap<String, String>,
    pub variables: BTreeMap<String, String>,
    pub disks: Vec<Disk>,
    pub interval_ns: u64,
    pub time_limit_ns: u64,
    pub steps: Vec<Step>,
}
