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
from strata.statistics.curve import OverTime
from strata.units import NS_PER_S, Scale, format_duration, scale_for

_TOGETHER_MAX: Final = 4  # more lines would hide one another: each gets a small chart
_LEFT_PX: Final = 84
_HEIGHT_PX: Final = 240
_PANEL_PX: Final = 104
_PANEL_NAME_PX: Final = 22
_PANEL_GAP_PX: Final = 28
_PANELS_RIGHT_PX: Final = 16
_LABEL_PX: Final = 15
_SHORT_FROM: Final = 1_000_000


def over_time(stacks: Mapping[str, OverTime], title: str, colours: Mapping[str, Colour]) -> Drawing:
    """A line per stack: the mean of its seeds, in the band from the lowest to the highest.

    The stacks' series have one source and unit.
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
    """The caption: the source of the account, and the meaning of the lines."""
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
    title = _axis_title(scale)
    parts = [
        svg.y_axis(y, _rates(top, scale, 5), left=_LEFT_PX, right=WIDE_PX - right, title=title),
        svg.x_axis(x, _seconds(long_s, 8), top=12, bottom=12 + _HEIGHT_PX, title=_X_TITLE),
    ]
    at, ends = -math.inf, {stack: y(_end(each)) for stack, each in stacks.items()}
    for stack in sorted(stacks, key=lambda each: ends[each]):
        at, fill = max(at + _LABEL_PX, ends[stack]), colours[stack].light
        name = svg.shortened(stack, right - 14)
        label = svg.text(WIDE_PX - right + 10, at, name, size=svg.NAME_PX, bold=True, fill=fill)
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
        ticks, title = (dict.fromkeys(labels, ""), None) if column else (labels, _axis_title(scale))
        parts.append(svg.y_axis(y, ticks, left=left, right=left + width, title=title))
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
    fill, dash = colours[stack].light, svg.dash_of(stack, colours)
    lower, points, upper = (
        list(zip(places, map(y, each.tolist()), strict=True))
        for each in (series.low, series.mean, series.high)
    )
    band = [svg.band(lower, upper, fill=fill)] if series.n > 1 else []
    return [*band, svg.line(points, stroke=fill, width=1.75, dash=dash)]


def _end(series: OverTime) -> float:
    """The value beside which a line's label stands: the mean of its last eighth, whatever its last dip."""
    return float(np.mean(series.mean[-max(1, len(series.mean) // 8) :]))


def _seconds(long_s: float, count: int) -> dict[float, str]:
    return {tick: svg.number(tick) for tick in svg.linear_ticks(0, long_s, count)}


def _rates(top: float, scale: Scale, count: int) -> dict[float, str]:
    ticks = svg.linear_ticks(0, top / scale.divisor, count)
    write = svg.number if ticks[-1] < _SHORT_FROM else svg.short_number
    return {tick * scale.divisor: write(tick) for tick in ticks}


def _axis_title(scale: Scale) -> str:
    return "per second" if scale.label == "/s" else scale.label
