# SPDX-License-Identifier: Apache-2.0
"""The report's charts, as inline SVG.

Sizes, margins and the places of all labels are given, never measured: text is as wide as the reader's font
makes it, and the SVG's bytes do not depend on the fonts of the machine that draws it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import altair as alt
import vl_convert

from strata.report.palette import GRID, INK, MUTED, ON_PARTS, PAPER, PARTS, Colour
from strata.report.wording import Scale, scale_for
from strata.statistics.summary import Summary

_VEGA_LITE: Final = "6.4"
_CHARACTER_PX: Final = 7.4  # a wide average at 13 px, for margins only
_ROW_PX: Final = 42
_LABEL_PX: Final = 15  # distance of two labels that do not touch
HALF_PX: Final = 480  # two charts side by side fill the page, a wide one most of it: labels are then at 1 : 1
WIDE_PX: Final = 800
_LATENCY_LEFT_PX: Final = 64


@dataclass(frozen=True)
class Drawing:
    """A chart, and what it shows in words for those who cannot see it."""

    svg: str
    alternative: str


@dataclass(frozen=True)
class Curve:
    """A latency distribution: ``(percentile, nanoseconds)``, rising."""

    stack: str
    points: Sequence[tuple[float, float]]


def bars(summaries: Mapping[str, Summary], unit: str, title: str, colours: Mapping[str, Colour]) -> Drawing:
    """A bar per stack with its seeds as points and its interval as a line."""
    top = max(max(each.maximum, each.interval.high if each.interval else 0) for each in summaries.values())
    top = top if top > 0 else 1.0  # an axis needs a length even if every value is zero
    scale = scale_for(unit, top)
    bar_rows, seed_rows, line_rows = [], [], []
    for row, (stack, summary) in enumerate(summaries.items()):
        ends = [summary.estimate, summary.maximum]
        if summary.interval:
            ends.append(summary.interval.high)
            low, high = summary.interval.low / scale.divisor, summary.interval.high / scale.divisor
            line_rows.append({"low": low, "high": high, "y": row + 0.4})
        bar_rows.append(
            {
                "stack": stack,
                "top": row + 0.16,
                "bottom": row + 0.64,
                "middle": row + 0.4,
                "value": summary.estimate / scale.divisor,
                "end": max(ends) / scale.divisor,
                "label": scale.format(summary.estimate),
                "fill": colours[stack].light,
            }
        )
        seed_rows += [
            {"value": value / scale.divisor, "y": row + 0.8, "fill": colours[stack].light}
            for value in summary.values.values()
        ]
    rows = len(bar_rows)
    x = alt.X("value:Q", scale=alt.Scale(domain=[0, top / scale.divisor], nice=False), axis=_x_axis(scale))
    y_scale = alt.Scale(domain=[0, rows], reverse=True, nice=False, zero=False)
    base = alt.Chart(alt.InlineData(values=bar_rows))
    layers = [
        base.mark_rect(cornerRadiusTopRight=3, cornerRadiusBottomRight=3).encode(
            x=x,
            x2=alt.datum(0),
            y=alt.Y("top:Q", scale=y_scale, axis=None),
            y2="bottom:Q",
            fill=alt.Fill("fill:N", scale=None),
        ),
        base.mark_text(align="right", dx=-10, fontSize=13, fill=INK.light).encode(
            x=alt.datum(0), y="middle:Q", text="stack:N"
        ),
        base.mark_text(align="left", dx=10, fontSize=13, fontWeight=600, fill=INK.light).encode(
            x="end:Q", y="middle:Q", text="label:N"
        ),
        alt.Chart(alt.InlineData(values=line_rows))
        .mark_rule(stroke=INK.light, strokeWidth=2)
        .encode(x="low:Q", x2="high:Q", y="y:Q"),
        alt.Chart(alt.InlineData(values=seed_rows))
        .mark_point(shape="circle", size=34, filled=True, fillOpacity=0.6, strokeWidth=0)
        .encode(x="value:Q", y="y:Q", fill=alt.Fill("fill:N", scale=None)),
    ]
    left = _margin(summaries)
    alternative = f"Bar chart, {title}: " + "; ".join(
        f"{row['stack']} {row['label']} {scale.label}".rstrip() for row in bar_rows
    )
    svg = draw(layers, full=HALF_PX, height=rows * _ROW_PX, left=left, right=56, bottom=38)
    return Drawing(svg, alternative)


def latencies(curves: Sequence[Curve], title: str, colours: Mapping[str, Colour]) -> Drawing:
    """Latency over percentiles: every nine as far from the last as that from the one before."""
    values = [value for curve in curves for _, value in curve.points if value > 0]
    ticks = log_ticks(min(values), max(values))
    last = max(percentile for curve in curves for percentile, _ in curve.points)
    nines = [p for p in (10.0, 50.0, 90.0, 99.0, 99.9, 99.99) if p <= last]
    height, right = 320, _margin({curve.stack: None for curve in curves})
    width = WIDE_PX - _LATENCY_LEFT_PX - right
    x_domain, y_domain = [0.0, _nines(last)], [ticks[0], ticks[-1]]
    x = alt.X(
        "x:Q",
        scale=alt.Scale(domain=x_domain, nice=False),
        axis=alt.Axis(
            values=[_nines(p) for p in nines],
            labelExpr=tick_labels({_nines(p): f"{p:g} %" for p in nines}),
            title="of all requests took no longer",
            **AXIS,
        ),
    )
    texts = {tick: _tick_text(tick) for tick in ticks}
    y = alt.Y(
        "y:Q",
        scale=alt.Scale(type="log", domain=y_domain, nice=False),
        axis=alt.Axis(values=ticks, labelExpr=tick_labels(texts), title=None, **AXIS),
    )
    layers = []
    for curve in curves:
        rows = [{"x": _nines(p), "y": value} for p, value in curve.points if value > 0]
        layers.append(
            alt.Chart(alt.InlineData(values=rows))
            .mark_line(stroke=colours[curve.stack].light, strokeWidth=2.25, interpolate="monotone")
            .encode(x=x, y=y)
        )
    for curve, y_px in _apart(curves, y_domain, height):
        layers.append(
            alt.Chart(alt.InlineData(values=[{"label": curve.stack}]))
            .mark_text(align="left", fontSize=13, fontWeight=600, fill=colours[curve.stack].light)
            .encode(x=alt.value(width + 10), y=alt.value(y_px), text="label:N")
        )
    ends = (f"{curve.stack} {_tick_text(curve.points[-1][1])}" for curve in curves)
    alternative = f"Line chart, {title}; slowest shown: " + "; ".join(ends)
    svg = draw(layers, full=WIDE_PX, height=height, left=_LATENCY_LEFT_PX, right=right, bottom=52, top=12)
    return Drawing(svg, alternative)


def shares(rows: Mapping[str, Mapping[str, float]], title: str) -> Drawing:
    """One stacked bar per stack: the shares of ``PARTS``, which add up to 1."""
    pieces, names = [], []
    for row, (stack, parts) in enumerate(rows.items()):
        names.append({"stack": stack, "y": row + 0.5})
        start = 0.0
        for part, share in parts.items():
            colour = PARTS[part]
            piece = {"start": start, "stop": start + share, "top": row + 0.18, "bottom": row + 0.82}
            label = f"{share * 100:.0f} %" if share >= 0.055 else ""
            text = ON_PARTS[part].light
            middle = {"centre": start + share / 2, "middle": row + 0.5}
            pieces.append({**piece, **middle, "fill": colour.light, "label": label, "text": text})
            start += share
    y_scale = alt.Scale(domain=[0, len(rows)], reverse=True, nice=False, zero=False)
    axis = alt.Axis(values=[0, 0.25, 0.5, 0.75, 1], format=".0%", title="of the measured window", **AXIS)
    base = alt.Chart(alt.InlineData(values=pieces))
    layers = [
        base.mark_rect(stroke=PAPER.light, strokeWidth=1).encode(
            x=alt.X("start:Q", scale=alt.Scale(domain=[0, 1], nice=False), axis=axis),
            x2="stop:Q",
            y=alt.Y("top:Q", scale=y_scale, axis=None),
            y2="bottom:Q",
            fill=alt.Fill("fill:N", scale=None),
        ),
        base.mark_text(fontSize=12).encode(
            x="centre:Q", y="middle:Q", text="label:N", fill=alt.Fill("text:N", scale=None)
        ),
        alt.Chart(alt.InlineData(values=names))
        .mark_text(align="right", dx=-10, fontSize=13, fill=INK.light)
        .encode(x=alt.datum(0), y="y:Q", text="stack:N"),
    ]
    worded = (
        f"{stack}: " + ", ".join(f"{part} {share * 100:.0f} %" for part, share in parts.items())
        for stack, parts in rows.items()
    )
    svg = draw(layers, full=WIDE_PX, height=len(rows) * _ROW_PX, left=_margin(rows), right=20, bottom=52)
    return Drawing(svg, f"Stacked bar chart, {title}; " + "; ".join(worded))


AXIS: Final[dict[str, Any]] = {
    "grid": True,
    "gridColor": GRID.light,
    "domain": False,
    "ticks": False,
    "labelColor": MUTED.light,
    "labelFontSize": 12,
    "labelPadding": 8,
    "labelOverlap": False,
    "titleColor": MUTED.light,
    "titleFontSize": 12,
    "titleFontWeight": "normal",
    "titlePadding": 10,
}


def _x_axis(scale: Scale) -> alt.Axis:
    # A title would repeat the caption; the unit is all that is missing.
    title = None if scale.label in {"", "per second"} else scale.label
    return alt.Axis(tickCount=4, format=",~r", title=title, **{**AXIS, "titlePadding": 6})


def _margin(names: Mapping[str, object]) -> int:
    return 20 + math.ceil(max(len(name) for name in names) * _CHARACTER_PX)


def _nines(percentile: float) -> float:
    return -math.log10(1 - percentile / 100)


def tick_labels(texts: Mapping[float, str]) -> str:
    """A Vega expression that gives the tick nearest to a label's value its text."""
    expression = "''"
    for value, text in texts.items():
        expression = f"abs(datum.value - {value!r}) < {abs(value) * 1e-6 + 1e-9!r} ? '{text}' : {expression}"
    return expression


def _tick_text(value_ns: float) -> str:
    scale = scale_for("ns", value_ns)
    return f"{value_ns / scale.divisor:.3g} {scale.label}"


def log_ticks(low: float, high: float) -> list[float]:
    """Ticks at 1, 2 and 5 of each decade, or at the decades alone when there are many, around low to high."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    steps = (1, 2, 5) if last - first <= 3 else (1,)
    ticks = [float(step * 10**decade) for decade in range(first, last + 1) for step in steps]
    below = [tick for tick in ticks if tick <= low]
    above = [tick for tick in ticks if tick >= high]
    found = [tick for tick in ticks if below[-1] <= tick <= above[0]]
    return found if len(found) > 1 else [found[0] / 10, found[0], found[0] * 10]


def _apart(curves: Sequence[Curve], domain: Sequence[float], height: int) -> list[tuple[Curve, float]]:
    """Where the curves' labels go: beside their ends, moved apart where they would touch."""
    span = math.log(domain[1] / domain[0])
    ends = [(curve, height * math.log(domain[1] / curve.points[-1][1]) / span) for curve in curves]
    ends.sort(key=lambda end: end[1])
    places = [y for _, y in ends]
    for index in range(1, len(places)):
        places[index] = max(places[index], places[index - 1] + _LABEL_PX)
    excess = places[-1] - height
    for index in reversed(range(len(places))):
        limit = height if index == len(places) - 1 else places[index + 1] - _LABEL_PX
        places[index] = min(places[index], limit) if excess > 0 else places[index]
    return [(curve, place) for (curve, _), place in zip(ends, places, strict=True)]


def draw(
    layers: Sequence[Any], *, full: int, height: int, left: int, right: int, bottom: int, top: int = 4
) -> str:
    """Inline SVG of Altair layers: ``full`` pixels wide, the margins included."""
    chart = (
        alt.layer(*layers)
        .properties(
            width=full - left - right,
            height=height,
            autosize=alt.AutoSizeParams(type="none"),
            padding={"left": left, "right": right, "top": top, "bottom": bottom},
            background="transparent",
        )
        .configure(font="sans-serif", aria=False)
        .configure_view(stroke=None)
    )
    svg = vl_convert.vegalite_to_svg(chart.to_dict(), vl_version=_VEGA_LITE)
    content = svg[svg.index(">") + 1 :]
    content = re.sub(r' (?:pointer-events|aria-[a-z]+|role|class|font-family)="[^"]*"', "", content)
    return f'<svg viewBox="0 0 {full} {height + top + bottom}" aria-hidden="true">{content}'
