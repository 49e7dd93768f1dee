// SPDX-License-Identifier: Apache-2.0
//! What the agent says: events, and what they are made of.

pub mod collect;
pub mod events;
pub mod monitors;
pub mod output;
pub mod precision;
