# SPDX-License-Identifier: Apache-2.0
"""One stack against another, or one set of results against another: how much better, and how sure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np

from strata.model.metric import LATENCY, Better, Metric
from strata.model.step import Phase
from strata.printable import in_json
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
from strata.statistics.summary import Measured, Series
from strata.units import significant

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

    def __repr__(self) -> str:
        ends = self.interval and f"({significant(self.interval.low)}, {significant(self.interval.high)})"
        return f"Ratio(n={self.n}, ratio={significant(self.ratio)}, interval={ends})"


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
    """A metric of one workload, on one stack against a baseline; only `judge` makes one.

    Attributes:
        ratio: The metric on ``stack`` divided by that on ``baseline``.
        zone: Differences of no practical consequence: 0.03 for up to 3 %.
        precision: The half-width of an interval that no further seeds need to narrow.
        unranked: The reason for which one of the two has no rank; empty: both have one.
        doubt: The reasons to doubt the numbers of the two; empty: there is none.
    """

    workload: str
    stack: str
    baseline: str
    kind: MetricKind
    ratio: Ratio
    zone: float
    precision: float
    unranked: str
    doubt: str

    @property
    @in_json
    def gain(self) -> float:
        """How many times better the stack is than the baseline: above 1 is better, whatever the metric."""
        return self.ratio.ratio if self.kind.better == "higher" else 1 / self.ratio.ratio

    @property
    @in_json
    def gain_interval(self) -> Interval | None:
        found = self.ratio.interval
        if found is None or self.kind.better == "higher":
            return found
        return Interval(1 / found.high, 1 / found.low, found.method)

    @property
    @in_json
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
        found = self.beyond(interval)
        if found is None:
            return "marginal" if half_width(interval) <= self.precision else "undecided"
        is_same = interval.low == interval.high == 1
        return "doubtful" if self.doubt and not is_same else found

    def beyond(self, interval: Interval) -> Literal["better", "equal", "worse"] | None:
        """The side of the zone on which an interval lies; None across its edge."""
        low, high = 1 / (1 + self.zone), 1 + self.zone
        if low <= interval.low and interval.high <= high:
            return "equal"
        if interval.low > high:
            return "better"
        return "worse" if interval.high < low else None


@dataclass(frozen=True)
class CellSeries:
    """A metric of one cell, or of several as one, with everything that a verdict on it depends on.

    Attributes:
        precision: The half-width that its study asks of intervals.
        unranked: The reason for which it has no rank; empty: it has one.
        doubt: The reasons to doubt its numbers; empty: there is none.
    """

    workload: str
    stack: str
    series: Measured
    precision: float = HALF_WIDTH_TARGET
    unranked: str = ""
    doubt: str = ""

    @classmethod
    def joined(cls, workload: str, stack: str, cells: Sequence[Self], series: Measured) -> Self:
        """Several cells as one with the series made of theirs, as doubtful as any of them."""
        unranked = next((cell.unranked for cell in cells if cell.unranked), "")
        precision = min(cell.precision for cell in cells)
        return cls(workload, stack, series, precision, unranked, _joined(cell.doubt for cell in cells))

    @classmethod
    def mean(cls, workload: str, stack: str, cells: Sequence[Self], power: float = 1) -> Self:
        """Several cells as one: the geometric mean of their values by seed, raised to a power."""
        series = geometric_mean([cell.series for cell in cells], power)
        return cls.joined(workload, stack, cells, series)


def judge(
    kind: MetricKind,
    upper: CellSeries,
    lower: CellSeries,
    *,
    zone: float = PRACTICAL_ZONE,
    family: Family | None = None,
) -> Comparison | None:
    """The one judge: a cell against a baseline. None without values, or if a value is not positive.

    There is no interval where no seed reaches the metric on either side: one value, repeated, says nothing of
    any other. That both have the same one is a fact. ``zone`` is the difference of no practical consequence,
    ``family`` that of all stacks among which the two were chosen (`family_over`).
    """
    ratio = compare(upper.series, lower.series, family)
    if ratio is None:
        return None
    if ratio.ratio != 1 and upper.series.alike and lower.series.alike:
        ratio = replace(ratio, interval=None)
    return Comparison(
        workload=upper.workload,
        stack=upper.stack,
        baseline=lower.stack,
        kind=kind,
        ratio=ratio,
        zone=zone,
        precision=min(upper.precision, lower.precision),
        unranked=upper.unranked or lower.unranked,
        doubt=_joined((upper.doubt, lower.doubt)),
    )


def _joined(doubts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, doubts)))


def compare(upper: Measured, lower: Measured, family: Family | None = None) -> Ratio | None:
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


def _compare_unpaired(upper: Measured, lower: Measured) -> Ratio | None:
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


def geometric_mean(each: Sequence[Measured], power: float = 1) -> Measured:
    """Several metrics as one: the geometric mean of their values, raised to a power, by the seeds all have.

    Empty if a value is not positive; a single one is itself, with its histograms.
    """
    if len(each) == 1 and power == 1:
        return each[0]
    if any(value <= 0 for series in each for value in series.values.values()):
        return Series({})
    seeds = sorted(set.intersection(*(set(series.values) for series in each)))
    # Exact sums: the order of the cells must not make equal means differ.
    logs = {seed: math.fsum(math.log(series.values[seed]) for series in each) for seed in seeds}
    return Series({seed: math.exp(log * power / len(each)) for seed, log in logs.items()})


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
