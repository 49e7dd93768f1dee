# SPDX-License-Identifier: Apache-2.0
"""The lab: a real Linux kernel in virtual time, its root image, and the agent that is its first process."""

from strata.lab.lab import (
    PARTS,
    Fingerprint,
    Lab,
    Part,
    ensure_lab,
    find_entry,
    find_lab,
    project_root,
    require_lab,
)

__all__ = [
    "PARTS",
    "Fingerprint",
    "Lab",
    "Part",
    "ensure_lab",
    "find_entry",
    "find_lab",
    "project_root",
    "require_lab",
]
