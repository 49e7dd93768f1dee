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
    estimate,
    interval_of,
)
from strata.statistics.outliers import Outlier, outliers

VALUES_ABOVE_MIN: Final = 10
"""A percentile is reported where at least this many recorded values lie above it."""


@dataclass(frozen=True)
class Series:
    """A metric's values by seed; of a percentile also the encoded histograms by seed, if there are any."""

    values: Mapping[int, float]
    percentile: float | None = None
    histograms: Mapping[int, str] = field(default_factory=dict, repr=False)
    _levels: dict[tuple[int, ...], Level] = field(default_factory=dict, repr=False, compare=False)

    def level(self, seeds: list[int]) -> Level:
        """The metric's level over ``seeds``, made once for each set."""
        if tuple(seeds) not in self._levels:
            self._levels[tuple(seeds)] = self._level(seeds)
        return self._levels[tuple(seeds)]

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
        estimate: By ``method``, over all seeds.
        interval: None with fewer than three seeds.
    """

    values: Mapping[int, float]
    estimate: float
    method: Method
    interval: Interval | None

    @cached_property
    def outliers(self) -> tuple[Outlier, ...]:
        """The seeds that are far from the others, but part of the estimate."""
        return outliers(self.values)

    @property
    def n(self) -> int:
        """The number of seeds."""
        return len(self.values)

    @property
    def minimum(self) -> float:
        return min(self.values.values())

    @property
    def maximum(self) -> float:
        return max(self.values.values())

    @property
    def spread(self) -> float:
        """Half the distance between the extremes, as a share of the estimate; 0 for one seed."""
        return (self.maximum - self.minimum) / 2 / abs(self.estimate) if self.estimate else 0.0


def summarize(series: Series) -> Summary:
    """Summarize a metric over its seeds, of which there must be one at least.

    Raises:
        ResultError: If a histogram cannot be decoded.
    """
    if not series.values:
        raise ValueError("nothing to summarize")
    seeds = sorted(series.values)
    level = series.level(seeds)
    return Summary(
        values={seed: series.values[seed] for seed in seeds},
        estimate=estimate(level, len(seeds)),
        method=level.method,
        interval=interval_of(len(seeds), level),
    )
