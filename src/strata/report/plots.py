# SPDX-License-Identifier: Apache-2.0
"""Curves over an axis of numbers: what a modelled disk does, and what theory says that it should."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import altair as alt

from strata.report.charts import AXIS, HALF_PX, Drawing, draw, log_ticks, tick_labels
from strata.report.palette import INK, MUTED, STACKS
from strata.report.wording import significant

_HEIGHT_PX: Final = 240
_LEFT_PX: Final = 84
_RIGHT_PX: Final = 24
_LEGEND_PX: Final = 20
_TICKS_LOG_MAX: Final = 7


@dataclass(frozen=True)
class Line:
    """One curve.

    Attributes:
        name: What it is, for the legend.
        points: ``(x, y)``, rising in x.
        style: ``line``; ``theory``, which is dashed and grey; ``dots``; or ``steps``, where a value holds
            until the next point.
    """

    name: str
    points: Sequence[tuple[float, float]]
    style: str = "line"


@dataclass(frozen=True)
class Axis:
    """An axis: its title with the unit, and whether it is logarithmic."""

    title: str
    log: bool = False


def plot(lines: Sequence[Line], x: Axis, y: Axis, title: str, *, width_px: int = HALF_PX) -> Drawing:
    """The lines in one chart, with a legend above it if there are several.

    Points that a logarithmic axis cannot show are left out.
    """
    shown = [(line, [p for p in line.points if _fits(p, x, y)]) for line in lines]
    shown = [(line, points) for line, points in shown if points]
    if not shown:
        return Drawing("", f"{title}: nothing to show")
    every = [point for _, points in shown for point in points]
    width = width_px - _LEFT_PX - _RIGHT_PX
    x_channel = alt.X("x:Q", **_channel(x, [a for a, _ in every]))
    y_channel = alt.Y("y:Q", **_channel(y, [b for _, b in every]))
    layers: list[Any] = []
    legend = len(shown) > 1
    at_px = 0.0
    for index, (line, points) in enumerate(shown):
        colour = _colour(lines, index)
        chart = alt.Chart(alt.InlineData(values=[{"x": a, "y": b} for a, b in points]))
        layers.append(_mark(chart, line.style, colour).encode(x=x_channel, y=y_channel))
        if legend:
            label = alt.Chart(alt.InlineData(values=[{"label": line.name}]))
            mark = label.mark_text(align="left", fontSize=12, fontWeight=600, fill=colour)
            layers.append(mark.encode(x=alt.value(at_px), y=alt.value(-_LEGEND_PX / 2), text="label:N"))
            at_px += 7.2 * len(line.name) + 18
    top = _LEGEND_PX + 8 if legend else 12
    svg = draw(layers, full=width + _LEFT_PX + _RIGHT_PX, height=_HEIGHT_PX, left=_LEFT_PX, right=_RIGHT_PX,
               bottom=52, top=top)  # fmt: skip
    ends = (
        f"{line.name} from {significant(points[0][1])} to {significant(points[-1][1])}"
        for line, points in shown
    )
    return Drawing(svg, f"Line chart, {title}, {y.title} over {x.title}: " + "; ".join(ends))


def _colour(lines: Sequence[Line], index: int) -> str:
    if lines[index].style == "theory":
        return MUTED.light
    measured = [line for line in lines[:index] if line.style != "theory"]
    return STACKS[len(measured) % len(STACKS)].light


def _mark(chart: alt.Chart, style: str, colour: str) -> Any:  # altair's stubs leave it open
    if style == "dots":
        return chart.mark_point(shape="circle", size=36, filled=True, fill=colour, strokeWidth=0)
    if style == "theory":
        return chart.mark_line(stroke=colour, strokeWidth=1.75, strokeDash=[5, 4])
    if style == "steps":
        return chart.mark_line(stroke=colour, strokeWidth=2.25, interpolate="step-after")
    return chart.mark_line(stroke=colour, strokeWidth=2.25)


def _fits(point: tuple[float, float], x: Axis, y: Axis) -> bool:
    finite = all(map(math.isfinite, point))
    return finite and (point[0] > 0 or not x.log) and (point[1] > 0 or not y.log)


def _channel(axis: Axis, values: Sequence[float]) -> dict[str, Any]:
    style = {**AXIS, "titleColor": INK.light}
    if not axis.log:
        top = max(values)
        return {
            "scale": alt.Scale(domain=[min(0.0, *values), top if top > 0 else 1.0], nice=True),
            "axis": alt.Axis(title=axis.title, tickCount=5, format=",~r" if top < 10_000 else "~s", **style),
        }
    low, high = min(values), max(values)
    ticks = log_ticks(low, high)
    inside = ticks[:: math.ceil(len(ticks) / _TICKS_LOG_MAX)]
    return {
        "scale": alt.Scale(type="log", domain=[min(low, ticks[0]), max(high, ticks[-1])], nice=False),
        "axis": alt.Axis(
            title=axis.title,
            values=inside,
            labelExpr=tick_labels({tick: _short(tick) for tick in inside}),
            **style,
        ),
    }


def _short(value: float) -> str:
    for divisor, label in ((1e6, "M"), (1e3, "k")):
        if value >= divisor:
            return f"{value / divisor:g}{label}"
    return f"{value:g}"
