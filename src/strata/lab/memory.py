# SPDX-License-Identifier: Apache-2.0
"""The memory of a lab's machine: how much it can have, and how its kernel is told."""

from __future__ import annotations

import os
from typing import Final

from strata.errors import LabError
from strata.spec.study import MEMORY_BYTES_MIN
from strata.units import format_size

# Where User-Mode Linux keeps the memory of its machine: a sparse file.
_BEHIND: Final = "/dev/shm"  # noqa: S108
_UNITS: Final = ((30, "G"), (20, "M"))


def memory_text(memory_bytes: int) -> str:
    """As on the kernel's command line, which it takes for a source of randomness."""
    for shift, unit in _UNITS:
        if memory_bytes % (1 << shift) == 0:
            return f"{memory_bytes >> shift}{unit}"
    return str(memory_bytes)


def check_memory(memory_bytes: int) -> None:
    """See that a lab can have so much memory on this machine.

    Whether it fits beside others is not known before: it takes of the machine what its programs touch.

    Raises:
        LabError: If it cannot.
    """
    if memory_bytes < MEMORY_BYTES_MIN or memory_bytes % (1 << 20):
        raise LabError(
            f"a lab cannot have {memory_bytes} bytes of memory",
            place="study.memory",
            remedy=f"give it {format_size(MEMORY_BYTES_MIN)} at least, in whole MiB",
        )
    behind = os.statvfs(_BEHIND)
    own_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    most_bytes = min(own_bytes, behind.f_blocks * behind.f_frsize)
    if memory_bytes > most_bytes:
        raise LabError(
            f"this machine has no {format_size(memory_bytes)} of memory for a lab, but "
            f"{format_size(most_bytes)} (its own memory, and the size of {_BEHIND})",
            place="study.memory",
            remedy="lower `memory`, or run the study on a larger machine: results are the same",
        )
