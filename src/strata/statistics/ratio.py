# SPDX-License-Identifier: Apache-2.0
"""One stack against another: the ratio of a metric, paired by seed, and what it amounts to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from strata.spec.metric import Better
from strata.statistics.summary import Interval, bootstrap_mean

# A difference below this is of no practical consequence, however sure it is.
PRACTICAL_ZONE: Final = 0.03

Verdict = Literal["higher", "even", "lower", "undecided", "too few seeds"]


@dataclass(frozen=True)
class Ratio:
    """``value / baseline`` of a metric as the geometric mean over the seeds that both have.

    Attributes:
        interval: 95 % percentile bootstrap of the paired log ratios; None with fewer than three seeds.
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

    def inverse(self) -> Ratio:
        """``baseline / value``."""
        interval = self.interval and Interval(1 / self.interval.high, 1 / self.interval.low)
        return Ratio(self.n, 1 / self.ratio, interval)


def compare(values: Mapping[int, float], baseline: Mapping[int, float]) -> Ratio | None:
    """The ratio of two stacks' values by seed.

    Returns:
        None when they share no seed, or a value is not positive.
    """
    seeds = sorted(values.keys() & baseline.keys())
    if not seeds or any(values[seed] <= 0 or baseline[seed] <= 0 for seed in seeds):
        return None
    logs = np.array([np.log(values[seed] / baseline[seed]) for seed in seeds], dtype=np.float64)
    interval = bootstrap_mean(logs)
    if interval is not None:
        interval = Interval(float(np.exp(interval.low)), float(np.exp(interval.high)))
    return Ratio(len(seeds), float(np.exp(logs.mean())), interval)


def best_first(means: Mapping[str, float], better: Better) -> list[str]:
    """The names from the best mean to the worst; equal means keep their order."""
    return sorted(means, key=lambda name: -means[name] if better == "higher" else means[name])
