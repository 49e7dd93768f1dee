# SPDX-License-Identifier: Apache-2.0
"""Which figures a study has, named by workload and metric: the page's, and those exported for articles."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from strata.plan.model import sha256_hex
from strata.report.charts import BANDS_MAX, Curve, bars, latencies, shares
from strata.report.distributions import distributions
from strata.report.heat_map import draw_heat_map, heat_map
from strata.report.over_time import account_words, over_time
from strata.report.palette import PARTS, stack_colours
from strata.report.svg import Drawing
from strata.report.wording import metric_title, name_title
from strata.results.record import TIME_PARTS, ResultRecord
from strata.spec.metric import LATENCY
from strata.statistics.comparison import MetricKind
from strata.statistics.curve import Shape, percentile_band, shape_of
from strata.statistics.level import Distribution, distribution_of
from strata.statistics.over_time import OverTime, throughputs
from strata.statistics.study import StudyResults
from strata.words import sentence_case


@dataclass(frozen=True)
class NamedFigure:
    """A drawing with what names and explains it.

    Attributes:
        name: ``WORKLOAD-METRIC`` in kebab case, unique in its study: a file's name without its suffix.
        title: What is shown.
        caption: How to read it.
        workload: Which workload's it is; empty for the study's.
    """

    name: str
    title: str
    caption: str
    drawing: Drawing
    workload: str = ""


def figures(results: StudyResults, reference: str | None = None) -> Iterator[NamedFigure]:
    """All of a study's figures: the heat map against a stack, then workload by workload.

    Args:
        results: The study's.
        reference: A stack of the study; its first one without it.
    """
    if len(results.stacks) > 1:
        yield cells_figure(results, reference or results.stacks[0])
    for workload in results.workloads:
        yield from workload_figures(results, workload)


def cells_figure(results: StudyResults, reference: str) -> NamedFigure:
    """The heat map of each workload's first headline."""
    drawing = draw_heat_map(heat_map(results, reference), results.snapshot.name)
    caption = f"Each workload's first headline, as many times as good as with {reference}."
    return NamedFigure("all-cells", f"All cells against {reference}", caption, drawing)


def workload_figures(results: StudyResults, workload: str) -> list[NamedFigure]:
    """One workload's figures; what it has no data for is left out."""
    found = [metric_figure(results, workload, kind) for kind in results.leading(workload)]
    found += rate_figures(results, workload)
    for kind in latency_medians(results, workload):
        merged = latency_distributions(results, workload, kind)
        found += [
            figure
            for figure in (
                curve_figure(results, workload, kind, merged),
                distribution_figure(results, workload, kind, merged),
            )
            if figure is not None
        ]
    disks = disks_figure(results, workload, legend=True)
    return found if disks is None else [*found, disks]


def metric_figure(results: StudyResults, workload: str, kind: MetricKind) -> NamedFigure:
    """A metric's bars with intervals."""
    title = metric_title(kind)
    more = "More is better." if kind.better == "higher" else "Less is better."
    drawing = bars(results.summaries(workload, kind.name), kind.unit, title, stack_colours(results.stacks))
    caption = f"{more} The line is the 95 % interval, the points are the seeds."
    return NamedFigure(_name(workload, kind.name), sentence_case(title), caption, drawing, workload)


def rate_figures(
    results: StudyResults, workload: str, each: Sequence[dict[str, OverTime]] | None = None
) -> list[NamedFigure]:
    """Throughput over the measured window: one figure for each load that has an account of its own.

    Args:
        results: The study's.
        workload: One of its workloads.
        each: What `rates` said, if it was asked.
    """
    found = []
    for series in rates(results, workload) if each is None else each:
        tenant = next(iter(series.values())).tenant
        of_tenant = f" of {tenant}" if tenant else ""
        drawing = over_time(series, f"throughput over time{of_tenant}", stack_colours(results.stacks))
        name = _name(workload, *([tenant] if tenant else []), "over-time")
        caption = sentence_case(account_words(series)) + "."
        found.append(NamedFigure(name, f"Throughput over time{of_tenant}", caption, drawing, workload))
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
    """By stack the histograms behind a median; stacks without one are left out.

    Raises:
        ResultError: If a histogram cannot be decoded.
    """
    found = {}
    for stack in results.stacks:
        histograms = results.cells[stack, workload].series(median.name).histograms
        if histograms:
            found[stack] = distribution_of(histograms)
    return {stack: each for stack, each in found.items() if each.total}


def curve_figure(
    results: StudyResults, workload: str, median: MetricKind, merged: dict[str, Distribution]
) -> NamedFigure | None:
    """Latency over percentiles."""
    curves = []
    for stack, distribution in merged.items():
        curve = percentile_band(distribution)
        if curve.points:
            curves.append(Curve(stack, curve.points, curve.band))
    if not curves:
        return None
    title = f"{name_title(median.family or '')} by percentile"
    drawing = latencies(curves, title, stack_colours(results.stacks))
    caption = "All seeds' histograms merged."
    if len(curves) <= BANDS_MAX and any(curve.band for curve in curves):
        caption = "All seeds' histograms merged; the band is what the seeds range between."
    file = _name(workload, median.family or "", "percentiles")
    return NamedFigure(file, sentence_case(title), caption, drawing, workload)


def distribution_figure(
    results: StudyResults, workload: str, median: MetricKind, merged: dict[str, Distribution]
) -> NamedFigure | None:
    """How often each latency was."""
    shapes: dict[str, Shape] = {}
    for stack, distribution in merged.items():
        shape = shape_of(distribution)
        if shape is not None:
            shapes[stack] = shape
    if not shapes:
        return None
    title = f"{name_title(median.family or '')}, distribution"
    drawing = distributions(shapes, title, stack_colours(results.stacks))
    caption = "All seeds' histograms merged, each as high as its most frequent latency."
    file = _name(workload, median.family or "", "distribution")
    return NamedFigure(file, sentence_case(title), caption, drawing, workload)


def disks_figure(
    results: StudyResults,
    workload: str,
    spent: Mapping[str, Mapping[str, float]] | None = None,
    *,
    legend: bool = False,
) -> NamedFigure | None:
    """Where the modelled disks' time went.

    Args:
        results: The study's.
        workload: One of its workloads.
        spent: What `disk_shares` said, if it was asked.
        legend: Whether the parts' names stand in the drawing, too.
    """
    spent = disk_shares(results, workload) if spent is None else spent
    if not spent:
        return None
    drawing = shares(spent, "where the disks' time went", legend=legend)
    caption = "Shares of the measured window, all disks and seeds together."
    return NamedFigure(
        _name(workload, "disks-time"), "Where the disks' time went", caption, drawing, workload
    )


def disk_shares(results: StudyResults, workload: str) -> dict[str, dict[str, float]]:
    """How the measured window of the modelled disks was spent, per stack over seeds and disks."""
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
    # Results that are not Strata's may call a metric anything; two must not become one, nor leave the folder.
    return plain if plain == whole else f"{plain[:100]}-{sha256_hex(whole.encode(errors='replace'))[:8]}"


_MEDIA_PARTS = tuple((key.removesuffix("_ns"), key) for key in TIME_PARTS if key != "queue_ns")


def window_ns(record: ResultRecord, disk: str) -> dict[str, int] | None:
    """How the measured window of a modelled disk was spent, in nanoseconds.

    The window is the measuring step from its start to its end, a little longer than the load's own runtime.
    The time with requests is divided in the proportions of what they waited for at the disk; waiting for each
    other is left out. ``idle`` is the rest, the step's time before and after the load included.
    `strata explain` divides the time instant by instant, from the trace.

    Returns:
        None when the disk keeps no such account: a real one, or one of zero latency.
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
