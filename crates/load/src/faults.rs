// SPDX-License-Identifier: Apache-2.0
//! Errors: all of the user's mistakes at once, and the filesystem's.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use thiserror::Error;

/// One mistake or failure: cause, place, remedy.
#[derive(Debug, Error, PartialEq, Eq, Clone)]
#[error("{place}: {cause}\n  {remedy}")]
pub struct Fault {
    /// Where: `fileserver.toml: loop[2].bytes`, `--rate`, `/mnt/files/0/17`.
    pub place: String,
    pub cause: String,
    pub remedy: String,
}

impl Fault {
    pub fn new(place: impl Into<String>, cause: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { place: place.into(), cause: cause.into(), remedy: remedy.into() }
    }

    /// An error of the filesystem; `what` failed ("the file cannot be opened").
    pub fn of_file(path: &Path, what: &str, error: impl fmt::Display) -> Self {
        Self::new(
            path.display().to_string(),
            format!("{what}: {error}"),
            "see the filesystem's error, and start again on an empty folder",
        )
    }
}

/// Why a command ends without a result.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The user's mistakes: exit code 2.
    #[error("{}", join(.0))]
    Input(Vec<Fault>),
    /// The filesystem's answer: exit code 1.
    #[error("{0}")]
    World(Fault),
}

impl From<Fault> for LoadError {
    fn from(fault: Fault) -> Self {
        Self::World(fault)
    }
}

impl LoadError {
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Input(_) => 2,
            Self::World(_) => 1,
        }
    }
}

fn join(faults: &[Fault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// Tell a person, on the standard error; a failure to write is ignored.
pub fn complain(error: &LoadError) {
    for line in error.to_string().lines() {
        let _ = writeln!(io::stderr(), "strata-load: {line}");
    }
}
