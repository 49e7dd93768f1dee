# SPDX-License-Identifier: Apache-2.0
"""Whether a throughput was steady, by the rule of SNIA's Solid State Storage Performance Test Specification.

Five rounds; their range is at most 20 % of their mean, and what a line through them rises or falls by over
the window is at most 10 % of it. SNIA's rounds are tests of a minute each; here they are the fifths of one
window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

ROUNDS: Final = 5
EXCURSION_MAX: Final = 0.20
DRIFT_MAX: Final = 0.10


@dataclass(frozen=True)
class Steadiness:
    """A throughput in five rounds.

    Attributes:
        rounds: The throughput in each, in the unit of what was given.
        excursion: From the lowest to the highest, as a share of their mean.
        drift: How far a line of least squares rises from the first round to the last, as a share of it;
            negative when it falls.
    """

    rounds: tuple[float, ...]
    excursion: float
    drift: float

    @property
    def is_steady(self) -> bool:
        """Whether SNIA's rule holds."""
        return self.excursion <= EXCURSION_MAX and abs(self.drift) <= DRIFT_MAX


def steadiness(rates: Sequence[float]) -> Steadiness | None:
    """Judge a throughput by its rates in equal intervals.

    An interval that lies in two rounds counts in both, as far as it lies in each.

    Returns:
        None of fewer than five intervals, or when nothing was done at all.
    """
    if len(rates) < ROUNDS or sum(rates) <= 0:
        return None
    length = len(rates) / ROUNDS
    rounds = tuple(_mean_between(rates, index * length, (index + 1) * length) for index in range(ROUNDS))
    mean = sum(rounds) / ROUNDS
    middle = (ROUNDS - 1) / 2
    spread = sum((index - middle) ** 2 for index in range(ROUNDS))
    slope = sum((index - middle) * (each - mean) for index, each in enumerate(rounds)) / spread
    return Steadiness(rounds, (max(rounds) - min(rounds)) / mean, slope * (ROUNDS - 1) / mean)


def _mean_between(rates: Sequence[float], start: float, end: float) -> float:
    """The mean from ``start`` to ``end``, counted in intervals."""
    first, last = int(start), min(int(end), len(rates) - 1)
    parts = ((rates[at], min(end, at + 1) - max(start, at)) for at in range(first, last + 1))
    return sum(rate * max(part, 0.0) for rate, part in parts) / (end - start)
