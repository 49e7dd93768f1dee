// SPDX-License-Identifier: Apache-2.0
//! filebench's personalities: their definitions, the files that they need, and the threads that carry them out.

pub mod definition;
pub mod durable;
pub mod file_set;
pub mod gamma;
pub mod kept;
pub mod keys;
pub mod measured;
pub mod options;
pub mod prepare;
pub mod records;
pub mod session;
pub mod shared;
pub mod told;
pub mod trace;
pub mod tree;
pub mod worker;
