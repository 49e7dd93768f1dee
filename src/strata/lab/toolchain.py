# SPDX-License-Identifier: Apache-2.0
"""The programs that building the lab needs from the machine, and what to install where one is missing."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from strata.errors import ToolError

Group = Literal["python", "kernel", "image", "agent", "load", "host", "tests"]
_SYSTEM_FOLDERS: Final = "/usr/local/sbin:/usr/sbin:/sbin"  # mkfs and friends: not on an ordinary user's PATH


@dataclass(frozen=True)
class Need:
    """One line of ``scripts/packages``; ``check`` is a program, a file or glob, or ``python3:MODULE``."""

    group: str
    package: str
    check: str

    def is_met(self) -> bool:
        """Whether the program or file is there, however it was installed."""
        if self.check.startswith("/"):
            return any(Path("/").glob(self.check[1:]))
        if self.check.startswith("python3:"):
            return importlib.util.find_spec(self.check.removeprefix("python3:")) is not None
        return shutil.which(self.check, path=f"{os.environ.get('PATH', '')}:{_SYSTEM_FOLDERS}") is not None


def read_needs(path: Path) -> list[Need]:
    """Read ``scripts/packages``."""
    lines = (line.split() for line in path.read_text().splitlines() if line and not line.startswith("#"))
    return [Need(group, package, check) for group, package, check in lines]


def missing(needs: Iterable[Need], *groups: Group) -> list[str]:
    """The missing packages of these groups, sorted."""
    return sorted({need.package for need in needs if need.group in groups and not need.is_met()})


def require(packages_file: Path, group: Group, *, purpose: str) -> None:
    """Check that the programs for a group are there; ``purpose`` is the subject of "… needs".

    Raises:
        ToolError: Naming every missing package at once and the command that installs them.
    """
    packages = missing(read_needs(packages_file), group)
    if packages:
        root = "" if os.geteuid() == 0 else "as root: "
        raise ToolError(
            f"{purpose} needs programs that are missing; Debian's packages: {' '.join(packages)}",
            remedy=f"{root}apt-get install --no-install-recommends {' '.join(packages)}",
        )
