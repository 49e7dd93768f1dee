# SPDX-License-Identifier: Apache-2.0
"""The data of charts: latencies as a curve over percentiles and as a histogram, throughput over time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from strata.results.record import ResultRecord, Throughput
from strata.statistics.interval import Floats
from strata.statistics.level import Distribution
from strata.statistics.summary import VALUES_ABOVE_MIN

# From 10 % to 99.99 %, evenly in the number of nines: 20 for each.
CURVE: Final[Floats] = 100 * (1 - 10.0 ** -np.append(np.arange(0.05, 4.0, 0.05), 4.0))
BINS_PER_DECADE: Final = 24


@dataclass(frozen=True)
class PercentileCurve:
    """Percentiles of the merged histograms, and the range of the seeds' percentiles.

    Attributes:
        points: ``(percentile, value)``, as far as the count of all seeds supports.
        band: ``(percentile, lowest, highest)``, as far as each seed's count does; empty for one seed.
    """

    points: tuple[tuple[float, float], ...]
    band: tuple[tuple[float, float, float], ...]


@dataclass(frozen=True)
class HistogramShape:
    """A histogram whose bins are each a fixed ratio wide.

    Attributes:
        edges: Rising; one more than the shares.
        shares: Of all values, one per bin.
        p99: None when too few values lie above it.
    """

    edges: tuple[float, ...]
    shares: tuple[float, ...]
    median: float
    p99: float | None


def percentile_band(distribution: Distribution) -> PercentileCurve:
    merged = distribution.counts.sum(axis=0)
    supported = CURVE[distribution.total * (100 - CURVE) / 100 >= VALUES_ABOVE_MIN - 1e-6]
    points = tuple(zip(supported.tolist(), _percentiles(distribution, merged, supported), strict=True))
    fewest = min(distribution.totals)
    each = CURVE[fewest * (100 - CURVE) / 100 >= VALUES_ABOVE_MIN - 1e-6]
    if len(distribution.counts) < 2 or not len(each):
        return PercentileCurve(points, ())
    seeds = np.array([_percentiles(distribution, counts, each) for counts in distribution.counts])
    lowest, highest = seeds.min(axis=0).tolist(), seeds.max(axis=0).tolist()
    return PercentileCurve(points, tuple(zip(each.tolist(), lowest, highest, strict=True)))


def merged_percentiles(distribution: Distribution, percentiles: Sequence[float]) -> list[float]:
    return _percentiles(distribution, distribution.counts.sum(axis=0), np.asarray(percentiles, np.float64))


def _percentiles(distribution: Distribution, counts: NDArray[np.int64], percentiles: Floats) -> list[float]:
    """`Distribution.percentile` for many percentiles at once."""
    cumulative = np.cumsum(counts)
    wanted = np.maximum((percentiles / 100 * cumulative[-1] + 0.5).astype(np.int64), 1)
    found: list[float] = distribution.bounds[np.searchsorted(cumulative, wanted)].tolist()
    return found


def shape_of(distribution: Distribution) -> HistogramShape | None:
    """The merged distribution over bins of ``BINS_PER_DECADE``; None when nothing was counted."""
    merged = distribution.counts.sum(axis=0)
    used = np.flatnonzero(merged)
    if not len(used):
        return None
    bounds, counts = np.maximum(distribution.bounds[used], 1.0), merged[used]
    # The bounds are the bins' upper ends: a value at an edge belongs to the bin below it.
    places = np.ceil(np.log10(bounds) * BINS_PER_DECADE - 1e-9).astype(int) - 1
    first, last = int(places[0]), int(places[-1])
    shares = np.bincount(places - first, weights=counts) / counts.sum()
    edges = [10 ** (place / BINS_PER_DECADE) for place in range(first, last + 2)]
    enough = distribution.total * 0.01 >= VALUES_ABOVE_MIN
    median, p99 = _percentiles(distribution, merged, np.array([50.0, 99.0]))
    return HistogramShape(tuple(edges), tuple(shares.tolist()), median, p99 if enough else None)


INTERVALS_MAX: Final = 120
"""More than a chart can show; neighbouring intervals are then taken together."""

Kind = tuple[Literal["load", "disks"], Literal["1/s", "B/s"], str | None]


@dataclass(frozen=True)
class OverTime:
    """A cell's throughput over its measured window, over its seeds.

    Attributes:
        source: As in `Throughput`, like ``unit`` and ``tenant``.
        interval_ns: The first interval starts with the window.
        mean: The arithmetic mean over the seeds, one per interval; ``low`` and ``high`` are the extremes.
    """

    source: Literal["load", "disks"]
    unit: Literal["1/s", "B/s"]
    tenant: str | None
    interval_ns: int
    n: int
    mean: Floats
    low: Floats
    high: Floats


def over_time(seeds: Sequence[Throughput], intervals_max: int = INTERVALS_MAX) -> OverTime:
    """Several seeds' throughput (of one source, unit and interval) as one, up to the shortest of them.

    Beyond ``intervals_max`` neighbouring intervals are taken together, seed by seed.
    """
    length = min(len(each.rates) for each in seeds)
    rates = np.array([each.rates[:length] for each in seeds], dtype=np.float64)
    together = max(1, -(-length // intervals_max))
    whole = length // together
    rates = rates[:, : whole * together].reshape(len(seeds), whole, together).mean(axis=2)
    first = seeds[0]
    mean, low, high = (np.asarray(of(rates, axis=0)) for of in (np.mean, np.min, np.max))
    interval_ns = first.interval_ns * together
    return OverTime(first.source, first.unit, first.tenant, interval_ns, len(seeds), mean, low, high)


def throughputs(stacks: Mapping[str, Iterable[ResultRecord]]) -> list[dict[str, OverTime]]:
    """A workload's throughput over time, by stack: one mapping for each load that has an account of its own.

    Where no load has one, the disks' account is given, in the unit of the most stacks: stacks differ in that
    unit, and rates of requests and of bytes are not compared.
    """
    found: dict[Kind, dict[str, list[Throughput]]] = {}
    for stack, records in stacks.items():
        for record in records:
            for each in record.throughput:
                if each.rates:
                    kind = (each.source, each.unit, each.tenant)
                    found.setdefault(kind, {}).setdefault(stack, []).append(each)
    loads = {kind: cells for kind, cells in found.items() if kind[0] == "load"}
    if not loads and found:
        most = max(found, key=lambda kind: len(found[kind]))
        loads = {most: found[most]}
    order = list(stacks)
    return [
        # A load with another interval was changed between seeds: it is another load.
        {
            stack: over_time(
                [each for each in cells[stack] if each.interval_ns == cells[stack][0].interval_ns]
            )
            for stack in order
            if stack in cells
        }
        for cells in loads.values()
    ]
