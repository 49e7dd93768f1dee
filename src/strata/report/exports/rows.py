# SPDX-License-Identifier: Apache-2.0
"""The two tables for other programs, in long form: one of trials, one of cells. Units are in a column.

CSV, Parquet and JSON hold the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from strata.results.store import Reading
from strata.statistics.comparison import Comparison, MetricKind
from strata.statistics.study import StudyResults
from strata.statistics.summary import Summary

Row = dict[str, Any]

# Column name, DuckDB type, meaning.
_METRIC: Final = (
    ("metric", "VARCHAR", "the metric's name, its unit in it"),
    ("unit", "VARCHAR", "1/s, ns, B/s, B or 1: of every number of the row that is no ratio"),
    ("better", "VARCHAR", "higher or lower"),
    ("headline", "BOOLEAN", "whether a report shows it first"),
)
TRIALS: Final = (
    ("study", "VARCHAR", "the study's name"),
    ("trial", "VARCHAR", "the trial's id: stack.workload.sSEED"),
    ("stack", "VARCHAR", "the stack's name in the study"),
    ("workload", "VARCHAR", "the workload's name in the study"),
    ("seed", "BIGINT", "the trial's seed"),
    ("time_domain", "VARCHAR", "virtual or wall; the two are never compared"),
    ("valid", "BOOLEAN", "whether its numbers may be used"),
    ("problem", "VARCHAR", "why not, or why there is no result; empty otherwise"),
    *_METRIC,
    ("value", "DOUBLE", "in the unit; empty where there is no result"),
    ("record_sha256", "VARCHAR", "hash of the result without real time"),
)
CELLS: Final = (
    ("study", "VARCHAR", "the study's name"),
    ("workload", "VARCHAR", "the workload's name in the study"),
    ("stack", "VARCHAR", "the stack's name in the study"),
    *_METRIC,
    ("n", "BIGINT", "valid trials, one per seed"),
    ("estimate", "DOUBLE", "over the seeds, by the method"),
    ("method", "VARCHAR", "geometric mean, arithmetic mean, or percentile of the merged histogram"),
    ("interval_low", "DOUBLE", "95 % interval of the estimate; empty with too few seeds"),
    ("interval_high", "DOUBLE", "its upper end"),
    ("minimum", "DOUBLE", "the lowest seed's"),
    ("maximum", "DOUBLE", "the highest seed's"),
    ("best", "VARCHAR", "the workload's stack with the best estimate of the metric"),
    ("ratio_to_best", "DOUBLE", "the stack's over the best one's, paired by seed; empty for what has none"),
    ("ratio_low", "DOUBLE", "95 % interval of the ratio"),
    ("ratio_high", "DOUBLE", "its upper end"),
    ("verdict", "VARCHAR", "against the best: equal, worse, undecided, too few seeds; best itself"),
    ("p_value", "DOUBLE", "of the hypothesis that it does not differ from the best"),
    ("warnings", "VARCHAR", "codes of the reasons to doubt the cell's numbers, separated by spaces"),
)


def trial_rows(results: StudyResults) -> Iterator[Row]:
    """A row per trial and metric, in the study's order; a trial without a result has one row without them."""
    for reading in results.readings:
        head = _trial(results, reading)
        metrics = reading.record.metrics if reading.record else ()
        for each in metrics:
            yield head | {
                "metric": each.name,
                "unit": each.unit,
                "better": each.better,
                "headline": each.headline,
                "value": each.value,
            }
        if not metrics:
            yield head


def _trial(results: StudyResults, reading: Reading) -> Row:
    return dict.fromkeys(name for name, _, _ in TRIALS) | {
        "study": results.snapshot.name,
        "trial": reading.trial_id,
        **reading.trial._asdict(),
        "time_domain": results.snapshot.time_domain,
        "valid": reading.usable,
        "problem": reading.problem or None,
        "record_sha256": reading.record_sha256,
    }


def cell_rows(results: StudyResults) -> Iterator[Row]:
    """A row per cell and metric: workload by workload, headlines first, the best stack first."""
    for workload in results.workloads:
        warnings = {
            stack: " ".join(dict.fromkeys(each.code for each in results.warnings(stack, workload)))
            for stack in results.stacks
        }
        for kind in results.metrics(workload):
            ranking = results.ranking(workload, kind)
            best = ranking[0]
            against = {each.stack: each for each in results.against(best, {workload: [kind]})}
            for stack in ranking:
                summary = results.summaries(workload, kind.name)[stack]
                yield {
                    "study": results.snapshot.name,
                    "workload": workload,
                    "stack": stack,
                    **_kind(kind),
                    **_summary(summary),
                    "best": best,
                    **_to_best(stack, best, against.get(stack)),
                    "warnings": warnings[stack] or None,
                }


def _kind(kind: MetricKind) -> Row:
    return {"metric": kind.name, "unit": kind.unit, "better": kind.better, "headline": kind.headline}


def _summary(summary: Summary) -> Row:
    interval = summary.interval
    return {
        "n": summary.n,
        "estimate": summary.estimate,
        "method": summary.method,
        "interval_low": interval.low if interval else None,
        "interval_high": interval.high if interval else None,
        "minimum": summary.minimum,
        "maximum": summary.maximum,
    }


def _to_best(stack: str, best: str, comparison: Comparison | None) -> Row:
    nothing = dict.fromkeys(("ratio_to_best", "ratio_low", "ratio_high", "verdict", "p_value"))
    if stack == best:
        return nothing | {"verdict": "best"}
    if comparison is None:
        return nothing
    interval = comparison.ratio.interval
    return {
        "ratio_to_best": comparison.ratio.ratio,
        "ratio_low": interval.low if interval else None,
        "ratio_high": interval.high if interval else None,
        "verdict": comparison.verdict,
        "p_value": comparison.p_value,
    }
