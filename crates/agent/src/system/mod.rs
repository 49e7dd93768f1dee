// SPDX-License-Identifier: Apache-2.0
//! What the agent asks of the operating system, whatever it is used for.

pub mod calls;
pub mod cgroup;
pub mod clock;
pub mod environment;
pub mod faults;
pub mod signals;
pub mod users;
