// SPDX-License-Identifier: Apache-2.0
//! Whether this is a lab, and the variables that its kernel gives to every program.

use std::env;
use std::ffi::OsString;

use nix::unistd::Pid;

/// Whether the kernel started us from an initramfs.
///
/// Both signs are required, because the lab ends in a power-off: a container's first process is
/// PID 1, too, and a copy of the agent named /init may be tried by hand.
pub fn is_lab() -> bool {
    Pid::this().as_raw() == 1 && env::args_os().next().is_some_and(|name| name == "/init")
}

/// The variables that the kernel gives to every program of a lab: how libraries choose their functions.
pub fn given() -> Vec<(&'static str, OsString)> {
    if is_lab() { chosen_functions() } else { Vec::new() }
}

/// The variables by which libraries choose their functions.
pub fn chosen_functions() -> Vec<(&'static str, OsString)> {
    const NAMES: [&str; 2] = ["GLIBC_TUNABLES", "OPENSSL_ia32cap"];
    NAMES.into_iter().filter_map(|name| Some((name, env::var_os(name)?))).collect()
}
