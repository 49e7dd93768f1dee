# SPDX-License-Identifier: Apache-2.0
"""The pictures of a device as one file: SVG, HTML or PNG by its name."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

from strata.datasheet.curves import Picture
from strata.errors import ResultError
from strata.report import svg
from strata.report.charts import HALF_PX
from strata.report.palette import INK, PAPER
from strata.report.plots import Axis, Line, plot
from strata.report.svg import Drawing
from strata.words import sentence_case

SUFFIXES: Final = (".svg", ".html", ".png")
_TITLE_PX: Final = 34
_PICTURE_PX: Final = 340


def draw(picture: Picture) -> Drawing:
    """One picture as a chart."""
    lines = [Line(curve.name, curve.points, curve.style) for curve in picture.curves]
    return plot(lines, Axis(picture.x, picture.x_log), Axis(picture.y, picture.y_log), picture.title)


def render(title: str, pictures: Sequence[Picture], suffix: str) -> bytes:
    """All pictures of a device beside each other, in the format of a suffix of `SUFFIXES`."""
    drawn = _svg(title, pictures)
    if suffix == ".png":
        return svg.to_png(drawn)
    if suffix == ".html":
        style = f"body{{margin:2rem;background:{PAPER.light};color:{INK.light}}}svg{{max-width:64rem}}"
        head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{style}</style>'
        return f'<!doctype html>\n<html lang="en">{head}<body>{drawn}</body></html>\n'.encode()
    return drawn.encode()


def check_suffix(file: Path) -> str:
    """The suffix of a file to draw to.

    Raises:
        ResultError: If it is not in `SUFFIXES`.
    """
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
