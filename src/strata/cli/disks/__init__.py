# SPDX-License-Identifier: Apache-2.0
"""Use modelled disks outside of the lab.

Examples:
    sudo strata disks serve wd-re4-500gb
"""
