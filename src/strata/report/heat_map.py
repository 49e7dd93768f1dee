# SPDX-License-Identifier: Apache-2.0
"""All cells of a study as ratios to one stack: the data, a drawing for articles, and the page's heat map."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from strata.model.metric import metric_title
from strata.report import svg
from strata.report.palette import GAINS, INK, ON_GAINS, PAPER
from strata.report.spans import Times
from strata.report.svg import Drawing
from strata.report.wording import SIGNS
from strata.statistics.comparison import Comparison, MetricKind
from strata.statistics.study import StudyResults
from strata.units import format_value, ratio_digits

STEPS_MAX: Final = 4  # shades go from -4, at most half as good, to 4, at least twice as good
_CELL_PX: Final = 52
_ROW_PX: Final = 26


@dataclass(frozen=True)
class HeatCell:
    """A stack under a workload against the reference; ``value`` is its own, empty without results."""

    stack: str
    workload: str
    reference: str
    value: str
    comparison: Comparison | None

    @property
    def is_reference(self) -> bool:
        return self.stack == self.reference and bool(self.value)

    @property
    def step(self) -> int | None:
        """The shade, from -4 to 4; None without a comparison."""
        found = self.comparison
        return None if found is None or found.unranked else shade(found.gain)

    @property
    def style(self) -> str:
        """The style sheet's class: ``g0`` is half as good or worse, ``g8`` twice as good or better."""
        if self.step is None:
            return "ref" if self.is_reference else "none"
        return f"g{self.step + STEPS_MAX}"

    @property
    def text(self) -> str:
        """The gain: two digits behind the point below ten; a dash for nothing, or without a rank."""
        if self.comparison is None or self.comparison.unranked:
            return "1" if self.is_reference else "–"
        gain = self.comparison.gain
        return f"{gain:.2f}" if 0.01 <= gain < 9.995 else ratio_digits(gain, 2)

    @property
    def verdict(self) -> str:
        return self.comparison.verdict if self.comparison else ""

    @property
    def sign(self) -> str:
        return SIGNS[self.comparison.verdict] if self.comparison else ""

    @property
    def words(self) -> str:
        place = f"{self.stack} under {self.workload}"
        if self.comparison is not None:
            found = self.comparison
            gain = "not ranked" if found.unranked else Times.of(found).text
            return f"{place}: {gain} of {self.reference}, {self.value}; {self.verdict}"
        return f"{place}: " + (f"the reference, {self.value}" if self.is_reference else "no result")


@dataclass(frozen=True)
class HeatMap:
    """Every stack against one, workload by workload."""

    reference: str
    stacks: tuple[str, ...]
    workloads: tuple[str, ...]
    kinds: Mapping[str, MetricKind]  # the compared metric of each workload that has results
    cells: Mapping[tuple[str, str], HeatCell]  # by stack and workload

    def rows(self) -> list[tuple[str, str, list[HeatCell]]]:
        titles = {name: metric_title(kind) for name, kind in self.kinds.items()}
        return [
            (name, titles.get(name, ""), [self.cells[stack, name] for stack in self.stacks])
            for name in self.workloads
        ]


def measured_stacks(results: StudyResults) -> list[str]:
    return [
        stack
        for stack in results.stacks
        if any(results.cells[stack, workload].records for workload in results.workloads)
    ]


def heat_map(results: StudyResults, reference: str) -> HeatMap:
    chosen = {name: results.metrics(name)[:1] for name in results.workloads}
    found = {(each.stack, each.workload): each for each in results.against(reference, chosen)}
    kinds = {name: each[0] for name, each in chosen.items() if each}
    cells = {}
    for workload in results.workloads:
        kind = kinds.get(workload)
        summaries = results.summaries(workload, kind.name) if kind else {}
        for stack in results.stacks:
            value = format_value(summaries[stack].estimate, kind.unit) if kind and stack in summaries else ""
            place = (stack, workload)
            cells[place] = HeatCell(stack, workload, reference, value, found.get(place))
    return HeatMap(reference, tuple(results.stacks), tuple(results.workloads), kinds, cells)


def shade(gain: float) -> int:
    """A cell's colour: 0 within ±3 %; ±1 to a factor of 1.19, ±2 to 1.41, ±3 to 2, ±4 beyond."""
    doublings = abs(math.log2(gain))
    if doublings <= math.log2(1.03):
        return 0
    step = next((step for step, limit in enumerate((0.25, 0.5, 1.0), 1) if doublings < limit), STEPS_MAX)
    return step if gain > 1 else -step


def draw_heat_map(found: HeatMap, title: str) -> Drawing:
    left = 20 + math.ceil(max(map(len, found.workloads)) * svg.CHARACTER_PX)
    left = min(left, 260)
    top = 16 + min(math.ceil(max(map(len, found.stacks)) * svg.CHARACTER_PX * 0.75), 180)
    width, bottom = left + _CELL_PX * len(found.stacks) + 60, top + _ROW_PX * len(found.workloads)
    parts = []
    for column, stack in enumerate(found.stacks):
        place = f"translate({svg.px(left + (column + 0.5) * _CELL_PX)} {top - 8})rotate(-45)"
        name, is_bold = svg.shortened(stack, 240), stack == found.reference
        words = svg.text(0, 0, name, size=svg.NAME_PX, bold=is_bold, fill=INK.light)
        parts.append(svg.tag("g", words, transform=place))
    worded = []
    for row, (workload, _, cells) in enumerate(found.rows()):
        upper = top + row * _ROW_PX
        parts.append(svg.name_text(left - 10, upper + _ROW_PX / 2, workload, width_px=left - 14))
        parts += [_cell(cell, left + column * _CELL_PX, upper) for column, cell in enumerate(cells)]
        said = (
            f"{each.stack} {each.text}" + (f" ({each.verdict})" if each.verdict else "") for each in cells
        )
        worded.append(f"{workload}: {', '.join(said)}".replace("–", "not compared"))
    parts.append(svg.text(left, bottom + 18, f"times as good as {found.reference}"))
    parts.append(_legend(left, bottom + 32))
    alternative = f"Heat map, {title}, times as good as {found.reference}; {'; '.join(worded)}"
    return svg.drawing(parts, alternative, width=width, height=bottom + 60)


def _cell(cell: HeatCell, x: float, y: float) -> str:
    is_empty = cell.step is None and not cell.is_reference
    index = (cell.step or 0) + STEPS_MAX
    fill, ink = (PAPER, INK) if is_empty else (GAINS[index], ON_GAINS[index])
    said = f"{cell.text} {cell.sign}" if cell.verdict not in {"better", "worse", ""} else cell.text
    bold = cell.verdict in {"better", "worse"}
    box = svg.tag("rect", x=x + 1, y=y + 1, width=_CELL_PX - 2, height=_ROW_PX - 2, fill=fill.light)
    middle = (x + _CELL_PX / 2, y + _ROW_PX / 2)
    return box + svg.text(*middle, said, anchor="middle", bold=bold, fill=ink.light)


def _legend(left: float, top: float) -> str:
    drawn = []
    labels = ("≤ ½", "", "", "", "±3 %", "", "", "", "≥ 2")
    for index, (colour, label) in enumerate(zip(GAINS, labels, strict=True)):
        x = left + index * 26
        drawn.append(svg.tag("rect", x=x, y=top, width=26, height=10, fill=colour.light))
        if label:
            drawn.append(svg.text(x + 13, top + 19, label, anchor="middle", size=11))
    signs = "= equal   ≈ marginal   ? undecided   ! doubtful   · too few seeds   – not compared"
    return "".join([*drawn, svg.text(left + 9 * 26 + 14, top + 5, signs, size=11)])
