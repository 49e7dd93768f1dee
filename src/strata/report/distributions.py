# SPDX-License-Identifier: Apache-2.0
"""Latency distributions: a row per stack, how often each latency was, over a logarithmic axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from strata.report import svg
from strata.report.charts import WIDE_PX, names_px, tick_text
from strata.report.palette import INK, MUTED, Colour
from strata.report.svg import Drawing
from strata.statistics.curve import Shape

_ROW_PX: Final = 44
_DENSE_ROW_PX: Final = 30
_MANY: Final = 8
_TOP_PX: Final = 24
_RIGHT_PX: Final = 20
_TICKS_MAX: Final = 10


def distributions(shapes: Mapping[str, Shape], title: str, colours: Mapping[str, Colour]) -> Drawing:
    """How often each latency was, stack below stack, each as high as its most frequent one.

    An upright line marks the median, a dashed one the 99th percentile.
    """
    left = names_px(shapes, WIDE_PX)
    row = _ROW_PX if len(shapes) <= _MANY else _DENSE_ROW_PX
    ticks = svg.log_ticks(
        min(shape.edges[0] for shape in shapes.values()), max(shape.edges[-1] for shape in shapes.values())
    )
    x = svg.Logarithmic(ticks[0], ticks[-1], left, WIDE_PX - _RIGHT_PX)
    bottom = _TOP_PX + row * len(shapes)
    labels = {tick: tick_text(tick) for tick in ticks[:: -(-len(ticks) // _TICKS_MAX)]}
    parts = [
        _legend(left),
        svg.x_axis(x, labels, top=_TOP_PX, bottom=bottom),
    ]
    for index, (stack, shape) in enumerate(shapes.items()):
        ground = _TOP_PX + (index + 1) * row - 4
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
        _median(x(shape.median), ground + 2, ground - height),
    ]
    if shape.p99 is not None:
        drawn.append(_p99(x(shape.p99), ground + 2, ground - height))
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


def _legend(left: float) -> str:
    low, high = _TOP_PX / 2 + 6, _TOP_PX / 2 - 6
    return (
        _median(left + 2, low, high)
        + svg.text(left + 8, _TOP_PX / 2, "median")
        + _p99(left + 70, low, high)
        + svg.text(left + 76, _TOP_PX / 2, "99th percentile")
    )


def _median(x: float, low: float, high: float) -> str:
    d = f"M{svg.px(x)} {svg.px(low)}V{svg.px(high)}"
    return svg.tag("path", d=d, stroke=INK.light, stroke_width=1.75)


def _p99(x: float, low: float, high: float) -> str:
    d = f"M{svg.px(x)} {svg.px(low)}V{svg.px(high)}"
    return svg.tag("path", d=d, stroke=MUTED.light, stroke_width=1.5, stroke_dasharray="3 2.5")
