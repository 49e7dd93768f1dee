# SPDX-License-Identifier: Apache-2.0
"""List layers, workloads, devices, processors, uses or disks.

A name after the kind shows one of them in full.

Examples:
    strata list layers
    strata list workloads pgbench
    strata list devices wd-re4-500gb
    sudo strata list disks
"""
