// SPDX-License-Identifier: Apache-2.0
//! The signals that end a plan.

use nix::sys::signal::Signal;

/// Signals that end the plan and start the teardown.
pub const INTERRUPTS: [Signal; 3] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP];
