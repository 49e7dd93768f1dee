# SPDX-License-Identifier: Apache-2.0
"""A workload's section: its other answers, warnings, figures with their numbers, costs and checks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from strata.model.metric import metric_title
from strata.report import figures
from strata.report.answer import TAILS_MAX, MetricStanding
from strata.report.costs import costs, counts_table
from strata.report.document import (
    PAGES,
    WRITTEN,
    Block,
    Bullets,
    Fold,
    Group,
    Medium,
    Paragraph,
    Section,
)
from strata.report.knee import search_table, searches_of
from strata.report.report import Report
from strata.report.spans import Times
from strata.report.table import Cell, Column, Table
from strata.report.warnings import answer_warnings, checks_of, denials, warning_blocks
from strata.report.wording import between
from strata.statistics.comparison import MetricKind
from strata.statistics.study import StudyResults
from strata.words import sentence_case

_PERCENTILES: Final = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)
_STACK: Final = Column("stack", "stack")
_TERMINAL: Final[frozenset[Medium]] = frozenset({"terminal"})


def workloads(report: Report) -> Iterator[Section]:
    """A section for each workload."""
    for workload in report.results.workloads:
        title = report.declared(workload).title
        yield Section(
            f"workload-{workload}", workload, [*_blocks(report, workload)], title, workload=workload
        )


def _blocks(report: Report, workload: str) -> Iterator[Block]:
    results, found = report.results, report.standings[workload]
    if rationale := report.declared(workload).rationale:
        yield Group([Paragraph(rationale, "stands-for")], where=WRITTEN)
    said = next(each for each in report.answers if each.workload == workload)
    yield Group([Paragraph(sentence, "other") for sentence in said.others], where=WRITTEN)
    warnings = [*warning_blocks(results, workload)]
    yield from warnings or [
        Group([Paragraph(f"{warning} The checks below say why.", "note")], where=PAGES)
        for warning in answer_warnings(results, workload)
    ]
    if not found:
        yield Paragraph("There is no valid result yet.")
    drawn = [
        replace(figures.metric_figure(results, workload, each.kind), caption="", note=_direction(each.kind))
        for each in found
    ]
    if drawn:
        yield Group(drawn, "pair", where=PAGES)
        key = "Bar: all seeds together. Thin line: its 95 % interval. Points: the seeds one by one."
        yield Group([Paragraph(key, "key")], where=PAGES)
    tables = [comparison_table(report, workload, each) for each in found]
    yield Group(tables, "tables")
    yield from _figures(results, workload, {each.kind.family for each in found})
    if denied := denials(results, workload):
        yield Group([Bullets(denied)], where=_TERMINAL)
    if searches_of(results, workload):
        yield Group([search_table(results, workload)], where=_TERMINAL)
    if cost := [*costs(results, workload)]:
        yield Group(cost, "wide costs", where=PAGES)
    if report.has_counts:
        yield Group([counts_table(results, workload)], where=_TERMINAL)
    yield from _checks(results, workload)
    others = _others(results, workload, [each.kind for each in found])
    if others.rows:
        yield Fold("All other metrics", [others])


def _direction(kind: MetricKind) -> str:
    return "more is better" if kind.better == "higher" else "less is better"


def _checks(results: StudyResults, workload: str) -> Iterator[Block]:
    passed, table = checks_of(results, workload)
    if passed or table.rows:
        blocks: list[Block] = []
        if passed:
            blocks.append(Paragraph(f"Yes in every trial of every stack: {' '.join(passed)}"))
        blocks += [table] if table.rows else []
        yield Fold("Validity checks: whether these numbers can be trusted", blocks)


def comparison_table(report: Report, workload: str, standing: MetricStanding) -> Table:
    """A metric of every stack, with what speaks against the stacks beside their rank."""
    results, kind = report.results, standing.kind
    summaries = results.summaries(workload, kind.name)
    compared = {each.stack: each for each in standing.others}
    wanted = len(results.snapshot.seeds_of(workload))
    rows: list[tuple[Any, ...]] = []
    for stack, summary in summaries.items():
        gain = compared.get(stack)
        ranked: Any = "not ranked" if results.unranked(stack, workload) else Times.of(gain) if gain else None
        to_best = Cell("best", tone="best") if stack == standing.best else Cell(ranked)
        ends, another = (
            between(each.low, each.high, kind.unit) if each else None
            for each in (summary.interval, summary.prediction)
        )
        seeds = between(summary.minimum, summary.maximum, kind.unit) if summary.n > 1 else None
        remark = "; ".join(filter(None, (report.objections.get(stack), results.unranked(stack, workload))))
        n = Cell(summary.n) if summary.n == wanted else Cell(f"{summary.n} of {wanted}", tone="doubt")
        to_best = replace(to_best, remark=remark)
        rows.append((stack, n, summary.estimate, ends, seeds, another, to_best))
    method = next(iter(summaries.values())).method
    heads = (
        Column("stack", "stack", width=_NAME_WIDTH),
        Column("n", "count"),
        Column("value" if method == "merged histogram" else "mean", kind.unit, width=9),
        Column("95 % interval", "figure", is_detail=True),
        Column("seeds from – to", "figure", width=16, tone="dim"),
        Column("another seed (95 %)", "figure", is_detail=True),
        Column("to the best (95 % interval)", "figure", width=24),
    )
    return Table(heads, rows, sentence_case(metric_title(kind)), _direction(kind))


_NAME_WIDTH: Final = 12  # in a terminal: the tables of a workload are aligned with one another


def _figures(results: StudyResults, workload: str, tails: set[str | None]) -> Iterator[Block]:
    latencies = figures.latency_figures(results, workload, tails)
    # Many latencies, such as those of a file server's kinds of requests, are folded away.
    shown = TAILS_MAX if len(latencies) <= TAILS_MAX else 1
    yield from figures.knee_figures(results, workload)
    yield from figures.rate_figures(results, workload)
    yield from chain(*latencies[:shown])
    yield from figures.disks_figures(results, workload)
    if folded := [*chain(*latencies[shown:])]:
        yield Fold(f"The latencies of {len(latencies) - shown} more kinds of requests", folded)


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
