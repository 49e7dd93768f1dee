# SPDX-License-Identifier: Apache-2.0
"""The one chart over two axes: lines, bands and points, over time, a rate, a depth or percentiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final, Literal

from strata.report import svg
from strata.report.palette import MUTED, Colour
from strata.report.svg import Drawing, Point
from strata.units import format_value, scale_for

HALF_PX: Final = 480  # two charts fill the page's width, a wide one most of it: labels are then at 1 : 1
WIDE_PX: Final = 800
BANDS_MAX: Final = 8
"""Up to this many lines have a band each; more would cover one another."""
_HEIGHT_PX: Final = 300
_TOP_PX: Final = 12
_LEFT_PX: Final = 64
_UPRIGHT_TITLE_PX: Final = 20
_BELOW_PX: Final = 52  # the labels and the title of the axis below
_RIGHT_PX: Final = 24  # without names there
_NAME_PX: Final = 15  # distance of two names that do not touch
_LEGEND_PX: Final = 20
_NAMES_SHARE_MAX: Final = 0.42  # of a chart's width
_DOT_PX: Final = 3.0
_INSET_PX: Final = 10
_POINTS_SAID_MAX: Final = 12  # of a longer line, the alternative has the ends
_TICKS_LOG_MAX: Final = 7
_TICKS: Final = 5
_PANEL_TICKS: Final = 3
_SHORT_FROM: Final = 1_000_000
_PANEL_PX: Final = 104
_PANEL_NAME_PX: Final = 32
_PANEL_GAP_PX: Final = 28


@dataclass(frozen=True)
class Line:
    """One series of a chart.

    Attributes:
        points: ``(x, y)``, rising in x.
        band: ``(x, low, high)`` around the line; empty: none.
        dots: Further points, which are not joined.
        style: A theory is dashed; of steps, a value holds until the next.
        level: The y beside which the name stands; None: that of the last point.
        said: The line in words; empty: its points, or its ends if they are many.
    """

    name: str
    points: Sequence[Point]
    band: Sequence[tuple[float, float, float]] = ()
    dots: Sequence[Point] = ()
    style: Literal["line", "dots", "steps", "theory"] = "line"
    level: float | None = None
    said: str = ""


@dataclass(frozen=True)
class Axis:
    """One axis of a chart.

    Attributes:
        kind: Of ``nines``, percentiles: every nine is as far from the last as that from the one before.
        unit: Of the values, as in `format_value`; the title of a linear axis without one is the unit's.
        ticks: The labels by their values; empty: round numbers.
        low, high: The axis' ends; None: 0 or the lowest value, and a tick that is not below the highest.
    """

    title: str = ""
    kind: Literal["linear", "log", "nines"] = "linear"
    unit: str = ""
    ticks: Mapping[float, str] = field(default_factory=dict)
    low: float | None = None
    high: float | None = None

    def has(self, value: float) -> bool:
        return math.isfinite(value) and (value > 0 or self.kind != "log")

    def words(self, value: float) -> str:
        return self.ticks.get(value) or format_value(value, self.unit or "1")


_SCALES: Final = {"linear": svg.Linear, "log": svg.Logarithmic, "nines": svg.Nines}


def names_px(names: Sequence[str], full: int) -> int:
    """The margin that the names need; long ones are shortened to leave the chart its room."""
    needed = 20 + math.ceil(max(map(len, names)) * svg.CHARACTER_PX)
    return min(needed, int(full * _NAMES_SHARE_MAX))


def tick_text(value_ns: float) -> str:
    scale = scale_for("ns", value_ns)
    return f"{value_ns / scale.divisor:.3g} {scale.label}"


def xy_chart(
    lines: Sequence[Line],
    x: Axis,
    y: Axis,
    title: str,
    colours: Mapping[str, Colour],
    *,
    width: int = WIDE_PX,
    height: int = _HEIGHT_PX,
    limit: float | None = None,
    legend: bool = False,
) -> Drawing:
    """The lines over two axes, each named at its end, or all in a ``legend`` above.

    ``limit`` is a level that a dashed line shows. Points that an axis cannot show are left out; without any
    left the drawing is empty.
    """
    shown = [found for line in lines if (found := _shown(line, x, y)) is not None]
    if not shown:
        return Drawing("", f"{title}: nothing to show")
    named = not legend or len(shown) > 1
    bands = len(shown) <= BANDS_MAX
    x, y, upright = _chosen(shown, x, y, limit, bands=bands)
    left = _left(upright)
    right = width - (_RIGHT_PX if legend else names_px([line.name for line in shown], width))
    top = _TOP_PX + (_LEGEND_PX - 4 if legend and named else 0)
    bottom = top + height
    inset = _INSET_PX * any(line.dots for line in shown)  # a dot at an end is whole
    across, upward = _scale(x, left + inset, right - inset), _scale(y, bottom, top)
    parts = [
        svg.y_axis(upward, y.ticks, left=left, right=right, title=upright),
        svg.x_axis(across, x.ticks, top=top, bottom=bottom, title=x.title),
    ]
    parts += _level(limit, upward, left, right)
    places = _legend(shown, left, top) if legend else _beside(shown, right + 10, upward, bottom)
    size, room = (svg.LABEL_PX, math.inf) if legend else (svg.NAME_PX, width - right - 14)
    for line, place in zip(shown, places, strict=True):
        drawn = _marks(line, across, upward, colours, bands=bands)
        words, fill = svg.shortened(line.name, room), colours[line.name].light
        name = svg.text(*place, words, size=size, bold=True, fill=fill) if named else ""
        parts.append(svg.of_stack(line.name, *drawn, name))
    said = f"Line chart, {title}; {'; '.join(_said(line, x, y) for line in shown)}"
    return svg.drawing(parts, said, width=width, height=bottom + _BELOW_PX)


def panels(
    lines: Sequence[Line], x: Axis, y: Axis, title: str, colours: Mapping[str, Colour], *, columns: int
) -> Drawing:
    """A small chart for each line, all with the same axes."""
    x, y, upright = _chosen(lines, x, y, None, bands=True, count=_PANEL_TICKS)
    left = _left(upright)
    width = (WIDE_PX - left - _RIGHT_PX - _PANEL_GAP_PX * (columns - 1)) / columns
    row_height = _PANEL_NAME_PX + _PANEL_PX + 30
    parts = []
    for index, line in enumerate(lines):
        row, column = divmod(index, columns)
        start, top = left + column * (width + _PANEL_GAP_PX), row * row_height + _PANEL_NAME_PX
        across, upward = _scale(x, start, start + width), _scale(y, top + _PANEL_PX, top)
        labels = dict.fromkeys(y.ticks, "") if column else y.ticks
        axis_title = None if column else upright
        parts.append(svg.y_axis(upward, labels, left=start, right=start + width, title=axis_title))
        parts.append(svg.x_axis(across, x.ticks, top=top, bottom=top + _PANEL_PX))
        name = svg.name_text(start, top - 14, line.name, anchor="start", width_px=width)
        alone = {line.name: colours[line.name]}
        parts.append(svg.of_stack(line.name, name, *_marks(line, across, upward, alone, bands=True)))
    bottom = math.ceil(len(lines) / columns) * row_height
    parts.append(svg.text((left + WIDE_PX - _RIGHT_PX) / 2, bottom + 6, x.title, anchor="middle"))
    said = f"Line charts, {title}; {'; '.join(_said(line, x, y) for line in lines)}"
    return svg.drawing(parts, said, width=WIDE_PX, height=bottom + 16)


def _left(upright: str | None) -> int:
    return _LEFT_PX + (_UPRIGHT_TITLE_PX if upright else 0)


def _level(limit: float | None, upward: svg.Scale, left: float, right: float) -> Iterator[str]:
    if limit is not None:
        y = upward(limit)
        yield svg.line([(left, y), (right, y)], stroke=MUTED.light, dash="7 3")


def _shown(line: Line, x: Axis, y: Axis) -> Line | None:
    """The line without points that an axis cannot show; None if none is left."""
    points, dots = ([p for p in each if x.has(p[0]) and y.has(p[1])] for each in (line.points, line.dots))
    band = [row for row in line.band if x.has(row[0]) and y.has(row[1]) and y.has(row[2])]
    return replace(line, points=points, dots=dots, band=band) if points or dots else None


def _chosen(
    lines: Sequence[Line], x: Axis, y: Axis, limit: float | None, *, bands: bool, count: int = _TICKS
) -> tuple[Axis, Axis, str | None]:
    """The axes with their ends and labels, and the upright title."""
    points = [point for line in lines for point in (*line.points, *line.dots)]
    levels = [end for line in lines if bands for _, low, high in line.band for end in (low, high)]
    levels += [b for _, b in points] + ([] if limit is None else [limit])
    x, _ = _ended(x, [a for a, _ in points], count)
    y, label = _ended(y, levels, count)
    return x, y, y.title or label or None


def _ended(axis: Axis, values: Sequence[float], count: int) -> tuple[Axis, str]:
    """The axis with its ends and labels, and the label of its unit; what an axis has is kept."""
    if axis.kind == "log":
        low, high, labels, label = _log_ends(axis, values)
    else:
        low, high, labels, label = _linear_ends(axis, values, count)
    low, high = axis.low if axis.low is not None else low, axis.high if axis.high is not None else high
    return replace(axis, low=low, high=high, ticks=axis.ticks or labels), label


_Ends = tuple[float, float, dict[float, str], str]


def _log_ends(axis: Axis, values: Sequence[float]) -> _Ends:
    ticks = svg.log_ticks(min(values), max(values))
    low, high = min(*values, ticks[0]), max(*values, ticks[-1])
    write = tick_text if axis.unit == "ns" else _write(ticks)
    return low, high, {tick: write(tick) for tick in ticks[:: math.ceil(len(ticks) / _TICKS_LOG_MAX)]}, ""


def _linear_ends(axis: Axis, values: Sequence[float], count: int) -> _Ends:
    low = min(0.0, *values) if axis.low is None else axis.low
    high = max(*values, low) if axis.high is None else axis.high
    high = high if high > low else low + 1.0  # without a length, an axis cannot be drawn
    scale = scale_for(axis.unit or "1", high)
    divisor, label = scale.divisor, "per second" if scale.label == "/s" else scale.label
    ticks = svg.linear_ticks(low / divisor, high / divisor, count)
    if axis.high is None and ticks[-1] * divisor < high * (1 - 1e-9):
        ticks.append(2 * ticks[-1] - ticks[-2])  # the largest value can be read off
    write = _write(ticks)
    return low, ticks[-1] * divisor, {tick * divisor: write(tick) for tick in ticks}, label


def _write(ticks: Sequence[float]) -> Callable[[float], str]:
    return svg.short_number if ticks[-1] >= _SHORT_FROM else svg.number


def _scale(axis: Axis, start_px: float, stop_px: float) -> svg.Scale:
    low, high = axis.low or 0.0, axis.high or 0.0
    is_point = axis.kind == "linear" and not high > low
    return _SCALES[axis.kind](low, low + 1.0 if is_point else high, start_px, stop_px)


def _marks(
    line: Line, across: svg.Scale, upward: svg.Scale, colours: Mapping[str, Colour], *, bands: bool
) -> list[str]:
    fill, drawn = colours[line.name].light, []
    if bands and len(line.band) > 1:
        low = [(across(a), upward(max(b, upward.low))) for a, b, _ in line.band]
        high = [(across(a), upward(c)) for a, _, c in line.band]
        drawn.append(svg.band(low, high, fill=fill))
    points = [(across(a), upward(b)) for a, b in line.points]
    points = _stepped(points) if line.style == "steps" else points
    dots = [(across(a), upward(b)) for a, b in line.dots]
    if line.style == "dots":
        dots += points
    elif points:
        dash = "5 4" if line.style == "theory" else svg.dash_of(line.name, colours)
        drawn.append(svg.line(points, stroke=fill, dash=dash))
    if dots:
        opacity = None if line.style == "dots" else 0.7
        drawn.append(svg.dots(dots, radius=_DOT_PX, fill=fill, opacity=opacity))
    return drawn


def _stepped(points: Sequence[Point]) -> list[Point]:
    corners = [(after[0], before[1]) for before, after in pairwise(points)]
    return [point for pair in zip(points, [*corners, points[-1]], strict=True) for point in pair]


def _beside(lines: Sequence[Line], x: float, upward: svg.Scale, bottom: float) -> list[Point]:
    """The places of the lines' names: beside their ends, moved apart where they would touch."""
    levels = [(line.points or line.dots)[-1][1] if line.level is None else line.level for line in lines]
    ends = [upward(level) for level in levels]
    order = sorted(range(len(lines)), key=ends.__getitem__)
    for before, after in pairwise(order):
        ends[after] = max(ends[after], ends[before] + _NAME_PX)
    for index in reversed(order):
        ends[index] = min(ends[index], bottom)
        bottom = ends[index] - _NAME_PX
    return [(x, end) for end in ends]


def _legend(lines: Sequence[Line], x: float, top: float) -> Iterator[Point]:
    for line in lines:
        yield x, top - _LEGEND_PX / 2
        x += 7.2 * len(line.name) + 18


def _said(line: Line, x: Axis, y: Axis) -> str:
    points = line.points or line.dots
    if line.said:
        return f"{line.name} {line.said}"
    if len(points) > _POINTS_SAID_MAX:
        first, last = (y.words(b) for _, b in (points[0], points[-1]))
        return f"{line.name} from {first} to {last}"
    return f"{line.name}: {', '.join(f'{y.words(b)} at {x.words(a)}' for a, b in points)}"
