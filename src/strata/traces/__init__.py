# SPDX-License-Identifier: Apache-2.0
"""Requests of disks, recorded one by one: Strata's own table, and the formats of other programs."""
