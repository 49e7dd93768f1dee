# SPDX-License-Identifier: Apache-2.0
"""Every reason to doubt a cell's numbers, with figures and with what to do about it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from strata.results.record import ResultRecord
from strata.spec.check import DID_IO_IN_WINDOW, LARGER_THAN_MEMORY, PRECONDITIONED, STEADY, UNDISTURBED, Check
from strata.statistics.caution import Caution
from strata.statistics.comparison import Comparison, MetricKind
from strata.statistics.interval import SEEDS_MIN, SKEWED_SEEDS_MIN
from strata.statistics.level import distribution_of
from strata.statistics.precision import HALF_WIDTH_TARGET, SEEDS_WANTED, half_width
from strata.statistics.significance import smallest_p_value
from strata.statistics.summary import VALUES_ABOVE_MIN, Series, percentile_of
from strata.units import format_share, percent

if TYPE_CHECKING:
    from strata.statistics.study import Cell, StudyResults

# An interval that reaches further than this from the mean leaves its first digit open. An estimate.
_WIDE: Final = 0.10
# Of a latency that counts from when an operation was due, more than this was waiting to begin. An estimate.
_LAG_SHARE_MAX: Final = 0.5
# By the table of merged percentiles in docs/explanation/statistics.md.
_SEEDS_APART: Final = 0.1
_SIGNIFICANT: Final = 0.05
_LAGS: Final = ("schedule_lag_ns_mean", "queue_time_ns_mean")

_REMEDIES: Final = {
    STEADY: "lengthen the warm-up or the window, or precondition the disks, until the check says yes",
    DID_IO_IN_WINDOW: "use a larger data set, less memory or a workload that synchronises; or read the "
    "numbers as those of the page cache",
    LARGER_THAN_MEMORY: "make the data set at least twice as large as memory, or give less memory "
    "(`memory` under [study])",
    PRECONDITIONED: "ask for another state (`precondition`): a drive without TRIM is never fresh; one that "
    "does not become steady can be measured as filled",
    UNDISTURBED: "end what disturbs the machine and measure it again: `strata run --fresh --trial ID`",
}
_CODES: Final = {
    STEADY: "not-steady",
    DID_IO_IN_WINDOW: "cached-window",
    LARGER_THAN_MEMORY: "data-fits-in-memory",
    UNDISTURBED: "disturbed",
}


def cautions_of(results: StudyResults, stack: str, workload: str) -> list[Caution]:
    """What there is to doubt of a cell's numbers, the gravest first."""
    if f"{stack}.{workload}" in results.snapshot.skipped:
        return []
    cell = results.cells[stack, workload]
    found = [*_trials(results, cell)]
    if not cell.records:
        return found
    found += _seeds(cell)
    found += _checks(list(cell.records.values()))
    kinds = results.leading(workload)
    if kinds and len(cell.records) >= SEEDS_WANTED:
        found += _precision(results, cell, kinds[0])
    for kind in kinds:
        found += _outliers(results, cell, kind)
    found += _loops(cell, kinds)
    found += _percentiles(cell, kinds)
    return sorted(found, key=lambda caution: not caution.warned)


def cautions_together(comparisons: Sequence[Comparison]) -> list[Caution]:
    """What there is to doubt of p-values of comparisons that were made at once."""
    paired = [each for each in comparisons if each.p_value is not None and each.ratio.paired]
    if not paired:
        return []
    count = sum(each.p_value is not None for each in comparisons)
    n = max(each.ratio.n for each in paired)
    smallest = smallest_p_value(n)
    if smallest * count < _SIGNIFICANT:
        return []
    wanted = math.floor(math.log2(2 * count / _SIGNIFICANT)) + 1
    return [
        Caution(
            "p-values-out-of-reach",
            f"with {n} seeds Wilcoxon's p is at least {smallest:.2g}, and of {count} comparisons made "
            f"together at least {min(1.0, smallest * count):.2g} by Holm's method: none can be below "
            f"{_SIGNIFICANT:g}",
            f"decide by the intervals, compare fewer cells, or use at least {wanted} seeds",
        )
    ]


def _trials(results: StudyResults, cell: Cell) -> Iterator[Caution]:
    """Trials that do not count, and labs that differ."""
    readings = results.readings_of(cell.stack, cell.workload)
    missing = [each for each in readings if not each.usable]
    if missing:
        first = missing[0]
        count = f"{len(missing)} of {len(readings)} trials"
        yield Caution(
            "missing-trials",
            f"{count} did not yield a result that counts: {first.trial_id}: {first.problem}",
            "run the study again: trials that have no valid result are measured anew",
            warned=True,
        )
    if len(results.fingerprints) > 1:
        own = {record.fingerprint for record in cell.records.values()}
        where = f"{len(own)} of them under this cell" if len(own) > 1 else "this cell in one of them"
        yield Caution(
            "several-labs",
            f"the study's results come from {len(results.fingerprints)} different kernels, images, agents or "
            f"settings, {where}",
            "measure everything in one lab: `strata run --fresh`",
            warned=True,
        )


def _seeds(cell: Cell) -> Iterator[Caution]:
    n = len(cell.records)
    if n >= SEEDS_WANTED:
        return
    seeds = "1 seed" if n == 1 else f"{n} seeds"
    if n < SEEDS_MIN:
        text = f"{seeds}: too few for an interval, so nothing tells how sure the numbers are"
    elif n < SKEWED_SEEDS_MIN:
        text = f"{seeds}: Student's interval, which covers only about 88 % of very skewed values"
    else:
        text = f"{seeds}: the interval covers a little less than 95 % of very skewed values, about 93 %"
    yield Caution(
        "few-seeds",
        text,
        f"use at least {SEEDS_WANTED} seeds: seeds = [{', '.join(map(str, range(1, SEEDS_WANTED + 1)))}]",
    )


def _checks(records: Sequence[ResultRecord]) -> Iterator[Caution]:
    """What the trials' own checks deny, and what they cannot tell."""
    asked: dict[tuple[str, str | None, str], list[Check]] = {}
    for record in records:
        for check in record.checks:
            if check.verdict != "yes":
                asked.setdefault((check.name, check.tenant, check.verdict), []).append(check)
    for (name, _, verdict), checks in asked.items():
        share = "" if len(checks) == len(records) else f" in {len(checks)} of {len(records)} seeds"
        if verdict == "no":
            yield Caution(
                _CODES.get(name, f"check-{name}"),
                f"{checks[0].negation}{share}: {checks[0].detail}",
                _REMEDIES.get(name, "see what the check says of each trial: `strata show RESULTS --trial`"),
                warned=name in {STEADY, DID_IO_IN_WINDOW, PRECONDITIONED, UNDISTURBED},
            )
        else:
            yield Caution(
                "unknown-check",
                f"{checks[0].question.rstrip('?')}: it cannot be told{share}: {checks[0].detail}",
                _untold_remedy(name),
            )


def _untold_remedy(name: str) -> str:
    if name == STEADY:
        return "give the workload a window of a given length; or judge by the spread of the seeds"
    return "look at the trial's own figures: `strata show RESULTS --trial`"


def _precision(results: StudyResults, cell: Cell, kind: MetricKind) -> Iterator[Caution]:
    width = results.half_widths(cell.workload).get(cell.stack, 0.0)
    n = len(cell.records)
    asked = results.snapshot.described.get("precision")
    target = asked if isinstance(asked, float) else HALF_WIDTH_TARGET
    if width > target:
        told = f"±{percent(math.expm1(width))}" if math.isfinite(width) else "without an end"
        wanted = math.ceil(n * (width / target) ** 2) if math.isfinite(width) else n + 1
        against = "its ratio to the best stack" if len(results.stacks) > 1 else "its mean"
        yield Caution(
            "not-converged",
            f"the 95 % interval of {against} reaches {told} after {n} seeds, and should reach "
            f"±{format_share(target)} ({kind.name})",
            f"about {max(wanted, n + 1):,} seeds would do; or let the study add them: "
            + ("raise seeds_max" if asked else f'precision = "{target:.1%}"')
            + " under [study]",
        )
    summary = results.summaries(cell.workload, kind.name).get(cell.stack)
    own = half_width(summary.interval) if summary is not None else 0.0
    if own > _WIDE:
        told = f"±{percent(math.expm1(own))}" if own < math.log(10) else "more than ten times the value"
        yield Caution(
            "wide-interval",
            f"the 95 % interval of {kind.name} reaches {told}",
            "look at what differs between the seeds (`strata show RESULTS --trial`), and use more of them",
        )


def _outliers(results: StudyResults, cell: Cell, kind: MetricKind) -> Iterator[Caution]:
    summary = results.summaries(cell.workload, kind.name).get(cell.stack)
    for each in summary.outliers if summary is not None else ():
        far = f"{each.ratio:.3g} times the median" if each.ratio is not None else "the median is 0"
        yield Caution(
            "outlier",
            f"seed {each.seed} is far from the others in {kind.name}: {far}",
            f"see what happened: `strata explain`, or `strata show RESULTS --trial "
            f"{cell.stack}.{cell.workload}.s{each.seed}`; it is counted, not dropped",
        )


def _loops(cell: Cell, kinds: Sequence[MetricKind]) -> Iterator[Caution]:
    """Open loops that could not keep up, and closed ones, whose percentiles leave out who was not sent."""
    records = list(cell.records.values())
    lags = [metric for metric in records[0].metrics if metric.name.endswith(_LAGS)]
    for lag in lags:
        tenant = next(lag.name.removesuffix(suffix) for suffix in _LAGS if lag.name.endswith(suffix))
        shares = [_lag_share(record, lag.name, tenant) for record in records]
        behind = [share for share in shares if share > _LAG_SHARE_MAX]
        if behind:
            yield Caution(
                "open-loop-behind",
                f"{tenant.rstrip('_') or 'the load'} asked for more than the stack carries in {len(behind)} "
                f"of {len(records)} seeds: up to {percent(max(behind))} of the mean latency is waiting",
                "ask for a lower rate: 50, 70 and 90 % of what a closed loop reaches tell the most",
                warned=True,
            )
    shown = [kind for kind in kinds if percentile_of(kind.name) is not None]
    if shown and not lags:
        yield Caution(
            "coordinated-omission",
            f"{shown[0].name} is that of a closed loop: while a request is slow, those that would have come "
            "meanwhile are not sent, so that long latencies are counted too rarely",
            "compare stacks by it, but promise it to nobody; for that, measure with a rate (open loop), "
            "which counts from when a request was due",
        )


def _lag_share(record: ResultRecord, name: str, tenant: str) -> float:
    """The mean lag as a share of the mean latency that it is part of."""
    lag = record.metric(name)
    latencies = [record.metric(f"{tenant}{each}latency_ns_mean") for each in ("", "pass_")]
    latency = next((each for each in latencies if each is not None and each.value > 0), None)
    return lag.value / latency.value if lag is not None and latency is not None else 0.0


def _many(series: Series) -> bool:
    return len(series.values) >= SEEDS_MIN and min(series.values.values()) > 0


def _percentiles(cell: Cell, kinds: Sequence[MetricKind]) -> Iterator[Caution]:
    for kind in kinds:
        series = cell.series(kind.name)
        if series.percentile is None or not series.histograms:
            continue
        spread = float(np.std(np.log([*series.values.values()]), ddof=1)) if _many(series) else 0.0
        if spread > _SEEDS_APART:
            yield Caution(
                "percentile-interval-too-narrow",
                f"the seeds' own {kind.name} differ by ±{percent(math.expm1(spread))}: the slowest seeds "
                "decide the merged percentile, and its interval may then cover it in as few as 86 % of cases",
                "decide by the ratio to another stack, by the median or by the throughput",
            )
        total = distribution_of(series.histograms).total
        above = total * (100 - series.percentile) / 100
        if above < VALUES_ABOVE_MIN:
            yield Caution(
                "few-values",
                f"{kind.name} is made of {total:,} values, of which {above:.1f} lie above it: at least "
                f"{VALUES_ABOVE_MIN} should",
                "lengthen the window or use more seeds, or read a lower percentile",
            )
