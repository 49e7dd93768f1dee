# SPDX-License-Identifier: Apache-2.0
"""The machine that host trials run on: its state, what disturbs a trial, and the state of its disks."""
