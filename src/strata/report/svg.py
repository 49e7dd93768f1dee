# SPDX-License-Identifier: Apache-2.0
"""Charts as inline SVG: the elements, scales and axes of all the report's charts.

No charting library draws them because a report of 500 cells has about 150 charts and five seconds: Vega takes
50 ms for each and a second to load, this about 1 ms.

No text is measured, so the SVG's bytes do not depend on the fonts of the machine that draws it. Colours are
attributes, which the page's style sheet exchanges in the dark.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final
from xml.sax.saxutils import escape as escape_markup

from strata.printable import printable
from strata.report.palette import GRID, INK, MUTED, PAPER, Colour

Point = tuple[float, float]

LABEL_PX: Final = 12
NAME_PX: Final = 13
CHARACTER_PX: Final = 7.4  # a wide average at 13 px, for margins only
_BASELINE: Final = 0.35  # of the size, from a line's middle to its baseline
_QUOTE: Final = {'"': "&quot;"}
_PNG_SCALE: Final = 2.0
_LOG_TICKS_MAX: Final = 9
_LOG_SPAN_MIN: Final = 2.5
_FLAT_PX: Final = 0.35  # a point nearer to the line between its neighbours is invisible
# Line patterns, for more stacks than the palette has hues.
_DASHES: Final = ("", "7 3", "2 2.5", "9 3 2 3")


@dataclass(frozen=True)
class Drawing:
    """A chart, and the same in words for readers who cannot see it; empty if it shows nothing."""

    svg: str
    alternative: str
    width_px: float = 0
    height_px: float = 0


@dataclass(frozen=True)
class Linear:
    """Values to pixels, evenly."""

    low: float
    high: float
    start_px: float
    stop_px: float

    def share(self, value: float) -> float:
        """The value's place between low and high."""
        return (value - self.low) / (self.high - self.low)

    def __call__(self, value: float) -> float:
        """The value's place in pixels."""
        return self.start_px + self.share(value) * (self.stop_px - self.start_px)


class Logarithmic(Linear):
    """Positive values to pixels, with decades of equal length."""

    def share(self, value: float) -> float:
        return math.log(value / self.low) / math.log(self.high / self.low)


class Nines(Linear):
    """Percentiles to pixels: every nine is as far from the last as that from the one before."""

    def share(self, value: float) -> float:
        low, at, high = (math.log10(1 - each / 100) for each in (self.low, value, self.high))
        return (at - low) / (high - low)


Scale = Linear


def px(value: float) -> str:
    """A length in tenths, to save bytes. Raises ValueError if it is infinite or not a number."""
    try:
        return _tenths(round(value * 10))
    except (ValueError, OverflowError):
        raise ValueError(f"a chart has no place for {value}") from None


@lru_cache(maxsize=65_536)
def _tenths(tenths: int) -> str:
    whole, rest = divmod(abs(tenths), 10)
    sign = "-" if tenths < 0 else ""
    return f"{sign}{whole}" if rest == 0 else f"{sign}{whole or ''}.{rest}"


def escape(words: str, entities: Mapping[str, str] = {}) -> str:
    """Text for an element. XML has no place for control characters, not even escaped."""
    return escape_markup(printable(words), dict(entities))


def tag(name: str, content: str = "", **attributes: str | float | None) -> str:
    """An element; attributes that are None are left out, ``_`` in their names is ``-``."""
    parts = [name]
    for key, value in attributes.items():
        if value is not None:
            plain = key == "d"  # paths are long
            written = value if plain else escape(value, _QUOTE) if isinstance(value, str) else px(value)
            parts.append(f'{key.replace("_", "-")}="{written}"')
    start = " ".join(parts)
    return f"<{start}>{content}</{name}>" if content else f"<{start}/>"


def text(
    x: float,
    middle: float,
    words: str,
    *,
    anchor: str | None = None,
    size: float = LABEL_PX,
    bold: bool = False,
    fill: str | None = MUTED.light,
) -> str:
    """A line of text around the height ``middle``."""
    return tag(
        "text",
        escape(words),
        x=x,
        y=middle + _BASELINE * size,
        font_size=None if size == LABEL_PX else size,
        text_anchor=anchor,
        font_weight=600 if bold else None,
        fill=fill,
    )


def name_text(x: float, middle: float, name: str, *, anchor: str = "end", width_px: float = math.inf) -> str:
    """A name in ink, in two lines if it does not fit one; a line that is still too long is shortened."""
    lines = _broken(name, width_px)
    top = middle - NAME_PX * (len(lines) - 1) / 2
    drawn = []
    for index, line in enumerate(lines):
        shown = shortened(line, width_px)
        at = top + NAME_PX * index
        whole = text(x, at, shown, anchor=anchor, size=NAME_PX, fill=INK.light)
        tip = f"<title>{escape(name)}</title></text>"
        drawn.append(whole if shown == line else whole.replace("</text>", tip))
    return "".join(drawn)


def _broken(name: str, width_px: float) -> tuple[str, ...]:
    """The name, or its halves: in the middle of a study's long names only the matrix' levels differ."""
    hyphens = [index + 1 for index, each in enumerate(name) if each == "-"]
    if len(name) * CHARACTER_PX <= width_px or not hyphens:
        return (name,)
    at = min(hyphens, key=lambda each: abs(2 * each - len(name)))
    return name[:at], name[at:]


def shortened(name: str, width_px: float) -> str:
    """The name, with ``…`` in its middle if it is wider: stacks' names differ at both ends."""
    if len(name) * CHARACTER_PX <= width_px:
        return name
    kept = max(2, int(width_px / CHARACTER_PX) - 1)
    return f"{name[: kept - kept // 2]}…{name[len(name) - kept // 2 :]}"


def path(points: Sequence[Point], *, closed: bool = False) -> str:
    """A path through points, in tenths of pixels from one to the next."""
    tenths = [(round(x * 10), round(y * 10)) for x, y in points]
    parts = [f"M{_tenths(tenths[0][0])} {_tenths(tenths[0][1])}l"]
    for (x0, y0), (x1, y1) in pairwise(tenths):
        if (x0, y0) != (x1, y1):
            parts.append(f"{_tenths(x1 - x0)} {_tenths(y1 - y0)}")
    joined = parts[0] + " ".join(parts[1:]).replace(" -", "-")
    if len(parts) == 1:
        joined += "0 0"  # a single point: with round caps it is a dot
    return joined + ("z" if closed else "")


def line(points: Sequence[Point], *, stroke: str | None = None, width: float = 2.25, dash: str = "") -> str:
    """A line through points, thinned."""
    return tag(
        "path",
        d=path(thinned(points)),
        fill="none",
        stroke=stroke,
        stroke_width=width,
        stroke_linecap="round" if len(points) == 1 else None,
        stroke_dasharray=dash or None,
    )


def band(lower: Sequence[Point], upper: Sequence[Point], *, fill: str) -> str:
    """The area between two lines."""
    points = [*thinned(lower), *reversed(thinned(upper))]
    return tag("path", d=path(points, closed=True), fill=fill, fill_opacity="0.18")


def dots(points: Sequence[Point], *, radius: float, fill: str, opacity: float | None = None) -> str:
    """Points, drawn as lines of no length with round ends; they darken where they overlap."""
    return tag(
        "g",
        "".join(f'<path d="M{px(x)} {px(y)}h0"/>' for x, y in points),
        stroke=fill,
        stroke_width=2 * radius,
        stroke_linecap="round",
        stroke_opacity=None if opacity is None else f"{opacity:g}",
    )


def thinned(points: Sequence[Point]) -> list[Point]:
    """The visible points of a line from left to right.

    A point is left out while a straight line from the last one kept passes it, and all others since, within
    ``_FLAT_PX`` above or below (J. Sklansky, V. Gonzalez, "Fast polygonal approximation of digitized curves",
    Pattern Recognition 12, 1980).
    """
    if len(points) < 3:
        return list(points)
    kept = [points[0]]
    (x0, y0), last = points[0], points[0]
    low, high = -math.inf, math.inf
    for x, y in points[1:]:
        dx = x - x0
        slope = (y - y0) / dx if dx > 0 else math.inf
        if not low <= slope <= high or dx <= 0:
            if last != kept[-1]:
                kept.append(last)
            x0, y0 = last
            low, high, dx = -math.inf, math.inf, x - x0
        if dx > 0:
            low = max(low, (y - y0 - _FLAT_PX) / dx)
            high = min(high, (y - y0 + _FLAT_PX) / dx)
        else:
            low, high = math.inf, -math.inf  # on an upright line there is only this point
        last = (x, y)
    return [*kept, last]


def dash_of(stack: str, colours: Mapping[str, Colour]) -> str:
    """The pattern of a stack's line: the second stack of a colour has another one."""
    alike = [name for name, colour in colours.items() if colour.variable == colours[stack].variable]
    return _DASHES[alike.index(stack) % len(_DASHES)]


def of_stack(stack: str, *parts: str) -> str:
    """The parts of a stack, which a page can highlight."""
    return f'<g data-stack="{escape(stack, _QUOTE)}">{"".join(parts)}</g>'


def x_axis(
    scale: Scale, ticks: Mapping[float, str], *, top: float, bottom: float, title: str | None = None
) -> str:
    """Vertical grid lines with their labels below, and the axis' title with its unit."""
    places = {tick: scale(tick) for tick in ticks}
    grid = "".join(f"M{px(x)} {px(top)}V{px(bottom)}" for x in places.values())
    labels = "".join(text(places[tick], bottom + 14, label, fill=None) for tick, label in ticks.items())
    if title:
        labels += text((scale.start_px + scale.stop_px) / 2, bottom + 36, title, fill=None)
    return _axis(grid, tag("g", labels, fill=MUTED.light, text_anchor="middle"))


def y_axis(
    scale: Scale, ticks: Mapping[float, str], *, left: float, right: float, title: str | None = None
) -> str:
    """Horizontal grid lines with their labels on the left; the title stands upright beside them."""
    places = {tick: scale(tick) for tick in ticks}
    grid = "".join(f"M{px(left)} {px(y)}H{px(right)}" for y in places.values())
    labels = "".join(text(left - 8, places[tick], label, fill=None) for tick, label in ticks.items() if label)
    drawn = tag("g", labels, fill=MUTED.light, text_anchor="end") if labels else ""
    if title:
        middle = (scale.start_px + scale.stop_px) / 2
        words = text(0, 0, title, anchor="middle")
        drawn += tag("g", words, transform=f"translate(12 {px(middle)})rotate(-90)")
    return _axis(grid, drawn)


def _axis(grid: str, labels: str) -> str:
    return (tag("path", d=grid, stroke=GRID.light) if grid else "") + labels


def linear_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About ``count`` round numbers from low to high: multiples of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    step = 10 ** math.floor(math.log10((high - low) / count))
    for factor in (1, 2, 5, 10):
        if (high - low) / (step * factor) <= count * 1.2:
            step *= factor
            break
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{index * step:.12g}") for index in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Ticks around low to high: at 1, 2 and 5 of each decade, or at the decades when there are many.

    The first is at most low and the last at least high, if need be a 2 or a 5 beside decades.
    """
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    every = [float(f"{step}e{decade}") for decade in range(first, last + 1) for step in (1, 2, 5)]
    start = max(tick for tick in every if tick <= low)
    stop = min(tick for tick in every if tick >= high)
    if stop <= start * _LOG_SPAN_MIN:  # a difference within one step must not fill the chart
        position = every.index(start)
        before = every[position - 1] if position else start / 2
        after = next((tick for tick in every if tick > stop), stop * 2)
        start, stop, every = before, after, sorted({before, *every, after})
    found = [tick for tick in every if start <= tick <= stop]
    if len(found) <= _LOG_TICKS_MAX:
        return found
    decades = [float(f"1e{decade}") for decade in range(first, last + 1)]
    if len(decades) > _LOG_TICKS_MAX:
        return decades
    return [start, *(tick for tick in decades if start * 1.5 < tick < stop / 1.5), stop]


def number(value: float) -> str:
    """A tick in full, with thousands grouped."""
    return f"{value:,.12g}" if abs(value) < 1e12 else f"{value:.3g}"


def short_number(value: float) -> str:
    """A tick in few digits: 20k, 1.5M."""
    for divisor, label in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= divisor:
            return f"{value / divisor:g}{label}"
    return f"{value:g}"


def drawing(parts: Iterable[str], alternative: str, *, width: float, height: float) -> Drawing:
    """The parts as one inline SVG, hidden from screen readers, which read the ``alternative`` beside it."""
    size = f'viewBox="0 0 {px(width)} {px(height)}" font-size="{LABEL_PX}"'
    inline = f'<svg {size} aria-hidden="true">{"".join(parts)}</svg>'
    return Drawing(inline, alternative, width, height)


def document(parts: Iterable[str], *, width: float, height: float, colours: Iterable[Colour] = ()) -> str:
    """The parts as a file of its own, on light ground; ``colours`` are exchanged on a reader's dark one."""
    ground = tag("rect", width=width, height=height, fill=PAPER.light)
    dark = "".join(
        f'[{kind}="{each.light}"]{{{kind}:{each.dark}}}' for each in colours for kind in ("fill", "stroke")
    )
    style = f"<style>@media (prefers-color-scheme:dark){{{dark}}}</style>" if dark else ""
    size = f'viewBox="0 0 {px(width)} {px(height)}" width="{px(width)}" height="{px(height)}"'
    start = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="{LABEL_PX}">'
    return f"{start}{style}{ground}{''.join(parts)}</svg>\n"


def placed(drawn: Drawing, *, x: float, y: float) -> str:
    """A drawing at a place in a document."""
    size = f'width="{px(drawn.width_px)}" height="{px(drawn.height_px)}"'
    return drawn.svg.replace("<svg ", f'<svg x="{px(x)}" y="{px(y)}" {size} ', 1)


def to_png(drawing: str) -> bytes:
    """A document as PNG at twice its size, with the fonts of this machine."""
    import resvg_py  # noqa: PLC0415  few commands make a picture

    return bytes(resvg_py.svg_to_bytes(svg_string=drawing, zoom=_PNG_SCALE))
