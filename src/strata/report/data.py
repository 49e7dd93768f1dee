# SPDX-License-Identifier: Apache-2.0
"""A study's results for other programs: tables of cells and of trials in long form, and all of it as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from strata.advice.model import Advice
from strata.report.advice_text import lead
from strata.report.answer import objections
from strata.report.effects import effects_views
from strata.report.table import Column, Table, columns, objects
from strata.report.wording import ends_plain, picked
from strata.results.counts import every_metric
from strata.results.store import Reading
from strata.statistics.comparison import Comparison, MetricKind
from strata.statistics.study import StudyResults
from strata.statistics.summary import Summary

_METRIC: Final = (
    Column("metric", meaning="the metric's name, its unit in it"),
    Column("unit", meaning="1/s, ns, B/s, B or 1: of every number of the row that is no ratio"),
    Column("better", meaning="higher or lower"),
    Column("headline", "truth", meaning="whether a report shows it first"),
)
TRIALS: Final = (
    Column("study", meaning="the study's name"),
    Column("trial", meaning="the trial's id: stack.workload.sSEED"),
    Column("stack", meaning="the stack's name in the study"),
    Column("workload", meaning="the workload's name in the study"),
    Column("seed", "count", meaning="the trial's seed"),
    Column("time_domain", meaning="virtual or wall; the two are never compared"),
    Column("valid", "truth", meaning="whether its numbers may be used"),
    Column("problem", meaning="why not, or why there is no result; empty otherwise"),
    *_METRIC,
    Column("value", "1", meaning="in the unit; empty where there is no result"),
    Column("record_sha256", meaning="hash of the result without real time"),
)
CELLS: Final = (
    Column("study", meaning="the study's name"),
    Column("workload", meaning="the workload's name in the study"),
    Column("stack", meaning="the stack's name in the study"),
    *_METRIC,
    Column("n", "count", meaning="valid trials, one per seed"),
    Column("estimate", "1", meaning="over the seeds, by the method"),
    Column("method", meaning="geometric mean, arithmetic mean, or percentile of the merged histogram"),
    Column("interval_low", "1", meaning="95 % interval of the estimate; empty with too few seeds"),
    Column("interval_high", "1", meaning="its upper end"),
    Column("prediction_low", "1", meaning="from here another seed's value lies in 95 of 100 cases"),
    Column("prediction_high", "1", meaning="up to here"),
    Column("minimum", "1", meaning="the lowest seed's"),
    Column("maximum", "1", meaning="the highest seed's"),
    Column("best", meaning="the workload's stack with the best estimate of the metric"),
    Column("ratio_to_best", "1", meaning="the stack's over the best one's, paired by seed"),
    Column("ratio_low", "1", meaning="95 % interval of the ratio"),
    Column("ratio_high", "1", meaning="its upper end"),
    Column(
        "verdict",
        meaning="against the best: equal, worse, undecided, marginal, doubtful, too few seeds, not ranked; "
        "best itself",
    ),
    Column("ruled_out", meaning="why the study's requirements rule the stack out; empty: they do not"),
    Column("warnings", meaning="codes of the reasons to doubt the cell's numbers, separated by spaces"),
)


def trials_table(results: StudyResults) -> Table:
    """A row per trial and metric, in the study's order; a trial without a result has one row without them."""
    rows: list[tuple[Any, ...]] = []
    for reading in results.readings:
        place = (results.snapshot.name, reading.trial_id, *reading.trial, results.snapshot.time_domain)
        head = (*place, reading.usable, reading.problem or None)
        metrics: list[tuple[Any, ...]] = [
            (each.name, each.unit, each.better, each.headline, each.value)
            for each in (every_metric(reading.record) if reading.record else ())
        ]
        rows += [(*head, *each, reading.record_sha256) for each in metrics or [(None,) * 5]]
    return Table(TRIALS, rows)


def cells_table(results: StudyResults, names: Sequence[str] = (), *, asked: Advice | None = None) -> Table:
    """A row per cell and metric (of ``names``, if any): by workload, headlines first, best stack first.

    ``asked`` is the answer to what the study asks.
    """
    out = objections(asked)
    rows: list[tuple[Any, ...]] = []
    for workload in results.workloads:
        codes = {
            stack: " ".join(dict.fromkeys(each.code for each in results.warnings(stack, workload))) or None
            for stack in results.stacks
        }
        for kind in results.kinds(workload):
            if names and kind.name not in names:
                continue
            ranking, summaries = results.ranking(workload, kind), results.summaries(workload, kind.name)
            best = ranking[0] if ranking else None
            found = results.against(best, {workload: [kind]}) if best is not None else []
            against = {each.stack: each for each in found}
            for stack in dict.fromkeys([*ranking, *summaries]):
                head = (results.snapshot.name, workload, stack, *_kind(kind).values())
                to_best = (1.0, 1.0, 1.0, "best") if stack == best else _ratio(against.get(stack))
                if stack not in ranking:
                    to_best = (None, None, None, "not ranked")
                rows.append(
                    (*head, *_summary(summaries[stack]), best, *to_best, out.get(stack), codes[stack])
                )
    return Table(CELLS, rows)


def _kind(kind: MetricKind) -> dict[str, Any]:
    return {"metric": kind.name, **picked(kind, "unit", "better", "headline")}


def _summary(summary: Summary) -> tuple[Any, ...]:
    ends = (end for each in (summary.interval, summary.prediction) for end in ends_plain(each).values())
    return (summary.n, summary.estimate, summary.method, *ends, summary.minimum, summary.maximum)


def _ratio(comparison: Comparison | None) -> tuple[Any, ...]:
    if comparison is None:
        return (None,) * 4
    ends = ends_plain(comparison.ratio.interval).values()
    return (comparison.ratio.ratio, *ends, comparison.verdict)


def _head(results: StudyResults) -> dict[str, Any]:
    return {"study": results.snapshot.name, **picked(results.snapshot, "question", "time_domain", "runner")}


def study_data(
    results: StudyResults, names: Sequence[str] = (), asked: Advice | None = None
) -> dict[str, Any]:
    """A study for ``--json`` and the export's study.json: the answer to what it asks, and its tables.

    ``names`` are the metrics of its cells, by default all.
    """
    snapshot = results.snapshot
    return {
        "study": snapshot.name,
        **picked(snapshot, "question", "time_domain", "runner", "seeds", "stacks", "workloads", "skipped"),
        **picked(snapshot, "added_seeds", "not_converged", "given_up"),
        "lead": lead(asked) if asked else None,
        "answer": asked,
        "warnings": [
            replace(each, stack=stack, workload=workload)
            for workload in results.workloads
            for stack in results.stacks
            for each in results.warnings(stack, workload)
        ],
        "cells": objects(cells_table(results, names, asked=asked)),
        "trials": results.readings,
        "effects": effects_views(results),
        "searches": results.searches,
    }


def trial_metrics(reading: Reading) -> Table:
    heads = columns("trial", "metric", ("value", "1"), "unit", "better", "phase", ("headline", "truth"))
    metrics = every_metric(reading.record) if reading.record else []
    rows = [
        (reading.trial_id, each.name, each.value, each.unit, each.better, each.phase, each.headline)
        for each in metrics
    ]
    return Table(heads, rows)


def raw_values(results: StudyResults) -> dict[str, Any]:
    """The values of all usable trials: by workload and metric, a row per stack, a value per seed."""
    return {
        "study": results.snapshot.name,
        "time_domain": results.snapshot.time_domain,
        "seeds": list(results.snapshot.seeds),
        "stacks": results.stacks,
        "workloads": [
            {
                "workload": workload,
                "metrics": [
                    {**_kind(kind), "values": _values(results, workload, kind.name)}
                    for kind in results.metrics(workload)
                ],
            }
            for workload in results.workloads
        ],
    }


def _values(results: StudyResults, workload: str, metric: str) -> list[list[float | None]]:
    rows = []
    for stack in results.stacks:
        records = results.cells[stack, workload].records
        found = (records[seed].metric(metric) if seed in records else None for seed in results.snapshot.seeds)
        values = [each.value if each else None for each in found]
        # Whole numbers without a point save bytes.
        rows.append(
            [int(each) if each and each.is_integer() and abs(each) < 1e15 else each for each in values]
        )
    return rows
