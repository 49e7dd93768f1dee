// SPDX-License-Identifier: Apache-2.0
//! Executes a Strata plan, as PID 1 of a lab or as a process on a host, and reports events.
//!
//! A folder uses those before it alone: system, sandbox, plan, report, process, machine, run, lab.

mod lab;
mod machine;
mod plan;
mod process;
mod report;
mod run;
mod sandbox;
mod system;

mod command_line;

use std::process::ExitCode;

fn main() -> ExitCode {
    if system::environment::is_lab() {
        lab::init::boot();
    }
    command_line::main()
}
