# SPDX-License-Identifier: Apache-2.0
"""The bootstrap over seeds: its resamples, the same for every cell with as many seeds, and BCa intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Final

import numpy as np
from numpy.typing import NDArray

from strata.statistics.interval import CONFIDENCE, Floats, Interval

Positions = NDArray[np.int64]

RESAMPLES: Final = 10_000
# The same values give the same interval on every machine, so the draws are fixed.
BOOTSTRAP_SEED: Final = 20_260_101


@dataclass(frozen=True, eq=False)
class Resamples:
    """Sets of seeds drawn with replacement.

    Attributes:
        positions: Indices into the seeds, one resample per row.
        shares: The probability of each row.
        exact: Whether these are all that there are, with their probabilities, and not draws.
    """

    positions: Positions
    shares: Floats
    exact: bool

    def deviation(self, levels: Floats) -> float:
        """The standard deviation of a level over the resamples."""
        mean = float(self.shares @ levels)
        return math.sqrt(float(self.shares @ (levels - mean) ** 2))

    def quantiles(self, levels: Floats, shares: Floats) -> Floats:
        """The lowest levels that at least such shares of the resamples do not exceed."""
        order = np.argsort(levels, kind="stable")
        places = np.searchsorted(np.cumsum(self.shares[order]), np.asarray(shares) - 1e-12)
        return np.asarray(levels[order][np.minimum(places, len(order) - 1)], dtype=np.float64)

    def share_below(self, levels: Floats, level: float) -> float:
        """Which share of the resamples lies below ``level``; those at it count half."""
        slack = 1e-12 * max(1.0, abs(level))
        below = self.shares[levels < level - slack].sum()
        return float(below + self.shares[np.abs(levels - level) <= slack].sum() / 2)


@lru_cache(maxsize=64)
def resamples(seeds: int, draws: int = RESAMPLES) -> Resamples:
    """All resamples of so many seeds, if they are no more than ``draws``; else as many seeded draws.

    All of them make the ideal bootstrap, which has no error of its own (B. Efron, R. Tibshirani, "An
    Introduction to the Bootstrap", 1993, sections 6.2 and 12). There are 462 of six seeds, 6435 of eight.
    """
    if math.comb(2 * seeds - 1, seeds) > draws:
        rng = np.random.default_rng(BOOTSTRAP_SEED)
        return Resamples(rng.integers(0, seeds, (draws, seeds)), np.full(draws, 1 / draws), exact=False)
    rows = np.array(list(combinations_with_replacement(range(seeds), seeds)), dtype=np.int64)
    ways = [math.factorial(seeds) / math.prod(map(math.factorial, np.bincount(row))) for row in rows.tolist()]
    return Resamples(rows, np.array(ways) / float(seeds) ** seeds, exact=True)


@lru_cache(maxsize=64)
def leave_one_out(seeds: int) -> Positions:
    """The jackknife's resamples: all seeds but one, one per row."""
    rows = [[at for at in range(seeds) if at != left] for left in range(seeds)]
    return np.array(rows, dtype=np.int64)


def influences(jackknife: Floats) -> Floats:
    """By how much each seed moves a level: of a mean, each value's deviation from it.

    Args:
        jackknife: The levels of `leave_one_out`.
    """
    return np.asarray((len(jackknife) - 1) * (jackknife.mean() - jackknife), dtype=np.float64)


def bca(drawn: Resamples, levels: Floats, estimate: float, jackknife: Floats) -> Interval:
    """The bias-corrected and accelerated interval.

    B. Efron, "Better bootstrap confidence intervals", Journal of the American Statistical Association 82,
    1987. With few seeds it covers too little (docs/explanation/statistics.md), so another one is shown.

    Args:
        drawn: The resamples.
        levels: The level of each.
        estimate: The level of all seeds.
        jackknife: The levels of `leave_one_out`.
    """
    from scipy import special  # noqa: PLC0415 - takes a while to load, which no other command should pay

    moved = influences(jackknife)
    spread = float((moved**2).sum())
    below = drawn.share_below(levels, estimate)
    if spread == 0 or not 0 < below < 1:
        return Interval(estimate, estimate, "BCa")
    bias = float(special.ndtri(below))
    acceleration = float((moved**3).sum()) / (6 * spread**1.5)
    ends = bias + special.ndtri(np.array([(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2]))
    low, high = drawn.quantiles(levels, special.ndtr(bias + ends / (1 - acceleration * ends)))
    return Interval(float(low), float(high), "BCa")
