# SPDX-License-Identifier: Apache-2.0
"""The charts of a workload: its stacks as bars, their latencies, disks' time and throughput over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from strata.report import svg
from strata.report.palette import INK, MUTED, PAPER, Colour
from strata.report.svg import Drawing
from strata.report.xy import HALF_PX, WIDE_PX, Axis, Line, names_px, panels, tick_text, xy_chart
from strata.statistics.curve import HistogramShape, OverTime
from strata.statistics.summary import MetricSummary
from strata.units import NS_PER_S, format_duration, format_share, format_value, percent, scale_for

_ROWS_PX: Final = (42, 28)  # for a few stacks, and for many: a chart then fits on a screen
_SHAPES_PX: Final = (44, 30)
_MANY: Final = 8
_LATENCIES_PX: Final = 320
_LABEL_PX: Final = 15  # distance of two labels that do not touch
_VALUE_PX: Final = 56
_LEGEND_PX: Final = 24
_TICKS_MAX: Final = 10
_NINES: Final = (10.0, 50.0, 90.0, 99.0, 99.9, 99.99)


def bars(
    summaries: Mapping[str, MetricSummary], unit: str, title: str, colours: Mapping[str, Colour]
) -> Drawing:
    """A bar per stack with its seeds as points and its interval as a line."""
    ends = {
        stack: max(each.estimate, each.maximum, each.interval.high if each.interval else 0.0)
        for stack, each in summaries.items()
    }
    top = max(ends.values())
    top = top if top > 0 else 1.0  # without a length, an axis cannot be drawn
    scale = scale_for(unit, top)
    left, height = names_px([*summaries], HALF_PX), _ROWS_PX[len(summaries) > _MANY]
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
    return svg.drawing(parts, alternative, width=HALF_PX, height=bottom + (38 if axis_title is None else 44))


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


def latencies(curves: Sequence[Line], title: str, colours: Mapping[str, Colour]) -> Drawing:
    """Latency in nanoseconds over percentiles."""
    percentiles = [percentile for curve in curves for percentile, _ in curve.points]
    low, high = min(*percentiles, _NINES[0]), max(percentiles)
    ticks = {nine: format_share(nine / 100) for nine in _NINES if nine <= high}
    x = Axis("of all requests took no longer", "nines", ticks=ticks, low=low, high=high)
    height = max(_LATENCIES_PX, _LABEL_PX * len(curves))
    return xy_chart(curves, x, Axis(kind="log", unit="ns"), title, colours, height=height)


@dataclass(frozen=True)
class Piece:
    """One part of a stacked bar; its length is in the bar's unit. With an ``ink``, its share stands in it."""

    name: str
    length: float
    colour: Colour
    ink: Colour | None = None


def stacked_bars(bars: Mapping[str, Sequence[Piece]], unit: str, title: str, *, axis: str = "") -> Drawing:
    """A bar for each name, made of pieces, all on one scale; shares have an axis, others their sums."""
    left, height = names_px([*bars], WIDE_PX), _ROWS_PX[len(bars) > _MANY]
    sums = {name: sum(piece.length for piece in pieces) for name, pieces in bars.items()}
    is_share, longest = unit == "share", max(sums.values()) or 1.0
    x = svg.Linear(0, 1 if is_share else longest, left, WIDE_PX - (20 if is_share else 90))
    top = 4
    bottom = top + height * len(bars)
    drawn = []
    if is_share:
        ticks = {share: format_share(share) for share in (0.0, 0.25, 0.5, 0.75, 1.0)}
        drawn.append(svg.x_axis(x, ticks, top=top, bottom=bottom, title=axis))
    for row, (name, pieces) in enumerate(bars.items()):
        middle = top + (row + 0.5) * height
        parts = [svg.name_text(left - 10, middle, name, width_px=left - 14)]
        parts += _pieces(pieces, x, middle, 0.64 * height)
        if not is_share:
            parts.append(svg.text(x(sums[name]) + 8, middle, format_value(sums[name], unit)))
        drawn.append(svg.of_stack(name, *parts))
    worded = (
        f"{name}: " + ", ".join(f"{piece.name} {format_value(piece.length, unit)}" for piece in pieces)
        for name, pieces in bars.items()
    )
    alternative = f"Stacked bar chart, {title}; " + "; ".join(worded)
    return svg.drawing(drawn, alternative, width=WIDE_PX, height=bottom + (52 if is_share else 4))


def _pieces(pieces: Sequence[Piece], x: svg.Scale, middle: float, tall: float) -> list[str]:
    start, boxes, labels = 0.0, [], []
    for piece in pieces:
        if piece.length <= 0:
            continue
        width = svg.px(x(start + piece.length) - x(start))
        corner = f"M{svg.px(x(start))} {svg.px(middle - tall / 2)}"
        d = f"{corner}h{width}v{svg.px(tall)}h-{width}z"
        boxes.append(svg.tag("path", d=d, fill=piece.colour.light))
        if piece.ink is not None and x.share(piece.length) >= 0.055:
            words = percent(piece.length)
            labels.append(svg.text(x(start + piece.length / 2), middle, words, fill=piece.ink.light))
        start += piece.length
    drawn = [svg.tag("g", "".join(boxes), stroke=PAPER.light)]
    return [*drawn, svg.tag("g", "".join(labels), text_anchor="middle")] if labels else drawn


def legend(colours: Mapping[str, Colour], left: float, top: float) -> Iterator[str]:
    """Names with their colours in a row."""
    for name, colour in colours.items():
        yield svg.tag("rect", x=left, y=top, width=10, height=10, fill=colour.light)
        yield svg.text(left + 14, top + 5, name)
        left += 14 + len(name) * 6.6 + 12


def distributions(shapes: Mapping[str, HistogramShape], title: str, colours: Mapping[str, Colour]) -> Drawing:
    """Histograms below one another; an upright line marks the median, a dashed one the 99th percentile."""
    left = names_px([*shapes], WIDE_PX)
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
    return svg.drawing(parts, alternative, width=WIDE_PX, height=bottom + 26)


def _row(shape: HistogramShape, x: svg.Scale, ground: float, height: float, fill: str) -> list[str]:
    drawn = [
        svg.tag("path", d=_steps(shape, x, ground, height), fill=fill, fill_opacity="0.55"),
        _rule(x(shape.median), ground + 2, ground - height),
    ]
    if shape.p99 is not None:
        drawn.append(_rule(x(shape.p99), ground + 2, ground - height, is_median=False))
    return drawn


def _steps(shape: HistogramShape, x: svg.Scale, ground: float, height: float) -> str:
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
_THREE_MAX: Final = 8  # beside one another in threes; more in fours
_HEIGHT_PX: Final = 240


def over_time(stacks: Mapping[str, OverTime], title: str, colours: Mapping[str, Colour]) -> Drawing:
    """A line per stack, the mean of its seeds, in the band from the lowest to the highest."""
    unit = next(iter(stacks.values())).unit
    long_s = max(series.interval_ns * len(series.mean) for series in stacks.values()) / NS_PER_S
    x = Axis("seconds from the start of the measured window", low=0, high=long_s)
    y, lines = Axis(unit=unit), [_line(stack, series) for stack, series in stacks.items()]
    if len(lines) <= _TOGETHER_MAX:
        return xy_chart(lines, x, y, title, colours, height=_HEIGHT_PX)
    return panels(lines, x, y, title, colours, columns=3 if len(lines) <= _THREE_MAX else 4)


def _line(stack: str, series: OverTime) -> Line:
    mean, unit = series.mean, series.unit
    middles_s = [(index + 0.5) * series.interval_ns / NS_PER_S for index in range(len(mean))]
    band = zip(middles_s, series.low.tolist(), series.high.tolist(), strict=True) if series.n > 1 else ()
    average, low, high = (format_value(float(each), unit) for each in (mean.mean(), mean.min(), mean.max()))
    # The name stands beside the mean of the last eighth, whatever its last dip.
    level = float(mean[-max(1, len(mean) // 8) :].mean())
    said = f"{average} on average, from {low} to {high}"
    points = list(zip(middles_s, mean.tolist(), strict=True))
    return Line(stack, points, list(band), level=level, said=said)


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
