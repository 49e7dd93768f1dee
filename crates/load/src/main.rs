// SPDX-License-Identifier: Apache-2.0
//! Loads a filesystem: filebench's personalities, blogbench, fill and fragment, storms of small files.

#[cfg(test)]
mod allocations;
mod blog;
mod buffer;
mod clock;
mod command_line;
mod data;
mod definition;
mod durable;
mod extents;
mod faults;
mod file_set;
mod files;
mod folder;
mod fragment;
mod gamma;
mod kept;
mod kernel;
mod keys;
mod measured;
mod options;
mod personality;
mod prepare;
mod random;
mod replay;
mod report;
mod session;
mod shared;
mod storm;
mod threads;
mod trace;
mod tree;
mod worker;

use std::process::ExitCode;

fn main() -> ExitCode {
    command_line::main()
}
