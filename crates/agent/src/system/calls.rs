// SPDX-License-Identifier: Apache-2.0
//! Results of system calls, as errors in words.

use std::io;

/// A failed system call, in words.
pub fn failed<E: Into<io::Error>>(what: &str) -> impl FnOnce(E) -> String + '_ {
    move |error| format!("{what}: {}", error.into())
}

/// The result of a system call that answers -1 when it fails.
pub fn checked(result: libc::c_long) -> io::Result<libc::c_long> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
