# SPDX-License-Identifier: Apache-2.0
"""Throughput over the measured window: the mean over seeds, and their range."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np

from strata.results.record import ResultRecord, Throughput
from strata.statistics.interval import Floats

INTERVALS_MAX: Final = 120
"""More than a chart can show; neighbouring intervals are then taken together."""

Kind = tuple[Literal["load", "disks"], Literal["1/s", "B/s"], str | None]


@dataclass(frozen=True)
class OverTime:
    """A cell's throughput over its measured window, over its seeds.

    Attributes:
        source: The ``load``, by its own account, or all ``disks`` together.
        unit: ``1/s`` or ``B/s``.
        tenant: Whose load; None: the trial's.
        interval_ns: The first interval starts with the window.
        n: The number of seeds.
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
    return OverTime(
        source=first.source,
        unit=first.unit,
        tenant=first.tenant,
        interval_ns=first.interval_ns * together,
        n=len(seeds),
        mean=np.asarray(rates.mean(axis=0)),
        low=np.asarray(rates.min(axis=0)),
        high=np.asarray(rates.max(axis=0)),
    )


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
