# SPDX-License-Identifier: Apache-2.0
"""A study's figures, named by workload and metric, for the page and as files."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import Final

from strata.model.metric import LATENCY, metric_title, name_title
from strata.plan.model import sha256_hex
from strata.report.charts import (
    Piece,
    account_words,
    bars,
    distributions,
    latencies,
    legend,
    over_time,
    stacked_bars,
)
from strata.report.document import Figure
from strata.report.heat_map import draw_heat_map, heat_map
from strata.report.knee import knee
from strata.report.palette import INK, ON_PARTS, PARTS, stack_colours
from strata.report.svg import document, escape, placed, text
from strata.report.table import Column, Table, columns
from strata.report.xy import BANDS_MAX, Line
from strata.results.record import ResultRecord
from strata.statistics.comparison import MetricKind
from strata.statistics.curve import OverTime, merged_percentiles, percentile_band, shape_of, throughputs
from strata.statistics.level import Distribution, distribution_of
from strata.statistics.study import StudyResults
from strata.traces.kinds import TIME_PARTS
from strata.units import format_share
from strata.words import sentence_case

_NINES: Final = "Each nine to the right is ten times rarer; lower is better. Both scales are logarithmic."
_AT_DISKS: Final = (
    "Requests' time at the disk, from the start of the measuring step to its end, without their waiting for "
    "each other. The start and the end of the load's program count as idle."
)
_PERCENTILES: Final = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)
_STACK: Final = Column("stack", "stack")
_LEGEND_PX: Final = 24
_MARGIN_PX: Final = 16
_TITLE_PX: Final = 52


def to_svg(figure: Figure) -> str:
    drawing, legend_px = figure.drawing, _LEGEND_PX if figure.legend else 0
    top = _MARGIN_PX + _TITLE_PX
    parts = [
        f"<title>{escape(figure.full_title)}</title><desc>{escape(drawing.alternative)}</desc>",
        text(_MARGIN_PX, _MARGIN_PX + 8, figure.full_title, size=16, bold=True, fill=INK.light),
        text(_MARGIN_PX, _MARGIN_PX + 30, figure.caption),
        *legend(figure.legend, _MARGIN_PX, top),
        placed(drawing, x=_MARGIN_PX, y=top + legend_px),
    ]
    height = drawing.height_px + top + legend_px + _MARGIN_PX
    return document(parts, width=drawing.width_px + 2 * _MARGIN_PX, height=height)


def figures(results: StudyResults, reference: str | None = None) -> Iterator[Figure]:
    """The heat map against ``reference`` or the study's own reference, then the figures of each workload."""
    if len(results.stacks) > 1:
        reference = reference or results.reference
        drawing = draw_heat_map(heat_map(results, reference), results.snapshot.name)
        caption = f"Each workload's first headline, as many times as good as with {reference}."
        yield Figure("all-cells", f"All cells against {reference}", caption, drawing)
    for workload in results.workloads:
        yield from workload_figures(results, workload)


def workload_figures(results: StudyResults, workload: str) -> Iterator[Figure]:
    yield from (metric_figure(results, workload, kind) for kind in results.leading(workload))
    yield from knee_figures(results, workload)
    yield from rate_figures(results, workload)
    yield from chain(*latency_figures(results, workload))
    yield from disks_figures(results, workload)


def metric_figure(results: StudyResults, workload: str, kind: MetricKind) -> Figure:
    title = metric_title(kind)
    more = "More is better." if kind.better == "higher" else "Less is better."
    drawing = bars(results.summaries(workload, kind.name), kind.unit, title, stack_colours(results.stacks))
    caption = f"{more} The line is the 95 % interval, the points are the seeds."
    return Figure(_name(workload, kind.name), sentence_case(title), caption, drawing, workload)


def knee_figures(results: StudyResults, workload: str) -> Iterator[Figure]:
    """The knee of a search; none for a workload without one."""
    if (found := knee(results, workload)) is not None:
        title, caption, drawing, numbers = found
        name = _name(workload, "knee")
        yield Figure(name, sentence_case(title), caption, drawing, workload, numbers=numbers)


def rate_figures(results: StudyResults, workload: str) -> Iterator[Figure]:
    """The throughput over the measured window, once for each load that has an account of its own."""
    cells = {stack: results.cells[stack, workload].records.values() for stack in results.stacks}
    for series in throughputs(cells):
        some = next(iter(series.values()))
        of_tenant = f" of {some.tenant}" if some.tenant else ""
        drawing = over_time(series, f"throughput over time{of_tenant}", stack_colours(results.stacks))
        name = _name(workload, *([some.tenant] if some.tenant else []), "over-time")
        rows = [(stack, *_levels(each)) for stack, each in series.items()]
        titles = ("mean", "first fifth", "last fifth", "lowest", "highest")
        yield Figure(
            name,
            f"Throughput over time{of_tenant}",
            f"{sentence_case(account_words(series))}.",
            drawing,
            workload,
            numbers=Table((_STACK, *columns(*((title, some.unit) for title in titles))), rows),
        )


def _levels(series: OverTime) -> Iterator[float]:
    mean, fifth = series.mean, max(1, len(series.mean) // 5)
    levels = (mean.mean(), mean[:fifth].mean(), mean[-fifth:].mean(), mean.min(), mean.max())
    return map(float, levels)


def latency_figures(
    results: StudyResults, workload: str, first: Collection[str | None] = ()
) -> list[list[Figure]]:
    """The figures of each latency: of the whole load if it has one, else of its parts.

    Those of the families ``first`` come first. Raises ResultError if a histogram is unreadable.
    """
    medians = [kind for kind in results.metrics(workload) if kind.quantile == 0.5 and kind.is_latency]
    medians = [kind for kind in medians if kind.family == LATENCY] or medians
    ordered = sorted(medians, key=lambda kind: kind.family not in first)
    found = [[*_latency_figures(results, workload, median)] for median in ordered]
    return [figures for figures in found if figures]


def _latency_figures(results: StudyResults, workload: str, median: MetricKind) -> Iterator[Figure]:
    family, colours = median.family or "", stack_colours(results.stacks)
    merged = _merged(results, workload, median)
    bands = {stack: percentile_band(distribution) for stack, distribution in merged.items()}
    if curves := [Line(stack, each.points, each.band) for stack, each in bands.items() if each.points]:
        has_band = len(curves) <= BANDS_MAX and any(curve.band for curve in curves)
        band = "; the band is the range of the seeds" if has_band else ""
        yield Figure(
            _name(workload, family, "percentiles"),
            sentence_case(f"{name_title(family)} by percentile"),
            f"All seeds' histograms merged{band}.",
            latencies(curves, f"{name_title(family)} by percentile", colours),
            workload,
            reading=_NINES,
            numbers=_percentiles_table(merged),
        )
    if shapes := {stack: shape for stack, each in merged.items() if (shape := shape_of(each)) is not None}:
        title = f"{name_title(family)}, distribution"
        caption = "All seeds' histograms merged, each as high as its most frequent latency."
        drawing = distributions(shapes, title, colours)
        name = _name(workload, family, "distribution")
        yield Figure(name, sentence_case(title), caption, drawing, workload)


def _merged(results: StudyResults, workload: str, median: MetricKind) -> dict[str, Distribution]:
    """The histograms behind a median, by stack."""
    series = {stack: results.cells[stack, workload].series(median.name) for stack in results.stacks}
    known = {stack: distribution_of(each.histograms) for stack, each in series.items() if each.histograms}
    return {stack: distribution for stack, distribution in known.items() if distribution.total}


def _percentiles_table(merged: Mapping[str, Distribution]) -> Table:
    """Each percentile, where at least ten values lie above it."""
    rows = []
    for stack, distribution in merged.items():
        values = zip(_PERCENTILES, merged_percentiles(distribution, _PERCENTILES), strict=True)
        above = [
            value if distribution.total * (100 - percentile) / 100 >= 10 else None
            for percentile, value in values
        ]
        rows.append((stack, distribution.total, *above))
    titles = ((format_share(percentile / 100), "ns") for percentile in _PERCENTILES)
    return Table((_STACK, *columns(("values", "count"), *titles)), rows)


def disks_figures(results: StudyResults, workload: str) -> Iterator[Figure]:
    """The disks' time by its parts; none without modelled disks."""
    spent = disk_shares(results, workload)
    if not spent:
        return
    bars = {
        stack: [Piece(part, share, PARTS[part], ON_PARTS[part]) for part, share in shares.items()]
        for stack, shares in spent.items()
    }
    parts = [*next(iter(spent.values()))]
    rows = [(stack, *shares.values()) for stack, shares in spent.items()]
    yield Figure(
        _name(workload, "disks-time"),
        "Where the disks' time went",
        "Shares of the measured window, all disks and seeds together.",
        stacked_bars(bars, "share", "where the disks' time went", axis="of the measured window"),
        workload,
        reading=_AT_DISKS,
        legend={part: PARTS[part] for part in PARTS if part in parts},
        numbers=Table((_STACK, *columns(*((part, "share") for part in parts))), rows),
    )


def disk_shares(results: StudyResults, workload: str) -> dict[str, dict[str, float]]:
    """The parts of the modelled disks' measured window, per stack over seeds and disks."""
    found = {}
    for stack in results.stacks:
        sums = dict.fromkeys(PARTS, 0)
        for record in results.cells[stack, workload].records.values():
            for disk in record.disks:
                for part, spent_ns in (window_ns(record, disk) or {}).items():
                    sums[part] += spent_ns
        total = sum(sums.values())
        if total:
            found[stack] = {part: spent_ns / total for part, spent_ns in sums.items()}
    used = [name for name in PARTS if any(parts[name] for parts in found.values())]
    return {stack: {name: parts[name] for name in used} for stack, parts in found.items()}


def _name(workload: str, *parts: str) -> str:
    whole = "-".join((workload, *parts)).replace("_", "-")
    plain = re.sub("[^A-Za-z0-9-]+", "-", whole)
    # Foreign results may have any names of metrics; two must not become one file, nor leave the folder.
    return plain if plain == whole else f"{plain[:100]}-{sha256_hex(whole.encode(errors='replace'))[:8]}"


_MEDIA_PARTS = tuple((key.removesuffix("_ns"), key) for key in TIME_PARTS if key != "queue_ns")


def window_ns(record: ResultRecord, disk: str) -> dict[str, int] | None:
    """The measured window of a modelled disk by its parts, in nanoseconds.

    The window is the measuring step, a little longer than the load's own runtime. The time with requests is
    divided in proportion to the parts of all requests, except waiting for each other; ``idle`` is the rest.
    `strata explain` divides the time instant by instant, from the trace. None when the disk keeps no such
    account: a real one, or one of zero latency.
    """
    account = record.disks.get(disk, {})
    length_ns = record.phases_ns.get("measure", 0)
    if "seek_ns" not in account or "busy_ns" not in account or not length_ns:
        return None
    spent = {part: account.get(key, 0) for part, key in _MEDIA_PARTS}
    total = sum(spent.values())
    if not total:
        return None
    busy_ns = min(account["busy_ns"], length_ns)
    shares = {part: round(busy_ns * value / total) for part, value in spent.items() if value}
    return {**shares, "idle": length_ns - sum(shares.values())}
