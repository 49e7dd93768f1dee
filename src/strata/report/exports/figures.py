# SPDX-License-Identifier: Apache-2.0
"""Figures as files: SVG, and PNG at twice the size."""

from __future__ import annotations

import re
from typing import Final

import vl_convert

from strata.report.figures import NamedFigure
from strata.report.palette import INK, MUTED, PAPER
from strata.report.svg import LABEL_PX, escape, px, text

PNG_SCALE: Final = 2.0
_MARGIN_PX: Final = 16
_TITLE_PX: Final = 52
_SIZE: Final = re.compile(r'<svg viewBox="0 0 ([\d.]+) ([\d.]+)"')


def to_svg(figure: NamedFigure) -> bytes:
    """The figure as a file of its own: with its size, its title, its caption, on light ground."""
    inner = figure.drawing.svg
    size = _SIZE.match(inner)
    if size is None:
        raise ValueError(f"{figure.name} is no drawing")
    width, height = float(size[1]), float(size[2])
    full, tall = px(width + 2 * _MARGIN_PX), px(height + _TITLE_PX + 2 * _MARGIN_PX)
    title = f"{figure.workload}: {figure.title}" if figure.workload else figure.title
    placed = f'<svg x="{_MARGIN_PX}" y="{_MARGIN_PX + _TITLE_PX}" width="{px(width)}" height="{px(height)}" '
    parts = [
        f"<title>{escape(title)}</title><desc>{escape(figure.drawing.alternative)}</desc>",
        f'<rect width="{full}" height="{tall}" fill="{PAPER.light}"/>',
        text(_MARGIN_PX, _MARGIN_PX + 8, title, size=16, bold=True, fill=INK.light),
        text(_MARGIN_PX, _MARGIN_PX + 30, figure.caption, size=LABEL_PX, fill=MUTED.light),
        inner.replace("<svg ", placed, 1),
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {full} {tall}" width="{full}" '
        f'height="{tall}" font-family="sans-serif">{"".join(parts)}</svg>\n'
    ).encode()


def to_png(svg: bytes) -> bytes:
    """An SVG file as PNG at twice its size. Its letters are those of this machine's fonts."""
    return vl_convert.svg_to_png(svg.decode(), scale=PNG_SCALE)
