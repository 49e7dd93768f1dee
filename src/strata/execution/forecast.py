# SPDX-License-Identifier: Apache-2.0
"""The time that a study still takes, by its trials so far.

A trial's duration in its own time (virtual in the lab) hardly depends on the machine; the real seconds per
second of it do, and vary with workload and stack. Both are estimated apart, from the most similar trials.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, Self

from strata.model.trial import CellKey
from strata.results.record import ResultRecord
from strata.units import NS_PER_S

# A new estimate replaces the displayed one if they differ by more than this share and this many seconds.
_DRIFT_SHARE: Final = 0.2
_DRIFT_S: Final = 10.0


@dataclass(frozen=True)
class TrialDuration:
    """A trial's duration in its own time and in real time; of several ``trials`` the sums."""

    trial_ns: float
    real_s: float
    trials: int = 1

    @classmethod
    def of(cls, record: ResultRecord) -> Self:
        real = record.real_time
        speed = 1.0 if real.virtual_per_real is None else real.virtual_per_real
        return cls(speed * real.duration_s * NS_PER_S, real.duration_s)

    def __add__(self, other: TrialDuration) -> TrialDuration:
        return TrialDuration(
            self.trial_ns + other.trial_ns, self.real_s + other.real_s, self.trials + other.trials
        )


_NONE: Final = TrialDuration(0.0, 0.0, 0)


@dataclass
class Forecast:
    """The duration of trials so far, and an estimate of others."""

    took: dict[CellKey, TrialDuration] = field(default_factory=dict)  # all of a cell

    def learn(self, record: ResultRecord) -> None:
        """Add a finished trial, if it is valid: a failed one may have ended at any time."""
        if record.validity.valid:
            cell = record.trial.key.cell
            self.took[cell] = self.took.get(cell, _NONE) + TrialDuration.of(record)

    def nearest(self, cell: CellKey) -> TrialDuration:
        """The durations of the most similar trials: of its cell, else of its workload, else all."""
        if own := self.took.get(cell):
            return own
        alike = [took for each, took in self.took.items() if each.workload == cell.workload]
        return sum(alike or self.took.values(), _NONE)

    def expected_ns(self, cell: CellKey) -> float | None:
        """A trial's expected duration in its own time; None before any is done."""
        nearest = self.nearest(cell)
        return nearest.trial_ns / nearest.trials if nearest.trials else None

    def left_s(self, cell: CellKey, done_ns: float = 0.0) -> float | None:
        """Real seconds until a running trial is done; None before any is done."""
        nearest = self.nearest(cell)
        if not nearest.trial_ns:
            return None
        real_s_per_ns = nearest.real_s / nearest.trial_ns
        return max(0.0, nearest.trial_ns / nearest.trials - done_ns) * real_s_per_ns

    def share(self, cell: CellKey, done_ns: float) -> float:
        """The share of a running trial that is done, below 1; 0 before any is done."""
        expected_ns = self.expected_ns(cell)
        return min(0.99, done_ns / expected_ns) if expected_ns else 0.0

    def study_left_s(
        self, running: Iterable[tuple[CellKey, float]], waiting: Iterable[CellKey], workers: int
    ) -> float | None:
        """Real seconds until a study is done; None before any trial is done.

        ``running`` has the cell of each running trial with its progress in nanoseconds of its own time; the
        ``waiting`` ones start in their order, each on the first free worker.
        """
        ends = [self.left_s(cell, done_ns) for cell, done_ns in running]
        free = [end for end in ends if end is not None]
        if len(free) < len(ends):
            return None
        free += [0.0] * (workers - len(free))
        heapq.heapify(free)
        known: dict[CellKey, float | None] = {}
        for cell in waiting:
            if cell not in known:
                known[cell] = self.left_s(cell)
            if (takes := known[cell]) is None:
                return None
            heapq.heapreplace(free, free[0] + takes)
        return max(free, default=0.0)


@dataclass
class Countdown:
    """The displayed time left: it counts down, and follows an estimate only if that differs much."""

    _end_s: float | None = None

    def left_s(self, estimate_s: float | None, now_s: float) -> float | None:
        """The time to display, from a forecast made now; ``now_s`` is of any steady clock."""
        if estimate_s is None:
            self._end_s = None
            return None
        shown_s = None if self._end_s is None else self._end_s - now_s
        if shown_s is None or abs(estimate_s - shown_s) > max(_DRIFT_S, _DRIFT_SHARE * estimate_s):
            self._end_s = now_s + estimate_s
            return estimate_s
        return max(0.0, shown_s)
