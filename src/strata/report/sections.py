# SPDX-License-Identifier: Apache-2.0
"""A workload of the report: its answer, its figures with the numbers behind them, and its warnings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from strata.model.metric import metric_title
from strata.report import figures
from strata.report.answer import TAILS_MAX, Mark, Standing, answer, shown_kinds, standings
from strata.report.costs import costs
from strata.report.figures import NamedFigure
from strata.report.table import Cell, Column, Table, columns
from strata.report.warnings import answer_warnings, checks_of, grouped_warnings
from strata.report.wording import between, gain_words
from strata.statistics.comparison import MetricKind
from strata.statistics.curve import merged_percentiles
from strata.statistics.level import Distribution
from strata.statistics.study import StudyResults
from strata.units import format_share
from strata.words import sentence_case

_PERCENTILES: Final = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)
_STACK: Final = Column("stack", "stack")


@dataclass(frozen=True)
class Shown:
    """A figure and its numbers; None where they stand with the figure before it."""

    figure: NamedFigure
    table: Table | None


def section(
    results: StudyResults, workload: str, mark: Mark, against: Mapping[str, str] = {}
) -> dict[str, Any]:
    """Everything that ``_workload.html.j2`` shows of a workload; `answer` explains ``against``."""
    choice = next(each for each in results.snapshot.workloads if each.name == workload)
    leading = shown_kinds(results, workload)
    found = standings(results, workload, leading)
    tails = {kind.family for kind in leading}
    # Latencies whose tails are compared come first.
    medians = sorted(figures.latency_medians(results, workload), key=lambda kind: kind.family not in tails)
    latencies = [each for kind in medians if (each := _latency(results, workload, kind))]
    # Many latencies, such as those of a file server's kinds of requests, are folded away.
    shown = TAILS_MAX if len(latencies) <= TAILS_MAX else 1
    passed, checks = checks_of(results, workload)
    return {
        "name": workload,
        "title": choice.title,
        "rationale": choice.rationale,
        "answer": answer(results, workload, mark, found, against),
        "answer_warnings": answer_warnings(results, workload),
        "warnings": grouped_warnings(results, workload),
        "passed": passed,
        "checks": checks,
        "figures": [figures.metric_figure(results, workload, kind) for kind in leading],
        "tables": [comparison_table(results, workload, each, against) for each in found],
        "wide": [
            *_knee(results, workload),
            *_rates(results, workload),
            *chain(*latencies[:shown]),
            *_disks(results, workload),
        ],
        "folded": [*chain(*latencies[shown:])],
        "costs": costs(results, workload),
        "others": _others(results, workload, leading),
    }


_RANGES: Final = ("95 % interval", "seeds from – to", "another seed (95 %)", "to the best (95 % interval)")


def comparison_table(
    results: StudyResults, workload: str, standing: Standing, against: Mapping[str, str] = {}
) -> Table:
    """A metric of every stack; ``against`` has what speaks against stacks, beside their rank."""
    kind = standing.kind
    summaries = results.summaries(workload, kind.name)
    compared = {each.stack: each for each in standing.others}
    rows: list[tuple[Any, ...]] = []
    for stack, summary in summaries.items():
        ranked = "not ranked" if results.unranked(stack, workload) else gain_words(compared.get(stack))
        ranked = "best" if stack == standing.best else ranked
        to_best = Cell(ranked, remark=against.get(stack, ""))
        ends, another = (
            between(each.low, each.high, kind.unit) if each else None
            for each in (summary.interval, summary.prediction)
        )
        seeds = between(summary.minimum, summary.maximum, kind.unit) if summary.n > 1 else None
        rows.append((stack, summary.n, summary.estimate, ends, seeds, another, to_best))
    method = next(iter(summaries.values())).method
    heads = columns(
        *(("stack", "stack"), ("n", "count")),
        ("value" if method == "merged histogram" else "mean", kind.unit),
        *((title, "figure") for title in _RANGES),
    )
    note = "more is better" if kind.better == "higher" else "less is better"
    return Table(heads, rows, sentence_case(metric_title(kind)), note)


def _latency(results: StudyResults, workload: str, median: MetricKind) -> list[Shown]:
    merged = figures.latency_distributions(results, workload, median)
    rows = [(stack, each.total, *_percentiles(each)) for stack, each in merged.items()]
    heads = columns(
        ("values", "count"), *((format_share(percentile / 100), "ns") for percentile in _PERCENTILES)
    )
    table = Table((_STACK, *heads), rows)
    drawn = figures.latency_figures(results, workload, median, merged)
    return [Shown(figure, table if figure is drawn[0] else None) for figure in drawn]


def _percentiles(distribution: Distribution) -> list[float | None]:
    """Each percentile, where at least ten values lie above it."""
    found = merged_percentiles(distribution, _PERCENTILES)
    return [
        value if distribution.total * (100 - percentile) / 100 >= 10 else None
        for percentile, value in zip(_PERCENTILES, found, strict=True)
    ]


def _knee(results: StudyResults, workload: str) -> Iterable[Shown]:
    if (found := figures.knee_figure(results, workload)) is not None:
        yield Shown(*found)


def _rates(results: StudyResults, workload: str) -> Iterable[Shown]:
    rates = figures.rates(results, workload)
    for figure, series in zip(figures.rate_figures(results, workload, rates), rates, strict=True):
        unit = next(iter(series.values())).unit
        titles = ("mean", "first fifth", "last fifth", "lowest", "highest")
        rows: list[tuple[Any, ...]] = []
        for stack, each in series.items():
            mean, fifth = each.mean, max(1, len(each.mean) // 5)
            levels = (mean.mean(), mean[:fifth].mean(), mean[-fifth:].mean(), mean.min(), mean.max())
            rows.append((stack, *map(float, levels)))
        yield Shown(figure, Table((_STACK, *columns(*((title, unit) for title in titles))), rows))


def _disks(results: StudyResults, workload: str) -> Iterable[Shown]:
    spent = figures.disk_shares(results, workload)
    figure = figures.disks_figure(results, workload, spent)
    if figure is not None:
        parts = columns(*((part, "share") for part in next(iter(spent.values()))))
        rows = [(stack, *shares.values()) for stack, shares in spent.items()]
        yield Shown(figure, Table((_STACK, *parts), rows))


def _others(results: StudyResults, workload: str, leading: Sequence[MetricKind]) -> Table:
    """The metrics without a figure: a row each, a column for each stack."""
    stacks = [stack for stack in results.stacks if results.cells[stack, workload].records]
    rows = []
    for kind in results.metrics(workload):
        if kind not in leading:
            found = [results.cells[stack, workload].series(kind.name) for stack in stacks]
            cells = [Cell(each.estimate, kind.unit) for each in found]
            rows.append((sentence_case(metric_title(kind)), *cells))
    return Table((Column("metric"), *(Column(stack, "1", is_stack=True) for stack in stacks)), rows)
