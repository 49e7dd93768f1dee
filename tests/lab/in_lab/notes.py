# SPDX-License-Identifier: Apache-2.0
"""Runs in the lab: what its power cuts' workloads share: dice, and the notes of what was acknowledged.

A note is made after an operation's last fsync, or its COMMIT, has returned, on a disk that is durable at
once. So the cut cannot reach it, and a note never precedes the acknowledgement of its operation.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

NOTE_BYTES = 4096
WORKERS_MAX = 16
EPOCHS_KEPT = 3
_EPOCH_SLOTS = 8  # more than are kept, so that no note is overwritten while it is needed
_MASK = (1 << 64) - 1


class Dice:
    """Numbers that look random and are a function of what the dice were made with."""

    def __init__(self, *of: int) -> None:
        self._state = 0
        for number in of:
            self._state = (self._state ^ number) & _MASK
            self._state = self.roll()

    def roll(self) -> int:
        """The next 64 bits (splitmix64)."""
        self._state = (self._state + 0x9E3779B97F4A7C15) & _MASK
        mixed = self._state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        return mixed ^ (mixed >> 31)

    def below(self, count: int) -> int:
        """A number from 0 to ``count - 1``."""
        return self.roll() % count

    def pick(self, names: list[str]) -> str:
        """One of the names, independent of their order."""
        return sorted(names)[self.below(len(names))]


class Notes:
    """The notes on their disk. An epoch is what lies between two cuts of the power."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_RDWR | os.O_SYNC)

    def acknowledge(self, epoch: int, worker: int, number: int) -> None:
        """Note that a worker's operations up to ``number`` are acknowledged."""
        text = b"%d %d\n" % (epoch, number)
        os.pwrite(self._file, text.ljust(NOTE_BYTES, b"\0"), _place(epoch, worker))

    def acknowledged(self, epoch: int, worker: int) -> int:
        """The last acknowledged operation of a worker in an epoch; -1 if there is none."""
        text = os.pread(self._file, NOTE_BYTES, _place(epoch, worker)).partition(b"\n")[0]
        noted, number = map(int, text.split()) if text.strip(b"\0") else (-1, -1)
        return number if noted == epoch else -1


def _place(epoch: int, worker: int) -> int:
    return (epoch % _EPOCH_SLOTS * WORKERS_MAX + worker) * NOTE_BYTES


def start(job: Callable[..., None], *arguments: object) -> None:
    """Do a job that has no end in a process of its own."""
    if os.fork() == 0:
        try:
            job(*arguments)
        except Exception as error:  # the process has no caller to pass it to
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        os._exit(1)


def cut_power_unless_failed() -> None:
    """Never returns, unless one of the jobs has come to an end, which it then says."""
    if os.waitpid(-1, os.WNOHANG)[0]:
        sys.exit("a worker has failed")
    with open("/sys/module/strata/parameters/power_cut", "w") as file:
        file.write("cut")
