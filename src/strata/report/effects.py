# SPDX-License-Identifier: Apache-2.0
"""The effects of a matrix's factors: tables, and curves where a factor is a number."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from strata.model.matrix import Factor
from strata.model.metric import metric_title
from strata.report import svg
from strata.report.document import Figure
from strata.report.palette import STACKS, stack_colours
from strata.report.svg import Drawing
from strata.report.table import Column, Table
from strata.report.wording import SIGNS, gain_cells
from strata.report.xy import Axis, Line, xy_chart
from strata.statistics.comparison import MetricKind
from strata.statistics.effects import Design, Effect, Levels, designs, effects, interactions, means
from strata.statistics.study import StudyResults
from strata.statistics.summary import MetricSummary
from strata.units import times
from strata.words import sentence_case

_LOG_FROM: Final = 8  # from this ratio of the largest to the smallest number on, the axis is logarithmic


@dataclass(frozen=True)
class EffectsView:
    """The factors' effects on one metric of a declared stack under a declared workload."""

    design: Design
    kind: MetricKind
    found: tuple[Effect, ...]
    mixed: tuple[Effect, ...]

    @property
    def metric(self) -> str:
        return metric_title(self.kind)

    @property
    def effects(self) -> Table:
        return effects_table(self.design, self.kind, self.found)

    @property
    def interactions(self) -> Table:
        return effects_table(self.design, self.kind, self.mixed)

    @property
    def strongest(self) -> str:
        """The largest effect in a sentence."""
        sure = [each for each in self.found if each.comparison.verdict in {"better", "worse"}]
        if not sure:
            return "No factor has an effect that is sure."
        each = max(sure, key=lambda one: abs(math.log(one.comparison.gain)))
        factor = next(one for one in self.design.factors if one.name == each.factor)
        level, against = (factor.level(name).text for name in (each.level, each.baseline))
        gain = times(each.comparison.gain)
        return f"The largest effect: {each.factor} {level} is {gain} as good as {against}."


def effects_views(results: StudyResults) -> list[EffectsView]:
    """A view for each headline of each design that has results."""
    found = []
    for design in designs(results):
        for kind in headlines(results, design):
            main, mixed = effects(results, design, kind), interactions(results, design, kind)
            if main:
                found.append(EffectsView(design, kind, tuple(main), tuple(mixed)))
    return found


def headlines(results: StudyResults, design: Design) -> list[MetricKind]:
    """The headlines that every workload of the design has."""
    each = [
        results.metrics(workload) for workload in dict.fromkeys(cell[1] for cell in design.cells.values())
    ]
    return [kind for kind in each[0] if kind.headline and all(kind in kinds for kinds in each)]


def effects_table(design: Design, kind: MetricKind, found: Sequence[Effect]) -> Table:
    """The effects of factors; of interactions, the column ``where`` has the other factor's levels."""
    factors = {factor.name: factor for factor in design.factors}
    rows: list[tuple[Any, ...]] = []
    for effect in found:
        comparison, factor = effect.comparison, factors[effect.factor]
        levels = [factor.level(name).text for name in (effect.level, effect.baseline)]
        where = ""
        if effect.where is not None:
            name, *others = effect.where
            where = "{}: {} against {}".format(name, *(factors[name].level(other).text for other in others))
        row = (factor.name, *levels, where, *gain_cells(comparison), SIGNS[comparison.verdict])
        rows.append((*row, effect.combinations))
    is_mixed = any(each.where for each in found)
    heads = (
        Column("factor"),
        *(Column(title) for title in ("level", "against")),
        *([Column("where")] if is_mixed else []),
        Column("times as good", "ratio", name="ratio"),
        Column("95 %", "figure", name="interval", tone="dim"),
        Column("", "figure", name="verdict"),
        Column("combinations", "count"),
    )
    if not is_mixed:
        rows = [(*row[:3], *row[4:]) for row in rows]
    title = "Interactions" if is_mixed else "Effects"
    note = (
        "an effect at one level of another factor, divided by that at the other"
        if is_mixed
        else "over all combinations of the other factors"
    )
    return Table(heads, rows, f"{title} on {metric_title(kind)}, {design.name}", note)


def curves(results: StudyResults, view: EffectsView) -> list[Figure]:
    """A figure for each factor whose levels are numbers."""
    numbers = [factor for factor in view.design.factors if factor.is_number]
    found = (_curve(results, view.design, view.kind, factor) for factor in numbers)
    return [each for each in found if each is not None]


def _curve(results: StudyResults, design: Design, kind: MetricKind, factor: Factor) -> Figure | None:
    """The metric over a factor's numbers: a line for each combination of the others, or their mean."""
    place = design.factors.index(factor)
    lines: dict[str, list[tuple[float, MetricSummary]]] = {}
    others = {levels[:place] + levels[place + 1 :] for levels in design.cells}
    apart = len(others) <= len(STACKS)
    for levels, summary in means(results, design, kind, () if apart else (place,)).items():
        number = factor.level(levels[place] if apart else levels[0]).number
        if number is not None:
            lines.setdefault(_line_name(design, levels, place) if apart else "all", []).append(
                (number, summary)
            )
    lines = {name: sorted(points, key=lambda each: each[0]) for name, points in lines.items()}
    if not any(len(points) > 1 for points in lines.values()):
        return None
    title = f"{metric_title(kind)} by {factor.name}"
    of = "" if apart else ", the geometric mean over all other combinations"
    caption = f"Stack {design.stack} under {design.workload}{of}. The bands are 95 % intervals."
    drawing = _drawn(lines, kind, factor, title)
    name = f"{design.stack}-{design.workload}-{kind.name}-by-{factor.name}".replace("_", "-")
    return Figure(name, sentence_case(title), caption, drawing)


def _line_name(design: Design, levels: Levels, place: int) -> str:
    parts = [
        f"{factor.name} {factor.level(level).text}"
        for at, (factor, level) in enumerate(zip(design.factors, levels, strict=True))
        if at != place
    ]
    return ", ".join(parts) or design.stack


def _drawn(
    lines: Mapping[str, list[tuple[float, MetricSummary]]], kind: MetricKind, factor: Factor, title: str
) -> Drawing:
    numbers = sorted({number for points in lines.values() for number, _ in points})
    texts = {level.number: level.text for level in factor.levels if level.number is not None}
    named = {number: svg.number(number) if factor.unit == "1" else texts[number] for number in numbers}
    is_log = numbers[0] > 0 and numbers[-1] / numbers[0] >= _LOG_FROM
    x = Axis(factor.name, "log" if is_log else "linear", ticks=named, low=numbers[0], high=numbers[-1])
    drawn = [_line(name, points) for name, points in lines.items()]
    return xy_chart(drawn, x, Axis(unit=kind.unit), title, stack_colours(list(lines)))


def _line(name: str, points: Sequence[tuple[float, MetricSummary]]) -> Line:
    means = [(number, summary.estimate) for number, summary in points]
    ends = [(number, each.interval.low, each.interval.high) for number, each in points if each.interval]
    return Line(name, means, ends if len(ends) == len(points) else (), dots=means)
