# SPDX-License-Identifier: Apache-2.0
"""Measured ratios with their intervals beside the ranges that were published."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

from strata.report import svg
from strata.report.claims import level_text
from strata.report.palette import GRID, INK, MUTED, PAPER, STACKS, Colour
from strata.report.svg import Drawing
from strata.statistics.claims import Finding, Judgement, Verdict
from strata.units import ratio_digits

_WIDTH_PX: Final = 800
_LEFT_PX: Final = 330
_RIGHT_PX: Final = 24
_ROW_PX: Final = 26
_HEAD_PX: Final = 24
_LEGEND_PX: Final = 26
_DOT_PX: Final = 4.5
_ROWS_MAX: Final = 6
"""The most rows of one claim; the pairs of stacks that decide its verdict come first."""
_COLOURS: Final[Mapping[Verdict, Colour]] = {
    "reproduced": STACKS[2],
    "direction only": STACKS[0],
    "not reproduced": STACKS[1],
    "reversed": STACKS[1],
    "undecided": STACKS[7],
}


class _Row(NamedTuple):
    claim: str
    finding: Finding
    low: float  # of the published range
    high: float


def ratio_chart(judged: Sequence[Judgement]) -> Drawing | None:
    """A row for each comparison with a published ratio; None without any that was measured."""
    rows = [row for each in judged for row in _rows(each)]
    if not rows:
        return None
    ends = [end for row in rows for end in _ends(row) if end > 0 and math.isfinite(end)]
    ticks = svg.log_ticks(min(*ends, 1), max(*ends, 1))
    x = svg.Logarithmic(ticks[0], ticks[-1], _LEFT_PX, _WIDTH_PX - _RIGHT_PX)
    top = _LEGEND_PX
    parts = [_legend()]
    drawn: list[str] = []
    for claim, group in groupby(rows, key=lambda row: row.claim):
        drawn.append(svg.text(0, top + _HEAD_PX / 2, claim, bold=True, fill=INK.light))
        top += _HEAD_PX
        for row in group:
            drawn += _row(row, x, top)
            top += _ROW_PX
    axis = svg.x_axis(x, {tick: f"{tick:g}" for tick in ticks}, top=_LEGEND_PX, bottom=top, title="ratio")
    one = svg.tag("path", d=f"M{svg.px(x(1))} {svg.px(_LEGEND_PX)}V{svg.px(top)}", stroke=MUTED.light)
    colours = (INK, MUTED, GRID, PAPER, *STACKS)
    height = top + 44
    image = svg.document([*parts, axis, one, *drawn], width=_WIDTH_PX, height=height, colours=colours)
    return Drawing(image, f"Measured ratios beside the published ones: {'; '.join(map(_words, rows))}")


def _rows(judged: Judgement) -> Iterator[_Row]:
    stated = [each for each in judged.findings if each.expectation.ratio and each.level is not None]
    stated.sort(key=lambda each: each.verdict != judged.verdict)
    for each in stated[:_ROWS_MAX]:
        low, high = each.expectation.ratio or (0, math.inf)
        yield _Row(judged.claim.id, each, low, high)


def _ends(row: _Row) -> list[float]:
    interval = row.finding.interval
    return [row.low, row.high, row.finding.level or 1, *((interval.low, interval.high) if interval else ())]


def _row(row: _Row, x: svg.Scale, top: float) -> list[str]:
    finding, middle = row.finding, top + _ROW_PX / 2
    each = finding.expectation
    name = f"{finding.stack} / {finding.against}, {each.workload}"
    if finding.stack == finding.against:
        name = f"{finding.stack}, {each.workload} / {each.other_workload}"
    low, high = (min(max(end, x.low), x.high) for end in (row.low, row.high))
    colour = _COLOURS.get(finding.verdict, MUTED).light
    drawn = [
        svg.name_text(_LEFT_PX - 10, middle, name, width_px=_LEFT_PX - 14),
        svg.tag(
            "rect",
            x=x(low),
            y=top + 4,
            width=max(x(high) - x(low), 3),
            height=_ROW_PX - 8,
            fill=MUTED.light,
            fill_opacity="0.35",
        ),
    ]
    if finding.interval and finding.interval.low > 0:
        ends = (svg.px(x(end)) for end in (finding.interval.low, finding.interval.high))
        rule = f"M{next(ends)} {svg.px(middle)}H{next(ends)}"
        drawn.append(svg.tag("path", d=rule, stroke=colour, stroke_width=2))
    drawn.append(svg.dots([(x(finding.level or 1), middle)], radius=_DOT_PX, fill=colour))
    return drawn


def _legend() -> str:
    at, middle = 0.0, _LEGEND_PX / 2 - 2
    box = svg.tag("rect", x=at, y=middle - 6, width=16, height=12, fill=MUTED.light, fill_opacity="0.35")
    parts = [box, svg.text(at + 22, middle, "published")]
    at += 100
    # One colour stands for both verdicts that contradict the claim.
    named = {name: colour for name, colour in _COLOURS.items() if name != "reversed"}
    for words, colour in named.items():
        dot = svg.dots([(at + 5, middle)], radius=_DOT_PX, fill=colour.light)
        parts += [dot, svg.text(at + 16, middle, words)]
        at += 24 + len(words) * svg.CHARACTER_PX
    return "".join(parts)


def _words(row: _Row) -> str:
    finding, interval = row.finding, row.finding.interval
    ends = (interval.low, interval.high) if interval else (None, None)
    level = level_text(finding.level, ends, "1", is_ratio=True)
    published = " to ".join("∞" if math.isinf(end) else ratio_digits(end) for end in (row.low, row.high))
    return f"{row.claim}, {finding.stack} {level}, published {published}"
