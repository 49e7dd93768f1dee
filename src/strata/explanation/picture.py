# SPDX-License-Identifier: Apache-2.0
"""Drawings of an explanation: addresses over time, and shares of time. None grows with the trace."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

import numpy as np
import numpy.typing as npt

from strata.report.charts import Drawing
from strata.report.palette import GRID, INK, MUTED, STACKS, Colour
from strata.report.wording import format_value
from strata.results.trace import KINDS, Records
from strata.units import SECTOR_BYTES

GROUPS: Final[Mapping[str, tuple[Colour, tuple[str, ...]]]] = {
    "reads": (STACKS[0], ("read", "read_metadata")),
    "writes of data": (STACKS[1], ("write", "write_sync")),
    "metadata and journal": (STACKS[2], ("write_metadata", "write_journal")),
    "discards": (STACKS[7], ("discard",)),
}
_COLUMNS: Final = 240
_ROWS: Final = 96
_CELL_PX: Final = 3
_LEFT_PX: Final = 74
_BOTTOM_PX: Final = 40
_BAR_PX: Final = 620
_BAR_STEP_PX: Final = 40
_LEVELS: Final = (0.35, 0.65, 1.0)  # opacity of a cell: one request, up to ten, more


def address_map(records: Records, window_ns: tuple[int, int], disk: str) -> Drawing:
    """Block address over time, binned: colour says what for, strength how many requests."""
    kinds = {name: [KINDS.index(kind) for kind in members] for name, (_, members) in GROUPS.items()}
    moving = records[np.isin(records["kind"], [number for members in kinds.values() for number in members])]
    if len(moving) == 0:
        return Drawing("", f"{disk}: no reads or writes")
    low, high = _range(moving)
    paths = []
    for name, (colour, _) in GROUPS.items():
        cells = _bin(moving[np.isin(moving["kind"], kinds[name])], window_ns, low, high)
        for opacity, wanted in zip(
            _LEVELS, (cells == 1, (cells > 1) & (cells <= 10), cells > 10), strict=True
        ):
            if wanted.any():
                paths.append(f'<path fill="{colour.light}" opacity="{opacity}" d="{_outline(wanted)}"/>')
    width, height = _LEFT_PX + _COLUMNS * _CELL_PX, _ROWS * _CELL_PX + _BOTTOM_PX
    axes = _axes(window_ns[1] - window_ns[0], low * SECTOR_BYTES, high * SECTOR_BYTES)
    grid = f'<g transform="translate({_LEFT_PX},4)">{"".join(paths)}</g>'
    svg = f'<svg viewBox="0 0 {width} {height + 4}" aria-hidden="true">{axes}{grid}</svg>'
    alternative = (
        f"Map of {disk}: {len(moving):,} requests between {format_value(low * SECTOR_BYTES, 'B')} and "
        f"{format_value(high * SECTOR_BYTES, 'B')} of its addresses over the measured window"
    )
    return Drawing(svg, alternative)


@dataclass(frozen=True)
class Piece:
    """One part of a stacked bar: its name, its length in the bar's unit, and its colour."""

    name: str
    length: float
    colour: Colour


def stacked_bars(bars: Mapping[str, Sequence[Piece]], unit: str, title: str) -> Drawing:
    """A bar for each name, made of pieces; all on one scale."""
    longest = max((sum(piece.length for piece in pieces) for pieces in bars.values()), default=0.0) or 1.0
    left = 20 + round(max(map(len, bars), default=0) * 7.4)
    full = _BAR_PX + left + 90
    drawn, said = [], []
    for row, (name, pieces) in enumerate(bars.items()):
        y, x = 6 + row * _BAR_STEP_PX, float(left)
        drawn.append(_text(left - 10, y + 20, "end", escape(name)))
        for piece in pieces:
            width = piece.length / longest * _BAR_PX
            drawn.append(
                f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="28" fill="{piece.colour.light}"/>'
            )
            x += width
        total = sum(piece.length for piece in pieces)
        drawn.append(_text(x + 8, y + 20, "start", format_value(total, unit)))
        worded = ", ".join(f"{piece.name} {format_value(piece.length, unit)}" for piece in pieces)
        said.append(f"{name}: {worded}")
    height = 6 + len(bars) * _BAR_STEP_PX
    svg = f'<svg viewBox="0 0 {full} {height}" aria-hidden="true">{"".join(drawn)}</svg>'
    return Drawing(svg, f"Stacked bars, {title}; " + "; ".join(said))


def _range(records: Records) -> tuple[int, int]:
    first = records["sector"].astype(np.int64)
    last = first + records["sectors"].astype(np.int64)
    return int(first.min()), max(int(last.max()), int(first.min()) + 1)


def _bin(records: Records, window_ns: tuple[int, int], low: int, high: int) -> npt.NDArray[np.int64]:
    """How many requests began in each cell, rows from the lowest address up."""
    length_ns = max(1, window_ns[1] - window_ns[0])
    arrival = np.maximum(records["arrival_ns"].astype(np.int64) - window_ns[0], 0)
    column = np.minimum(arrival * _COLUMNS // length_ns, _COLUMNS - 1)
    row = np.minimum((records["sector"].astype(np.int64) - low) * _ROWS // (high - low), _ROWS - 1)
    counts = np.bincount(row * _COLUMNS + column, minlength=_ROWS * _COLUMNS)
    return counts.reshape(_ROWS, _COLUMNS)


def _outline(wanted: npt.NDArray[np.bool_]) -> str:
    """Cells in a row are one rectangle."""
    pieces = []
    for row in np.flatnonzero(wanted.any(axis=1)):
        line = np.concatenate([[False], wanted[row], [False]])
        starts, ends = (
            np.flatnonzero(np.diff(line.astype(np.int8)) == 1),
            np.flatnonzero(np.diff(line.astype(np.int8)) == -1),
        )
        y = (_ROWS - 1 - int(row)) * _CELL_PX
        pieces += [
            f"M{int(start) * _CELL_PX} {y}h{int(end - start) * _CELL_PX}v{_CELL_PX}H{int(start) * _CELL_PX}z"
            for start, end in zip(starts, ends, strict=True)
        ]
    return "".join(pieces)


def _axes(length_ns: int, low_bytes: int, high_bytes: int) -> str:
    bottom = 4 + _ROWS * _CELL_PX
    right = _LEFT_PX + _COLUMNS * _CELL_PX
    pieces = []
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = bottom - share * _ROWS * _CELL_PX
        address = format_value(low_bytes + share * (high_bytes - low_bytes), "B")
        pieces.append(f'<path stroke="{GRID.light}" d="M{_LEFT_PX} {y:g}H{right}"/>')
        pieces.append(_text(_LEFT_PX - 8, y + 4, "end", address))
        x = _LEFT_PX + share * _COLUMNS * _CELL_PX
        pieces.append(_text(x, bottom + 18, "middle", format_value(share * length_ns, "ns")))
    pieces.append(_text((_LEFT_PX + right) / 2, bottom + 36, "middle", "of the measured window"))
    pieces.append(f'<path stroke="{INK.light}" d="M{_LEFT_PX} {bottom:g}H{right}"/>')
    return "".join(pieces)


def _text(x: float, y: float, anchor: str, text: str) -> str:
    place = f'x="{x:g}" y="{y:g}" text-anchor="{anchor}"'
    return f'<text {place} font-size="12" fill="{MUTED.light}">{text}</text>'
