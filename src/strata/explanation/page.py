# SPDX-License-Identifier: Apache-2.0
"""An explanation as one HTML page that needs no other file: the tables with their plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from strata.explanation.analysis import DiskTime, Explanation, nearest_rank
from strata.explanation.comparison import IDLE, TrialComparison
from strata.explanation.sentences import KIND_WORDS, names_of, sentences
from strata.explanation.tables import tables
from strata.report import charts, svg
from strata.report.charts import Piece, stacked_bars
from strata.report.document import Block, Figure, Group, Note, Paragraph, Section
from strata.report.palette import PARTS, STACKS, Colour
from strata.report.svg import Drawing
from strata.report.templates import document_page
from strata.report.xy import Line
from strata.traces.attribution import completed
from strata.traces.kinds import KINDS
from strata.traces.table import Records, Trace, latency_ns
from strata.units import SECTOR_BYTES, format_value
from strata.words import listed

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
_RIGHT_PX: Final = 28
_TOP_PX: Final = 10
_BOTTOM_PX: Final = 42
# The number of pieces of the address range; a gap of more pieces than the minimum is left out.
_FINE: Final = 8192
_GAP_MIN: Final = _FINE // 64
_STRETCHES_MAX: Final = 8
_STRETCH_ROWS_MIN: Final = 7
_LEVELS: Final = (0.35, 0.65, 1.0)  # opacity of a cell: one request, up to ten, more


@dataclass(frozen=True)
class _Stretch:
    """Sectors that are drawn together, from ``low`` up to ``high``, on ``rows`` rows from ``first`` up."""

    low: int
    high: int
    first: int
    rows: int


def address_map(records: Records, window_ns: tuple[int, int], disk: str) -> Drawing:
    """Block address over time, binned: the colour shows the purpose, the strength the number of requests.

    Wide untouched stretches are left out: otherwise a journal in the middle of a disk would squeeze all the
    rest into a line.
    """
    kinds = {name: [KINDS.index(kind) for kind in members] for name, (_, members) in GROUPS.items()}
    moving = records[np.isin(records["kind"], [number for members in kinds.values() for number in members])]
    if len(moving) == 0:
        return Drawing("", f"{disk}: no reads or writes")
    stretches = _stretches(moving)
    paths = []
    for name, (colour, _) in GROUPS.items():
        cells = _bin(moving[np.isin(moving["kind"], kinds[name])], window_ns, stretches)
        strengths = (cells == 1, (cells > 1) & (cells <= 10), cells > 10)
        for opacity, wanted in zip(_LEVELS, strengths, strict=True):
            if wanted.any():
                paths.append(svg.tag("path", fill=colour.light, opacity=f"{opacity}", d=_outline(wanted)))
    width, height = _LEFT_PX + _COLUMNS * _CELL_PX + _RIGHT_PX, _TOP_PX + _ROWS * _CELL_PX + _BOTTOM_PX
    grid = svg.tag("g", "".join(paths), transform=f"translate({_LEFT_PX},{_TOP_PX})")
    axes = _axes(window_ns[1] - window_ns[0], stretches)
    ends = [format_value(sector * SECTOR_BYTES, "B") for sector in (stretches[0].low, stretches[-1].high)]
    alternative = (
        f"Map of {disk}: {len(moving):,} requests in {len(stretches)} stretches of its addresses between "
        f"{listed(ends)} over the measured window"
    )
    return svg.drawing([*axes, grid], alternative, width=width, height=height)


def _stretches(records: Records) -> list[_Stretch]:
    """The touched addresses without the widest gaps, with rows in proportion."""
    first = records["sector"].astype(np.int64)
    last = first + np.maximum(records["sectors"].astype(np.int64), 1)
    low, high = int(first.min()), int(last.max())
    size = max(1, -(-(high - low) // _FINE))
    touched = np.unique(np.concatenate([(first - low) // size, (last - 1 - low) // size]))
    gaps = np.diff(touched)
    widest = np.sort(np.argsort(-gaps, kind="stable")[: _STRETCHES_MAX - 1])
    cuts = [int(index) for index in widest if gaps[index] > _GAP_MIN]
    starts, ends = touched[[0, *(cut + 1 for cut in cuts)]], touched[[*cuts, -1]]
    lengths = (ends - starts + 1).astype(np.float64)
    spare = _ROWS - len(lengths) * _STRETCH_ROWS_MIN - (len(lengths) - 1)
    rows = _STRETCH_ROWS_MIN + np.floor(spare * lengths / lengths.sum()).astype(np.int64)
    rows[np.argmax(rows)] += _ROWS - (len(lengths) - 1) - rows.sum()
    found, at = [], 0
    for start, end, count in zip(starts, ends, rows, strict=True):
        found.append(_Stretch(low + int(start) * size, low + int(end + 1) * size, at, int(count)))
        at += int(count) + 1
    return found


def _bin(
    records: Records, window_ns: tuple[int, int], stretches: Sequence[_Stretch]
) -> npt.NDArray[np.int64]:
    """The number of requests that began in each cell, rows from the lowest address up."""
    length_ns = max(1, window_ns[1] - window_ns[0])
    arrival = np.maximum(records["arrival_ns"].astype(np.int64) - window_ns[0], 0)
    column = np.minimum(arrival * _COLUMNS // length_ns, _COLUMNS - 1)
    sector = records["sector"].astype(np.int64)
    row = np.zeros(len(records), np.int64)
    for each in stretches:
        inside = (sector >= each.low) & (sector < each.high)
        row[inside] = each.first + (sector[inside] - each.low) * each.rows // (each.high - each.low)
    counts = np.bincount(row * _COLUMNS + column, minlength=_ROWS * _COLUMNS)
    return counts.reshape(_ROWS, _COLUMNS)


def _outline(wanted: npt.NDArray[np.bool_]) -> str:
    pieces = []
    for row in np.flatnonzero(wanted.any(axis=1)):
        line = np.concatenate([[False], wanted[row], [False]])
        starts, ends = (np.flatnonzero(np.diff(line.astype(np.int8)) == edge) for edge in (1, -1))
        y = (_ROWS - 1 - int(row)) * _CELL_PX
        pieces += [
            f"M{int(start) * _CELL_PX} {y}h{int(end - start) * _CELL_PX}v{_CELL_PX}H{int(start) * _CELL_PX}z"
            for start, end in zip(starts, ends, strict=True)
        ]
    return "".join(pieces)


def _axes(length_ns: int, stretches: Sequence[_Stretch]) -> list[str]:
    bottom, right = _TOP_PX + _ROWS * _CELL_PX, _LEFT_PX + _COLUMNS * _CELL_PX
    rows, share = svg.Linear(0, _ROWS, bottom, _TOP_PX), svg.Linear(0, 1, _LEFT_PX, right)
    sectors = {float(each.first): each.low for each in stretches} | {float(_ROWS): stretches[-1].high}
    addresses = {row: format_value(sector * SECTOR_BYTES, "B") for row, sector in sectors.items()}
    times = {part: format_value(part * length_ns, "ns") for part in (0.0, 0.25, 0.5, 0.75, 1.0)}
    return [
        svg.y_axis(rows, addresses, left=_LEFT_PX, right=right),
        svg.x_axis(share, times, top=_TOP_PX, bottom=bottom, title="of the measured window"),
    ]


# A disk's time by part: the report's colours, and one for waiting behind the disk's own work.
_PART_COLOURS: Final[Mapping[str, Colour]] = {**PARTS, "queue": STACKS[7]}
_KIND_COLOURS: Final[Mapping[str, Colour]] = {
    **{kind: STACKS[index] for index, kind in enumerate(KINDS)},
    IDLE: PARTS["idle"],
}
_PERCENTILES: Final = (10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99)


def render(
    trials: Sequence[tuple[Explanation, Trace | None, tuple[int, int] | None]],
    comparison: TrialComparison | None = None,
) -> str:
    """The page of one trial, or of a comparison and both its trials.

    Each trial comes with its trace and its window on the trace's clock, if there is one.
    """
    first = trials[0][0]
    heading, compared = f"Where the time of {first.name} went", list[Block]()
    if comparison is not None:
        heading, *others = sentences(comparison)
        compared = [*map(Paragraph, others), *([_comparison_figure(comparison)] if others else [])]
    domain = "Virtual time, modelled disks." if first.time_domain == "virtual" else "Wall time."
    return document_page(
        " and ".join(found.name for found, _, _ in trials),
        kicker="explanation",
        heading=heading,
        facts=f"{first.workload_title or first.workload}. {domain}",
        blocks=[*compared, *(_section(*trial) for trial in trials)],
    )


def _section(found: Explanation, trace: Trace | None, window: tuple[int, int] | None) -> Section:
    note = ""
    if found.left_out is None:
        note = "This trial has no trace of its requests: the figures are its disks’ counts."
    elif found.missing:
        note = f"The trace was full: {found.missing:,} requests are missing where kinds are distinguished."
    noted: list[Block] = [Note([Paragraph(note)])] if note else []
    blocks = [*noted, *_figures(found, trace, window), Group(tables(found), "tables")]
    return Section(found.name, found.name, blocks)


def _figures(found: Explanation, trace: Trace | None, window: tuple[int, int] | None) -> list[Figure]:
    traced = [disk for disk in found.disks if disk.kinds]
    figures = _time_figures(traced) if traced else []
    if trace is None or window is None:
        return figures
    for disk in traced:
        records = completed(trace.of_disk(disk.name), window)
        if curves := _curves(records):
            colours = {KIND_WORDS[kind]: _KIND_COLOURS[kind] for kind in KINDS}
            chart = charts.latencies(curves, f"latency at {disk.name}", colours)
            note = "Each step to the right is ten times rarer; lower is better. Both scales are logarithmic."
            figures.append(Figure(f"{disk.name}-latency", f"{disk.name}: latency by kind", note, chart))
        drawing = address_map(records, window, disk.name)
        if drawing.svg:
            legend = {name: colour for name, (colour, _) in GROUPS.items()}
            note = (
                "Block address over time. Pale: one request in that place at that time; full: more than ten."
            )
            title = f"{disk.name}: where and when"
            figures.append(Figure(f"{disk.name}-map", title, note, drawing, legend=legend))
    return figures


def _bars_figure(name: str, title: str, note: str, bars: Mapping[str, Sequence[Piece]]) -> Figure:
    used = {piece.name: piece.colour for pieces in bars.values() for piece in pieces}
    return Figure(name, title, note, stacked_bars(bars, "ns", title), legend=used)


def _time_figures(disks: Sequence[DiskTime]) -> list[Figure]:
    parts, kinds = {}, {}
    for disk in disks:
        sums = {part: sum(kind.shares_ns.get(part, 0.0) for kind in disk.kinds) for part in _PART_COLOURS}
        sums["idle"] = disk.idle_ns
        parts[disk.name] = [Piece(part, sums[part], _PART_COLOURS[part]) for part in sums if sums[part]]
        times = {kind.name: kind.share_ns for kind in disk.kinds if kind.share_ns} | {IDLE: disk.idle_ns}
        kinds[disk.name] = [_kind_piece(kind, time_ns) for kind, time_ns in times.items()]
    return [
        _bars_figure(
            "parts", "Where the disks’ time went", "The measured window, by part of the mechanism.", parts
        ),
        _bars_figure("kinds", "What the disks worked for", "The measured window, by kind of request.", kinds),
    ]


def _comparison_figure(comparison: TrialComparison) -> Figure:
    ordered = sorted(comparison.contributions, key=lambda each: [*_KIND_COLOURS].index(each.kind))
    first, second = names_of(comparison.first, comparison.second)
    bars = {
        first: [_kind_piece(each.kind, each.first.total_ns) for each in ordered],
        second: [_kind_piece(each.kind, each.second.total_ns) for each in ordered],
    }
    title = f"Time per {comparison.first.unit}"
    return _bars_figure("compared", title, "By kind of request; a mean over the disks.", bars)


def _kind_piece(kind: str, time_ns: float) -> Piece:
    return Piece(KIND_WORDS.get(kind, kind), time_ns, _KIND_COLOURS[kind])


def _curves(records: Records) -> list[Line]:
    curves = []
    for number, kind in enumerate(KINDS):
        latencies = np.sort(latency_ns(records[records["kind"] == number]))
        known = [p for p in _PERCENTILES if len(latencies) * (1 - p / 100) >= 1]
        points = [(p, float(nearest_rank(latencies, p / 100))) for p in known]
        if len(points) > 2 and points[0][1] > 0:
            curves.append(Line(KIND_WORDS[kind], points))
    return curves
