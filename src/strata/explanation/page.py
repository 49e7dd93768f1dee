# SPDX-License-Identifier: Apache-2.0
"""An explanation as one HTML page that needs no other file: the tables with their plots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from markupsafe import escape

from strata.explanation.analysis import Disk, Explanation, completed
from strata.explanation.comparison import IDLE, Comparison
from strata.explanation.picture import GROUPS, Piece, address_map, stacked_bars
from strata.explanation.sentences import KIND_WORDS, names_of, sentences
from strata.explanation.tables import Table, tables
from strata.report import charts
from strata.report.palette import PARTS, STACKS, Colour
from strata.report.templates import page_style, page_templates
from strata.results.trace import KINDS, Records, Trace, latency_ns

# A disk's time by part: the report's colours, and one for waiting behind the disk's own work.
_PART_COLOURS: Final[Mapping[str, Colour]] = {
    **PARTS,
    "queue": STACKS[7],
}
_KIND_COLOURS: Final[Mapping[str, Colour]] = {
    **{kind: STACKS[index] for index, kind in enumerate(KINDS)},
    IDLE: PARTS["idle"],
}
_PERCENTILES: Final = (10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99)


@dataclass(frozen=True)
class Figure:
    """A plot with its caption and the colours of its legend."""

    title: str
    note: str
    chart: charts.Drawing
    legend: Mapping[str, Colour]


@dataclass(frozen=True)
class Part:
    """One trial on the page."""

    found: Explanation
    tables: Sequence[Table]
    figures: Sequence[Figure]


def render(
    trials: Sequence[tuple[Explanation, Trace | None, tuple[int, int] | None]],
    comparison: Comparison | None = None,
) -> str:
    """The page of one trial, or of a comparison with both its trials.

    Args:
        trials: Each explained, with its trace and its window on the trace's clock where there is one.
        comparison: What to say first.
    """
    environment = page_templates("strata.explanation")
    page = environment.get_template("explanation.html.j2").render(
        style=page_style(environment),
        parts=[Part(found, tables(found), _figures(found, trace, window)) for found, trace, window in trials],
        sentences=sentences(comparison) if comparison else [],
        comparison_figure=_comparison_figure(comparison) if comparison else None,
        mark=escape,
    )
    return page.rstrip() + "\n"


def _figures(found: Explanation, trace: Trace | None, window: tuple[int, int] | None) -> list[Figure]:
    figures = []
    traced = [disk for disk in found.disks if disk.kinds]
    if traced:
        figures += [_parts_figure(traced), _kinds_figure(traced)]
    if trace is None or window is None:
        return figures
    for disk in traced:
        records = completed(trace.of_disk(disk.name), window)
        curves = _curves(records)
        if curves:
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


def _parts_figure(disks: Sequence[Disk]) -> Figure:
    bars = {}
    for disk in disks:
        sums = {part: sum(kind.shares_ns.get(part, 0.0) for kind in disk.kinds) for part in _PART_COLOURS}
        sums["idle"] = disk.idle_ns
        bars[disk.name] = [Piece(part, sums[part], _PART_COLOURS[part]) for part in sums if sums[part]]
    used = {piece.name: piece.colour for pieces in bars.values() for piece in pieces}
    chart = stacked_bars(bars, "ns", "where the disks' time went")
    return Figure("Where the disks’ time went", "The measured window, by part of the mechanism.", chart, used)


def _kinds_figure(disks: Sequence[Disk]) -> Figure:
    bars = {}
    for disk in disks:
        pieces = [
            Piece(KIND_WORDS[k.name], k.share_ns, _KIND_COLOURS[k.name]) for k in disk.kinds if k.share_ns
        ]
        bars[disk.name] = [*pieces, Piece(IDLE, disk.idle_ns, _KIND_COLOURS[IDLE])]
    used = {piece.name: piece.colour for pieces in bars.values() for piece in pieces}
    chart = stacked_bars(bars, "ns", "what the disks worked for")
    return Figure("What the disks worked for", "The measured window, by kind of request.", chart, used)


def _comparison_figure(comparison: Comparison) -> Figure:
    """The time per operation of both trials."""
    names = names_of(comparison.faster, comparison.slower)
    bars: dict[str, list[Piece]] = {name: [] for name in names}
    by_kind = {each.kind: each for each in comparison.contributions}
    for kind, colour in _KIND_COLOURS.items():
        if kind not in by_kind:
            continue
        for name, side in zip(names, (by_kind[kind].faster, by_kind[kind].slower), strict=True):
            bars[name].append(Piece(KIND_WORDS.get(kind, kind), side.total_ns, colour))
    used = {piece.name: piece.colour for pieces in bars.values() for piece in pieces}
    operation = comparison.faster.operation
    chart = stacked_bars(bars, "ns", f"time per {operation}")
    return Figure(f"Time per {operation}", "By kind of request; a mean over the disks.", chart, used)


def _curves(records: Records) -> list[charts.Curve]:
    """A curve for each kind with enough requests to have one."""
    curves = []
    for number, kind in enumerate(KINDS):
        latencies = np.sort(latency_ns(records[records["kind"] == number]))
        known = [p for p in _PERCENTILES if len(latencies) * (1 - p / 100) >= 1]
        points = [(p, float(latencies[int(np.ceil(p / 100 * len(latencies))) - 1])) for p in known]
        if len(points) > 2 and points[0][1] > 0:
            curves.append(charts.Curve(KIND_WORDS[kind], points))
    return curves
