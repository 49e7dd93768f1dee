# SPDX-License-Identifier: Apache-2.0
"""The files below /proc, /sys, /run and /dev in which a machine describes itself."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SystemFiles:
    """A machine's own files; a missing or unreadable one counts as empty.

    Paths are relative to the root, or absolute below it.
    """

    root: Path = Path("/")

    def has(self, path: str | Path) -> bool:
        return (self.root / path).exists()

    def content(self, path: str | Path) -> bytes:
        try:
            return (self.root / path).read_bytes()
        except OSError:
            return b""

    def text(self, path: str | Path) -> str:
        """A file's text without surrounding white space."""
        return self.content(path).decode(errors="replace").strip()

    def line(self, path: str | Path) -> str:
        """A file's text on one line, with printable characters only."""
        return one_line(self.content(path).decode(errors="replace"))

    def lines(self, path: str | Path) -> list[list[str]]:
        """The words of each line of a file."""
        return [line.split() for line in self.text(path).splitlines()]

    def number(self, path: str | Path) -> int:
        """The integer in a file, or 0."""
        text = self.line(path)
        return int(text) if text.lstrip("-").isdigit() else 0

    def names(self, path: str | Path) -> list[str]:
        """The names in a folder, sorted."""
        try:
            return sorted(os.listdir(self.root / path))  # noqa: PTH208  names are wanted
        except OSError:
            return []

    def places(self, pattern: str) -> list[Path]:
        """The files and folders that match a pattern, sorted."""
        return sorted(self.root.glob(pattern))


def one_line(text: str) -> str:
    """A text from outside, such as a device's model, on one line and safe to print."""
    return "".join(
        each if each.isprintable() else "\ufffd" for each in " ".join(text.replace("\0", " ").split())
    )
