# SPDX-License-Identifier: Apache-2.0
"""The bootstrap over seeds: its resamples, the same for every cell with as many seeds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations_with_replacement
from typing import Final

import numpy as np
from numpy.typing import NDArray

from strata.statistics.interval import Floats

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
        exact: Whether these are all possible resamples, with their probabilities, and not draws.
    """

    positions: Positions
    shares: Floats
    exact: bool

    def deviation(self, levels: Floats) -> float:
        """The standard deviation of a level over the resamples."""
        mean = float(self.shares @ levels)
        return math.sqrt(float(self.shares @ (levels - mean) ** 2))


@lru_cache(maxsize=64)
def resamples(seeds: int, draws: int = RESAMPLES) -> Resamples:
    """All resamples of this many seeds, if there are at most ``draws``; else ``draws`` seeded ones.

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
    """Each seed's effect on a level, by the levels of `leave_one_out`; for a mean, the value's deviation."""
    return np.asarray((len(jackknife) - 1) * (jackknife.mean() - jackknife), dtype=np.float64)
