# SPDX-License-Identifier: Apache-2.0
"""A study's figures, named by workload and metric, for the page and as files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from strata.model.metric import LATENCY, metric_title, name_title
from strata.plan.model import sha256_hex
from strata.report.charts import (
    Piece,
    account_words,
    bars,
    distributions,
    latencies,
    over_time,
    stacked_bars,
)
from strata.report.document import Figure
from strata.report.heat_map import draw_heat_map, heat_map
from strata.report.knee import knee
from strata.report.palette import INK, ON_PARTS, PARTS, stack_colours
from strata.report.svg import document, escape, placed, text
from strata.report.table import Table
from strata.report.xy import BANDS_MAX, Line
from strata.results.record import ResultRecord
from strata.statistics.comparison import MetricKind
from strata.statistics.curve import OverTime, percentile_band, shape_of, throughputs
from strata.statistics.level import Distribution, distribution_of
from strata.statistics.study import StudyResults
from strata.traces.kinds import TIME_PARTS
from strata.words import sentence_case

_NINES: Final = "Each nine to the right is ten times rarer; lower is better. Both scales are logarithmic."
_AT_DISKS: Final = (
    "Requests' time at the disk, from the start of the measuring step to its end, without their waiting for "
    "each other. The start and the end of the load's program count as idle."
)
_MARGIN_PX: Final = 16
_TITLE_PX: Final = 52


def to_svg(figure: Figure) -> str:
    drawing = figure.drawing
    title = f"{figure.workload}: {figure.title}" if figure.workload else figure.title
    parts = [
        f"<title>{escape(title)}</title><desc>{escape(drawing.alternative)}</desc>",
        text(_MARGIN_PX, _MARGIN_PX + 8, title, size=16, bold=True, fill=INK.light),
        text(_MARGIN_PX, _MARGIN_PX + 30, figure.caption),
        placed(drawing, x=_MARGIN_PX, y=_MARGIN_PX + _TITLE_PX),
    ]
    height = drawing.height_px + _TITLE_PX + 2 * _MARGIN_PX
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


def workload_figures(results: StudyResults, workload: str) -> list[Figure]:
    found = [metric_figure(results, workload, kind) for kind in results.leading(workload)]
    if (searched := knee_figure(results, workload)) is not None:
        found.append(searched[0])
    found += rate_figures(results, workload)
    for kind in latency_medians(results, workload):
        found += latency_figures(results, workload, kind, latency_distributions(results, workload, kind))
    disks = disks_figure(results, workload, legend=True)
    return found if disks is None else [*found, disks]


def metric_figure(results: StudyResults, workload: str, kind: MetricKind) -> Figure:
    title = metric_title(kind)
    more = "More is better." if kind.better == "higher" else "Less is better."
    drawing = bars(results.summaries(workload, kind.name), kind.unit, title, stack_colours(results.stacks))
    caption = f"{more} The line is the 95 % interval, the points are the seeds."
    return Figure(_name(workload, kind.name), sentence_case(title), caption, drawing, workload)


def knee_figure(results: StudyResults, workload: str) -> tuple[Figure, Table] | None:
    """The knee of a search with its numbers; None for a workload without one."""
    found = knee(results, workload)
    if found is None:
        return None
    title, caption, drawing, table = found
    return Figure(_name(workload, "knee"), sentence_case(title), caption, drawing, workload), table


def rate_figures(
    results: StudyResults, workload: str, each: Sequence[dict[str, OverTime]] | None = None
) -> list[Figure]:
    """A figure for each load that has an account of its own; ``each`` is of `rates`, if it is known."""
    found = []
    for series in rates(results, workload) if each is None else each:
        tenant = next(iter(series.values())).tenant
        of_tenant = f" of {tenant}" if tenant else ""
        drawing = over_time(series, f"throughput over time{of_tenant}", stack_colours(results.stacks))
        name = _name(workload, *([tenant] if tenant else []), "over-time")
        caption = sentence_case(account_words(series)) + "."
        found.append(Figure(name, f"Throughput over time{of_tenant}", caption, drawing, workload))
    return found


def rates(results: StudyResults, workload: str) -> list[dict[str, OverTime]]:
    """The throughput over the measured window by stack, once for each load with an account of its own."""
    return throughputs({stack: results.cells[stack, workload].records.values() for stack in results.stacks})


def latency_medians(results: StudyResults, workload: str) -> list[MetricKind]:
    """The medians of the latencies: of the whole load if a workload has them, else of each of its parts."""
    medians = [kind for kind in results.metrics(workload) if kind.quantile == 0.5 and kind.is_latency]
    return [kind for kind in medians if kind.family == LATENCY] or medians


def latency_distributions(
    results: StudyResults, workload: str, median: MetricKind
) -> dict[str, Distribution]:
    """The histograms behind a median, by stack, if any. Raises ResultError if one is unreadable."""
    series = {stack: results.cells[stack, workload].series(median.name) for stack in results.stacks}
    found = {stack: distribution_of(each.histograms) for stack, each in series.items() if each.histograms}
    return {stack: each for stack, each in found.items() if each.total}


def latency_figures(
    results: StudyResults, workload: str, median: MetricKind, merged: dict[str, Distribution]
) -> list[Figure]:
    family, colours, found = median.family or "", stack_colours(results.stacks), []
    bands = {stack: percentile_band(each) for stack, each in merged.items()}
    if curves := [Line(stack, each.points, each.band) for stack, each in bands.items() if each.points]:
        title = f"{name_title(family)} by percentile"
        has_band = len(curves) <= BANDS_MAX and any(curve.band for curve in curves)
        band = "; the band is the range of the seeds" if has_band else ""
        drawing = latencies(curves, title, colours)
        name = _name(workload, family, "percentiles")
        caption = f"All seeds' histograms merged{band}."
        found.append(Figure(name, sentence_case(title), caption, drawing, workload, reading=_NINES))
    if shapes := {stack: shape for stack, each in merged.items() if (shape := shape_of(each)) is not None}:
        title = f"{name_title(family)}, distribution"
        drawing = distributions(shapes, title, colours)
        name = _name(workload, family, "distribution")
        caption = "All seeds' histograms merged, each as high as its most frequent latency."
        found.append(Figure(name, sentence_case(title), caption, drawing, workload))
    return found


def disks_figure(
    results: StudyResults,
    workload: str,
    spent: Mapping[str, Mapping[str, float]] | None = None,
    *,
    legend: bool = False,
) -> Figure | None:
    """The disks' time by its parts; ``spent`` is of `disk_shares`, if known; a ``legend`` names the parts."""
    spent = disk_shares(results, workload) if spent is None else spent
    if not spent:
        return None
    bars = {
        stack: [Piece(part, share, PARTS[part], ON_PARTS[part]) for part, share in parts.items()]
        for stack, parts in spent.items()
    }
    title = "where the disks' time went"
    drawing = stacked_bars(bars, "share", title, axis="of the measured window", legend=legend)
    caption = "Shares of the measured window, all disks and seeds together."
    name = _name(workload, "disks-time")
    return Figure(name, "Where the disks' time went", caption, drawing, workload, reading=_AT_DISKS)


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
