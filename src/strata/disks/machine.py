# SPDX-License-Identifier: Apache-2.0
"""How block devices are looked at: files of /sys, /proc, /run and /dev, and a few programs that only read."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Call = Callable[..., "subprocess.CompletedProcess[str]"]
NodeKind = Literal["missing", "block", "character", "file", "folder", "other"]


@dataclass(frozen=True)
class Node:
    """What a path leads to; ``number`` is ``MAJOR:MINOR`` of a device."""

    kind: NodeKind
    number: str = ""


@dataclass(frozen=True)
class Machine:
    """A machine whose devices are looked at.

    Attributes:
        call: Runs a program there.
        root: Where its /proc, /sys, /run and /dev are.
    """

    call: Call
    root: Path = Path("/")

    def content(self, path: str) -> bytes:
        """A file's bytes; empty when it cannot be read."""
        try:
            return (self.root / path).read_bytes()
        except OSError:
            return b""

    def text(self, path: str) -> str:
        """A file's text on one line, with printable characters only; empty without the file."""
        return one_line(self.content(path).decode(errors="replace"))

    def number(self, path: str) -> int:
        """The number that a file holds; 0 without one."""
        text = self.text(path)
        return int(text) if text.lstrip("-").isdigit() else 0

    def names(self, path: str) -> list[str]:
        """The names in a folder, sorted; none without the folder."""
        try:
            return sorted(os.listdir(self.root / path))  # noqa: PTH208  names are wanted
        except OSError:
            return []

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


def one_line(text: str) -> str:
    """A text from outside, such as a device's model, on one line and safe to print."""
    return "".join(
        each if each.isprintable() else "\ufffd" for each in " ".join(text.replace("\0", " ").split())
    )
