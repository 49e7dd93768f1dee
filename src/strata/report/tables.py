# SPDX-License-Identifier: Apache-2.0
"""A study's results as plain tables: what ``strata show`` prints, as text, JSON or CSV."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from strata.errors import ResultError
from strata.results.record import TIME_PARTS, ResultRecord
from strata.results.store import Reading
from strata.statistics.comparison import Comparison, MetricKind
from strata.statistics.study import StudyResults
from strata.statistics.summary import Summary

CSV_COLUMNS = (
    *("workload", "stack", "metric", "unit", "better", "headline", "n", "estimate", "method", "minimum"),
    *(
        "maximum",
        "interval_low",
        "interval_high",
        "best",
        "ratio_to_best",
        "ratio_low",
        "ratio_high",
        "verdict",
    ),
)
TRIAL_CSV_COLUMNS = ("trial", "metric", "value", "unit", "better", "phase", "headline")

TAILS_MAX: Final = 2
"""So many kinds of requests are shown with their latencies; of more, the slowest is."""


def chosen_metrics(results: StudyResults, workload: str, names: Sequence[str]) -> list[MetricKind]:
    """The workload's metrics of these names, or those that are shown of it when there are no names.

    Raises:
        ResultError: If no workload of the study has a metric of a name.
    """
    known = {kind.name for each in results.workloads for kind in results.metrics(each)}
    for name in names:
        if name not in known:
            listing = ", ".join(sorted(known)) or "none, for lack of results"
            raise ResultError(
                f'no workload has the metric "{name}"', place="--metric", remedy=f"there are: {listing}"
            )
    if not names:
        return shown_kinds(results, workload)
    return [kind for kind in results.metrics(workload) if kind.name in names]


def shown_kinds(results: StudyResults, workload: str) -> list[MetricKind]:
    """The leading metrics, with one tail where each kind of request has its own: that of the slowest kind.

    In a page the others are among the other metrics, and their distributions are folded away.
    """
    leading = results.leading(workload)
    tails = [kind for kind in leading if not kind.headline]
    if len(tails) <= TAILS_MAX:
        return leading
    slowest = max(tails, key=lambda kind: _typical(results, workload, kind))
    return [kind for kind in leading if kind.headline or kind is slowest]


def _typical(results: StudyResults, workload: str, kind: MetricKind) -> float:
    """The median of a metric over all trials."""
    found = [results.cells[stack, workload].series(kind.name).values.values() for stack in results.stacks]
    return float(np.median([value for values in found for value in values]))


def rows(results: StudyResults, names: Sequence[str] = ()) -> list[dict[str, Any]]:
    """One row per workload, metric and stack, best stack first; the keys are ``CSV_COLUMNS``.

    Args:
        results: The study's.
        names: The metrics to give; all of them without names.
    """
    table: list[dict[str, Any]] = []
    for workload in results.workloads:
        for kind in results.metrics(workload):
            if names and kind.name not in names:
                continue
            summaries = results.summaries(workload, kind.name)
            ranking = results.ranking(workload, kind)
            for stack in ranking:
                ratio = results.ratio(workload, kind.name, stack, ranking[0])
                table.append(
                    {
                        "workload": workload,
                        "stack": stack,
                        "metric": kind.name,
                        "unit": kind.unit,
                        "better": kind.better,
                        "headline": kind.headline,
                        **_summary_columns(summaries[stack]),
                        "best": ranking[0],
                        **_ratio_columns(
                            Comparison(workload, stack, ranking[0], kind, ratio) if ratio else None
                        ),
                    }
                )
    return table


def _summary_columns(summary: Summary) -> dict[str, Any]:
    return {
        "n": summary.n,
        "estimate": summary.estimate,
        "method": summary.method,
        "minimum": summary.minimum,
        "maximum": summary.maximum,
        "interval_low": summary.interval.low if summary.interval else None,
        "interval_high": summary.interval.high if summary.interval else None,
    }


def _ratio_columns(comparison: Comparison | None) -> dict[str, Any]:
    interval = comparison.ratio.interval if comparison else None
    return {
        "ratio_to_best": comparison.ratio.ratio if comparison else None,
        "ratio_low": interval.low if interval else None,
        "ratio_high": interval.high if interval else None,
        "verdict": comparison.verdict if comparison else None,
    }


def trial_rows(results: StudyResults) -> list[dict[str, Any]]:
    """One row per trial of the study, whether it was run or not."""
    return [
        {
            "trial": reading.trial_id,
            "valid": reading.usable,
            "problem": reading.problem,
            "attempts": reading.attempts,
            "incomplete_attempts": reading.incomplete,
            "checks": [each.model_dump() for each in reading.record.checks] if reading.record else [],
            "record_sha256": reading.record_sha256,
            "real_time": reading.record.real_time.model_dump() if reading.record else None,
        }
        for reading in results.readings
    ]


def study_plain(results: StudyResults, names: Sequence[str] = ()) -> dict[str, Any]:
    """The whole study as JSON types, or of its metrics those of these names."""
    snapshot = results.snapshot
    return {
        "study": snapshot.name,
        "question": snapshot.question,
        "time_domain": snapshot.time_domain,
        "runner": snapshot.runner,
        "metrics": rows(results, names),
        "trials": trial_rows(results),
        "skipped": {str(cell): why for cell, why in snapshot.skipped.items()},
        "added_seeds": {workload: list(seeds) for workload, seeds in snapshot.added_seeds.items()},
        "not_converged": {str(cell): width for cell, width in snapshot.not_converged.items()},
    }


def trial_plain(reading: Reading) -> dict[str, Any]:
    """One trial as JSON types."""
    return {
        "trial": reading.trial_id,
        "attempt": reading.attempt.path.name if reading.attempt else None,
        "attempts": reading.attempts,
        "incomplete_attempts": reading.incomplete,
        "problem": reading.problem,
        "result": reading.record.to_plain() if reading.record else None,
    }


def trial_metric_rows(reading: Reading) -> list[dict[str, Any]]:
    """One row per metric of one trial; the keys are ``TRIAL_CSV_COLUMNS``."""
    metrics = reading.record.metrics if reading.record else ()
    return [
        {"trial": reading.trial_id, "metric": each.name, **each.model_dump(include=set(TRIAL_CSV_COLUMNS))}
        for each in metrics
    ]


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
