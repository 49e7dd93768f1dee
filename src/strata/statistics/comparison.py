# SPDX-License-Identifier: Apache-2.0
"""One stack against another, or one set of results against another: how much better, and how sure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np

from strata.spec.metric import LATENCY, Better, Metric
from strata.spec.step import Phase
from strata.statistics.family import Family
from strata.statistics.interval import (
    HALF_WIDTH_TARGET,
    PRACTICAL_ZONE,
    Floats,
    Interval,
    confidence_of,
    half_width,
)
from strata.statistics.level import Level, MeanLevel, estimate, family_among, interval_between, interval_of
from strata.statistics.summary import Series

Verdict = Literal[
    "better", "equal", "worse", "undecided", "marginal", "doubtful", "too few seeds", "not ranked"
]


@dataclass(frozen=True)
class Ratio:
    """``upper / lower`` of a metric over the seeds that both have, or, if they share none, over all of them.

    Attributes:
        n: The number of seeds they share; if none, of the side with fewer.
        ratio: Of values: the geometric mean of the ratios by seed. Of percentiles: the ratio of the
            percentiles of the merged histograms, if both sides have all of them; else as of values.
        interval: At 95 %, over the shared seeds in pairs; of several stacks together with those of all other
            pairs. None with fewer than three seeds, or if no seed reaches the metric.
        paired: Whether they share seeds.
        shift: The Hodges-Lehmann estimate of the ratio by seed, which an outlier hardly moves; None where it
            was not computed.
    """

    n: int
    ratio: float
    interval: Interval | None
    paired: bool = True
    shift: float | None = None


@dataclass(frozen=True)
class MetricKind:
    """A metric without its value."""

    name: str
    unit: str
    better: Better
    headline: bool
    family: str | None = None
    quantile: float | None = None
    phase: Phase = "measure"

    @property
    def is_latency(self) -> bool:
        return self.family is not None and self.family.endswith(LATENCY)

    @classmethod
    def of(cls, metric: Metric) -> Self:
        named = metric.name, metric.unit, metric.better, metric.headline
        return cls(*named, metric.family, metric.quantile, metric.phase)


@dataclass(frozen=True)
class Comparison:
    """A metric of one workload, on one stack against a baseline.

    Attributes:
        ratio: The metric on ``stack`` divided by that on ``baseline``.
        zone: Differences of no practical consequence: 0.03 for up to 3 %.
        precision: The half-width of an interval that no further seeds need to narrow.
        unranked: The reason for which one of the two has no rank; empty: both have one.
        doubt: The reason to doubt the numbers of one of the two; empty: there is none.
    """

    workload: str
    stack: str
    baseline: str
    kind: MetricKind
    ratio: Ratio
    zone: float = PRACTICAL_ZONE
    precision: float = HALF_WIDTH_TARGET
    unranked: str = ""
    doubt: str = ""

    @property
    def gain(self) -> float:
        """How many times better the stack is than the baseline: above 1 is better, whatever the metric."""
        return self.ratio.ratio if self.kind.better == "higher" else 1 / self.ratio.ratio

    @property
    def gain_interval(self) -> Interval | None:
        found = self.ratio.interval
        if found is None or self.kind.better == "higher":
            return found
        return Interval(1 / found.high, 1 / found.low, found.method)

    @property
    def verdict(self) -> Verdict:
        """The place of the interval of ``gain`` relative to the practical zone around 1.

        ``equal`` when it lies inside, ``better`` or ``worse`` when it lies outside, ``undecided`` when it
        straddles the zone's edge, ``marginal`` when it does so although it is as narrow as asked, so that the
        difference is about as large as the zone. ``doubtful`` instead of the first three when the numbers of
        one of the two are; ``too few seeds`` when there is no interval, ``not ranked`` when the numbers are
        not of the stacks.
        """
        if self.unranked:
            return "not ranked"
        interval = self.gain_interval
        if interval is None:
            return "too few seeds"
        found = self._of(interval)
        if found is None:
            return "marginal" if half_width(interval) <= self.precision else "undecided"
        is_same = interval.low == interval.high == 1
        return "doubtful" if self.doubt and not is_same else found

    def _of(self, interval: Interval) -> Literal["better", "equal", "worse"] | None:
        low, high = 1 / (1 + self.zone), 1 + self.zone
        if low <= interval.low and interval.high <= high:
            return "equal"
        if interval.low > high:
            return "better"
        return "worse" if interval.high < low else None


def compare(upper: Series, lower: Series, family: Family | None = None) -> Ratio | None:
    """The ratio of two stacks' metric, paired by seed if they share seeds; ``family`` as of `family_over`.

    None when one has no values, or a value is not positive.
    """
    seeds = sorted(upper.values.keys() & lower.values.keys())
    if not seeds:
        return _compare_unpaired(upper, lower)
    if any(each.values[seed] <= 0 for each in (upper, lower) for seed in seeds):
        return None
    n = len(seeds)
    ratios = np.array([upper.values[seed] / lower.values[seed] for seed in seeds])
    above, below = upper.level(seeds), lower.level(seeds)
    levels: tuple[Level, Level | None] = (above, below)
    if isinstance(above, MeanLevel) or isinstance(below, MeanLevel):
        # The ratios by seed themselves, so that equal ones give exactly their value. A merged percentile and
        # a mean of percentiles have no ratio.
        levels = (MeanLevel(ratios), None)
    ratio = estimate(levels[0], n) / (1.0 if levels[1] is None else estimate(levels[1], n))
    interval = interval_of(n, *levels, family, confidence_of(n))
    return Ratio(n, ratio, interval, paired=True, shift=float(np.exp(shift(np.log(ratios)))))


def compare_measured(upper: Series, lower: Series, family: Family | None = None) -> Ratio | None:
    """`compare` with measured values: no interval where no seed reaches the metric.

    One value, repeated, says nothing of any other; that both stacks have the same one is a fact.
    """
    found = compare(upper, lower, family)
    alike = found is not None and found.ratio != 1 and upper.alike and lower.alike
    return replace(found, interval=None) if found is not None and alike else found


def _compare_unpaired(upper: Series, lower: Series) -> Ratio | None:
    sides = [np.array([each.values[seed] for seed in sorted(each.values)]) for each in (upper, lower)]
    if not all(len(side) and (side > 0).all() for side in sides):
        return None
    levels = [each.level(sorted(each.values)) for each in (upper, lower)]
    if any(isinstance(each, MeanLevel) for each in levels):
        levels = [MeanLevel(side) for side in sides]
    above, below = ((len(side), level) for side, level in zip(sides, levels, strict=True))
    n = min(above[0], below[0])
    logs = [np.log(side) for side in sides]
    return Ratio(
        n,
        estimate(above[1], above[0]) / estimate(below[1], below[0]),
        interval_between(above, below),
        paired=False,
        shift=float(np.exp(shift_between(*logs))),
    )


def geometric_mean(each: list[Series]) -> Series:
    """Several stacks as one: the geometric mean of their values, seed by seed, over the seeds all have."""
    seeds = set.intersection(*(set(series.values) for series in each))
    logs = {seed: np.mean([np.log(series.values[seed]) for series in each]) for seed in sorted(seeds)}
    return Series({seed: float(np.exp(log)) for seed, log in logs.items()})


def family_over(each: Sequence[Series]) -> Family | None:
    """The family of several stacks' values of a metric, by the seeds that all of them have."""
    positive = [series for series in each if series.values and min(series.values.values()) > 0]
    seeds = sorted(set[int].intersection(*(set(series.values) for series in positive))) if positive else []
    if len(positive) < 3 or not seeds:
        return None
    levels: list[Level] = [series.level(seeds) for series in positive]
    if len({type(level) for level in levels}) > 1:
        levels = [MeanLevel(np.array([series.values[seed] for seed in seeds])) for series in positive]
    return family_among(len(seeds), levels)


def shift(differences: Floats) -> float:
    """The Hodges-Lehmann estimate of paired differences: the median of the means of all pairs of them.

    J. Hodges, E. Lehmann, "Estimates of location based on rank tests", Annals of Mathematical Statistics 34,
    1963. An outlier hardly moves it.
    """
    first, second = np.triu_indices(len(differences))
    return float(np.median((differences[first] + differences[second]) / 2))


def shift_between(upper: Floats, lower: Floats) -> float:
    """The Hodges-Lehmann estimate of two samples: the median of all their differences."""
    return float(np.median(np.subtract.outer(upper, lower)))
