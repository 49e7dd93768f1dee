# SPDX-License-Identifier: Apache-2.0
"""Of each task (a thread) that is recorded: what it has open, which ended calls it knows of, and by whom."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

_SLASH: Final = re.compile("/")


@dataclass(slots=True, eq=False)
class Handle:
    """An opened file, which several descriptors may share; calls name it by its ``number``, given at last."""

    name: str
    number: int = -1
    position: int = 0
    is_appending: bool = False
    uses: int = 0
    earlier: set[str] = field(default_factory=set)
    """Names from before a rename, which a call that had begun by then still shows."""

    def __str__(self) -> str:
        return str(self.number)


@dataclass(slots=True)
class Descriptors:
    """A table of descriptors: of a process, or of those that share one."""

    folder: str  # the working folder
    handles: dict[int, Handle] = field(default_factory=dict)
    closed_by_exec: set[int] = field(default_factory=set)
    tasks: int = 1
    ended: dict[int, int] = field(default_factory=dict)  # what its ended tasks knew


@dataclass(slots=True)
class TracedTask:
    process: Descriptors
    known: dict[int, int] = field(default_factory=dict)
    """By thread of the recording, its latest call that has ended before this task's next one."""
    thread: int | None = None
    traced: int = 0
    """Calls since the last one of the recording: each took the tracer's time."""
    woken: str = ""
    """The futex that its end wakes: who joins a thread waits there."""


def learn(known: dict[int, int], more: Mapping[int, int]) -> None:
    for thread, at in more.items():
        known[thread] = max(at, known.get(thread, at))


@dataclass(slots=True)
class News:
    """What tasks learn of each other, by the message, the lock or the name through which they do."""

    by_key: dict[object, dict[int, int]] = field(default_factory=dict)

    def send(self, task: TracedTask, key: object) -> None:
        learn(self.by_key.setdefault(key, {}), task.known)

    def receive(self, task: TracedTask, key: object) -> None:
        learn(task.known, self.by_key.get(key, {}))

    @contextmanager
    def using(self, task: TracedTask, name: str, *, is_changed: bool = False) -> Iterator[None]:
        """A call follows the one that made its name or a folder above it, and a removal all uses of it.

        A program that waits for a file of another one (a lock, a server's PID) looks for it again and again.
        """
        ways = [name[: found.start()] for found in _SLASH.finditer(name)] + [name]
        for each in ways:
            self.receive(task, ("made", each))
        if is_changed:
            self.receive(task, ("used", name))
        yield
        for each in ways:
            self.send(task, ("used", each))
        if is_changed:
            self.send(task, ("made", name))


@dataclass(frozen=True, slots=True)
class LastCall:
    """The last call of a thread of the recording: whose it was, and what its task knew."""

    at: int
    owner: int
    known: Mapping[int, int]


@dataclass(frozen=True)
class Opened:
    """A descriptor that was open before; ``flags`` are the letters of the format."""

    path: str
    position: int
    flags: str


@dataclass(frozen=True)
class Before:
    """A process that ran before: its working folder and its descriptors."""

    folder: str
    opened: Mapping[int, Opened] = field(default_factory=dict)
