# SPDX-License-Identifier: Apache-2.0
"""This machine's limits for labs: memory, and open files."""

from __future__ import annotations

import os
import resource
from typing import Final

from strata.errors import LabError, ToolError
from strata.spec.study import MEMORY_BYTES_MIN
from strata.units import format_size

# Descriptors of Python, the console, DuckDB and the results, and the numbers from which a lab's are copied.
_OWN: Final = 192
_PER_TRIAL: Final = 24
_PER_DISK: Final = 4
_SHM: Final = "/dev/shm"  # noqa: S108  where User-Mode Linux keeps its machine's memory, as a sparse file


def check_memory(memory_bytes: int) -> None:
    """Refuse more memory for a lab than this machine has, by a `LabError`.

    Whether it fits beside others is unknown: a lab takes the pages that its programs touch.
    """
    if memory_bytes < MEMORY_BYTES_MIN or memory_bytes % (1 << 20):
        raise LabError(
            f"a lab cannot have {memory_bytes} bytes of memory",
            place="study.memory",
            remedy=f"give it {format_size(MEMORY_BYTES_MIN)} at least, in whole MiB",
        )
    shm = os.statvfs(_SHM)
    own_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    most_bytes = min(own_bytes, shm.f_blocks * shm.f_frsize)
    if memory_bytes > most_bytes:
        raise LabError(
            f"this machine has no {format_size(memory_bytes)} of memory for a lab, but "
            f"{format_size(most_bytes)} (its own memory, and the size of {_SHM})",
            place="study.memory",
            remedy="lower `memory`, or run the study on a larger machine: results are the same",
        )


def provide_descriptors(trials: int, disks: int) -> None:
    """Raise the limit of open files if it is too low for this many trials, each with this many disks.

    Programs under measurement inherit the limit, so a sufficient one stays.
    """
    needed = _OWN + trials * (_PER_TRIAL + _PER_DISK * disks)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise ToolError(
            f"at most {hard} files may be open at once, and this needs {needed}",
            place="ulimit -n",
            remedy="raise the limit in /etc/security/limits.conf, or where this shell was started; "
            "fewer --jobs need fewer",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
