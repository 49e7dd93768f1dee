# SPDX-License-Identifier: Apache-2.0
"""How long a study still takes, from what its trials took so far.

A trial is measured in its own time, which is virtual in the lab: how much of it a trial needs hardly depends
on the machine. What the machine decides is how many real seconds pass in a second of it, and that depends on
the workload and the stack. So both are learnt apart, each from the trials that are most alike.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Protocol, Self

from strata.results.record import ResultRecord
from strata.spec.trial import CellKey
from strata.units import NS_PER_S

# A new estimate replaces the shown one if they differ by more than this share of it and this many seconds.
_DRIFT_SHARE: Final = 0.2
_DRIFT_S: Final = 20.0


class Cell(Protocol):
    """A trial's stack and workload; its seed does not matter here."""

    @property
    def stack(self) -> str: ...

    @property
    def workload(self) -> str: ...


@dataclass(frozen=True)
class Took:
    """What a trial took.

    Attributes:
        trial_ns: In its own time.
        real_s: Real seconds.
    """

    trial_ns: float
    real_s: float

    @classmethod
    def of(cls, record: ResultRecord) -> Self:
        """What a trial took by its record."""
        real = record.real_time
        speed = 1.0 if real.virtual_per_real is None else real.virtual_per_real
        return cls(speed * real.duration_s * NS_PER_S, real.duration_s)


@dataclass
class Forecast:
    """The duration of trials so far, and an estimate of others."""

    took: dict[CellKey, list[Took]] = field(default_factory=dict)

    def learn(self, record: ResultRecord) -> None:
        """Take up a finished trial; one that failed says nothing of how long a good one takes."""
        if record.validity.valid:
            self.took.setdefault(record.trial.key.cell, []).append(Took.of(record))

    def alike(self, cell: Cell) -> list[Took]:
        """The durations of the most similar trials: of its cell, else of its workload, else all."""
        if own := self.took.get(CellKey(cell.stack, cell.workload)):
            return own
        same = [
            each for (_, workload), took in self.took.items() if workload == cell.workload for each in took
        ]
        return same or [each for took in self.took.values() for each in took]

    def expected_ns(self, cell: Cell) -> float | None:
        """How much of its own time a trial needs; None before any is done."""
        alike = self.alike(cell)
        return sum(each.trial_ns for each in alike) / len(alike) if alike else None

    def left_s(self, cell: Cell, done_ns: float = 0.0) -> float | None:
        """Real seconds until a running trial is done; None before any is done."""
        alike = self.alike(cell)
        trial_ns = sum(each.trial_ns for each in alike)
        if not trial_ns:
            return None
        real_s_per_ns = sum(each.real_s for each in alike) / trial_ns
        return max(0.0, trial_ns / len(alike) - done_ns) * real_s_per_ns

    def share(self, cell: Cell, done_ns: float) -> float:
        """How much of a trial is done, below 1 as long as it runs; 0 before any is done."""
        expected_ns = self.expected_ns(cell)
        return min(0.99, done_ns / expected_ns) if expected_ns else 0.0

    def study_left_s(
        self, running: Iterable[tuple[Cell, float]], waiting: Iterable[Cell], workers: int
    ) -> float | None:
        """Real seconds until a study is done; None before any trial is done.

        Args:
            running: How far each trial is that runs, in nanoseconds of its own time.
            waiting: Those that come after them, in their order: whichever worker is free takes the next.
            workers: How many run at once.
        """
        ends = [self.left_s(cell, done_ns) for cell, done_ns in running]
        free = [end for end in ends if end is not None]
        if len(free) < len(ends):
            return None
        free += [0.0] * (workers - len(free))
        heapq.heapify(free)
        for cell in waiting:
            takes = self.left_s(cell)
            if takes is None:
                return None
            heapq.heapreplace(free, free[0] + takes)
        return max(free, default=0.0)


@dataclass
class Countdown:
    """The displayed time left: it runs down by itself, and follows an estimate only if that differs much."""

    _end_s: float | None = None

    def left_s(self, estimate_s: float | None, now_s: float) -> float | None:
        """What to show.

        Args:
            estimate_s: By a forecast, of now; None where there is none.
            now_s: By any clock that runs steadily.
        """
        if estimate_s is None:
            self._end_s = None
            return None
        shown_s = None if self._end_s is None else self._end_s - now_s
        if shown_s is None or abs(estimate_s - shown_s) > max(_DRIFT_S, _DRIFT_SHARE * estimate_s):
            self._end_s = now_s + estimate_s
            return estimate_s
        return max(0.0, shown_s)


def words_of(left_s: float | None) -> str:
    """The time left for a person, as exact as an estimate deserves; empty where nothing is known."""
    if left_s is None:
        return ""
    minutes = round(left_s / 60)
    if left_s < 45:
        return "less than a minute left"
    if minutes < 20:
        return f"about {minutes} min left"
    if minutes < 58:
        return f"about {5 * round(minutes / 5)} min left"
    hours, tens = divmod(10 * round(minutes / 10), 60)
    return f"about {hours} h {tens:02d} min left" if tens else f"about {hours} h left"
