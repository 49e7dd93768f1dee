# SPDX-License-Identifier: Apache-2.0
"""The charts of a workload: its stacks as bars, their latencies, disks' time and throughput over time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from strata.report import svg
from strata.report.palette import INK, MUTED, ON_PARTS, PAPER, PARTS, Colour
from strata.report.svg import Drawing
from strata.statistics.curve import OverTime, Shape
from strata.statistics.summary import Summary
from strata.units import NS_PER_S, Scale, format_duration, format_share, percent, scale_for

HALF_PX: Final = 480  # two charts fill the page's width, a wide one most of it: labels are then at 1 : 1
WIDE_PX: Final = 800
BANDS_MAX: Final = 8
"""Up to this many lines have a band each; more would cover one another."""
_ROWS_PX: Final = (42, 28)  # for a few stacks, and for many: a chart then fits on a screen
_SHAPES_PX: Final = (44, 30)
_MANY: Final = 8
_LABEL_PX: Final = 15  # distance of two labels that do not touch
_NAMES_SHARE_MAX: Final = 0.42  # of a chart's width
_LATENCY_LEFT_PX: Final = 64
_VALUE_PX: Final = 56
_LEGEND_PX: Final = 24
_TICKS_MAX: Final = 10


@dataclass(frozen=True)
class Curve:
    """A latency distribution: ``(percentile, nanoseconds)``, rising; its band is empty with one seed."""

    stack: str
    points: Sequence[tuple[float, float]]
    band: Sequence[tuple[float, float, float]] = ()  # percentile, lowest and highest seed, each by itself


def names_px(names: Mapping[str, object], full: int) -> int:
    """The margin that the names need; long ones are shortened to leave the chart its room."""
    needed = 20 + math.ceil(max(len(name) for name in names) * svg.CHARACTER_PX)
    return min(needed, int(full * _NAMES_SHARE_MAX))


def bars(summaries: Mapping[str, Summary], unit: str, title: str, colours: Mapping[str, Colour]) -> Drawing:
    """A bar per stack with its seeds as points and its interval as a line."""
    ends = {
        stack: max(each.estimate, each.maximum, each.interval.high if each.interval else 0.0)
        for stack, each in summaries.items()
    }
    top = max(ends.values())
    top = top if top > 0 else 1.0  # without a length, an axis cannot be drawn
    scale = scale_for(unit, top)
    left, height = names_px(summaries, HALF_PX), _ROWS_PX[len(summaries) > _MANY]
    x = svg.Linear(0.0, top, left, HALF_PX - _VALUE_PX)
    bottom = 4 + height * len(summaries)
    ticks = {tick * scale.divisor: svg.number(tick) for tick in svg.linear_ticks(0, top / scale.divisor, 4)}
    # A title would repeat the caption; the unit is all that is missing.
    axis_title = None if scale.label in {"", "/s"} else scale.label
    parts = [svg.x_axis(x, ticks, top=4, bottom=bottom, title=axis_title)]
    for row, (stack, summary) in enumerate(summaries.items()):
        upper, colour = 4 + row * height, colours[stack].light
        middle = upper + 0.4 * height
        drawn = [
            svg.name_text(left - 10, middle, stack, width_px=left - 14),
            _bar(x(0), x(max(summary.estimate, 0)), upper + 0.16 * height, 0.48 * height, colour),
        ]
        if summary.interval:
            low, high = (svg.px(x(end)) for end in (summary.interval.low, summary.interval.high))
            rule = f"M{low} {svg.px(middle)}H{high}"
            drawn.append(svg.tag("path", d=rule, stroke=INK.light, stroke_width=2))
        seeds = [(x(value), upper + 0.8 * height) for value in summary.values.values()]
        drawn.append(svg.dots(seeds, radius=0.08 * height, fill=colour, opacity=0.6))
        label = scale.format(summary.estimate)
        at = x(ends[stack]) + 10
        drawn.append(svg.text(at, middle, label, size=svg.NAME_PX, bold=True, fill=INK.light))
        parts.append(svg.of_stack(stack, *drawn))
    alternative = f"Bar chart, {title}: " + "; ".join(
        f"{stack} {scale.format(summary.estimate)} {scale.label}".rstrip()
        for stack, summary in summaries.items()
    )
    return Drawing(
        svg.finished(parts, width=HALF_PX, height=bottom + (38 if axis_title is None else 44)), alternative
    )


def _bar(start: float, stop: float, y: float, height: float, fill: str) -> str:
    width = stop - start
    round_px = min(3.0, width)
    straight, upright = svg.px(width - round_px), svg.px(height - 2 * round_px)
    curve = svg.px(round_px)
    d = (
        f"M{svg.px(start)} {svg.px(y)}h{straight}q{curve} 0 {curve} {curve}"
        f"v{upright}q0 {curve}-{curve} {curve}h-{straight}z"
    )
    return svg.tag("path", d=d, fill=fill)


def latencies(curves: Sequence[Curve], title: str, colours: Mapping[str, Colour]) -> Drawing:
    """Latency over percentiles: every nine as far from the last as that from the one before."""
    bands = len(curves) <= BANDS_MAX
    values = [value for curve in curves for _, value in curve.points if value > 0]
    if bands:
        values += [value for curve in curves for row in curve.band for value in row[1:] if value > 0]
    ticks = svg.log_ticks(min(values), max(values))
    percentiles = [percentile for curve in curves for percentile, _ in curve.points]
    first, last = min(percentiles), max(percentiles)
    right = names_px({curve.stack: None for curve in curves}, WIDE_PX)
    height = max(320, _LABEL_PX * len(curves))
    x = svg.Linear(_nines(min(first, 10.0)), _nines(last), _LATENCY_LEFT_PX, WIDE_PX - right)
    y = svg.Logarithmic(ticks[0], ticks[-1], 12 + height, 12)
    nines = [p for p in (10.0, 50.0, 90.0, 99.0, 99.9, 99.99) if p <= last]
    parts = [
        svg.y_axis(
            y, {tick: tick_text(tick) for tick in ticks}, left=_LATENCY_LEFT_PX, right=WIDE_PX - right
        ),
        svg.x_axis(
            x,
            {_nines(p): format_share(p / 100) for p in nines},
            top=12,
            bottom=12 + height,
            title="of all requests took no longer",
        ),
    ]
    labels = dict(_apart([(curve, y(curve.points[-1][1])) for curve in curves], 12 + height))
    for curve in curves:
        colour = colours[curve.stack].light
        drawn = []
        if bands and curve.band:
            lower = [(x(_nines(p)), y(low)) for p, low, _ in curve.band if low > 0]
            upper = [(x(_nines(p)), y(high)) for p, low, high in curve.band if low > 0]
            drawn.append(svg.band(lower, upper, fill=colour) if lower else "")
        points = [(x(_nines(p)), y(value)) for p, value in curve.points if value > 0]
        drawn.append(svg.line(points, stroke=colour, dash=svg.dash_of(curve.stack, colours)))
        name = svg.shortened(curve.stack, right - 14)
        drawn.append(
            svg.text(
                WIDE_PX - right + 10, labels[curve.stack], name, size=svg.NAME_PX, bold=True, fill=colour
            )
        )
        parts.append(svg.of_stack(curve.stack, *drawn))
    ends = (f"{curve.stack} {tick_text(curve.points[-1][1])}" for curve in curves)
    alternative = f"Line chart, {title}; slowest shown: " + "; ".join(ends)
    return Drawing(svg.finished(parts, width=WIDE_PX, height=height + 64), alternative)


def shares(rows: Mapping[str, Mapping[str, float]], title: str, *, legend: bool = False) -> Drawing:
    """One stacked bar per stack: the shares of ``PARTS``, which add up to 1."""
    left, height = names_px(rows, WIDE_PX), _ROWS_PX[len(rows) > _MANY]
    x = svg.Linear(0, 1, left, WIDE_PX - 20)
    used = [part for part in PARTS if any(parts.get(part) for parts in rows.values())]
    top = 4 + (_LEGEND_PX if legend else 0)
    bottom = top + height * len(rows)
    ticks = {share: format_share(share) for share in (0.0, 0.25, 0.5, 0.75, 1.0)}
    drawn = [svg.x_axis(x, ticks, top=top, bottom=bottom, title="of the measured window")]
    if legend:
        drawn.append(_parts_legend(used, left))
    for row, (stack, parts) in enumerate(rows.items()):
        middle = top + (row + 0.5) * height
        pieces = [svg.name_text(left - 10, middle, stack, width_px=left - 14)]
        start, boxes, labels = 0.0, [], []
        for part, share in parts.items():
            if share <= 0:
                continue
            width, tall = svg.px(x(start + share) - x(start)), svg.px(0.64 * height)
            corner = f"M{svg.px(x(start))} {svg.px(middle - 0.32 * height)}"
            boxes.append(svg.tag("path", d=f"{corner}h{width}v{tall}h-{width}z", fill=PARTS[part].light))
            if share >= 0.055:
                words = percent(share)
                labels.append(svg.text(x(start + share / 2), middle, words, fill=ON_PARTS[part].light))
            start += share
        pieces.append(svg.tag("g", "".join(boxes), stroke=PAPER.light))
        pieces.append(svg.tag("g", "".join(labels), text_anchor="middle") if labels else "")
        drawn.append(svg.of_stack(stack, *pieces))
    worded = (
        f"{stack}: " + ", ".join(f"{part} {percent(share)}" for part, share in parts.items())
        for stack, parts in rows.items()
    )
    alternative = f"Stacked bar chart, {title}; " + "; ".join(worded)
    return Drawing(svg.finished(drawn, width=WIDE_PX, height=bottom + 52), alternative)


def _parts_legend(parts: Sequence[str], left: float) -> str:
    drawn, at = [], left
    for part in parts:
        drawn.append(svg.tag("rect", x=at, y=4, width=10, height=10, fill=PARTS[part].light))
        drawn.append(svg.text(at + 14, 9, part))
        at += 14 + len(part) * 6.6 + 12
    return "".join(drawn)


def _nines(percentile: float) -> float:
    return -math.log10(1 - percentile / 100)


def tick_text(value_ns: float) -> str:
    scale: Scale = scale_for("ns", value_ns)
    return f"{value_ns / scale.divisor:.3g} {scale.label}"


def _apart(ends: Sequence[tuple[Curve, float]], bottom: float) -> list[tuple[str, float]]:
    """The heights of the curves' labels: beside their ends, moved apart where they would touch."""
    ordered = sorted(ends, key=lambda end: end[1])
    places = [y for _, y in ordered]
    for index in range(1, len(places)):
        places[index] = max(places[index], places[index - 1] + _LABEL_PX)
    for index in reversed(range(len(places))):
        places[index] = min(places[index], bottom)
        bottom = places[index] - _LABEL_PX
    return [(curve.stack, place) for (curve, _), place in zip(ordered, places, strict=True)]


def distributions(shapes: Mapping[str, Shape], title: str, colours: Mapping[str, Colour]) -> Drawing:
    """Histograms below one another; an upright line marks the median, a dashed one the 99th percentile."""
    left = names_px(shapes, WIDE_PX)
    row = _SHAPES_PX[len(shapes) > _MANY]
    ticks = svg.log_ticks(
        min(shape.edges[0] for shape in shapes.values()), max(shape.edges[-1] for shape in shapes.values())
    )
    x = svg.Logarithmic(ticks[0], ticks[-1], left, WIDE_PX - 20)
    bottom = _LEGEND_PX + row * len(shapes)
    labels = {tick: tick_text(tick) for tick in ticks[:: -(-len(ticks) // _TICKS_MAX)]}
    parts = [_shapes_legend(left), svg.x_axis(x, labels, top=_LEGEND_PX, bottom=bottom)]
    for index, (stack, shape) in enumerate(shapes.items()):
        ground = _LEGEND_PX + (index + 1) * row - 4
        name = svg.name_text(left - 10, ground - row * 0.3, stack, width_px=left - 14)
        parts.append(svg.of_stack(stack, name, *_row(shape, x, ground, row - 8, colours[stack].light)))
    worded = (
        f"{stack} median {tick_text(shape.median)}"
        + (f", 99th percentile {tick_text(shape.p99)}" if shape.p99 is not None else "")
        for stack, shape in shapes.items()
    )
    alternative = f"Histograms, {title}; " + "; ".join(worded)
    return Drawing(svg.finished(parts, width=WIDE_PX, height=bottom + 26), alternative)


def _row(shape: Shape, x: svg.Scale, ground: float, height: float, fill: str) -> list[str]:
    drawn = [
        svg.tag("path", d=_steps(shape, x, ground, height), fill=fill, fill_opacity="0.55"),
        _rule(x(shape.median), ground + 2, ground - height),
    ]
    if shape.p99 is not None:
        drawn.append(_rule(x(shape.p99), ground + 2, ground - height, is_median=False))
    return drawn


def _steps(shape: Shape, x: svg.Scale, ground: float, height: float) -> str:
    """The histogram's outline; bins of one height are one step."""
    most = max(shape.shares)
    parts, at = [f"M{svg.px(x(shape.edges[0]))} {svg.px(ground)}"], ""
    for low, share in zip(shape.edges, shape.shares, strict=False):
        top = svg.px(ground - share / most * height)
        if top != at:
            parts.append(f"H{svg.px(x(low))}V{top}")
            at = top
    parts.append(f"H{svg.px(x(shape.edges[-1]))}V{svg.px(ground)}z")
    return "".join(parts)


def _shapes_legend(left: float) -> str:
    low, high = _LEGEND_PX / 2 + 6, _LEGEND_PX / 2 - 6
    return (
        _rule(left + 2, low, high)
        + svg.text(left + 8, _LEGEND_PX / 2, "median")
        + _rule(left + 70, low, high, is_median=False)
        + svg.text(left + 76, _LEGEND_PX / 2, "99th percentile")
    )


def _rule(x: float, low: float, high: float, *, is_median: bool = True) -> str:
    d = f"M{svg.px(x)} {svg.px(low)}V{svg.px(high)}"
    if is_median:
        return svg.tag("path", d=d, stroke=INK.light, stroke_width=1.75)
    return svg.tag("path", d=d, stroke=MUTED.light, stroke_width=1.5, stroke_dasharray="3 2.5")


_TOGETHER_MAX: Final = 4  # more lines would hide one another: each gets a small chart
_TIME_LEFT_PX: Final = 84
_HEIGHT_PX: Final = 240
_PANEL_PX: Final = 104
_PANEL_NAME_PX: Final = 22
_PANEL_GAP_PX: Final = 28
_PANELS_RIGHT_PX: Final = 16
_SHORT_FROM: Final = 1_000_000


def over_time(stacks: Mapping[str, OverTime], title: str, colours: Mapping[str, Colour]) -> Drawing:
    """A line per stack, the mean of its seeds, in the band from the lowest to the highest."""
    top = max(float(each.high.max()) for each in stacks.values())
    top = top if top > 0 else 1.0
    some = next(iter(stacks.values()))
    scale = scale_for(some.unit, top)
    long_s = max(each.interval_ns * len(each.mean) for each in stacks.values()) / NS_PER_S
    draw = _together if len(stacks) <= _TOGETHER_MAX else _panels
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
    x = svg.Linear(0, long_s, _TIME_LEFT_PX, WIDE_PX - right)
    y = svg.Linear(0, top, 12 + _HEIGHT_PX, 12)
    title = _axis_title(scale)
    parts = [
        svg.y_axis(y, _rates(top, scale, 5), left=_TIME_LEFT_PX, right=WIDE_PX - right, title=title),
        svg.x_axis(x, _seconds(long_s, 8), top=12, bottom=12 + _HEIGHT_PX, title=_X_TITLE),
    ]
    # A label stands beside the mean of its line's last eighth, whatever its last dip.
    last = {stack: each.mean[-max(1, len(each.mean) // 8) :].mean() for stack, each in stacks.items()}
    at, ends = -math.inf, {stack: y(float(level)) for stack, level in last.items()}
    for stack in sorted(stacks, key=lambda each: ends[each]):
        at, fill = max(at + _LABEL_PX, ends[stack]), colours[stack].light
        name = svg.shortened(stack, right - 14)
        label = svg.text(WIDE_PX - right + 10, at, name, size=svg.NAME_PX, bold=True, fill=fill)
        parts.append(svg.of_stack(stack, *_lines(stacks[stack], stack, colours, x, y), label))
    return svg.finished(parts, width=WIDE_PX, height=12 + _HEIGHT_PX + 52)


def _panels(
    stacks: Mapping[str, OverTime], colours: Mapping[str, Colour], scale: Scale, top: float, long_s: float
) -> str:
    """A small chart for each stack, all with the same axes."""
    columns = 4 if len(stacks) > BANDS_MAX else 3
    rows = math.ceil(len(stacks) / columns)
    width = (WIDE_PX - _TIME_LEFT_PX - _PANELS_RIGHT_PX - _PANEL_GAP_PX * (columns - 1)) / columns
    row_height = _PANEL_NAME_PX + _PANEL_PX + 30
    labels = _rates(top, scale, 4)
    parts = []
    for index, (stack, series) in enumerate(stacks.items()):
        row, column = divmod(index, columns)
        left = _TIME_LEFT_PX + column * (width + _PANEL_GAP_PX)
        upper = row * row_height + _PANEL_NAME_PX
        x = svg.Linear(0, long_s, left, left + width)
        y = svg.Linear(0, top, upper + _PANEL_PX, upper)
        ticks, title = (dict.fromkeys(labels, ""), None) if column else (labels, _axis_title(scale))
        parts.append(svg.y_axis(y, ticks, left=left, right=left + width, title=title))
        parts.append(svg.x_axis(x, _seconds(long_s, 4), top=upper, bottom=upper + _PANEL_PX))
        name = svg.name_text(left, upper - 10, stack, anchor="start", width_px=width)
        parts.append(svg.of_stack(stack, name, *_lines(series, stack, {stack: colours[stack]}, x, y)))
    bottom = rows * row_height
    middle = (_TIME_LEFT_PX + WIDE_PX - _PANELS_RIGHT_PX) / 2
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


def _seconds(long_s: float, count: int) -> dict[float, str]:
    return {tick: svg.number(tick) for tick in svg.linear_ticks(0, long_s, count)}


def _rates(top: float, scale: Scale, count: int) -> dict[float, str]:
    ticks = svg.linear_ticks(0, top / scale.divisor, count)
    write = svg.number if ticks[-1] < _SHORT_FROM else svg.short_number
    return {tick * scale.divisor: write(tick) for tick in ticks}


def _axis_title(scale: Scale) -> str:
    return "per second" if scale.label == "/s" else scale.label
