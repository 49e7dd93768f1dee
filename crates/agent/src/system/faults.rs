// SPDX-License-Identifier: Apache-2.0
//! Mistakes in a plan or its bindings, with their places, reported all at once.

use std::io::{self, Write};

use thiserror::Error;

/// One mistake.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{place}: {cause}")]
pub struct Fault {
    /// Where: `steps[2] (fio-measure).argv[1]`.
    pub place: String,
    pub cause: String,
}

impl Fault {
    pub fn new(place: impl Into<String>, cause: impl Into<String>) -> Self {
        Self { place: place.into(), cause: cause.into() }
    }
}

/// Tell a person, on the standard error; a failure to write is ignored.
pub fn complain(cause: &str) {
    let _ = writeln!(io::stderr(), "strata-agent: {cause}");
}

/// Every mistake that was found, as one line.
pub fn describe(faults: &[Fault]) -> String {
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
