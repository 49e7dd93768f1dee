# SPDX-License-Identifier: Apache-2.0
"""Names the work that a command does while it prints nothing."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from strata.printable import printable

SILENT_S = 2.0
"""The silence after which work is named; tests raise it, because they are slow on a busy machine."""
_AGAIN_S: Final = 30.0  # before it is named again, where the line cannot be changed


class _Watch:
    """Names the work that a command does when it has printed nothing for two seconds.

    On a terminal a line of its own counts the seconds and disappears; elsewhere a line is printed.
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._work: list[str] = []
        self._begun_s = self._printed_s = 0.0
        self._is_named = False  # whether this work has been named before
        self._is_line = False  # whether a line stands on the terminal that must disappear
        self.is_quiet = False
        self._thread: threading.Thread | None = None

    def begin(self, what: str) -> None:
        with self._lock:
            self._work.append(what)
            self._next()
            if self._thread is None:
                self._thread = threading.Thread(target=self._look, name="silence", daemon=True)
                self._thread.start()

    def end(self) -> None:
        with self._lock:
            self.printed()
            self._work.pop()
            self._next()

    def _next(self) -> None:
        self._begun_s = self._printed_s = time.monotonic()
        self._is_named = False

    def printed(self) -> None:
        """Something else is printed now."""
        with self._lock:
            self._printed_s = time.monotonic()
            if self._is_line:
                self._is_line = False
                _write("\r\x1b[K")

    def _look(self) -> None:
        while True:
            time.sleep(0.25)
            with self._lock:
                if not self._work:
                    self._thread = None
                    return
                if not self.is_quiet:
                    self._name(time.monotonic())

    def _name(self, now_s: float) -> None:
        text, silent_s = printable(self._work[-1]), now_s - self._printed_s
        if _is_terminal():
            if silent_s >= SILENT_S:
                self._is_line = True
                _write(f"\r{text}: {now_s - self._begun_s:.0f} s\x1b[K")
        elif silent_s >= (_AGAIN_S if self._is_named else SILENT_S):
            self._is_named, self._printed_s = True, now_s
            _write(f"{text} …\n")


_WATCH: Final = _Watch()


def _write(text: str) -> None:
    with suppress(OSError, ValueError):  # a closed stream: nobody watches
        sys.stderr.write(text)
        sys.stderr.flush()


def _is_terminal() -> bool:
    with suppress(OSError, ValueError, AttributeError):
        return sys.stderr.isatty()
    return False


@contextmanager
def working(what: str) -> Iterator[None]:
    """Name this work on standard error while nothing else is printed for two seconds."""
    _WATCH.begin(what)
    try:
        yield
    finally:
        _WATCH.end()


def keep_quiet(quiet: bool) -> None:
    """Name no work, as ``--quiet`` asks."""
    _WATCH.is_quiet = quiet


def printed() -> None:
    """Something is printed now: a line about the work gives way."""
    _WATCH.printed()
