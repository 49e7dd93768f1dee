// SPDX-License-Identifier: Apache-2.0
//! The agent as the first process of a lab or of a virtual machine.

pub mod guest;
pub mod init;
pub mod line;
pub mod modules;
pub mod mounts;
pub mod programs;
