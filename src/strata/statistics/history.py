# SPDX-License-Identifier: Apache-2.0
"""Several sets of results in order: each against the first, and the sets at which a metric changed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from strata.errors import ResultError, optional
from strata.model.trial import CellKey
from strata.printable import in_json
from strata.statistics.comparison import Comparison, MetricKind, judge
from strata.statistics.interval import half_width
from strata.statistics.pair import ComparisonOptions, kinds_asked
from strata.statistics.pairing import Side, named_alike, restricted


@dataclass(frozen=True)
class ChangePoint:
    """A run from which on a metric has another level.

    Attributes:
        run: The place of the run among all, from 0.
        gain: How many times as good the metric is from there on as it was since the last change.
    """

    run: int
    gain: float


@dataclass(frozen=True)
class Track:
    """A metric of a cell through the runs that have it.

    Attributes:
        against: By run, the comparison with the first of them.
        changes: Where the level changed, in order.
    """

    cell: CellKey
    kind: MetricKind
    against: dict[int, Comparison]
    changes: tuple[ChangePoint, ...]

    @property
    @in_json
    def gains(self) -> dict[int, float]:
        return {run: each.gain for run, each in self.against.items()}


def tracks(runs: Sequence[Side], options: ComparisonOptions) -> list[Track]:
    """The tracks of the first run's cells, in its order.

    Raises ResultError if runs of virtual and wall time are mixed, and ToolError without ruptures.
    """
    first = runs[0].results
    for other in runs[1:]:
        named_alike(runs[0], other, {})
    names = restricted(named_alike(runs[0], runs[0], {}), options.stacks, options.workloads)
    found = []
    for workload, kinds in kinds_asked(first, names.workloads, options).items():
        for kind in kinds:
            for stack in names.stacks:
                against = dict(_against_first(runs, CellKey(stack, workload), kind, options.zone))
                if len(against) > 1:
                    changes = tuple(_changes(against, options.zone))
                    found.append(Track(CellKey(stack, workload), kind, against, changes))
    if not found:
        place = ", ".join(side.name for side in runs[:2])
        raise ResultError(
            "no two runs have a metric in common", place=place, remedy="name results of one study"
        )
    return found


def _against_first(
    runs: Sequence[Side], cell: CellKey, kind: MetricKind, zone: float
) -> Iterator[tuple[int, Comparison]]:
    base = None
    for run, side in enumerate(runs):
        if cell in side.results.cells:
            series = side.results.series(cell, kind)
            base = base or (series if series.series.values else None)
            compared = None if base is None else judge(kind, series, base, zone=zone)
            if compared is not None:
                yield run, compared


def _changes(against: dict[int, Comparison], zone: float) -> Iterator[ChangePoint]:
    """The change points of the logarithms of gains, by the exact search of R. Killick and others.

    "Optimal detection of changepoints with a linear computational cost", Journal of the American Statistical
    Association 107, 2012. The penalty is Schwarz's for the runs' own error, or, where seeds repeat to the
    digit, that of a single last run outside of the zone.
    """
    ruptures = optional("ruptures", "the search for change points")
    runs, logs = [*against], np.log([each.gain for each in against.values()])
    widths = [half_width(each.ratio.interval) for each in against.values() if each.ratio.interval]
    spread = float(np.median(widths)) / 2 if widths else 0.0  # half of it is about the standard error
    least = math.log1p(zone)
    penalty = max(3 * spread**2 * math.log(len(runs)), least**2 / 2)
    search = ruptures.Pelt(model="l2", min_size=1, jump=1).fit(logs.reshape(-1, 1))
    ends = [0, *search.predict(pen=penalty * (1 - 1 / len(runs)))]
    levels = [float(logs[start:end].mean()) for start, end in pairwise(ends)]
    for (before, after), start in zip(pairwise(levels), ends[1:-1], strict=True):
        if abs(after - before) > least:
            yield ChangePoint(runs[start], math.exp(after - before))
