// SPDX-License-Identifier: Apache-2.0
//! Virtual machines and containers, seen from outside: their processes and the calls into them.

pub mod call;
pub mod host;
pub mod protocol;
