# SPDX-License-Identifier: Apache-2.0
"""One stack against another, or one set of results against another: how much better, and how sure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np

from strata.spec.metric import LATENCY, Better, Metric
from strata.statistics.interval import PRACTICAL_ZONE, SEEDS_MIN, Interval
from strata.statistics.level import MeanLevel, estimate, interval_between, interval_of
from strata.statistics.significance import holm, rank_sum_p_value, shift, shift_between, signed_rank_p_value
from strata.statistics.summary import Series

Verdict = Literal["better", "equal", "worse", "undecided", "too few seeds", "not ranked"]


@dataclass(frozen=True)
class Ratio:
    """``upper / lower`` of a metric over the seeds that both have, or, if they share none, over all of them.

    Attributes:
        n: The number of seeds they share; if none, of the side with fewer.
        ratio: Of values: the geometric mean of the ratios by seed. Of percentiles: the ratio of the
            percentiles of the merged histograms, if both sides have all of them; else as of values.
        interval: At 95 %, over the shared seeds in pairs; None with fewer than three.
        paired: Whether they share seeds.
        p_value: Of the hypothesis that they do not differ: Wilcoxon's signed-rank test of the logarithms of
            the ratios by seed, or the Mann-Whitney U test without pairs; None with fewer than three seeds.
        shift: The Hodges-Lehmann estimate of the ratio by seed, which an outlier hardly moves; None where it
            was not computed.
    """

    n: int
    ratio: float
    interval: Interval | None
    paired: bool = True
    p_value: float | None = None
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

    @property
    def is_latency(self) -> bool:
        return self.family is not None and self.family.endswith(LATENCY)

    @classmethod
    def of(cls, metric: Metric) -> Self:
        return cls(metric.name, metric.unit, metric.better, metric.headline, metric.family, metric.quantile)


@dataclass(frozen=True)
class Comparison:
    """A metric of one workload, on one stack against a baseline.

    Attributes:
        ratio: The metric on ``stack`` divided by that on ``baseline``.
        p_value: Of the hypothesis that they do not differ; None with too few seeds.
        p_value_holm: Adjusted by Holm's method for all comparisons made with it.
        zone: Differences of no practical consequence: 0.03 for up to 3 %.
        unranked: The reason for which one of the two has no rank; empty: both have one.
    """

    workload: str
    stack: str
    baseline: str
    kind: MetricKind
    ratio: Ratio
    p_value: float | None = None
    p_value_holm: float | None = None
    zone: float = PRACTICAL_ZONE
    unranked: str = ""

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
        straddles the zone's edge, ``too few seeds`` when there is none, ``not ranked`` when the numbers are
        not of the stacks.
        """
        if self.unranked:
            return "not ranked"
        interval = self.gain_interval
        if interval is None:
            return "too few seeds"
        low, high = 1 / (1 + self.zone), 1 + self.zone
        if low <= interval.low and interval.high <= high:
            return "equal"
        if interval.low > high:
            return "better"
        if interval.high < low:
            return "worse"
        return "undecided"


def together(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Comparisons made together, with p-values as they are and adjusted, since some differ by chance."""
    values = [None if each.unranked else each.ratio.p_value for each in comparisons]
    adjusted = iter(holm([each for each in values if each is not None]))
    return [
        each if value is None else replace(each, p_value=value, p_value_holm=next(adjusted))
        for each, value in zip(comparisons, values, strict=True)
    ]


def compare(upper: Series, lower: Series) -> Ratio | None:
    """The ratio of two stacks' metric, paired by seed if they share seeds.

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
    if isinstance(above, MeanLevel) or isinstance(below, MeanLevel):
        # The ratios by seed themselves, so that equal ones give exactly their value. A merged percentile and
        # a mean of percentiles have no ratio.
        found = MeanLevel(ratios)
        ratio, interval = estimate(found, n), interval_of(n, found)
    else:
        ratio, interval = estimate(above, n) / estimate(below, n), interval_of(n, above, below)
    logs = np.log(ratios)
    p_value = signed_rank_p_value(logs) if n >= SEEDS_MIN else None
    return Ratio(n, ratio, interval, paired=True, p_value=p_value, shift=float(np.exp(shift(logs))))


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
        p_value=rank_sum_p_value(*logs) if n >= SEEDS_MIN else None,
        shift=float(np.exp(shift_between(*logs))),
    )


def geometric_mean(each: list[Series]) -> Series:
    """Several stacks as one: the geometric mean of their values, seed by seed, over the seeds all have."""
    seeds = set.intersection(*(set(series.values) for series in each))
    logs = {seed: np.mean([np.log(series.values[seed]) for series in each]) for seed in sorted(seeds)}
    return Series({seed: float(np.exp(log)) for seed, log in logs.items()})
