// SPDX-License-Identifier: Apache-2.0
//! Executes a Strata plan, as PID 1 of a lab or as a process on a host, and reports events.

mod bindings;
mod cgroup;
mod clock;
mod collect;
mod command_line;
mod ending;
mod events;
mod execute;
mod faults;
mod kill;
mod lab_init;
mod lab_modules;
mod lab_mounts;
mod lab_programs;
mod lab_shell;
mod lanes;
mod leftovers;
mod limit;
mod machine;
mod machine_guest;
mod machine_host;
mod machine_run;
mod monitors;
mod output;
mod plan;
mod process;
mod program;
mod resolve;
mod sandbox;
mod sandbox_container;
mod sandbox_devices;
mod sandbox_filter;
mod sandbox_group;
mod sandbox_kinds;
mod sandbox_mount;
mod sandbox_privileges;
mod sandbox_root;
mod sandbox_warden;
mod service;
mod session;
mod supervise;
mod teardown;
mod users;
mod variables;

use std::process::ExitCode;

fn main() -> ExitCode {
    if lab_init::is_lab() {
        lab_init::boot();
    }
    command_line::main()
}
