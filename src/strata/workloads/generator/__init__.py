# SPDX-License-Identifier: Apache-2.0
"""The workloads that run Strata's own load generator (crates/load)."""
