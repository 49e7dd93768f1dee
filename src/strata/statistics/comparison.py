# SPDX-License-Identifier: Apache-2.0
"""One stack against another, or one set of results against another: how much better, and how sure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self

from strata.spec.metric import LATENCY, Better, Metric
from strata.statistics.interval import PRACTICAL_ZONE, Interval
from strata.statistics.ratio import Ratio
from strata.statistics.significance import holm

Verdict = Literal["better", "equal", "worse", "undecided", "too few seeds"]


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
        """Whether it belongs to a distribution of latencies."""
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
    """

    workload: str
    stack: str
    baseline: str
    kind: MetricKind
    ratio: Ratio
    p_value: float | None = None
    p_value_holm: float | None = None
    zone: float = PRACTICAL_ZONE

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
        straddles the zone's edge, ``too few seeds`` when there is none.
        """
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
    known = [each.ratio.p_value for each in comparisons if each.ratio.p_value is not None]
    adjusted = iter(holm(known))
    return [
        replace(each, p_value=each.ratio.p_value, p_value_holm=next(adjusted))
        if each.ratio.p_value is not None
        else each
        for each in comparisons
    ]
