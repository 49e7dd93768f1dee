# SPDX-License-Identifier: Apache-2.0
"""One metric of one cell over its seeds: the estimate, the spread, and how sure the estimate is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np

from strata.statistics.interval import Interval
from strata.statistics.level import (
    Level,
    MeanLevel,
    Method,
    PercentileLevel,
    distribution_of,
    interval_of,
    once,
)
from strata.statistics.outliers import Outlier, outliers

VALUES_ABOVE_MIN: Final = 10
"""A percentile is given where at least this many recorded values lie above it."""


@dataclass(frozen=True)
class Series:
    """A metric's values by seed, with the histograms behind them where there are any.

    Attributes:
        percentile: Which percentile the values are of; None for any other metric.
        histograms: Encoded, by seed.
    """

    values: Mapping[int, float]
    percentile: float | None = None
    histograms: Mapping[int, str] = field(default_factory=dict, repr=False)
    _levels: dict[tuple[int, ...], Level] = field(default_factory=dict, repr=False, compare=False)

    def level(self, seeds: list[int]) -> Level:
        """The metric's level over ``seeds``; asked again, the same one."""
        known = self._levels.get(tuple(seeds))
        if known is None:
            known = self._levels[tuple(seeds)] = self._level(seeds)
        return known

    def _level(self, seeds: list[int]) -> Level:
        if self.percentile is not None and all(seed in self.histograms for seed in seeds):
            chosen = {seed: self.histograms[seed] for seed in seeds}
            return PercentileLevel(distribution_of(chosen), self.percentile)
        return MeanLevel(np.array([self.values[seed] for seed in seeds], dtype=np.float64))


@dataclass(frozen=True)
class Summary:
    """A metric over the seeds of one cell, in the metric's unit.

    Attributes:
        values: By seed.
        estimate: What ``method`` yields over all seeds.
        interval: None with fewer than three seeds: too little to say how sure the estimate is.
    """

    values: Mapping[int, float]
    estimate: float
    method: Method
    interval: Interval | None

    @cached_property
    def outliers(self) -> tuple[Outlier, ...]:
        """The seeds that are far from the others; they are part of the estimate."""
        return outliers(self.values)

    @property
    def n(self) -> int:
        """How many seeds."""
        return len(self.values)

    @property
    def minimum(self) -> float:
        """The lowest value of a seed."""
        return min(self.values.values())

    @property
    def maximum(self) -> float:
        """The highest value of a seed."""
        return max(self.values.values())

    @property
    def spread(self) -> float:
        """Half the distance between the extremes, as a share of the estimate; 0 for one seed."""
        return (self.maximum - self.minimum) / 2 / abs(self.estimate) if self.estimate else 0.0


def summarize(series: Series) -> Summary:
    """Summarize a metric over its seeds.

    Raises:
        ValueError: If there are no values.
        ResultError: If a histogram cannot be decoded.
    """
    if not series.values:
        raise ValueError("nothing to summarize")
    seeds = sorted(series.values)
    level = series.level(seeds)
    return Summary(
        values={seed: series.values[seed] for seed in seeds},
        estimate=float(level.at(once(len(seeds)))[0]),
        method=level.method,
        interval=interval_of(len(seeds), level),
    )
