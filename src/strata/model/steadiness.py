# SPDX-License-Identifier: Apache-2.0
"""Whether a throughput was steady: by the drift of five rounds, or by SNIA's rule; and from when on.

A measured window is judged by its drift: a line through its fifths, held against its standard error; and by a
beginning that lies apart from the rest (W. Dixon's ratio, Biometrics 9, 1953). The means of fifths carry
little of the correlation of neighbouring seconds. The quantiles are chosen by simulation (see
docs/explanation/statistics.md): of stationary windows, few are called not steady, at most one in nine.

Preconditioning follows SNIA's Solid State Storage Performance Test Specification: five rounds, whose range is
at most 20 % of their mean, and the drift of a line through them at most 10 %.

From when on: by the marginal standard error rule of K. P. White (An effective truncation heuristic for bias
reduction in simulation output, Simulation 69, 1997), in batches of five as in White, Cobb and Spratt (A
comparison of five steady-state truncation heuristics, Winter Simulation Conference 2000): MSER-5. It proposes
a point in half of all stationary windows, so that only windows that are not steady are asked for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from strata.model.warning import Verdict

ROUNDS: Final = 5
EXCURSION_MAX: Final = 0.20
SNIA_DRIFT_MAX: Final = 0.10
# The zone in which a difference between stacks is of no consequence.
DRIFT_MAX: Final = 0.03
# Student's t of three degrees of freedom: both sides at 98 and 99 %, one side at 95 %.
_SURE: Final = 4.54
_SURE_OF_FEW: Final = 5.84
_WITHIN: Final = 2.35
# Dixon's ratio of 0.71 for one of five values, as a multiple of the range of the four others.
_APART: Final = 2.45
# In rounds of fewer intervals, neighbouring rounds are correlated as well.
_ROUND_MIN: Final = 6

MSER_BATCH: Final = 5
# With fewer intervals than make ten batches, each is a batch of its own. An estimate, as is the least.
_BATCHES_MIN: Final = 10
# The rule's statistic grows unreliable where little is left behind the point.
_TAIL_MIN: Final = 5


@dataclass(frozen=True)
class Steadiness:
    """A throughput in five rounds.

    Attributes:
        rounds: The throughput in each, in the unit of the rates.
        excursion: From the lowest to the highest, as a share of their mean.
        drift: How far a line of least squares rises from the first round to the last, as a share of it;
            negative when it falls.
        error: The standard error of the drift.
        intervals: The number of rates.
    """

    rounds: tuple[float, ...]
    excursion: float
    drift: float
    error: float
    intervals: int

    @property
    def is_steady(self) -> bool:
        """By SNIA's rule."""
        return self.excursion <= EXCURSION_MAX and abs(self.drift) <= SNIA_DRIFT_MAX

    @property
    def hidden(self) -> float:
        """The drift that the scatter could hide, as a share of the mean."""
        return abs(self.drift) + _WITHIN * self.error

    @property
    def verdict(self) -> Verdict:
        """``yes`` if the drift is surely within 3 %, ``no`` if there surely is one and it is beyond."""
        if self.hidden <= DRIFT_MAX:
            return "yes"
        if self._begins_apart:
            return "no"
        sure = _SURE if self.intervals >= ROUNDS * _ROUND_MIN else _SURE_OF_FEW
        return "no" if abs(self.drift) > max(DRIFT_MAX, sure * self.error) else "unknown"

    @property
    def _begins_apart(self) -> bool:
        first, *others = self.rounds
        gap = max(min(others) - first, first - max(others))
        mean = sum(self.rounds) / ROUNDS
        return gap > max(_APART * (max(others) - min(others)), DRIFT_MAX * mean)


def steadiness(rates: Sequence[float]) -> Steadiness | None:
    """Judge a throughput by its rates in equal intervals; None if they are under five, or nothing was done.

    An interval that lies in two rounds counts in both, as far as it lies in each.
    """
    if len(rates) < ROUNDS or sum(rates) <= 0:
        return None
    length = len(rates) / ROUNDS
    rounds = tuple(_mean_between(rates, index * length, (index + 1) * length) for index in range(ROUNDS))
    mean = sum(rounds) / ROUNDS
    middle = (ROUNDS - 1) / 2
    spread = sum((index - middle) ** 2 for index in range(ROUNDS))
    slope = sum((index - middle) * (each - mean) for index, each in enumerate(rounds)) / spread
    left = sum((each - mean - slope * (index - middle)) ** 2 for index, each in enumerate(rounds))
    error = math.sqrt(left / (ROUNDS - 2) / spread)
    scale = (ROUNDS - 1) / mean
    return Steadiness(rounds, (max(rounds) - min(rounds)) / mean, slope * scale, error * scale, len(rates))


def _mean_between(rates: Sequence[float], start: float, end: float) -> float:
    first, last = int(start), min(int(end), len(rates) - 1)
    parts = ((rates[at], min(end, at + 1) - max(start, at)) for at in range(first, last + 1))
    return sum(rate * max(part, 0.0) for rate, part in parts) / (end - start)


def transient_intervals(rates: Sequence[float]) -> int | None:
    """The number of intervals from the beginning on that should have been warm-up, by MSER-5.

    The point is the one behind which the interval of the mean would be narrowest. Fewer than fifty intervals
    are taken one by one instead of in batches of five; each is a mean over its length already.

    0: nothing is to be left out. None: they are fewer than ten intervals, or the point does not lie in the
    first half, so that the window is too short to tell.
    """
    batch = MSER_BATCH if len(rates) >= MSER_BATCH * _BATCHES_MIN else 1
    means = [sum(rates[at : at + batch]) / batch for at in range(0, len(rates) - batch + 1, batch)]
    count = len(means)
    if count < _BATCHES_MIN:
        return None
    best, best_at = float("inf"), 0
    # Of the rates behind the point, from the end on (B. P. Welford, Technometrics 4, 1962).
    mean = deviations = 0.0
    for at in reversed(range(count)):
        left = count - at
        step = means[at] - mean
        mean += step / left
        deviations += step * (means[at] - mean)
        if left >= _TAIL_MIN and deviations / left**2 <= best:
            best, best_at = deviations / left**2, at
    return best_at * batch if best_at <= count // 2 else None
