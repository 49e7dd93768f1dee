# SPDX-License-Identifier: Apache-2.0
"""Two sets of results against each other: two kernels, two options, two hosts, two days, or two stacks.

The first set is the baseline. Trials are paired by their seeds; where they share none, there are no pairs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, get_args

from strata.errors import ResultError
from strata.model.trial import CellKey
from strata.printable import in_json
from strata.results.counts import PROCESSOR_TIME
from strata.results.differences import Difference, Naming, differences
from strata.statistics import pairing
from strata.statistics.comparison import CellSeries, Comparison, MetricKind, judge
from strata.statistics.interval import PRACTICAL_ZONE
from strata.statistics.level import estimate
from strata.statistics.study import StudyResults
from strata.statistics.summary import Series
from strata.statistics.survival_pair import SurvivalRow, survival_rows
from strata.words import matching

_GAIN: Final = MetricKind("gain", "1", "higher", headline=True)


@dataclass(frozen=True)
class ComparisonOptions:
    """The choice of what to compare, by globs over names.

    Attributes:
        renamed: Stacks and workloads of the first set that have another name in the second.
        stacks: Without any, all; likewise the workloads.
        metrics: Without any, the headlines.
        also: Names of metrics to compare besides.
        zone: The difference of no practical consequence.
    """

    renamed: Mapping[str, str] = field(default_factory=dict)
    stacks: Sequence[str] = ()
    workloads: Sequence[str] = ()
    metrics: Sequence[str] = ()
    also: Sequence[str] = ()
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
class Change:
    """A metric or a count that differs between trials of the same seed; without common ones, if any does.

    Attributes:
        first: The level in the first set over the common seeds, or all; None if no trial has the metric.
        second: In the second set.
        is_count: Whether it is a count per operation.
        comparison: Of a count, where a ratio exists.
    """

    cell: pairing.PairedCell
    kind: MetricKind
    first: float | None
    second: float | None
    is_count: bool
    comparison: Comparison | None = None

    def is_sure(self, zone: float) -> bool:
        """Whether it is a count of the disks that differs by more than the zone, whatever the seed.

        Without an interval, as of seeds that all have one value, the levels decide.
        """
        if not self.is_count or self.kind.name == PROCESSOR_TIME:
            return False
        if self.comparison is None or self.comparison.ratio.interval is None:
            return self.size > math.log1p(zone)
        return self.comparison.beyond(self.comparison.ratio.interval) in {"better", "worse"}

    @property
    @in_json
    def ratio(self) -> float | None:
        """The second to the first; None if one is 0 or missing."""
        return self.second / self.first if self.first and self.second else None

    @property
    def size(self) -> float:
        """How far the ratio is from 1, as a logarithm."""
        if self.first == self.second:
            return 0.0
        return abs(math.log(self.ratio)) if self.ratio and self.ratio > 0 else math.inf


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
    """Two sets of results, compared; the cells and rows are in the first study's order.

    Attributes:
        changes: Whatever differs in these cells, counts first and the largest first.
    """

    first: pairing.Side
    second: pairing.Side
    zone: float
    cells: tuple[pairing.PairedCell, ...] = field(repr=False)
    rows: tuple[Row, ...]
    overall: tuple[Overall, ...]
    absent: tuple[pairing.Absence, ...]
    differences: tuple[Difference, ...]
    changes: tuple[Change, ...]
    survival: tuple[SurvivalRow, ...] = ()

    @property
    @in_json
    def likenesses(self) -> dict[pairing.Likeness, int]:
        """The number of pairs of trials by how alike they are."""
        return {likeness: self.count(likeness) for likeness in get_args(pairing.Likeness)}

    def count(self, likeness: pairing.Likeness) -> int:
        return sum(len(cell.seeds) for cell in self.cells if cell.likeness == likeness)

    @property
    @in_json
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
        overall=tuple(_overall(first.results, second.results, cells, options.zone)),
        absent=(*alone, *absent, *missing),
        differences=tuple(differences(first.results.snapshot, second.results.snapshot, pairs, named)),
        changes=tuple(
            sorted(
                (
                    change
                    for cell in cells
                    for change in _changes(first.results, second.results, cell, options.zone)
                ),
                key=lambda change: (not change.is_count, -change.size),
            )
        ),
        survival=tuple(survival_rows(first.capabilities, second.capabilities, named)),
    )


def kinds_asked(
    results: StudyResults, workloads: Iterable[str], options: ComparisonOptions
) -> dict[str, list[MetricKind]]:
    """By workload, the metrics that are asked for: the headlines, if none is."""
    globs = options.metrics
    kinds = {
        workload: [
            kind
            for kind in results.kinds(workload)
            if (matching([kind.name], globs) if globs else kind.headline) or kind.name in options.also
        ]
        for workload in workloads
    }
    if globs and not any(kinds.values()):
        known = {kind.name for workload in kinds for kind in results.kinds(workload)}
        cause = f'no workload has a metric like "{", ".join(globs)}"'
        raise ResultError(cause, place="--metric", remedy=f"there are: {', '.join(sorted(known))}")
    return kinds


def _rows(
    first: StudyResults, second: StudyResults, cells: Sequence[pairing.PairedCell], options: ComparisonOptions
) -> tuple[list[Row], list[pairing.Absence]]:
    rows: list[Row] = []
    absent: list[pairing.Absence] = []
    kinds = kinds_asked(first, dict.fromkeys(cell.workload for cell in cells), options)
    for cell in cells:
        for kind in kinds[cell.workload]:
            why = _unlike(second, cell, kind)
            row = None if why else _row(first, second, cell, kind, options.zone)
            if row is not None:
                rows.append(row)
            if row is not None or not (why or _differ(*_sides(first, second, cell, kind))):
                continue  # both are 0 in every seed: there is no ratio, and nothing to say
            why = why or "there is no ratio, since a value is 0 or no seed has it in both sets"
            absent.append(pairing.Absence(f"{kind.name} of {cell.title}", why))
    return rows, absent


def _unlike(second: StudyResults, cell: pairing.PairedCell, kind: MetricKind) -> str:
    """Why a metric of the first set cannot be compared with the second's; empty: it can."""
    other = next((each for each in second.kinds(cell.other_workload) if each.name == kind.name), None)
    if other is None:
        return "B has no such metric"
    if (other.unit, other.better) != (kind.unit, kind.better):
        return f"in A {kind.better} is better, in {kind.unit}; in B {other.better} is, in {other.unit}"
    return ""


def _sides(
    first: StudyResults, second: StudyResults, cell: pairing.PairedCell, kind: MetricKind
) -> tuple[CellSeries, CellSeries]:
    """A metric of the second set's cell, under the first's name of the workload, and of the first's."""
    upper = second.series(CellKey(cell.other_stack, cell.other_workload), kind)
    lower = first.series(CellKey(cell.stack, cell.workload), kind)
    return replace(upper, workload=cell.workload), lower


def _row(
    first: StudyResults, second: StudyResults, cell: pairing.PairedCell, kind: MetricKind, zone: float
) -> Row | None:
    sides = _sides(first, second, cell, kind)
    comparison = judge(kind, *sides, zone=zone)
    if comparison is None:
        return None
    second_level, first_level = shared_levels(*sides)
    assert first_level is not None
    assert second_level is not None
    return Row(cell, comparison, first_level, second_level)


def shared_levels(*sides: CellSeries) -> list[float | None]:
    """The level of each side over the seeds that both have, or over all of its own."""
    shared = set.intersection(*(set(side.series.values) for side in sides))
    seeds = [sorted(shared or side.series.values) for side in sides]
    return [
        estimate(side.series.level(its), len(its)) if its else None
        for side, its in zip(sides, seeds, strict=True)
    ]


def _changes(
    first: StudyResults, second: StudyResults, cell: pairing.PairedCell, zone: float
) -> Iterator[Change]:
    """What differs in a cell; a count that only one set has was not counted by the Strata of the other."""
    counts = {kind.name for kind in first.counts(cell.workload)}
    kinds = {kind.name: kind for kind in (*first.kinds(cell.workload), *second.metrics(cell.other_workload))}
    for kind in kinds.values():
        upper, lower = _sides(first, second, cell, kind)
        values = lower.series.values, upper.series.values
        is_count = kind.name in counts
        is_known = all(values) if is_count else any(values)
        if is_known and _differ(upper, lower):
            two, one = shared_levels(upper, lower)
            comparison = judge(kind, upper, lower, zone=zone) if is_count else None
            yield Change(cell, kind, one, two, is_count, comparison)


def _differ(upper: CellSeries, lower: CellSeries) -> bool:
    """Whether the values of a common seed differ; without a common seed, whether there are other values."""
    one, two = upper.series.values, lower.series.values
    shared = one.keys() & two.keys()
    return any(one[seed] != two[seed] for seed in shared) if shared else {*one.values()} != {*two.values()}


def _overall(
    first: StudyResults, second: StudyResults, cells: Sequence[pairing.PairedCell], zone: float
) -> Iterator[Overall]:
    """Per workload that has several stacks, and over all cells if there are several workloads."""
    gains: dict[str, list[tuple[CellSeries, CellSeries]]] = {}
    for cell in cells:
        kind = first.metrics(cell.workload)[0]
        sides = _sides(first, second, cell, kind)
        known = cell.seeds and not _unlike(second, cell, kind)
        if known and all(_is_counted(side) for side in sides):
            upper, lower = (_oriented(side, kind) for side in sides)
            gains.setdefault(cell.workload, []).append((upper, lower))
    for workload, pairs in gains.items():
        if len(pairs) > 1:
            yield from _mean_gain(workload, pairs, zone)
    if len(gains) > 1:
        yield from _mean_gain(None, [pair for pairs in gains.values() for pair in pairs], zone)


def _is_counted(side: CellSeries) -> bool:
    values = side.series.values.values()
    return bool(values) and min(values) > 0 and not side.unranked


def _oriented(side: CellSeries, kind: MetricKind) -> CellSeries:
    """The same, above another's where it is better."""
    if kind.better == "higher":
        return side
    return replace(side, series=Series({seed: 1 / value for seed, value in side.series.values.items()}))


def _mean_gain(
    workload: str | None, pairs: Sequence[tuple[CellSeries, CellSeries]], zone: float
) -> Iterator[Overall]:
    """The mean over the seeds that all cells have; nothing if there are none."""
    sides = (CellSeries.mean(workload or "", "", cells) for cells in zip(*pairs, strict=True))
    comparison = judge(_GAIN, *sides, zone=zone)
    if comparison is not None:
        yield Overall(workload, len(pairs), comparison)
