# SPDX-License-Identifier: Apache-2.0
"""Progress of the set-up: bars on a terminal, a line now and then elsewhere (a log, CI)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Final, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from strata.console import Terminal

LINE_INTERVAL_S = 20.0


class Step(Protocol):
    """One piece of work in progress."""

    def advance(self, count: float = 1) -> None:
        """So much more is done."""

    def expect(self, total: float) -> None:
        """State how much there is to do."""

    def note(self, text: str) -> None:
        """Say what is being done just now."""


class SetupProgress(Protocol):
    """Where the set-up reports its steps."""

    def step(self, title: str, total: float | None = None) -> contextlib.AbstractContextManager[Step]:
        """Announce a step; it is done when the context ends without an exception."""

    def say(self, text: str) -> None:
        """Print a line that stays."""


class BarStep:
    """A step shown as a bar."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def advance(self, count: float = 1) -> None:
        self._progress.advance(self._task, count)

    def expect(self, total: float) -> None:
        self._progress.update(self._task, total=total)

    def note(self, text: str) -> None:
        self._progress.update(self._task, note=text[:48])


class LineStep:
    """A step shown as lines: how far it is, every 20 s."""

    def __init__(self, console: Console, title: str, total: float | None) -> None:
        self._console = console
        self._title = title
        self._total = total
        self._done = 0.0
        self._note = ""
        self._next_line = time.monotonic() + LINE_INTERVAL_S

    def advance(self, count: float = 1) -> None:
        self._done += count
        self._maybe_print()

    def expect(self, total: float) -> None:
        self._total = total

    def note(self, text: str) -> None:
        self._note = text
        self._maybe_print()

    def _maybe_print(self) -> None:
        if time.monotonic() < self._next_line:
            return
        self._next_line = time.monotonic() + LINE_INTERVAL_S
        far = f" {min(99.0, 100 * self._done / self._total):.0f} %" if self._total else ""
        print_plain(self._console, f"{self._title}{far} {self._note}".rstrip())


class ConsoleProgress:
    """Reports to a console: bars when it is a terminal, else lines."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Terminal(stderr=True)

    def say(self, text: str) -> None:
        print_plain(self._console, text)

    @contextlib.contextmanager
    def step(self, title: str, total: float | None = None) -> Iterator[Step]:
        started = time.monotonic()
        if self._console.is_terminal:
            columns = (
                SpinnerColumn(),
                TextColumn("{task.description}"),
                BarColumn(),
                TimeElapsedColumn(),
                TextColumn("[dim]{task.fields[note]}"),
            )
            with Progress(*columns, console=self._console, transient=True) as bars:
                yield BarStep(bars, bars.add_task(title, total=total, note=""))
        else:
            print_plain(self._console, f"{title} …")
            yield LineStep(self._console, title, total)
        self.say(f"{title}: done in {time.monotonic() - started:.0f} s")


class Silence:
    """Reports nothing: for calls from programs and tests."""

    def say(self, text: str) -> None:
        del text

    @contextlib.contextmanager
    def step(self, title: str, total: float | None = None) -> Iterator[Step]:
        del title, total
        yield _SilentStep()


class _SilentStep:
    def advance(self, count: float = 1) -> None:
        del count

    def expect(self, total: float) -> None:
        del total

    def note(self, text: str) -> None:
        del text


SILENCE: Final = Silence()


def print_plain(console: Console, text: str) -> None:
    """Print text as it is: compiler output and paths must not be read as markup."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)
