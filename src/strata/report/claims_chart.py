# SPDX-License-Identifier: Apache-2.0
"""Measured ratios with their intervals beside the ranges that were published."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from strata.report import svg
from strata.report.claims import found_words
from strata.report.palette import GRID, INK, MUTED, PAPER, STACKS, Colour
from strata.report.svg import Drawing
from strata.statistics.claims import ClaimFinding, Judgement, Verdict
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
    "in another regime": STACKS[5],
    "undecided": STACKS[7],
}


def ratio_chart(judged: Sequence[Judgement]) -> Drawing | None:
    """A row for each comparison with a published ratio; None without any that was measured."""
    claims = {each.claim.id: shown for each in judged if (shown := _shown(each))}
    findings = [finding for shown in claims.values() for finding in shown]
    if not findings:
        return None
    ends = [end for finding in findings for end in _ends(finding) if end > 0 and math.isfinite(end)]
    ticks = svg.log_ticks(min(*ends, 1), max(*ends, 1))
    x = svg.Logarithmic(ticks[0], ticks[-1], _LEFT_PX, _WIDTH_PX - _RIGHT_PX)
    top, drawn = _LEGEND_PX, list[str]()
    for claim, shown in claims.items():
        drawn.append(svg.text(0, top + _HEAD_PX / 2, claim, bold=True, fill=INK.light))
        top += _HEAD_PX
        for finding in shown:
            drawn += _row(finding, x, top)
            top += _ROW_PX
    axis = svg.x_axis(x, {tick: f"{tick:g}" for tick in ticks}, top=_LEGEND_PX, bottom=top, title="ratio")
    one = svg.tag("path", d=f"M{svg.px(x(1))} {svg.px(_LEGEND_PX)}V{svg.px(top)}", stroke=MUTED.light)
    colours, height = (INK, MUTED, GRID, PAPER, *STACKS), top + 44
    image = svg.document([_legend(), axis, one, *drawn], width=_WIDTH_PX, height=height, colours=colours)
    said = (_words(claim, finding) for claim, shown in claims.items() for finding in shown)
    words = f"Measured ratios beside the published ones: {'; '.join(said)}"
    return Drawing(image, words, _WIDTH_PX, height)


def _shown(judged: Judgement) -> list[ClaimFinding]:
    """The findings of a claim that are drawn: those that decide its verdict come first."""
    stated = [each for each in judged.findings if each.expectation.ratio and each.level is not None]
    return sorted(stated, key=lambda each: each.verdict != judged.verdict)[:_ROWS_MAX]


def _published(finding: ClaimFinding) -> tuple[float, float]:
    low, high = finding.expectation.ratio or (0, math.inf)
    return low, high


def _ends(finding: ClaimFinding) -> list[float]:
    interval = finding.interval
    measured = (interval.low, interval.high) if interval else ()
    return [*_published(finding), finding.level or 1, *measured]


def _row(finding: ClaimFinding, x: svg.Scale, top: float) -> list[str]:
    middle, expected = top + _ROW_PX / 2, finding.expectation
    name = f"{finding.stack} / {finding.against}, {expected.workload}"
    if finding.stack == finding.against:
        name = f"{finding.stack}, {expected.workload} / {expected.other_workload}"
    low, high = (x(min(max(end, x.low), x.high)) for end in _published(finding))
    colour = _COLOURS.get(finding.verdict, MUTED).light
    drawn = [
        svg.name_text(_LEFT_PX - 10, middle, name, width_px=_LEFT_PX - 14),
        _band(low, top + 4, max(high - low, 3), _ROW_PX - 8),
    ]
    if finding.interval and finding.interval.low > 0:
        ends = [svg.px(x(end)) for end in (finding.interval.low, finding.interval.high)]
        drawn.append(
            svg.tag("path", d=f"M{ends[0]} {svg.px(middle)}H{ends[1]}", stroke=colour, stroke_width=2)
        )
    return [*drawn, svg.dots([(x(finding.level or 1), middle)], radius=_DOT_PX, fill=colour)]


def _band(x: float, y: float, width: float, height: float) -> str:
    return svg.tag("rect", x=x, y=y, width=width, height=height, fill=MUTED.light, fill_opacity="0.35")


def _legend() -> str:
    at, middle = 100.0, _LEGEND_PX / 2 - 2
    parts = [_band(0, middle - 6, 16, 12), svg.text(22, middle, "published")]
    for words, colour in _COLOURS.items():
        if words == "reversed":  # its colour stands for both verdicts that contradict the claim
            continue
        dot = svg.dots([(at + 5, middle)], radius=_DOT_PX, fill=colour.light)
        parts += [dot, svg.text(at + 16, middle, words)]
        at += 24 + len(words) * svg.CHARACTER_PX
    return "".join(parts)


def _words(claim: str, finding: ClaimFinding) -> str:
    published = " to ".join("∞" if math.isinf(end) else ratio_digits(end) for end in _published(finding))
    return f"{claim}, {finding.stack} {found_words(finding)}, published {published}"
