# SPDX-License-Identifier: Apache-2.0
"""What an application asked of its filesystem, as a file: ``docs/reference/calls-format.md``.

Names are those of the application's folder, and anonymous unless they are asked for: each part of a path is
replaced by a hash of its length, of which the key is forgotten, and a short extension stays.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final, TextIO
from urllib.parse import quote

from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

from strata.errors import ResultError
from strata.files import explained, open_named
from strata.words import grouped

MAGIC: Final = "strata-calls 1"
_HEAD_BYTES_MAX: Final = 1 << 16
_EXTENSION: Final = re.compile(r"\.[A-Za-z][A-Za-z0-9]{0,4}$")
_LENGTHS: Final = (8, 64)  # shorter ones would meet
_NAME_BYTES_MAX: Final = 255

UNSEEN: Final[Mapping[str, str]] = {
    "io_uring": "it uses io_uring, whose requests no tracer of system calls sees",
    "aio": "it submits requests by io_submit, which are left out",
    "shared_mapping": "it writes files by mapping them, which no system call shows",
    "mapping": "it maps files to read them, and which pages it read no system call shows",
    "outside_bytes": "it writes bytes outside of its folder, which are left out",
    "unnamed": "it uses files without a name (O_TMPFILE), which are left out",
    "moved": "it moves or links files between its folder and others, which is left out",
    "running": "it was still running when the recording ended",
}
"""What a recording lacks: a name of ``about.unseen``, with its meaning."""
HARMLESS: Final = ("mapping", "running", "outside_bytes")
"""A recording that lacks only these of `UNSEEN` still repeats all calls on its files."""


class About(BaseModel):
    """The head of a recording; ``bytes_most`` is the most that its files held at once."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    calls: NonNegativeInt
    threads: NonNegativeInt
    span_ns: NonNegativeInt
    bytes_before: NonNegativeInt
    bytes_most: NonNegativeInt
    tracing_ns: NonNegativeInt
    unseen: dict[str, NonNegativeInt] = {}


@dataclass(slots=True)
class Call:
    """A call; the meaning of its ``words`` is ``Kind::ALL`` of crates/load/src/calls/recording.rs."""

    begin_ns: int
    end_ns: int
    think_ns: int
    thread: int
    after: tuple[int, ...]
    name: str
    words: tuple[object, ...]


@dataclass
class Names:
    """The names of a folder's files, with what they were before the recording."""

    before: Mapping[str, int | None]
    """By the path from the folder: the size of a file, None for a folder."""
    is_kept: bool = False
    numbers: dict[str, int] = field(default_factory=dict)
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)

    def number(self, name: str) -> int:
        """The number of a path; the folders that it lies in come before it."""
        if name not in self.numbers:
            if (above := name.rpartition("/")[0]) or name != ".":
                self.number(above or ".")
            self.numbers[name] = len(self.numbers)
        return self.numbers[name]

    def list(self, folder: str) -> None:
        """Take in what was in a folder that is listed."""
        for name in self._by_folder.get(folder, ()):
            self.number(name)

    def below(self, folder: str) -> Iterator[str]:
        """All that was in a folder, and in the folders in it."""
        for name in self._by_folder.get(folder, ()):
            yield name
            yield from self.below(name)

    @cached_property
    def _by_folder(self) -> Mapping[str, Sequence[str]]:
        return grouped((name.rpartition("/")[0] or ".", name) for name in self.before if name != ".")

    def lines(self) -> Iterator[str]:
        for name in self.numbers:
            size = self.before.get(name, -1)
            kind = "folder" if size is None else "later" if size < 0 else f"file {size}"
            yield f"{kind} {'/'.join(map(self._shown, name.split('/')))}\n"

    def _shown(self, part: str) -> str:
        """A part of a path in the file: a word, without blanks."""
        if part == ".":
            return part
        shown = quote(part, safe="@+=,~")
        if self.is_kept and len(shown) <= _NAME_BYTES_MAX:
            return shown
        found = _EXTENSION.search(part)
        extension = found[0] if found and found.start() else ""
        least, most = _LENGTHS
        length = max(least, min(most, len(part.encode(errors="replace")) - len(extension)))
        hashed = hashlib.blake2b(part.encode(errors="surrogateescape"), key=self._key, digest_size=32)
        return hashed.hexdigest()[:length] + extension


def write_calls(file: TextIO, about: About, names: Names, calls: list[Call]) -> None:
    """Write a recording; the calls are in the order of their begin."""
    file.write(f"{MAGIC} {json.dumps(about.model_dump())}\n")
    file.writelines(names.lines())
    begin_ns = calls[0].begin_ns if calls else 0
    for call in calls:
        times = f"{call.begin_ns - begin_ns} {call.end_ns - call.begin_ns} {call.think_ns}"
        after = ",".join(map(str, call.after)) or "-"
        words = "".join(f" {word}" for word in call.words)
        file.write(f"{times} {call.thread} {after} {call.name}{words}\n")


def read_about(path: Path) -> About:
    """The head of a recording. Raises ResultError."""
    with explained(path, "read the recording"), open_named(path) as file:
        head = file.readline(_HEAD_BYTES_MAX).decode(errors="replace")
    remedy = "name a file that `strata record` wrote"
    if not head.startswith(f"{MAGIC} "):
        raise ResultError(f'it does not begin with "{MAGIC}"', place=str(path), remedy=remedy)
    try:
        return About.model_validate_json(head[len(MAGIC) :])
    except ValidationError:
        raise ResultError("its first line is damaged", place=str(path), remedy=remedy) from None
