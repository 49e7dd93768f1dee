# SPDX-License-Identifier: Apache-2.0
"""The pictures of a device as one file: SVG, HTML or PNG by its name."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Final

import vl_convert

from strata.datasheet.curves import Picture
from strata.errors import ResultError
from strata.report.charts import HALF_PX, Drawing
from strata.report.palette import INK, PAPER
from strata.report.plots import Axis, Line, plot
from strata.words import sentence_case

SUFFIXES: Final = (".svg", ".html", ".png")
_TITLE_PX: Final = 34
_PICTURE_PX: Final = 340
_PNG_SCALE: Final = 2.0


def draw(picture: Picture) -> Drawing:
    """One picture as a chart."""
    lines = [Line(curve.name, curve.points, curve.style) for curve in picture.curves]
    return plot(lines, Axis(picture.x, picture.x_log), Axis(picture.y, picture.y_log), picture.title)


def render(title: str, pictures: Sequence[Picture], suffix: str) -> bytes:
    """All pictures of a device beside each other.

    Args:
        title: The device.
        pictures: At least one.
        suffix: One of `SUFFIXES`.
    """
    svg = _svg(title, pictures)
    if suffix == ".png":
        return vl_convert.svg_to_png(svg, scale=_PNG_SCALE)
    if suffix == ".html":
        style = f"body{{margin:2rem;background:{PAPER.light};color:{INK.light}}}svg{{max-width:64rem}}"
        head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{style}</style>'
        return f'<!doctype html>\n<html lang="en">{head}<body>{svg}</body></html>\n'.encode()
    return svg.encode()


def check_suffix(file: Path) -> str:
    """The suffix of a file to draw to.

    Raises:
        ResultError: If it is none of `SUFFIXES`.
    """
    if file.suffix not in SUFFIXES:
        raise ResultError(
            "a plot is an SVG, HTML or PNG file", place=str(file), remedy=f"end its name in {SUFFIXES[0]}"
        )
    return file.suffix


def _svg(title: str, pictures: Sequence[Picture]) -> str:
    width, height = HALF_PX * len(pictures), _TITLE_PX + _PICTURE_PX
    parts = [
        f'<rect width="{width}" height="{height}" fill="{PAPER.light}"/>',
        f'<text x="16" y="24" font-size="16" font-weight="600" fill="{INK.light}">{escape(title)}</text>',
    ]
    for index, picture in enumerate(pictures):
        inner = draw(picture).svg.replace(
            "<svg ", f'<svg x="{index * HALF_PX}" y="{_TITLE_PX + 24}" width="{HALF_PX}" height="316" ', 1
        )
        label = sentence_case(picture.title)
        parts.append(
            f'<text x="{index * HALF_PX + 16}" y="{_TITLE_PX + 16}" font-size="13" fill="{INK.light}">'
            f"{escape(label)}</text>{inner}"
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" font-family="sans-serif">{"".join(parts)}</svg>'
    )
