# SPDX-License-Identifier: Apache-2.0
"""What is mounted, as the kernel tells each process."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

OWN_MOUNTS: Final = Path("/proc/self/mountinfo")


def mounts_under(path: Path, mountinfo: Path = OWN_MOUNTS) -> list[Path]:
    """Mount points under ``path``, as one process sees them, the last mounted first."""
    return [mount.point for mount in mounts(mountinfo) if mount.point.is_relative_to(path)][::-1]


@dataclass(frozen=True)
class Mount:
    """A mount: where, of which type, from what."""

    point: Path
    filesystem: str
    source: str


def mounts(mountinfo: Path = OWN_MOUNTS) -> list[Mount]:
    """The mounts that a process sees, in the order of mounting."""
    found = []
    for line in mountinfo.read_bytes().splitlines():
        before, _, after = line.partition(b" - ")  # optional fields lie between
        point, (filesystem, source) = before.split(b" ")[4], after.split(b" ")[:2]
        found.append(Mount(Path(_name(point)), _name(filesystem), _name(source)))
    return found


def _name(written: bytes) -> str:
    r"""A name as it is: the kernel writes a space in mountinfo as \040, and leaves other bytes alone."""
    return os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), written))
