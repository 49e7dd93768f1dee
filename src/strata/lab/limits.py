# SPDX-License-Identifier: Apache-2.0
"""This machine's limits for labs: memory, and open files."""

from __future__ import annotations

import os
import resource
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from strata.errors import LabError, ToolError
from strata.model.study import MEMORY_BYTES_MIN
from strata.units import format_size

# Descriptors of Python, the console, DuckDB and the results, and the numbers from which a lab's are copied.
_OWN: Final = 192
_PER_TRIAL: Final = 24
_PER_DISK: Final = 4
_SHM: Final = "/dev/shm"  # noqa: S108  where User-Mode Linux keeps its machine's memory, as a sparse file


def lies_on_disk(memory_bytes: int) -> bool:
    """Whether a lab's memory is a file in its own folder, since this machine's memory cannot hold it.

    The host's page cache holds a part of it then: the lab is slower, and its results are the same.
    """
    own_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(FileNotFoundError):
        return memory_bytes > min(own_bytes, shutil.disk_usage(_SHM).total)
    return True


def check_memory(memory_bytes: int, folder: Path) -> None:
    """Refuse a lab more memory than this machine has, and the disk of the labs' folder, by a `LabError`.

    Whether it fits beside others is unknown: a lab takes the pages that its programs touch.
    """
    if memory_bytes < MEMORY_BYTES_MIN or memory_bytes % (1 << 20):
        raise LabError(
            f"a lab cannot have {memory_bytes} bytes of memory",
            place="study.memory",
            remedy=f"give it {format_size(MEMORY_BYTES_MIN)} at least, in whole MiB",
        )
    if not lies_on_disk(memory_bytes):
        return
    free_bytes = shutil.disk_usage(next(each for each in (folder, *folder.parents) if each.is_dir())).free
    if memory_bytes > free_bytes:
        raise LabError(
            f"this machine has no {format_size(memory_bytes)} of memory for a lab, and only "
            f"{format_size(free_bytes)} of space in {folder} for a file in its place",
            place="study.memory",
            remedy="lower `memory`, free some space, or name another cache with STRATA_CACHE: results are "
            "the same on every machine",
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
