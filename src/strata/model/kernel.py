# SPDX-License-Identifier: Apache-2.0
"""The kernel of a study's lab: a version that the project has patches for, or the user's source."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strata.errors import StudyError
from strata.words import listed

DEFAULT_VERSION: Final = "7.2"
KERNELS: Final = (DEFAULT_VERSION, "6.12")
"""The versions, without their last number, that ``kernel/recipe.toml`` has."""
_REMEDY: Final = f"write {listed([*KERNELS, 'the path of a source'], 'or')}"


@dataclass(frozen=True)
class Kernel:
    """The kernel of a lab.

    Attributes:
        name: As the study states it: a version of ``KERNELS``, or a path, of which a git tree may be followed
            by ``@`` and a revision.
        path: The user's source: a git tree, or a tarball; None for a version.
        revision: Of the git tree; None: as it stands, with its changes that are not committed.
    """

    name: str = DEFAULT_VERSION
    path: Path | None = None
    revision: str | None = None

    def __str__(self) -> str:
        return f"Linux {self.name}"

    @property
    def is_default(self) -> bool:
        return self.name == DEFAULT_VERSION


DEFAULT_KERNEL: Final = Kernel()


def find_kernel(name: str, relative_to: Path | None = None) -> Kernel:
    """The kernel that a study states; a relative path begins at the study's folder. Raises StudyError."""
    try:
        return _found_kernel(name, relative_to)
    except (OSError, ValueError) as error:  # a name too long, or with a NUL
        cause = f'there is no kernel source at "{name[:60]}": {getattr(error, "strerror", None) or error}'
        raise StudyError(cause, remedy=_REMEDY) from error


def _found_kernel(name: str, relative_to: Path | None) -> Kernel:
    if name in KERNELS:
        return Kernel(name)
    if re.fullmatch(r"\d[\d.]*", name):
        raise StudyError(f'there is no kernel "{name[:60]}" for the lab', remedy=_REMEDY)
    folder = relative_to or Path()
    has_revision = "@" in name and not (folder / name).exists()
    stated, at, revision = name.rpartition("@") if has_revision else (name, "", "")
    path = (folder / stated).absolute()
    if path.is_file() and not at:
        return Kernel(name, path)
    if not path.exists():
        raise StudyError(f"there is no kernel source at {stated}", remedy=_REMEDY)
    if not (path / ".git").exists() and not (path / "HEAD").is_file():
        raise StudyError(f"{stated} is no git tree", remedy="name a git tree of Linux, or a tarball")
    if at and re.fullmatch(r"[\w.][\w./^~{}-]*", revision, re.ASCII) is None:
        raise StudyError(f'"{revision[:60]}" is no revision', remedy="write a tag, a branch or a commit")
    return Kernel(name, path, revision or None)
