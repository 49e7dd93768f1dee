// SPDX-License-Identifier: Apache-2.0
//! Loads a filesystem: filebench's personalities, blogbench, fill and fragment, storms of small files.

#[cfg(test)]
mod allocations;
mod blog;
mod buffer;
mod calls;
mod clock;
mod command_line;
mod data;
mod extents;
mod faults;
mod files;
mod folder;
mod fragment;
mod kernel_work;
mod list;
mod personality;
mod random;
mod replay;
mod report;
mod storm;
mod threads;

use std::process::ExitCode;

fn main() -> ExitCode {
    command_line::main()
}
