# SPDX-License-Identifier: Apache-2.0
"""A workload of the report: its answer, its figures with the numbers behind them, and what to doubt."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from strata.report import figures
from strata.report.answer import Answer, Mark, Standing, answer, standings
from strata.report.figures import NamedFigure
from strata.report.tables import TAILS_MAX, shown_kinds
from strata.report.warnings import CheckTable, WarningGroup, answer_warnings, checks_of, grouped_warnings
from strata.report.wording import between, gain_words, metric_title
from strata.results.record import COUNTS
from strata.statistics.comparison import MetricKind
from strata.statistics.curve import merged_percentiles
from strata.statistics.level import Distribution
from strata.statistics.over_time import OverTime
from strata.statistics.study import StudyResults
from strata.statistics.summary import Series, Summary
from strata.units import format_value, percent, significant
from strata.words import sentence_case

_PERCENTILES: Final = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)


@dataclass(frozen=True)
class Table:
    """Numbers; the first cell of each row is a stack's name.

    Attributes:
        note: What qualifies the caption.
    """

    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    caption: str = ""
    note: str = ""


@dataclass(frozen=True)
class Shown:
    """A figure with the numbers behind it; None where they stand with the figure before it."""

    figure: NamedFigure
    table: Table | None


@dataclass(frozen=True)
class Others:
    """All metrics that have no figure: rows of metrics, columns of stacks."""

    stacks: list[str]
    rows: list[tuple[str, list[str]]]


@dataclass(frozen=True)
class Section:
    """One workload of the report.

    Attributes:
        figures: Of the leading metrics, narrow.
        tables: Their numbers.
        wide: The other figures, in their order.
        folded: Figures that stand folded away, as of the many kinds of requests of a file server.
    """

    name: str
    title: str
    rationale: str
    answer: Answer
    answer_warnings: list[str]
    warnings: list[WarningGroup]
    checks: CheckTable
    figures: list[NamedFigure]
    tables: list[Table]
    wide: list[Shown]
    folded: list[Shown]
    costs: Table | None
    others: Others


def section(results: StudyResults, workload: str, mark: Mark) -> Section:
    """Everything that the report shows of a workload."""
    choice = next(each for each in results.snapshot.workloads if each.name == workload)
    leading = shown_kinds(results, workload)
    found = standings(results, workload, leading)
    tails = {kind.family for kind in leading}
    # Those whose tails are compared come first.
    medians = sorted(figures.latency_medians(results, workload), key=lambda kind: kind.family not in tails)
    latencies = [each for kind in medians if (each := _latency(results, workload, kind))]
    apart = len(latencies) <= TAILS_MAX
    shown = latencies if apart else latencies[:1]
    folded = [] if apart else latencies[1:]
    return Section(
        name=workload,
        title=choice.title,
        rationale=choice.rationale,
        answer=answer(results, workload, mark, found),
        answer_warnings=answer_warnings(results, workload),
        warnings=grouped_warnings(results, workload),
        checks=checks_of(results, workload),
        figures=[figures.metric_figure(results, workload, kind) for kind in leading],
        tables=[_comparison(results, workload, each) for each in found],
        wide=[
            *_rates(results, workload),
            *(each for pair in shown for each in pair),
            *_disks(results, workload),
        ],
        folded=[each for pair in folded for each in pair],
        costs=_costs(results, workload),
        others=_others(results, workload, leading),
    )


def _comparison(results: StudyResults, workload: str, standing: Standing) -> Table:
    """A metric's numbers, every stack against the best one."""
    kind = standing.kind
    summaries = results.summaries(workload, kind.name)
    against = {each.stack: each for each in standing.others}
    rows: list[tuple[str, ...]] = []
    for stack, summary in summaries.items():
        to_best = "best" if stack == standing.best else gain_words(against.get(stack))
        interval = summary.interval
        ends = between(interval.low, interval.high, kind.unit) if interval else "–"
        value = format_value(summary.estimate, kind.unit)
        rows.append((stack, str(summary.n), value, ends, _range(summary, kind), to_best))
    method = next(iter(summaries.values())).method
    estimate = "value" if method == "merged histogram" else "mean"
    return Table(
        columns=("stack", "n", estimate, "95 % interval", "seeds from – to", "to the best (95 % interval)"),
        rows=rows,
        caption=sentence_case(metric_title(kind)),
        note="more is better" if kind.better == "higher" else "less is better",
    )


def _range(summary: Summary, kind: MetricKind) -> str:
    return between(summary.minimum, summary.maximum, kind.unit) if summary.n > 1 else "–"


def _latency(results: StudyResults, workload: str, median: MetricKind) -> list[Shown]:
    merged = figures.latency_distributions(results, workload, median)
    rows = [(stack, f"{each.total:,}", *_percentiles(each)) for stack, each in merged.items()]
    table = Table(("stack", "values", *(f"{percentile:g} %" for percentile in _PERCENTILES)), rows)
    found = (
        figures.curve_figure(results, workload, median, merged),
        figures.distribution_figure(results, workload, median, merged),
    )
    drawn = [figure for figure in found if figure is not None]
    return [Shown(figure, table if figure is drawn[0] else None) for figure in drawn]


def _percentiles(distribution: Distribution) -> list[str]:
    """Each percentile, where at least ten values lie above it."""
    found = merged_percentiles(distribution, _PERCENTILES)
    return [
        format_value(value, "ns") if distribution.total * (100 - percentile) / 100 >= 10 else "–"
        for percentile, value in zip(_PERCENTILES, found, strict=True)
    ]


def _rates(results: StudyResults, workload: str) -> Iterable[Shown]:
    each = figures.rates(results, workload)
    for figure, series in zip(figures.rate_figures(results, workload, each), each, strict=True):
        columns = ("stack", "mean", "first fifth", "last fifth", "lowest", "highest")
        yield Shown(figure, Table(columns, [(stack, *_rate_row(each)) for stack, each in series.items()]))


def _rate_row(series: OverTime) -> list[str]:
    fifth = max(1, len(series.mean) // 5)
    values = (
        series.mean.mean(),
        series.mean[:fifth].mean(),
        series.mean[-fifth:].mean(),
        series.mean.min(),
        series.mean.max(),
    )
    return [format_value(float(value), series.unit) for value in values]


def _disks(results: StudyResults, workload: str) -> Iterable[Shown]:
    spent = figures.disk_shares(results, workload)
    figure = figures.disks_figure(results, workload, spent)
    if figure is not None:
        rows = [(stack, *(percent(share) for share in parts.values())) for stack, parts in spent.items()]
        yield Shown(figure, Table(("stack", *next(iter(spent.values()))), rows))


def _costs(results: StudyResults, workload: str) -> Table | None:
    """What one operation of the workload cost the disks, per stack: the explanation of its rate.

    Only a workload that counts its operations has one: a rate times the step's length would count too
    many, because a load's own runtime is shorter than the step that the disks' accounts are of.
    """
    counted = {kind.name for kind in results.metrics(workload) if kind.unit == "1"}
    name = next((name for name in COUNTS if name in counted), None)
    if name is None:
        return None
    rows = []
    for stack in results.stacks:
        sums: dict[str, int] = {}
        operations = 0.0
        for record in results.cells[stack, workload].records.values():
            metric = record.metric(name)
            if metric is None:
                continue
            operations += metric.value
            for account in record.disks.values():
                for key, count in account.items():
                    sums[key] = sums.get(key, 0) + count
        requests = sums.get("reads", 0) + sums.get("writes", 0)
        if not operations or not requests:
            continue
        each = [significant(sums.get(key, 0) / operations) for key in ("reads", "writes", "flushes")]
        volume = [format_value(sums.get(key, 0) / operations, "B") for key in ("read_bytes", "write_bytes")]
        queue = format_value(sums["queue_ns"] / requests, "ns") if "queue_ns" in sums else "–"
        rows.append((stack, *each, *volume, queue))
    one = COUNTS[name]
    columns = ("stack", "reads", "writes", "flushes", "read", "written", "wait in the disk’s queue")
    note = (
        f"the disks’ requests and bytes, divided by the {one}s that the load counted; mean wait of a request"
    )
    return Table(columns, rows, f"What one {one} cost the disks", note) if rows else None


def _others(results: StudyResults, workload: str, leading: Sequence[MetricKind]) -> Others:
    stacks = [stack for stack in results.stacks if results.cells[stack, workload].records]
    rows = []
    for kind in results.metrics(workload):
        if kind not in leading:
            found = [results.cells[stack, workload].series(kind.name) for stack in stacks]
            cells = [format_value(estimate(each), kind.unit) if each.values else "–" for each in found]
            rows.append((sentence_case(metric_title(kind)), cells))
    return Others(stacks, rows)


def estimate(series: Series) -> float:
    """A metric over its seeds without an interval, which takes ten thousand times as long."""
    seeds = sorted(series.values)
    return float(series.level(seeds).at(np.arange(len(seeds))[np.newaxis])[0])
