# SPDX-License-Identifier: Apache-2.0
"""The progress of the set-up: steps, some of them at once, and how long the rest will take."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from rich.console import Console

from strata.console import Terminal
from strata.words import time_left

LINE_INTERVAL_S: Final = 20.0
_BAR_INTERVAL_S: Final = 0.5
_LEAST_SHARE: Final = 0.04  # of the work; the speed of less is not representative
_PARALLEL: Final = 1.7  # processors that the work keeps busy, an estimate until its speed is known

# Processor seconds of each step, by kind of part; once some work is done only their ratios matter.
_WORK_S: Final[Mapping[str, Mapping[str, float]]] = {
    "kernel": {"reading": 5, "downloading": 8, "unpacking": 25, "copying": 12, "compiling": 380},
    "modules": {"compiling": 25},
    "image": {"installing": 45, "packing": 35},
    "agent": {"compiling": 45},
    "load": {"compiling": 35},
    "qemu-kernel": {"reading": 5, "downloading": 5},
}


@dataclass
class ProgressStep:
    """One piece of work in progress; its title begins with the part that it belongs to."""

    title: str
    total: float | None = None
    done: float = 0.0
    text: str = ""

    def advance(self, count: float = 1) -> None:
        """Count more as done."""
        self.done += count

    def note(self, text: str) -> None:
        """Show this detail of the work."""
        self.text = text

    @property
    def share(self) -> float:
        """The part that is done, below 1."""
        return min(0.99, self.done / self.total) if self.total else 0.0

    def __str__(self) -> str:
        far = f" {100 * self.share:.0f} %" if self.total else ""
        return f"{self.title}{far}"


@dataclass
class _Work:
    """The work of a set-up, in seconds of one processor, and the remaining part."""

    left_s: dict[tuple[str, str], float]
    total_s: float = 0.0
    started_s: float = field(default_factory=time.monotonic)

    @classmethod
    def of(cls, kinds: Sequence[str]) -> _Work:
        left_s = {(kind, verb): work for kind in kinds for verb, work in _WORK_S.get(kind, {}).items()}
        return cls(left_s, sum(left_s.values()))

    def begin(self, step: ProgressStep) -> None:
        """Skip the earlier steps of the same part, which are done or were not needed."""
        now = _words(step)
        if now in self.left_s:
            names = [name for name in self.left_s if name[0] == now[0]]
            for name in names[: names.index(now)]:
                self.total_s -= self.left_s.pop(name)

    def remaining(self, steps: Sequence[ProgressStep]) -> str:
        """The remaining time, in words."""
        current = {_words(step): step.share for step in steps}
        rest_s = sum(work * (1 - current.get(name, 0.0)) for name, work in self.left_s.items())
        done_s, passed_s = self.total_s - rest_s, time.monotonic() - self.started_s
        enough = done_s > _LEAST_SHARE * self.total_s
        left_s = rest_s * passed_s / done_s if enough else rest_s / _PARALLEL
        return time_left(left_s)


def _words(step: ProgressStep) -> tuple[str, str]:
    part, _, what = step.title.partition(": ")
    return part, what.split()[0].strip(",") if what else ""


class SetupProgress:
    """Reports to a console: a changing status on a terminal, else lines. Without a console it is silent."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console
        self._steps: list[ProgressStep] = []
        self._work: _Work | None = None
        self._lock = threading.Lock()
        self._watcher: tuple[threading.Thread, threading.Event] | None = None

    def say(self, text: str) -> None:
        """Print a permanent line, without markup: it may have compiler output and paths."""
        if self._console is not None:
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    @contextlib.contextmanager
    def estimate(self, kinds: Sequence[str]) -> Iterator[None]:
        """Estimate the remaining time while these kinds of parts are built."""
        self._work = _Work.of(kinds) if kinds else None
        if self._work is not None:
            self.say(f"setup: building {', '.join(dict.fromkeys(kinds))}: {self._work.remaining([])}")
        try:
            yield
        finally:
            self._work = None

    @contextlib.contextmanager
    def step(self, title: str, total: float | None = None) -> Iterator[ProgressStep]:
        """Announce a step; it is done when the context ends without an exception."""
        started_s = time.monotonic()
        step = ProgressStep(title, total)
        with self._lock:
            self._steps.append(step)
            if self._work is not None:
                self._work.begin(step)
            if self._console is not None and self._watcher is None:
                over = threading.Event()
                self._watcher = threading.Thread(target=self._watch, args=(over,), daemon=True), over
                self._watcher[0].start()
        if self._console is not None and not self._console.is_terminal:
            self.say(f"{title} …")
        try:
            yield step
        finally:
            with self._lock:
                self._steps.remove(step)
                watcher = self._watcher if not self._steps else None
                self._watcher = None if watcher else self._watcher
            if watcher is not None:
                watcher[1].set()
                watcher[0].join()
        with self._lock:
            if self._work is not None:
                self._work.left_s.pop(_words(step), None)
        self.say(f"{title}: done in {time.monotonic() - started_s:.0f} s")

    def _watch(self, over: threading.Event) -> None:
        """Show the steps in progress at intervals, until they have ended."""
        assert self._console is not None
        if not self._console.is_terminal:
            while not over.wait(LINE_INTERVAL_S):
                self.say(self._status())
            return
        with self._console.status("") as shown:
            while not over.wait(_BAR_INTERVAL_S):
                shown.update(self._status().replace("[", "\\["))

    def _status(self) -> str:
        with self._lock:
            steps = list(self._steps)
            left = f"; {self._work.remaining(steps)}" if self._work is not None else ""
        note = f" ({steps[0].text[:48]})" if len(steps) == 1 and steps[0].text else ""
        return f"{', '.join(map(str, steps))}{note}{left}"


def console_progress() -> SetupProgress:
    """For people: on standard error."""
    return SetupProgress(Terminal(stderr=True))


SILENCE: Final = SetupProgress()
"""For programs and tests."""
