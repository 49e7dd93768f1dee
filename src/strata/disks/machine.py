# SPDX-License-Identifier: Apache-2.0
"""A machine's devices and mounts, and the programs that are run on it."""

from __future__ import annotations

import os
import re
import stat
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from strata.machine.reading import SystemFiles
from strata.plan.compile import ENVIRONMENT

CALL_LIMIT_S: Final = 60.0
MISSING_STATUS: Final = 127
OWN_MOUNTS: Final = Path("/proc/self/mountinfo")

Call = Callable[..., "subprocess.CompletedProcess[str]"]
NodeKind = Literal["missing", "block", "character", "file", "folder", "other"]


@dataclass(frozen=True)
class Node:
    """The target of a path; ``number`` is ``MAJOR:MINOR`` of a device."""

    kind: NodeKind
    number: str = ""


def call(
    *argv: str, limit_s: float = CALL_LIMIT_S, environment: Mapping[str, str] = ENVIRONMENT
) -> subprocess.CompletedProcess[str]:
    """Run a program as steps are run. A missing program, or one that exceeds the limit, has failed."""
    try:
        return subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
            cwd="/",
            env=environment,
            check=False,
        )
    except OSError as error:
        return subprocess.CompletedProcess(argv, MISSING_STATUS, "", f"{argv[0]}: {error.strerror}")
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(argv, 124, "", f"it did not end within {limit_s:.0f} s")


@dataclass(frozen=True)
class Machine(SystemFiles):
    """A machine with its devices; `call` runs a program there."""

    call: Call = call

    def node(self, path: Path) -> Node:
        """The node that a path below the root leads to, through links."""
        try:
            state = (self.root / path.relative_to("/")).stat()
        except OSError:
            return Node("missing")
        mode = state.st_mode
        number = f"{os.major(state.st_rdev)}:{os.minor(state.st_rdev)}"
        if stat.S_ISBLK(mode):
            return Node("block", number)
        if stat.S_ISCHR(mode):
            return Node("character", number)
        return Node("folder" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other")

    def read(self, path: Path, offset: int, size: int) -> bytes:
        """A piece of a device; less, or nothing, where it ends or cannot be read."""
        try:
            with (self.root / path.relative_to("/")).open("rb") as device:
                device.seek(offset)
                return device.read(size)
        except OSError:
            return b""

    def opened_alone(self, path: Path) -> str | None:
        """Why a device cannot be opened for reading by one process alone; None when it can.

        The kernel refuses it while a mount, a swap area, an array or anything else holds the device.
        """
        try:
            os.close(os.open(self.root / path.relative_to("/"), os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
        except OSError as error:
            return error.strerror or str(error)
        return None


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


def mounts_at(path: Path, mountinfo: Path = OWN_MOUNTS) -> list[Mount]:
    """A process's mounts at and under ``path``, the last mounted first."""
    return [mount for mount in mounts(mountinfo) if mount.point.is_relative_to(path)][::-1]


def mounts_under(path: Path, mountinfo: Path = OWN_MOUNTS) -> list[Path]:
    """A process's mount points at and under ``path``, the last mounted first."""
    return [mount.point for mount in mounts_at(path, mountinfo)]


def mount_of(path: Path, known: list[Mount]) -> Mount | None:
    """The mount that a path lies on: the last made of the deepest."""
    around = [mount for mount in known if path.is_relative_to(mount.point)]
    return max(enumerate(around), key=lambda each: (len(each[1].point.parts), each[0]))[1] if around else None


def name_in(written: bytes) -> str:
    return os.fsdecode(re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), written))
