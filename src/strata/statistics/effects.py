# SPDX-License-Identifier: Apache-2.0
"""The effects of a matrix's factors, and their interactions, on a metric.

Effects are ratios: of the geometric means of the cells with one level and of those with the factor's first
level, over the combinations of the other factors that have both (the main effects of a factorial design;
Montgomery, Design and Analysis of Experiments, chapter 5, on logarithms).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import chain, combinations, product

from strata.model.matrix import Factor, Matrix, Variant
from strata.model.trial import CellKey
from strata.statistics.comparison import CellSeries, Comparison, MetricKind, geometric_mean, judge
from strata.statistics.study import StudyResults
from strata.statistics.summary import MetricSummary, summarize
from strata.words import grouped

Levels = tuple[str, ...]
"""A level of each factor of a design, in their order."""


@dataclass(frozen=True)
class Design:
    """The combinations of one declared stack with one declared workload; cells by their levels."""

    stack: str
    workload: str
    factors: tuple[Factor, ...]
    cells: Mapping[Levels, tuple[str, str]] = field(repr=False)

    @property
    def name(self) -> str:
        return f"{self.stack} under {self.workload}"


@dataclass(frozen=True)
class Effect:
    """A metric at one level of a factor against its first level.

    Attributes:
        comparison: Of the two levels, over the combinations that have both.
        combinations: How many those are.
        where: For an interaction, the other factor's name and its levels; the ratio is that of the effect at
            the first of these levels to the effect at the second.
    """

    factor: str
    level: str
    baseline: str
    comparison: Comparison
    combinations: int
    where: tuple[str, str, str] | None = None


def designs(results: StudyResults) -> list[Design]:
    """Every pair of a declared stack and workload that the study's matrix varies."""
    matrix = results.snapshot.matrix
    names = (_by_base(matrix.stacks, results.stacks), _by_base(matrix.workloads, results.workloads))
    found = []
    for stack, stacks in names[0].items():
        for workload, workloads in names[1].items():
            pairs = {pair: matrix.levels_of(*pair) for pair in ((s, w) for s in stacks for w in workloads)}
            varied = [factor for name, factor in matrix.factors.items() if name in next(iter(pairs.values()))]
            cells = {
                tuple(levels[factor.name] for factor in varied): _run(matrix, pair)
                for pair, levels in pairs.items()
            }
            if varied:
                found.append(Design(stack, workload, tuple(varied), cells))
    return found


def _by_base(variants: Mapping[str, Variant], names: list[str]) -> dict[str, list[str]]:
    """The names of stacks, or of workloads, under the name that the file declares."""
    found: dict[str, list[str]] = {name: [name] for name in names if name not in variants}
    for name, variant in variants.items():
        found.setdefault(variant.base, []).append(name)
    return found


def _run(matrix: Matrix, cell: tuple[str, str]) -> tuple[str, str]:
    stack, workload = cell
    return matrix.same.get(stack, stack), matrix.same.get(workload, workload)


def effects(results: StudyResults, design: Design, kind: MetricKind) -> list[Effect]:
    """The effect of every factor's further levels."""
    cells = _cells(results, design, kind)
    found = []
    for place, factor in enumerate(design.factors):
        first, *others = (level.name for level in factor.levels)
        for level in others:
            pairs = [
                (each, below)
                for levels, each in cells.items()
                if levels[place] == level and (below := cells.get(_with(levels, place, first)))
            ]
            uppers, lowers = [upper for upper, _ in pairs], [lower for _, lower in pairs]
            comparison = _judged(design, kind, (level, uppers), (first, lowers))
            if comparison is not None:
                found.append(Effect(factor.name, level, first, comparison, len(pairs)))
    return found


def interactions(results: StudyResults, design: Design, kind: MetricKind) -> list[Effect]:
    """For each pair of factors: how much a level's effect differs between levels of the other one."""
    cells = _cells(results, design, kind)
    found = []
    for (one, factor), (two, other) in combinations(enumerate(design.factors), 2):
        first, *levels = (level.name for level in factor.levels)
        base, *others = (level.name for level in other.levels)
        for level, further in product(levels, others):
            corners = ((level, further), (first, base), (first, further), (level, base))
            squares = (
                [cells.get(_with(_with(at, one, a), two, b)) for a, b in corners]
                for at in cells
                if at[one] == first and at[two] == base
            )
            whole = [[cell for cell in square if cell] for square in squares if all(square)]
            # The mean over both of a square's cells holds half of an interaction's logarithm.
            sides = ([*chain(*(square[:2] for square in whole))], [*chain(*(square[2:] for square in whole))])
            comparison = _judged(design, kind, (level, sides[0]), (first, sides[1]), power=2)
            if comparison is not None:
                where = (other.name, further, base)
                found.append(Effect(factor.name, level, first, comparison, len(whole), where))
    return found


def means(
    results: StudyResults, design: Design, kind: MetricKind, places: tuple[int, ...]
) -> dict[Levels, MetricSummary]:
    """A metric by the levels of the factors at ``places``, over all others; of every cell without places."""
    groups = grouped(
        (tuple(levels[place] for place in places) if places else levels, cell.series)
        for levels, cell in _cells(results, design, kind).items()
    )
    found = {key: geometric_mean(group) for key, group in groups.items()}
    return {key: summarize(mean) for key, mean in found.items() if mean.values}


def _cells(results: StudyResults, design: Design, kind: MetricKind) -> dict[Levels, CellSeries]:
    """The cells that have values by their levels; without those whose load waited for nothing."""
    found = {
        levels: results.series(CellKey(*cell), kind)
        for levels, cell in design.cells.items()
        if cell in results.cells and not results.unranked(*cell)
    }
    return {levels: each for levels, each in found.items() if each.series.values}


def _judged(
    design: Design,
    kind: MetricKind,
    upper: tuple[str, list[CellSeries]],
    lower: tuple[str, list[CellSeries]],
    power: float = 1,
) -> Comparison | None:
    """One level's cells as one against another level's; None without cells."""
    if not upper[1]:
        return None
    sides = (CellSeries.mean(design.workload, level, cells, power) for level, cells in (upper, lower))
    return judge(kind, *sides)


def _with(levels: Levels, place: int, level: str) -> Levels:
    return (*levels[:place], level, *levels[place + 1 :])
