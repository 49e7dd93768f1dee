# SPDX-License-Identifier: Apache-2.0
"""Mounts, as the kernel lists them for each process."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

OWN_MOUNTS: Final = Path("/proc/self/mountinfo")


@dataclass(frozen=True)
class Mount:
    """A mount; ``number`` is its device's, ``MAJOR:MINOR``."""

    point: Path
    filesystem: str
    source: str
    number: str


def mounts(mountinfo: Path = OWN_MOUNTS) -> list[Mount]:
    return mounts_in(mountinfo.read_bytes())


def mounts_in(content: bytes) -> list[Mount]:
    found = []
    for line in content.splitlines():
        before, _, after = line.partition(b" - ")  # optional fields lie between
        number, point = before.split(b" ")[2], before.split(b" ")[4]
        filesystem, source = after.split(b" ")[:2]
        found.append(Mount(Path(name_in(point)), name_in(filesystem), name_in(source), number.decode()))
    return found


def mounts_under(path: Path, mountinfo: Path = OWN_MOUNTS) -> list[Path]:
    """A process's mount points under ``path``, the last mounted first."""
    return [mount.point for mount in mounts(mountinfo) if mount.point.is_relative_to(path)][::-1]


def mount_of(path: Path, known: list[Mount]) -> Mount | None:
    """The mount that a path lies on: the last made of the deepest."""
    around = [mount for mount in known if path.is_relative_to(mount.point)]
    return max(enumerate(around), key=lambda each: (len(each[1].point.parts), each[0]))[1] if around else None


def name_in(written: bytes) -> str:
    return os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), written))
