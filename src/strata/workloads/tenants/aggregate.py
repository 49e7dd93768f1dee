# SPDX-License-Identifier: Apache-2.0
"""Several tenants together: their speed, their fairness, and whether their figures can be compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from strata.spec.metric import Metric
from strata.spec.workload import Workload

# The latencies to show beside a tenant's main rate: the first of these that it has.
_TAILS: Final = (("latency_ns",), ("pass_latency_ns",), ("read_latency_ns", "write_latency_ns"))


@dataclass(frozen=True)
class Found:
    """One tenant's measurements.

    Attributes:
        metrics: All its metrics, prefixed.
        together: Its headline in the common window, under its own name.
        alone: The same by itself, if it ran so.
    """

    load: Workload
    metrics: list[Metric]
    together: Metric
    alone: Metric | None

    def __str__(self) -> str:
        return f"{self.together.name} of {' '.join(kind_of(self.load))}"

    @property
    def relative_speed(self) -> float | None:
        """How fast it was beside the others, relative to how fast it is alone."""
        if self.alone is None or self.alone.value <= 0 or self.together.value <= 0:
            return None
        faster = self.together.value / self.alone.value
        return faster if self.together.better == "higher" else 1 / faster


def main_metric(metrics: Sequence[Metric]) -> Metric:
    return next((each for each in metrics if each.headline), metrics[0])


def tails_of(metrics: Sequence[Metric]) -> list[str]:
    """The names of the 99th percentiles to show of a load."""
    names = {each.family: each.name for each in metrics if each.quantile == 0.99}
    return next(
        (found for tails in _TAILS if (found := [names[each] for each in tails if each in names])), []
    )


def kind_of(load: Workload) -> tuple[str, ...]:
    """The kind of a load's operations: its name, and its personality or script."""
    kinds = (getattr(load, key, None) for key in ("personality", "script"))
    return (load.workload, *(each for each in kinds if isinstance(each, str)))


def addable(found: Sequence[Found]) -> bool:
    """Whether they are rates of one kind: of the same operations, and so of the same kind of load."""
    heads = [each.together for each in found]
    kinds = {(kind_of(each.load), each.together.name, each.together.unit) for each in found}
    return len(kinds) == 1 and all(each.unit.endswith("/s") and each.better == "higher" for each in heads)


def together(found: Mapping[str, Found], speeds: Mapping[str, float], *, alone: bool) -> list[Metric]:
    """The aggregate, which is the first headline, and the fairness; nothing where there is no aggregate."""
    if alone:
        if len(speeds) < len(found):
            return []
        mean = sum(speeds.values()) / len(speeds)
        aggregate = ratio("aggregate_relative_speed", mean, headline=True)
        return [aggregate, ratio("fairness", fairness([*speeds.values()]))]
    if not addable([*found.values()]):
        return []
    rates = [each.together for each in found.values()]
    values = [each.value for each in rates]
    added = rates[0].prefixed("aggregate_", value=sum(values), headline=True, tenant=None)
    return [added, ratio("fairness", fairness(values))]


def ratio(name: str, value: float, *, headline: bool = False, tenant: str | None = None) -> Metric:
    return Metric.of(name, value, "1", headline=headline, tenant=tenant)


def fairness(shares: Sequence[float]) -> float:
    """Jain's index of n shares, from 1/n (one has all) to 1 (all have as much).

    Jain, Chiu, Hawe: "A quantitative measure of fairness and discrimination for resource allocation in shared
    computer systems", DEC TR-301, 1984.
    """
    squares = sum(each * each for each in shares)
    return sum(shares) ** 2 / (len(shares) * squares) if squares else 1.0
