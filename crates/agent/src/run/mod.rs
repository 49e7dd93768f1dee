// SPDX-License-Identifier: Apache-2.0
//! Carrying out a plan, from its first step to the last undo.

pub mod ending;
pub mod execute;
pub mod lanes;
pub mod leftovers;
pub mod outcome;
pub mod service;
pub mod session;
pub mod shell;
pub mod teardown;
