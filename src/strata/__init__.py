# SPDX-License-Identifier: Apache-2.0
"""Strata: which storage stack should hold this workload, on these disks?"""
