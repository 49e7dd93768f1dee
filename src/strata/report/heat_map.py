# SPDX-License-Identifier: Apache-2.0
"""All cells of a study as ratios to one stack: the data, and a drawing for articles."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from strata.report import svg
from strata.report.palette import GAINS, INK, ON_GAINS, PAPER
from strata.report.svg import Drawing
from strata.statistics.comparison import Comparison, MetricKind
from strata.statistics.study import StudyResults
from strata.units import significant

STEPS_MAX: Final = 4
"""Shades go from -4, at most half as good, to 4, at least twice as good."""
_CELL_PX: Final = 52
_ROW_PX: Final = 26
_MARKS: Final = {"undecided": " ?", "too few seeds": " ?", "equal": " ="}


@dataclass(frozen=True)
class HeatMap:
    """Every stack against one, workload by workload.

    Attributes:
        reference: The stack that the others are compared to.
        kinds: The metric that is compared, by workload; a workload without results has none.
        cells: By ``(stack, workload)``; None where there is nothing to compare, as in the reference's own.
    """

    reference: str
    stacks: tuple[str, ...]
    workloads: tuple[str, ...]
    kinds: Mapping[str, MetricKind]
    cells: Mapping[tuple[str, str], Comparison | None]

    def measured(self, workload: str) -> bool:
        """Whether the reference has a value to compare to."""
        return any(self.cells[stack, workload] is not None for stack in self.stacks)


def heat_map(
    results: StudyResults, reference: str, kinds: Mapping[str, list[MetricKind]] | None = None
) -> HeatMap:
    """Compare all stacks to one.

    Args:
        results: The study's.
        reference: A stack of the study.
        kinds: By workload the metrics, of which the first is taken; the first headline without it.
    """
    taken = {name: (kinds or {}).get(name) or results.metrics(name)[:1] for name in results.workloads}
    chosen = {name: each[:1] for name, each in taken.items()}
    found = {(each.stack, each.workload): each for each in results.against(reference, chosen)}
    return HeatMap(
        reference=reference,
        stacks=tuple(results.stacks),
        workloads=tuple(results.workloads),
        kinds={name: each[0] for name, each in chosen.items() if each},
        cells={
            (stack, workload): found.get((stack, workload))
            for workload in results.workloads
            for stack in results.stacks
        },
    )


def shade(gain: float) -> int:
    """How strongly a cell is coloured: a step for each quarter, two for each doubling thereafter.

    0 within the practical zone of ±3 %; ±1 to a factor of 1.19, ±2 to 1.41, ±3 to 2, ±4 beyond.
    """
    doublings = abs(math.log2(gain))
    if doublings <= math.log2(1.03):
        return 0
    step = next((step for step, limit in enumerate((0.25, 0.5, 1.0), 1) if doublings < limit), STEPS_MAX)
    return step if gain > 1 else -step


def draw_heat_map(found: HeatMap, title: str) -> Drawing:
    """The heat map: a row per workload, a column per stack."""
    left = 20 + math.ceil(max(map(len, found.workloads)) * svg.CHARACTER_PX)
    left = min(left, 260)
    top = 16 + min(math.ceil(max(map(len, found.stacks)) * svg.CHARACTER_PX * 0.75), 180)
    width, bottom = left + _CELL_PX * len(found.stacks) + 60, top + _ROW_PX * len(found.workloads)
    parts = []
    for column, stack in enumerate(found.stacks):
        place = f"translate({svg.px(left + (column + 0.5) * _CELL_PX)} {top - 8})rotate(-45)"
        words = svg.text(0, 0, svg.shortened(stack, 240), size=svg.NAME_PX, bold=stack == found.reference,
                         fill=INK.light)  # fmt: skip
        parts.append(svg.tag("g", words, transform=place))
    for row, workload in enumerate(found.workloads):
        upper = top + row * _ROW_PX
        parts.append(svg.name_text(left - 10, upper + _ROW_PX / 2, workload, width_px=left - 14))
        for column, stack in enumerate(found.stacks):
            parts.append(_cell(found, stack, workload, left + column * _CELL_PX, upper))
    parts.append(svg.text(left, bottom + 18, f"times as good as {found.reference}"))
    parts.append(_legend(left, bottom + 32))
    worded = "; ".join(
        f"{workload}: " + ", ".join(_words(found, stack, workload) for stack in found.stacks)
        for workload in found.workloads
    )
    alternative = f"Heat map, {title}, times as good as {found.reference}; {worded}"
    return Drawing(svg.finished(parts, width=width, height=bottom + 60), alternative)


def cell_text(found: HeatMap, stack: str, workload: str) -> str:
    """What a cell says: ``1.23``, ``0.99 =`` when equal, ``1.05 ?`` when undecided; a dash for nothing."""
    comparison = found.cells[stack, workload]
    if comparison is not None:
        return significant(comparison.gain) + _MARKS.get(comparison.verdict, "")
    return "1" if stack == found.reference and found.measured(workload) else "–"


def _words(found: HeatMap, stack: str, workload: str) -> str:
    comparison = found.cells[stack, workload]
    if comparison is not None:
        return f"{stack} {significant(comparison.gain)} ({comparison.verdict})"
    return f"{stack} {cell_text(found, stack, workload).replace('–', 'not compared')}"


def _cell(found: HeatMap, stack: str, workload: str, x: float, y: float) -> str:
    comparison = found.cells[stack, workload]
    step = shade(comparison.gain) if comparison is not None else 0
    dim = comparison is None and not (stack == found.reference and found.measured(workload))
    fill = PAPER.light if dim else GAINS[step + STEPS_MAX].light
    ink = INK.light if dim else ON_GAINS[step + STEPS_MAX].light
    said = cell_text(found, stack, workload)
    bold = comparison is not None and comparison.verdict in {"better", "worse"}
    return svg.tag("rect", x=x + 1, y=y + 1, width=_CELL_PX - 2, height=_ROW_PX - 2, fill=fill) + svg.text(
        x + _CELL_PX / 2, y + _ROW_PX / 2, said, anchor="middle", bold=bold, fill=ink
    )


def _legend(left: float, top: float) -> str:
    drawn = []
    labels = ("≤ ½", "", "", "", "±3 %", "", "", "", "≥ 2")
    for index, (colour, label) in enumerate(zip(GAINS, labels, strict=True)):
        x = left + index * 26
        drawn.append(svg.tag("rect", x=x, y=top, width=26, height=10, fill=colour.light))
        if label:
            drawn.append(svg.text(x + 13, top + 19, label, anchor="middle", size=11))
    drawn.append(svg.text(left + 9 * 26 + 14, top + 5, "= equal   ? undecided   – not compared", size=11))
    return "".join(drawn)
