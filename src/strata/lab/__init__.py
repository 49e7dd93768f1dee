# SPDX-License-Identifier: Apache-2.0
"""The lab: a real Linux kernel in virtual time, its root image, and the agent that is its first process.

Whatever fails here is a `LabError`; a program that this machine lacks, or too low a limit, is a `ToolError`.
"""

from strata.lab.lab import ESSENTIAL, Lab, ensure_lab, find_entry, find_lab, require_lab

__all__ = ["ESSENTIAL", "Lab", "ensure_lab", "find_entry", "find_lab", "require_lab"]
