// SPDX-License-Identifier: Apache-2.0
//! The agent on this machine: real plans, real processes, as whatever user runs the tests.

mod bound;
mod container;
mod interruption;
mod lanes;
mod lanes_taking_down;
mod leftovers;
mod mistakes;
mod sandbox;
mod services;
mod steps;
mod takes_down;
mod teardown;
mod trial;
