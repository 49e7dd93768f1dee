// SPDX-License-Identifier: Apache-2.0
//! Loads a filesystem: filebench's personalities, blogbench, fill and fragment, storms of small files.

#![allow(dead_code, reason = "until every part is written")]

mod blog;
mod clock;
mod command_line;
mod data;
mod definition;
mod extents;
mod faults;
mod files;
mod fragment;
mod gamma;
mod keys;
mod personality;
mod random;
mod report;
mod stock;
mod storm;
mod trace;
mod tree;

use std::process::ExitCode;

fn main() -> ExitCode {
    command_line::main()
}
