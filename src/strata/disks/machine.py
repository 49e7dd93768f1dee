# SPDX-License-Identifier: Apache-2.0
"""A machine's devices, and the programs that are run on it."""

from __future__ import annotations

import os
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
