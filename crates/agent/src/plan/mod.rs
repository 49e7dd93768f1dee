// SPDX-License-Identifier: Apache-2.0
//! The plan, from its file to steps that are ready to be carried out.

pub mod bindings;
pub mod format;
pub mod program;
pub mod resolve;
pub mod variables;
