# SPDX-License-Identifier: Apache-2.0
"""Several sets of results in order, as blocks and as a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from strata.model.metric import metric_title
from strata.report.document import Block, Figure, Heading, Paragraph, Section
from strata.report.palette import stack_colours
from strata.report.spans import Mono
from strata.report.table import Cell, Table, columns
from strata.report.templates import document_page
from strata.report.xy import Axis, Line, xy_chart
from strata.statistics.history import Track
from strata.statistics.pairing import Side
from strata.units import percent
from strata.words import counted, listed

_TICKS_MAX = 12


def change_blocks(runs: Sequence[Side], tracks: Sequence[Track]) -> list[Block]:
    """The change points, each with its run."""
    rows = [
        (
            *(each.cell.workload, each.cell.stack, metric_title(each.kind)),
            Cell(percent(point.gain - 1, signed=True), tone="better" if point.gain > 1 else "worse"),
            run_name(runs[point.run]),
        )
        for each in tracks
        for point in each.changes
    ]
    lead = f"{counted(len(rows), 'change')} in {counted(len(runs), 'run')}."
    heads = columns("workload", "stack", "metric", ("better by", "figure"), "from this run on")
    return [Paragraph(lead, "lead"), *([Table(heads, rows, "What changed")] if rows else [])]


def run_name(side: Side) -> str:
    """The folder's name, with the kernels that the results are of."""
    kernels = dict.fromkeys(record.versions.kernel for record in side.results.records)
    return f"{side.name} (Linux {listed([*kernels])})" if kernels else side.name


def history_page(runs: Sequence[Side], tracks: Sequence[Track]) -> str:
    study = runs[0].results.snapshot
    named = [[str(number), run_name(side)] for number, side in enumerate(runs, 1)]
    blocks: list[Block] = [
        Section("changes", "What changed", change_blocks(runs, tracks)),
        *_charts(len(runs), tracks),
        Section("runs", "The runs", [Table(columns(("run", "figure"), "results"), named)]),
    ]
    return document_page(
        f"History of {study.name}",
        kicker="history",
        heading=study.question,
        facts=f"{counted(len(runs), 'run')}, each against the first, paired by seeds.",
        blocks=blocks,
        made=("Made by ", Mono("strata history"), "."),
    )


def _charts(runs: int, tracks: Sequence[Track]) -> Iterator[Section]:
    """A section for each workload, with a chart for each headline and each metric that changed."""
    for workload, its in groupby(tracks, lambda each: each.cell.workload):
        figures: list[Block] = [Heading("Times as good as the first run")]
        for kind, group in groupby(its, lambda each: each.kind):
            each = [*group]
            if kind.headline or any(track.changes for track in each):
                figures.append(_figure(runs, workload, metric_title(kind), kind.name, each))
        yield Section(f"workload-{workload}", workload, figures, workload=workload)


def _figure(runs: int, workload: str, title: str, name: str, tracks: Sequence[Track]) -> Figure:
    lines = [_line(track) for track in tracks]
    step = -(-runs // _TICKS_MAX)
    ticks = {float(run): str(run) for run in range(1, runs + 1, step)}
    ends = [end for line in lines for _, low, high in line.band for end in (low, high)]
    ends += [gain for line in lines for _, gain in line.points]
    x = Axis("run", ticks=ticks, low=1, high=runs)
    y = Axis(unit="1", low=min(0.9, *ends))
    colours = stack_colours([track.cell.stack for track in tracks])
    caption = "Above 1 is better, whatever the metric; dots are runs from which on the level differs."
    drawing = xy_chart(lines, x, y, f"{title} under {workload}", colours, limit=1)
    slug = name.replace("_", "-")
    return Figure(f"{workload}-{slug}", title, caption, drawing, workload, legend=colours)


def _line(track: Track) -> Line:
    points = [(run + 1.0, each.gain) for run, each in track.against.items()]
    band = [
        (run + 1.0, ends.low, ends.high)
        for run, each in track.against.items()
        if (ends := each.gain_interval) is not None
    ]
    dots = [(point.run + 1.0, track.against[point.run].gain) for point in track.changes]
    return Line(track.cell.stack, points, band, dots)
