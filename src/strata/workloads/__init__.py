# SPDX-License-Identifier: Apache-2.0
"""The workloads: one file each, found by `strata.plan.catalogue`."""
