# SPDX-License-Identifier: Apache-2.0
"""One metric of one cell over its seeds: the estimate, the spread, and how sure the estimate is."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Protocol

import numpy as np

from strata.printable import in_json
from strata.statistics.interval import PRACTICAL_ZONE, STUDENT, Interval, prediction
from strata.statistics.level import (
    Level,
    MeanLevel,
    Method,
    PercentileLevel,
    cached_method,
    distribution_of,
    estimate,
    interval_of,
)

VALUES_ABOVE_MIN: Final = 10
"""A percentile is reported where at least this many recorded values lie above it."""
_JUDGED_MIN: Final = 5
# J. Tukey, "Exploratory Data Analysis", 1977: beyond three interquartile ranges a value is "far out".
FENCE: Final = 3.0
# B. Iglewicz, D. Hoaglin, "How to Detect and Handle Outliers", 1993. Of few values it is exceeded by chance:
# of six normal ones in 15 % of the cases, so that there the limit is that of hyperfine: 14.826 deviations.
MODIFIED_Z: Final = 3.5
MODIFIED_Z_OF_FEW: Final = 10.0
FEW: Final = 10

_NORMAL_QUARTILE: Final = 0.6745


@dataclass(frozen=True)
class Outlier:
    """One seed's value that lies far from the others.

    Attributes:
        modified_z: Its distance from the median, in median absolute deviations, times 0.6745; infinite where
            at least half of the values are the same.
        ratio: To the median; None where this is 0.
    """

    seed: int
    value: float
    modified_z: float
    ratio: float | None


def outliers(values: Mapping[int, float]) -> tuple[Outlier, ...]:
    """The seeds that are outliers by both Tukey's and Iglewicz and Hoaglin's rule, in order of seeds.

    Positive values are judged by their logarithms; fewer than five values have no outliers.
    """
    if len(values) < _JUDGED_MIN:
        return ()
    positive = min(values.values()) > 0
    scaled = {seed: math.log(value) if positive else value for seed, value in values.items()}
    median = statistics.median(scaled.values())
    away = {seed: abs(value - median) for seed, value in scaled.items()}
    practical = PRACTICAL_ZONE if positive else PRACTICAL_ZONE * abs(median)
    if max(away.values()) <= practical:
        return ()
    deviation = statistics.median(away.values())
    first, _, third = statistics.quantiles(scaled.values(), n=4, method="inclusive")
    limit = MODIFIED_Z_OF_FEW if len(values) < FEW else MODIFIED_Z
    middle = statistics.median(values.values())
    found = []
    for seed in sorted(values):
        score = _NORMAL_QUARTILE * away[seed] / deviation if deviation > 0 else math.inf
        beyond = max(first - scaled[seed], scaled[seed] - third)
        if away[seed] > practical and beyond > FENCE * (third - first) and score > limit:
            ratio = values[seed] / middle if middle else None
            found.append(Outlier(seed, values[seed], score, ratio))
    return tuple(found)


class Measured(Protocol):
    """Values by seed, and their level over several seeds: a `Series`, or a mean of several metrics."""

    @property
    def values(self) -> Mapping[int, float]: ...

    @property
    def alike(self) -> bool:
        """Whether several seeds have exactly the same value: the seed does not reach it."""
        ...

    def level(self, seeds: list[int]) -> Level: ...


@dataclass(frozen=True)
class Series:
    """A metric's values by seed; of a percentile also the encoded histograms by seed, if there are any."""

    values: Mapping[int, float]
    percentile: float | None = None
    histograms: Mapping[int, str] = field(default_factory=dict, repr=False)

    @cached_property
    def alike(self) -> bool:
        """Whether several seeds have exactly the same value: the seed does not reach the metric."""
        # Percentiles come in the steps of histograms, so that different seeds may have the same one.
        each = self.histograms or self.values
        return len(each) > 1 and len(set(each.values())) == 1

    @property
    def estimate(self) -> float | None:
        """The level over all seeds, without an interval, which takes ten thousand times as long."""
        seeds = sorted(self.values)
        return estimate(self.level(seeds), len(seeds)) if seeds else None

    def level(self, seeds: list[int]) -> Level:
        """The metric's level over ``seeds``, made once for each set."""
        return self._level(tuple(seeds))

    @cached_method
    def _level(self, seeds: tuple[int, ...]) -> Level:
        if self.percentile is not None and all(seed in self.histograms for seed in seeds):
            chosen = {seed: self.histograms[seed] for seed in seeds}
            return PercentileLevel(distribution_of(chosen), self.percentile)
        return MeanLevel(np.array([self.values[seed] for seed in seeds], dtype=np.float64))


@dataclass(frozen=True)
class MetricSummary:
    """A metric over the seeds of one cell, in the metric's unit.

    Attributes:
        values: By seed.
        estimate: By ``method``, over all seeds.
        interval: None with fewer than three seeds, or if no seed reaches the metric.
    """

    values: Mapping[int, float]
    estimate: float
    method: Method
    interval: Interval | None

    @cached_property
    def outliers(self) -> tuple[Outlier, ...]:
        """The seeds that are far from the others, but part of the estimate."""
        return outliers(self.values)

    @cached_property
    def prediction(self) -> Interval | None:
        """Where another seed's value, so another drive's, lies in 95 of 100 cases; None if unknown."""
        if self.interval is None or self.minimum <= 0:
            return None
        low, high = prediction(np.log(np.array([*self.values.values()], dtype=np.float64)))
        return Interval(float(np.exp(low)), float(np.exp(high)), STUDENT)

    @property
    @in_json
    def n(self) -> int:
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


def summarize(series: Measured) -> MetricSummary:
    """Summarize a metric over its seeds, of which there must be one at least.

    Raises ResultError if a histogram cannot be decoded.
    """
    if not series.values:
        raise ValueError("nothing to summarize")
    seeds = sorted(series.values)
    level = series.level(seeds)
    values, n = {seed: series.values[seed] for seed in seeds}, len(seeds)
    interval = None if series.alike else interval_of(n, level)
    return MetricSummary(values, estimate(level, n), level.method, interval)
