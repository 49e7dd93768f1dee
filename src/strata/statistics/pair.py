# SPDX-License-Identifier: Apache-2.0
"""Two sets of results against each other: two kernels, two options, two hosts, two days, or two stacks.

The first set is the baseline. Trials are paired by their seeds; where they share none, there are no pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Final

from strata.errors import ResultError
from strata.results.differences import Difference, Naming, differences
from strata.statistics import pairing
from strata.statistics.comparison import (
    Comparison,
    MetricKind,
    Ratio,
    compare,
    compare_measured,
    geometric_mean,
)
from strata.statistics.interval import PRACTICAL_ZONE
from strata.statistics.level import estimate
from strata.statistics.study import StudyResults
from strata.statistics.summary import Series
from strata.statistics.survival_pair import SurvivalRow, survival_rows

_GAIN: Final = MetricKind("gain", "1", "higher", headline=True)


@dataclass(frozen=True)
class ComparisonOptions:
    """The choice of what to compare, by globs over names.

    Attributes:
        renamed: Stacks and workloads of the first set that have another name in the second.
        stacks: Without any, all; likewise the workloads.
        metrics: Without any, the headlines.
        zone: The difference of no practical consequence.
    """

    renamed: Mapping[str, str] = field(default_factory=dict)
    stacks: Sequence[str] = ()
    workloads: Sequence[str] = ()
    metrics: Sequence[str] = ()
    zone: float = PRACTICAL_ZONE


@dataclass(frozen=True)
class Row:
    """A metric of a cell in the second set against the first.

    Attributes:
        comparison: Of the second set's stack with the first's as baseline, under the first's workload.
        first: The level in the first set over the common seeds, or, without any, over all.
        second: In the second set.
    """

    cell: pairing.PairedCell
    comparison: Comparison
    first: float
    second: float


@dataclass(frozen=True)
class Overall:
    """The geometric mean of the gains of the second set's cells, each by its first headline.

    Attributes:
        workload: Over the stacks of this one; None: over all cells, with equal weights.
        cells: Their number.
        comparison: Its ratio is the mean gain: above 1 is better.
    """

    workload: str | None
    cells: int
    comparison: Comparison


@dataclass(frozen=True)
class Pair:
    """Two sets of results, compared; the cells and rows are in the first study's order."""

    first: pairing.Side
    second: pairing.Side
    zone: float
    cells: tuple[pairing.PairedCell, ...]
    rows: tuple[Row, ...]
    overall: tuple[Overall, ...]
    absent: tuple[pairing.Absence, ...]
    differences: tuple[Difference, ...]
    survival: tuple[SurvivalRow, ...] = ()

    def count(self, likeness: pairing.Likeness) -> int:
        return sum(len(cell.seeds) for cell in self.cells if cell.likeness == likeness)

    @property
    def trials(self) -> int:
        return sum(len(cell.seeds) for cell in self.cells)

    def worst_first(self) -> list[Row]:
        return sorted(self.rows, key=lambda row: row.comparison.gain)


def compare_sets(first: pairing.Side, second: pairing.Side, options: ComparisonOptions) -> Pair:
    """Compare two sets of results, the first being the baseline.

    Raises ResultError if one is in virtual and the other in wall time, if they have nothing in common, or an
    option names nothing in either.
    """
    naming = pairing.named_alike(first, second, options.renamed)
    cells, absent = pairing.cells_of(
        first, second, pairing.restricted(naming, options.stacks, options.workloads)
    )
    if not cells:
        raise pairing.nothing_to_compare(first, second, absent)
    rows, missing = _rows(first.results, second.results, cells, options)
    stacks = {cell.stack: cell.other_stack for cell in cells}
    named = Naming(stacks, {cell.workload: cell.other_workload for cell in cells})
    pairs = [pair for cell in cells for pair in cell.pairs or cell.neighbours]
    alone = () if options.stacks or options.workloads else pairing.only_in_one(first, second, naming)
    return Pair(
        first=first,
        second=second,
        zone=options.zone,
        cells=tuple(cells),
        rows=tuple(rows),
        overall=tuple(_overall(first.results, _ranked(first.results, second.results, cells), options.zone)),
        absent=(*alone, *absent, *missing),
        differences=tuple(differences(first.results.snapshot, second.results.snapshot, pairs, named)),
        survival=tuple(survival_rows(first.capabilities, second.capabilities, named)),
    )


def _rows(
    first: StudyResults, second: StudyResults, cells: Sequence[pairing.PairedCell], options: ComparisonOptions
) -> tuple[list[Row], list[pairing.Absence]]:
    rows: list[Row] = []
    absent: list[pairing.Absence] = []
    globs = options.metrics
    kinds = {
        workload: [
            kind
            for kind in first.metrics(workload)
            if (any(fnmatchcase(kind.name, glob) for glob in globs) if globs else kind.headline)
        ]
        for workload in dict.fromkeys(cell.workload for cell in cells)
    }
    if options.metrics and not any(kinds.values()):
        known = {kind.name for workload in kinds for kind in first.metrics(workload)}
        cause = f'no workload has a metric like "{", ".join(options.metrics)}"'
        raise ResultError(cause, place="--metric", remedy=f"there are: {', '.join(sorted(known))}")
    for cell in cells:
        theirs = {kind.name: kind for kind in second.metrics(cell.other_workload)}
        for kind in kinds[cell.workload]:
            other = theirs.get(kind.name)
            if other is None:
                why = "B has no such metric"
            elif (other.unit, other.better) != (kind.unit, kind.better):
                why = f"in A {kind.better} is better, in {kind.unit}; in B {other.better} is, in {other.unit}"
            elif row := _row(first, second, cell, kind, options.zone):
                rows.append(row)
                continue
            else:
                why = "there is no ratio, since a value is 0 or no seed has it in both sets"
            absent.append(pairing.Absence(f"{kind.name} of {cell.title}", why))
    return rows, absent


def _ranked(
    first: StudyResults, second: StudyResults, cells: Sequence[pairing.PairedCell]
) -> list[pairing.PairedCell]:
    return [
        cell
        for cell in cells
        if not first.unranked(cell.stack, cell.workload)
        and not second.unranked(cell.other_stack, cell.other_workload)
    ]


def _row(
    first: StudyResults, second: StudyResults, cell: pairing.PairedCell, kind: MetricKind, zone: float
) -> Row | None:
    one = first.cells[cell.stack, cell.workload].series(kind.name)
    two = second.cells[cell.other_stack, cell.other_workload].series(kind.name)
    ratio = compare_measured(two, one)
    if ratio is None:
        return None
    comparison = Comparison(
        cell.workload,
        cell.other_stack,
        cell.stack,
        kind,
        ratio,
        zone=zone,
        unranked=first.unranked(cell.stack, cell.workload)
        or second.unranked(cell.other_stack, cell.other_workload),
    )
    shared = one.values.keys() & two.values.keys()
    seeds = [sorted(shared or each.values) for each in (one, two)]
    levels = (estimate(each.level(its), len(its)) for each, its in zip((one, two), seeds, strict=True))
    return Row(cell, comparison, *levels)


def _overall(results: StudyResults, cells: Sequence[pairing.PairedCell], zone: float) -> Iterator[Overall]:
    """Per workload that has several stacks, and over all cells if there are several workloads."""
    gains: dict[str, list[Series]] = {}
    for cell in cells:
        if series := _gains(results, cell):
            gains.setdefault(cell.workload, []).append(series)
    for workload, each in gains.items():
        if len(each) > 1:
            yield Overall(workload, len(each), _mean_gain(workload, each, zone))
    everything = [series for each in gains.values() for series in each]
    if len(gains) > 1:
        yield Overall(None, len(everything), _mean_gain("", everything, zone))


def _gains(results: StudyResults, cell: pairing.PairedCell) -> Series | None:
    """A cell's gain by its first headline, seed by seed."""
    kind = results.metrics(cell.workload)[0]
    values: dict[int, float] = {}
    for seed, pair in zip(cell.seeds, cell.pairs, strict=True):
        one, two = (each.record.metric(kind.name) if each.record else None for each in pair)
        if one is None or two is None or one.value <= 0 or two.value <= 0:
            return None
        if (one.unit, one.better) != (two.unit, two.better):
            return None
        values[seed] = two.value / one.value if kind.better == "higher" else one.value / two.value
    return Series(values) if values else None


def _mean_gain(workload: str, gains: list[Series], zone: float) -> Comparison:
    seeds = set.intersection(*(set(series.values) for series in gains))
    found = None
    if seeds:
        found = compare(geometric_mean(gains), Series(dict.fromkeys(seeds, 1.0)))
    if found is None:
        logs = [math.log(value) for series in gains for value in series.values.values()]
        found = Ratio(0, math.exp(math.fsum(logs) / len(logs)), None)
    return Comparison(workload, "", "", _GAIN, found, zone=zone)
