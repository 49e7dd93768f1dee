// SPDX-License-Identifier: Apache-2.0
//! The sandbox of a trial on a host: docs/explanation/host-sandbox.md states its guarantees.

pub mod container;
pub mod declared;
pub mod devices;
pub mod enter;
pub mod filter;
pub mod group;
pub mod kinds;
pub mod mount;
pub mod nodes;
pub mod privileges;
pub mod root;
pub mod warden;
