# SPDX-License-Identifier: Apache-2.0
"""The storage layers: one file each, found by `strata.plan.catalogue`."""
