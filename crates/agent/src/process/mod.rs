// SPDX-License-Identifier: Apache-2.0
//! Programs: started, watched, limited and ended.

pub mod child;
pub mod kill;
pub mod limit;
pub mod supervise;
pub mod table;
