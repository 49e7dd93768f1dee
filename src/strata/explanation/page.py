# SPDX-License-Identifier: Apache-2.0
"""An explanation as one HTML page that needs no other file: the tables with their plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from markupsafe import Markup

from strata.explanation.analysis import DiskTime, Explanation, completed, nearest_rank
from strata.explanation.comparison import IDLE, Comparison
from strata.explanation.picture import GROUPS, Piece, address_map, stacked_bars
from strata.explanation.sentences import KIND_WORDS, names_of, sentences
from strata.explanation.tables import tables
from strata.report import charts
from strata.report.palette import PARTS, STACKS, Colour
from strata.report.svg import Drawing
from strata.report.table import html
from strata.report.templates import page_style, page_templates
from strata.results.trace import KINDS, Records, Trace, latency_ns

# A disk's time by part: the report's colours, and one for waiting behind the disk's own work.
_PART_COLOURS: Final[Mapping[str, Colour]] = {**PARTS, "queue": STACKS[7]}
_KIND_COLOURS: Final[Mapping[str, Colour]] = {
    **{kind: STACKS[index] for index, kind in enumerate(KINDS)},
    IDLE: PARTS["idle"],
}
_PERCENTILES: Final = (10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99)


@dataclass(frozen=True)
class Figure:
    title: str
    note: str
    chart: Drawing
    legend: Mapping[str, Colour]


@dataclass(frozen=True)
class Part:
    found: Explanation
    tables: Sequence[Markup]
    figures: Sequence[Figure]


def render(
    trials: Sequence[tuple[Explanation, Trace | None, tuple[int, int] | None]],
    comparison: Comparison | None = None,
) -> str:
    """The page of one trial, or of a comparison and both its trials.

    Each trial comes with its trace and its window on the trace's clock, if there is one.
    """
    environment = page_templates("strata.explanation")
    page = environment.get_template("explanation.html.j2").render(
        style=page_style(environment),
        parts=[
            Part(found, [html(each) for each in tables(found)], _figures(found, trace, window))
            for found, trace, window in trials
        ],
        sentences=sentences(comparison) if comparison else [],
        comparison_figure=_comparison_figure(comparison) if comparison else None,
    )
    return page.rstrip() + "\n"


def _figures(found: Explanation, trace: Trace | None, window: tuple[int, int] | None) -> list[Figure]:
    traced = [disk for disk in found.disks if disk.kinds]
    figures = [_parts_figure(traced), _kinds_figure(traced)] if traced else []
    if trace is None or window is None:
        return figures
    for disk in traced:
        records = completed(trace.of_disk(disk.name), window)
        if curves := _curves(records):
            colours = {KIND_WORDS[kind]: _KIND_COLOURS[kind] for kind in KINDS}
            chart = charts.latencies(curves, f"latency at {disk.name}", colours)
            note = "Each step to the right is ten times rarer; lower is better. Both scales are logarithmic."
            figures.append(Figure(f"{disk.name}: latency by kind", note, chart, {}))
        drawing = address_map(records, window, disk.name)
        if drawing.svg:
            legend = {name: colour for name, (colour, _) in GROUPS.items()}
            note = (
                "Block address over time. Pale: one request in that place at that time; full: more than ten."
            )
            figures.append(Figure(f"{disk.name}: where and when", note, drawing, legend))
    return figures


def _bars_figure(title: str, note: str, alternative: str, bars: Mapping[str, Sequence[Piece]]) -> Figure:
    used = {piece.name: piece.colour for pieces in bars.values() for piece in pieces}
    return Figure(title, note, stacked_bars(bars, "ns", alternative), used)


def _parts_figure(disks: Sequence[DiskTime]) -> Figure:
    bars = {}
    for disk in disks:
        sums = {part: sum(kind.shares_ns.get(part, 0.0) for kind in disk.kinds) for part in _PART_COLOURS}
        sums["idle"] = disk.idle_ns
        bars[disk.name] = [Piece(part, sums[part], _PART_COLOURS[part]) for part in sums if sums[part]]
    note = "The measured window, by part of the mechanism."
    return _bars_figure("Where the disks’ time went", note, "where the disks' time went", bars)


def _kinds_figure(disks: Sequence[DiskTime]) -> Figure:
    bars = {}
    for disk in disks:
        times = {kind.name: kind.share_ns for kind in disk.kinds if kind.share_ns} | {IDLE: disk.idle_ns}
        bars[disk.name] = [_kind_piece(kind, time_ns) for kind, time_ns in times.items()]
    note = "The measured window, by kind of request."
    return _bars_figure("What the disks worked for", note, "what the disks worked for", bars)


def _comparison_figure(comparison: Comparison) -> Figure:
    ordered = sorted(comparison.contributions, key=lambda each: [*_KIND_COLOURS].index(each.kind))
    faster, slower = names_of(comparison.faster, comparison.slower)
    bars = {
        faster: [_kind_piece(each.kind, each.faster.total_ns) for each in ordered],
        slower: [_kind_piece(each.kind, each.slower.total_ns) for each in ordered],
    }
    title = f"ime per {comparison.faster.operation}"
    return _bars_figure(f"T{title}", "By kind of request; a mean over the disks.", f"t{title}", bars)


def _kind_piece(kind: str, time_ns: float) -> Piece:
    return Piece(KIND_WORDS.get(kind, kind), time_ns, _KIND_COLOURS[kind])


def _curves(records: Records) -> list[charts.Curve]:
    """A curve for each kind with enough requests."""
    curves = []
    for number, kind in enumerate(KINDS):
        latencies = np.sort(latency_ns(records[records["kind"] == number]))
        known = [p for p in _PERCENTILES if len(latencies) * (1 - p / 100) >= 1]
        points = [(p, float(nearest_rank(latencies, p / 100))) for p in known]
        if len(points) > 2 and points[0][1] > 0:
            curves.append(charts.Curve(KIND_WORDS[kind], points))
    return curves
