# SPDX-License-Identifier: Apache-2.0
"""Curves over an axis of numbers: as charts, a device's pictures as one file, and sketches in a terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Final

from strata.datasheet.measure import Picture
from strata.errors import ResultError
from strata.report import svg
from strata.report.charts import HALF_PX
from strata.report.palette import INK, MUTED, PAPER, STACKS
from strata.report.svg import Drawing
from strata.units import significant
from strata.words import sentence_case

SUFFIXES: Final = (".svg", ".html", ".png")
_TITLE_PX: Final = 34
_PICTURE_PX: Final = 340
_HEIGHT_PX: Final = 240
_LEFT_PX: Final = 84
_RIGHT_PX: Final = 24
_LEGEND_PX: Final = 20
_TICKS_LOG_MAX: Final = 7
_SHORT_FROM: Final = 10_000


@dataclass(frozen=True)
class Line:
    name: str  # for the legend
    points: Sequence[tuple[float, float]]  # (x, y), rising in x
    style: str = "line"  # line; theory (dashed and grey); dots; or steps: a value holds until the next


@dataclass(frozen=True)
class Axis:
    title: str
    log: bool = False


def plot(lines: Sequence[Line], x: Axis, y: Axis, title: str) -> Drawing:
    """The lines in one chart, without points that a logarithmic axis cannot show."""
    shown = [(line, points) for line in lines if (points := [p for p in line.points if _fits(p, x, y)])]
    if not shown:
        return Drawing("", f"{title}: nothing to show")
    every = [point for _, points in shown for point in points]
    legend = len(shown) > 1
    top = _LEGEND_PX + 8 if legend else 12
    bottom, right = top + _HEIGHT_PX, HALF_PX - _RIGHT_PX
    across, x_ticks = _scale(x, [a for a, _ in every], _LEFT_PX, right)
    upright, y_ticks = _scale(y, [b for _, b in every], bottom, top)
    parts = [
        svg.y_axis(upright, y_ticks, left=_LEFT_PX, right=right, title=y.title),
        svg.x_axis(across, x_ticks, top=top, bottom=bottom, title=x.title),
    ]
    at_px = float(_LEFT_PX)
    for line, points in shown:
        colour = _colour(lines, lines.index(line))
        parts.append(_mark([(across(a), upright(b)) for a, b in points], line.style, colour))
        if legend:
            parts.append(svg.text(at_px, top - _LEGEND_PX / 2, line.name, bold=True, fill=colour))
            at_px += 7.2 * len(line.name) + 18
    ends = (
        f"{line.name} from {significant(points[0][1])} to {significant(points[-1][1])}"
        for line, points in shown
    )
    alternative = f"Line chart, {title}, {y.title} over {x.title}: " + "; ".join(ends)
    return Drawing(svg.finished(parts, width=HALF_PX, height=bottom + 52), alternative)


def _colour(lines: Sequence[Line], index: int) -> str:
    if lines[index].style == "theory":
        return MUTED.light
    measured = [line for line in lines[:index] if line.style != "theory"]
    return STACKS[len(measured) % len(STACKS)].light


def _mark(points: Sequence[tuple[float, float]], style: str, colour: str) -> str:
    if style == "dots":
        return svg.dots(points, radius=3.4, fill=colour)
    if style == "theory":
        return svg.line(points, stroke=colour, width=1.75, dash="5 4")
    if style == "steps":
        corners = [(after[0], before[1]) for before, after in pairwise(points)]
        points = [point for pair in zip(points, [*corners, points[-1]], strict=True) for point in pair]
    return svg.line(points, stroke=colour)


def _fits(point: tuple[float, float], x: Axis, y: Axis) -> bool:
    finite = all(map(math.isfinite, point))
    return finite and (point[0] > 0 or not x.log) and (point[1] > 0 or not y.log)


def _scale(
    axis: Axis, values: Sequence[float], start_px: float, stop_px: float
) -> tuple[svg.Scale, dict[float, str]]:
    if not axis.log:
        low, top = min(0.0, *values), max(values)
        ticks = svg.linear_ticks(low, top if top > low else low + 1.0)
        step = ticks[1] - ticks[0]
        # The axis ends at a tick, so that the largest value can be read off.
        low, top = min(low, ticks[0] - step * (low < ticks[0])), ticks[-1] + step * (top > ticks[-1])
        ticks = svg.linear_ticks(low, top)
        write = svg.number if top < _SHORT_FROM else svg.short_number
        return svg.Linear(low, top, start_px, stop_px), {tick: write(tick) for tick in ticks}
    low, high = min(values), max(values)
    ticks = svg.log_ticks(low, high)
    inside = ticks[:: math.ceil(len(ticks) / _TICKS_LOG_MAX)]
    scale = svg.Logarithmic(min(low, ticks[0]), max(high, ticks[-1]), start_px, stop_px)
    return scale, {tick: svg.short_number(tick) for tick in inside}


def draw(picture: Picture) -> Drawing:
    lines = [Line(curve.name, curve.points, curve.style) for curve in picture.curves]
    return plot(lines, Axis(picture.x, picture.x_log), Axis(picture.y, picture.y_log), picture.title)


def render(title: str, pictures: Sequence[Picture], suffix: str) -> bytes:
    """All pictures of a device beside each other; ``suffix`` is of `SUFFIXES`."""
    drawn = _svg(title, pictures)
    if suffix == ".png":
        return svg.to_png(drawn)
    if suffix == ".html":
        style = f"body{{margin:2rem;background:{PAPER.light};color:{INK.light}}}svg{{max-width:64rem}}"
        head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{style}</style>'
        return f'<!doctype html>\n<html lang="en">{head}<body>{drawn}</body></html>\n'.encode()
    return drawn.encode()


def check_suffix(file: Path) -> str:
    """The suffix of a file to draw to. Raises ResultError if it is not in `SUFFIXES`."""
    if file.suffix not in SUFFIXES:
        raise ResultError(
            "a plot is an SVG, HTML or PNG file", place=str(file), remedy=f"end its name in {SUFFIXES[0]}"
        )
    return file.suffix


def _svg(title: str, pictures: Sequence[Picture]) -> str:
    parts = [svg.text(16, 18, title, size=16, bold=True, fill=INK.light)]
    for index, picture in enumerate(pictures):
        x = index * HALF_PX
        parts.append(svg.text(x + 16, _TITLE_PX + 12, sentence_case(picture.title), size=13, fill=INK.light))
        parts.append(svg.placed(draw(picture).svg, x=x, y=_TITLE_PX + 24, width=HALF_PX, height=316))
    return svg.document(parts, width=HALF_PX * len(pictures), height=_TITLE_PX + _PICTURE_PX)


_COLUMNS: Final = 64
_ROWS: Final = 10
_DOTS: Final = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # of a character, by row and column
_EMPTY: Final = 0x2800

Points = Sequence[tuple[float, float]]


def sketch(curves: Sequence[Points], *, x: str, y: str, x_log: bool = False) -> list[str]:
    """The curves, rising in x, in one frame of text lines; the y axis starts at 0 unless values are below.

    ``x`` and ``y`` are the axes' titles. The points of a logarithmic x axis (``x_log``) must be positive.
    """
    every = [(_place(a, x_log), b) for points in curves for a, b in points if math.isfinite(b)]
    if not every:
        return []
    left, right = min(a for a, _ in every), max(a for a, _ in every)
    low, high = min(0.0, *(b for _, b in every)), max(b for _, b in every)
    cells = [[_EMPTY] * _COLUMNS for _ in range(_ROWS)]
    for points in curves:
        placed = [(_place(a, x_log), b) for a, b in points if math.isfinite(b)]
        before: int | None = None
        for column in range(2 * _COLUMNS):
            at = left + (right - left) * column / (2 * _COLUMNS - 1)
            value = _interpolate(placed, at)
            if value is None:
                continue
            share = (value - low) / (high - low) if high > low else 0.0
            row = 4 * _ROWS - 1 - round(share * (4 * _ROWS - 1))
            steps = [row] if before is None else _between(before, row)  # a steep curve has no gap
            for dot in steps:
                cells[dot // 4][column // 2] |= _DOTS[dot % 4][column % 2]
            before = row
    labels = [significant(high), *[""] * (_ROWS - 2), significant(low)]
    width = max(len(label) for label in labels)
    lines = [y]
    lines += [f"{label:>{width}} ┤{''.join(map(chr, row))}" for label, row in zip(labels, cells, strict=True)]
    first, last = (significant(math.exp(end) if x_log else end) for end in (left, right))
    gap = max(1, _COLUMNS - len(first) - len(last))
    lines.append(f"{'':>{width}} └{'─' * _COLUMNS}")
    lines.append(f"{'':>{width}}  {first}{x:^{gap}}{last}")
    return lines


def _between(before: int, row: int) -> range:
    if row > before:
        return range(before + 1, row + 1)
    return range(row, max(before, row + 1))


def _place(value: float, log: bool) -> float:
    return math.log(value) if log else value


def _interpolate(points: Points, at: float) -> float | None:
    """The curve's value at a place, or None beyond its ends."""
    for (x0, y0), (x1, y1) in pairwise(points):
        if x0 <= at <= x1:
            return y0 if x1 == x0 else y0 + (y1 - y0) * (at - x0) / (x1 - x0)
    return points[-1][1] if points and math.isclose(at, points[-1][0], rel_tol=1e-9) else None
