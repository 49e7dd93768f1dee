# SPDX-License-Identifier: Apache-2.0
"""A device's curves: as charts, all in one file, and as tables."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

from strata.datasheet.measure import Picture
from strata.errors import ResultError
from strata.report import svg
from strata.report.palette import INK, MUTED, PAPER, STACKS
from strata.report.svg import Drawing
from strata.report.table import Table, columns
from strata.report.xy import HALF_PX, Axis, Line, xy_chart
from strata.units import significant
from strata.words import sentence_case

SUFFIXES: Final = (".svg", ".html", ".png")
_TITLE_PX: Final = 34
_TITLE_CHARACTER_PX: Final = 9
_PICTURE_PX: Final = 340
_HEIGHT_PX: Final = 240
_ROWS_MAX: Final = 9


def draw(picture: Picture) -> Drawing:
    lines = [Line(curve.name, curve.points, style=curve.style) for curve in picture.curves]
    measured = iter(STACKS)
    colours = {line.name: MUTED if line.style == "theory" else next(measured) for line in lines}
    x = Axis(picture.x, "log" if picture.x_log else "linear")
    y = Axis(picture.y, "log" if picture.y_log else "linear")
    title = sentence_case(picture.title)
    return xy_chart(lines, x, y, title, colours, width=HALF_PX, height=_HEIGHT_PX, legend=True)


def picture_tables(picture: Picture) -> list[Table]:
    """For a terminal: some points of each curve, evenly from the first to the last."""
    made = []
    for curve in picture.curves:
        last = len(curve.points) - 1
        count = min(_ROWS_MAX, last + 1)
        chosen = [curve.points[round(number * last / max(1, count - 1))] for number in range(count)]
        rows = [tuple(map(significant, point)) for point in chosen]
        heads = columns((picture.x, "figure"), (picture.y, "figure"))
        made.append(Table(heads, rows, sentence_case(picture.title), curve.name))
    return made


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
        parts.append(svg.placed(draw(picture), x=x, y=_TITLE_PX + 24))
    width = max(HALF_PX * len(pictures), 32 + _TITLE_CHARACTER_PX * len(title))
    return svg.document(parts, width=width, height=_TITLE_PX + _PICTURE_PX)
