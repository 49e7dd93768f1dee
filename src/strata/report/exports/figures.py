# SPDX-License-Identifier: Apache-2.0
"""A figure as a file of its own."""

from __future__ import annotations

import re
from typing import Final

from strata.report.figures import NamedFigure
from strata.report.palette import INK, MUTED
from strata.report.svg import LABEL_PX, document, escape, placed, text

_MARGIN_PX: Final = 16
_TITLE_PX: Final = 52
_SIZE: Final = re.compile(r'<svg viewBox="0 0 ([\d.]+) ([\d.]+)"')


def to_svg(figure: NamedFigure) -> str:
    """The figure with its size, its title and its caption."""
    size = _SIZE.match(figure.drawing.svg)
    if size is None:
        raise ValueError(f"{figure.name} is not a drawing")
    width, height = float(size[1]), float(size[2])
    title = f"{figure.workload}: {figure.title}" if figure.workload else figure.title
    place = {"x": _MARGIN_PX, "y": _MARGIN_PX + _TITLE_PX, "width": width, "height": height}
    parts = [
        f"<title>{escape(title)}</title><desc>{escape(figure.drawing.alternative)}</desc>",
        text(_MARGIN_PX, _MARGIN_PX + 8, title, size=16, bold=True, fill=INK.light),
        text(_MARGIN_PX, _MARGIN_PX + 30, figure.caption, size=LABEL_PX, fill=MUTED.light),
        placed(figure.drawing.svg, **place),
    ]
    return document(parts, width=width + 2 * _MARGIN_PX, height=height + _TITLE_PX + 2 * _MARGIN_PX)
