// SPDX-License-Identifier: Apache-2.0
//! Extents per file.

use clap::Args;

use crate::faults::LoadError;

#[derive(Args)]
pub struct Options {}

#[expect(clippy::unnecessary_wraps, reason = "until it is written")]
/// Run the subcommand; the result goes to the standard output.
pub fn run(_options: &Options) -> Result<(), LoadError> {
    Ok(())
}
