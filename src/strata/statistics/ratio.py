# SPDX-License-Identifier: Apache-2.0
"""One stack against another: the ratio of a metric, paired by seed, and what it amounts to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from strata.spec.metric import Better
from strata.statistics.level import Interval, bootstrap
from strata.statistics.summary import Series

# A difference below this is of no practical consequence, however sure it is.
PRACTICAL_ZONE: Final = 0.03

Verdict = Literal["higher", "even", "lower", "undecided", "too few seeds"]


@dataclass(frozen=True)
class Ratio:
    """``upper / lower`` of a metric over the seeds that both have.

    Attributes:
        n: How many seeds they share.
        ratio: Of values: the geometric mean of the ratios by seed. Of percentiles: the ratio of the
            percentiles of the merged histograms.
        interval: 95 % percentile bootstrap over the shared seeds, drawn in pairs; None with fewer than three.
    """

    n: int
    ratio: float
    interval: Interval | None

    @property
    def verdict(self) -> Verdict:
        """What the interval says of the zone of ±3 % around 1.

        ``even`` when it lies inside, ``higher`` or ``lower`` when it lies outside, ``undecided`` when
        it straddles the zone's edge, ``too few seeds`` when there is none.
        """
        if self.interval is None:
            return "too few seeds"
        low, high = 1 / (1 + PRACTICAL_ZONE), 1 + PRACTICAL_ZONE
        if low <= self.interval.low and self.interval.high <= high:
            return "even"
        if self.interval.low > high:
            return "higher"
        if self.interval.high < low:
            return "lower"
        return "undecided"


def compare(upper: Series, lower: Series) -> Ratio | None:
    """The ratio of two stacks' metric.

    Returns:
        None when they share no seed, or a value is not positive.
    """
    seeds = sorted(upper.values.keys() & lower.values.keys())
    if not seeds or any(each.values[seed] <= 0 for each in (upper, lower) for seed in seeds):
        return None
    above, below = upper.level(seeds), lower.level(seeds)
    once = np.arange(len(seeds))[np.newaxis]
    ratio = float(above.at(once)[0] / below.at(once)[0])
    return Ratio(len(seeds), ratio, bootstrap(len(seeds), above, below))


def geometric_mean(each: list[Series]) -> Series:
    """Several stacks as one: the geometric mean of their values, seed by seed, over the seeds all have."""
    seeds = set.intersection(*(set(series.values) for series in each))
    values = {
        seed: float(np.exp(np.mean([np.log(series.values[seed]) for series in each])))
        for seed in sorted(seeds)
    }
    return Series(values)


def best_first(estimates: Mapping[str, float], better: Better) -> list[str]:
    """The names from the best estimate to the worst; equal ones keep their order."""
    sign = -1 if better == "higher" else 1
    return sorted(estimates, key=lambda name: sign * estimates[name])
