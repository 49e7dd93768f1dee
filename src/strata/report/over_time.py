# SPDX-License-Identifier: Apache-2.0
"""Throughput over the measured window: a line per stack, with the range of its seeds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

import numpy as np

from strata.report import svg
from strata.report.charts import BANDS_MAX, WIDE_PX
from strata.report.palette import Colour
from strata.report.svg import Drawing
from strata.statistics.over_time import OverTime
from strata.units import NS_PER_S, Scale, format_duration, scale_for

_TOGETHER_MAX: Final = 4
"""With more lines than this, which would hide one another, each gets a small chart."""
_LEFT_PX: Final = 84
_HEIGHT_PX: Final = 240
_PANEL_PX: Final = 104
_PANEL_NAME_PX: Final = 22
_PANEL_GAP_PX: Final = 28
_PANELS_RIGHT_PX: Final = 16
_LABEL_PX: Final = 15
_SHORT_FROM: Final = 1_000_000


def over_time(stacks: Mapping[str, OverTime], title: str, colours: Mapping[str, Colour]) -> Drawing:
    """A line per stack: the mean of its seeds, within the band between the lowest and the highest.

    Args:
        stacks: At least one, all of one source and unit.
        title: For readers who cannot see the chart.
        colours: Of the stacks.
    """
    top = max(float(each.high.max()) for each in stacks.values())
    top = top if top > 0 else 1.0
    some = next(iter(stacks.values()))
    scale = scale_for(some.unit, top)
    long_s = max(each.interval_ns * len(each.mean) for each in stacks.values()) / NS_PER_S
    draw = _together if len(stacks) <= _TOGETHER_MAX else _apart
    worded = (
        f"{stack} {scale.format(float(each.mean.mean()))} {scale.label} on average, "
        f"from {scale.format(float(each.mean.min()))} to {scale.format(float(each.mean.max()))}"
        for stack, each in stacks.items()
    )
    alternative = f"Line chart, {title}; " + "; ".join(worded)
    return Drawing(draw(stacks, colours, scale, top, long_s), alternative)


def account_words(stacks: Mapping[str, OverTime]) -> str:
    """The caption: whose account it is, and what the lines are."""
    some = next(iter(stacks.values()))
    whose = "by the load's own account" if some.source == "load" else "as the disks saw it, all together"
    if some.tenant:
        whose = f"by the own account of {some.tenant}"
    what = {"1/s": "operations" if some.source == "load" else "requests", "B/s": "bytes"}[some.unit]
    seeds = sorted({each.n for each in stacks.values()})
    each = format_duration(some.interval_ns)
    if seeds[-1] == 1:
        return f"{what} in each {each}, {whose}; one seed"
    many = f"{seeds[0]} to {seeds[-1]}" if len(seeds) > 1 else f"{seeds[0]}"
    return f"{what} in each {each}, {whose}: the mean of {many} seeds, and the band they lie in"


def _together(
    stacks: Mapping[str, OverTime], colours: Mapping[str, Colour], scale: Scale, top: float, long_s: float
) -> str:
    right = min(20 + math.ceil(max(map(len, stacks)) * svg.CHARACTER_PX), 220)
    x = svg.Linear(0, long_s, _LEFT_PX, WIDE_PX - right)
    y = svg.Linear(0, top, 12 + _HEIGHT_PX, 12)
    parts = [
        svg.y_axis(
            y,
            _rates(top, scale, 5),
            left=_LEFT_PX,
            right=WIDE_PX - right,
            title=_axis_title(scale),
        ),
        svg.x_axis(x, _seconds(long_s, 8), top=12, bottom=12 + _HEIGHT_PX, title=_X_TITLE),
    ]
    ends = sorted(stacks, key=lambda stack: y(_end(stacks[stack])))
    at = -math.inf
    for stack in ends:
        at = max(at + _LABEL_PX, y(_end(stacks[stack])))
        label = svg.text(
            WIDE_PX - right + 10,
            at,
            svg.shortened(stack, right - 14),
            size=svg.NAME_PX,
            bold=True,
            fill=colours[stack].light,
        )
        parts.append(svg.of_stack(stack, *_lines(stacks[stack], stack, colours, x, y), label))
    return svg.finished(parts, width=WIDE_PX, height=12 + _HEIGHT_PX + 52)


def _apart(
    stacks: Mapping[str, OverTime], colours: Mapping[str, Colour], scale: Scale, top: float, long_s: float
) -> str:
    """A small chart for each stack, all with the same axes."""
    columns = 4 if len(stacks) > BANDS_MAX else 3
    rows = math.ceil(len(stacks) / columns)
    width = (WIDE_PX - _LEFT_PX - _PANELS_RIGHT_PX - _PANEL_GAP_PX * (columns - 1)) / columns
    row_height = _PANEL_NAME_PX + _PANEL_PX + 30
    labels = _rates(top, scale, 4)
    parts = []
    for index, (stack, series) in enumerate(stacks.items()):
        row, column = divmod(index, columns)
        left = _LEFT_PX + column * (width + _PANEL_GAP_PX)
        upper = row * row_height + _PANEL_NAME_PX
        x = svg.Linear(0, long_s, left, left + width)
        y = svg.Linear(0, top, upper + _PANEL_PX, upper)
        if column == 0:
            title = _axis_title(scale)
            parts.append(svg.y_axis(y, labels, left=left, right=left + width, title=title))
        else:
            parts.append(svg.y_axis(y, dict.fromkeys(labels, ""), left=left, right=left + width))
        parts.append(svg.x_axis(x, _seconds(long_s, 4), top=upper, bottom=upper + _PANEL_PX))
        name = svg.name_text(left, upper - 10, stack, anchor="start", width_px=width)
        parts.append(svg.of_stack(stack, name, *_lines(series, stack, {stack: colours[stack]}, x, y)))
    bottom = rows * row_height
    middle = (_LEFT_PX + WIDE_PX - _PANELS_RIGHT_PX) / 2
    parts.append(svg.text(middle, bottom + 6, _X_TITLE, anchor="middle"))
    return svg.finished(parts, width=WIDE_PX, height=bottom + 16)


_X_TITLE: Final = "seconds from the start of the measured window"


def _lines(
    series: OverTime, stack: str, colours: Mapping[str, Colour], x: svg.Linear, y: svg.Linear
) -> list[str]:
    interval_s = series.interval_ns / NS_PER_S
    places = [x((index + 0.5) * interval_s) for index in range(len(series.mean))]
    drawn = []
    if series.n > 1:
        lower, upper = (
            list(zip(places, map(y, each.tolist()), strict=True)) for each in (series.low, series.high)
        )
        drawn.append(svg.band(lower, upper, fill=colours[stack].light))
    points = list(zip(places, map(y, series.mean.tolist()), strict=True))
    drawn.append(svg.line(points, stroke=colours[stack].light, width=1.75, dash=svg.dash_of(stack, colours)))
    return drawn


def _end(series: OverTime) -> float:
    """Where a line's label goes: beside the mean of its last eighth, which a last dip does not move."""
    return float(np.mean(series.mean[-max(1, len(series.mean) // 8) :]))


def _seconds(long_s: float, count: int) -> dict[float, str]:
    return {tick: svg.number(tick) for tick in svg.linear_ticks(0, long_s, count)}


def _rates(top: float, scale: Scale, count: int) -> dict[float, str]:
    ticks = svg.linear_ticks(0, top / scale.divisor, count)
    write = svg.number if ticks[-1] < _SHORT_FROM else svg.short_number
    return {tick * scale.divisor: write(tick) for tick in ticks}


def _axis_title(scale: Scale) -> str:
    return "per second" if scale.label == "/s" else scale.label
