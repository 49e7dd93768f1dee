# SPDX-License-Identifier: Apache-2.0
"""Curves in a terminal, drawn with the dots of Braille characters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from strata.units import significant

_COLUMNS: Final = 64
_ROWS: Final = 10
_DOTS: Final = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # of a character, by row and column
_EMPTY: Final = 0x2800

Points = Sequence[tuple[float, float]]


def sketch(curves: Sequence[Points], *, x: str, y: str, x_log: bool = False) -> list[str]:
    """The curves, rising in x, in one frame of text lines; the y axis starts at 0 unless values are below.

    ``x`` and ``y`` are the axes' titles. The points of a logarithmic x axis (``x_log``) must be positive.
    """
    every = [(_place(a, x_log), b) for points in curves for a, b in points if math.isfinite(b)]
    if not every:
        return []
    left, right = min(a for a, _ in every), max(a for a, _ in every)
    low, high = min(0.0, *(b for _, b in every)), max(b for _, b in every)
    cells = [[_EMPTY] * _COLUMNS for _ in range(_ROWS)]
    for points in curves:
        placed = [(_place(a, x_log), b) for a, b in points if math.isfinite(b)]
        before: int | None = None
        for column in range(2 * _COLUMNS):
            at = left + (right - left) * column / (2 * _COLUMNS - 1)
            value = _interpolate(placed, at)
            if value is None:
                continue
            share = (value - low) / (high - low) if high > low else 0.0
            row = 4 * _ROWS - 1 - round(share * (4 * _ROWS - 1))
            steps = [row] if before is None else _between(before, row)  # a steep curve has no gap
            for dot in steps:
                cells[dot // 4][column // 2] |= _DOTS[dot % 4][column % 2]
            before = row
    labels = [significant(high), *[""] * (_ROWS - 2), significant(low)]
    width = max(len(label) for label in labels)
    lines = [y]
    lines += [f"{label:>{width}} ┤{''.join(map(chr, row))}" for label, row in zip(labels, cells, strict=True)]
    first, last = (significant(math.exp(end) if x_log else end) for end in (left, right))
    gap = max(1, _COLUMNS - len(first) - len(last))
    lines.append(f"{'':>{width}} └{'─' * _COLUMNS}")
    lines.append(f"{'':>{width}}  {first}{x:^{gap}}{last}")
    return lines


def _between(before: int, row: int) -> range:
    """The rows from the one before, without it, to this one."""
    if row > before:
        return range(before + 1, row + 1)
    return range(row, max(before, row + 1))


def _place(value: float, log: bool) -> float:
    return math.log(value) if log else value


def _interpolate(points: Points, at: float) -> float | None:
    """The curve's value at a place, or None beyond its ends."""
    for (x0, y0), (x1, y1) in pairwise(points):
        if x0 <= at <= x1:
            return y0 if x1 == x0 else y0 + (y1 - y0) * (at - x0) / (x1 - x0)
    return points[-1][1] if points and math.isclose(at, points[-1][0], rel_tol=1e-9) else None
