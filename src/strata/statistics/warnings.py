# SPDX-License-Identifier: Apache-2.0
"""The warnings of a cell: every reason to doubt its numbers, with figures and a remedy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np

from strata.model.metric import Metric, tenant_prefix
from strata.model.trial import CellKey
from strata.model.warning import WARNINGS, ResultWarning, warnings_of_checks
from strata.results.record import ResultRecord
from strata.statistics.comparison import MetricKind
from strata.statistics.interval import (
    SEEDS_MIN,
    SEEDS_WANTED,
    SKEWED_SEEDS_MIN,
    half_width,
)
from strata.statistics.level import distribution_of
from strata.statistics.summary import VALUES_ABOVE_MIN
from strata.units import format_share, percent

if TYPE_CHECKING:
    from strata.statistics.study import CellResults, StudyResults

# An interval that reaches further than this from the mean leaves its first digit open. An estimate.
_WIDE: Final = 0.10
# An open loop is behind if waiting to begin is more than this share of its latency. An estimate.
_LAG_SHARE_MAX: Final = 0.5
# By the table of merged percentiles in docs/explanation/statistics.md.
_SEEDS_APART: Final = 0.1
_LAGS: Final = ("schedule_lag_ns_mean", "queue_time_ns_mean")


def warnings_of(results: StudyResults, stack: str, workload: str) -> list[ResultWarning]:
    """All warnings of a cell, the gravest first."""
    if CellKey(stack, workload) in results.snapshot.skipped:
        return []
    found = (replace(each, stack=stack, workload=workload) for each in _found(results, stack, workload))
    return sorted(found, key=lambda warning: not warning.grave)


def _found(results: StudyResults, stack: str, workload: str) -> Iterator[ResultWarning]:
    cell = results.cells[stack, workload]
    yield from _trials(results, cell)
    if not cell.records:
        return
    yield from _untouched(results, cell)
    yield from _seeds(cell)
    yield from check_warnings(cell)
    kinds = results.leading(workload)
    if kinds and len(cell.records) >= SEEDS_WANTED:
        yield from _precision(results, cell, kinds[0])
    for kind in kinds:
        yield from _alike(cell, kind)
        yield from _outliers(results, cell, kind)
    yield from _loops(cell, kinds)
    yield from _percentiles(cell, kinds)


def check_warnings(cell: CellResults) -> list[ResultWarning]:
    found = warnings_of_checks(record.checks for record in cell.records.values())
    return [replace(each, stack=cell.stack, workload=cell.workload) for each in found]


def _trials(results: StudyResults, cell: CellResults) -> Iterator[ResultWarning]:
    readings = results.readings_of(cell.stack, cell.workload)
    missing = [each for each in readings if not each.usable]
    if missing:
        first = missing[0]
        count = f"{len(missing)} of {len(readings)} trials"
        text = f"{count} did not yield a result that counts: {first.trial_id}: {first.problem}"
        yield WARNINGS["missing-trials"].warning(text)
    if len(results.fingerprints) > 1:
        own = {record.fingerprint for record in cell.records.values()}
        where = f"{len(own)} of them under this cell" if len(own) > 1 else "this cell in one of them"
        yield WARNINGS["several-labs"].warning(
            f"the study's results come from {len(results.fingerprints)} different kernels, images, agents or "
            f"settings, {where}"
        )


def _untouched(results: StudyResults, cell: CellResults) -> Iterator[ResultWarning]:
    """Structures in which the stacks differ, and whose cost the measured windows did not meet."""
    for part in results.snapshot.untouched.get(CellKey(cell.stack, cell.workload), ()):
        disks = [account for record in cell.records.values() for account in record.disks.values()]
        written = max(
            sum(account.get("write_bytes", 0) for account in record.disks.values())
            for record in cell.records.values()
        )
        was_met = 0 < part.written_bytes_min <= written or any(a.get(part.counter, 0) for a in disks)
        if not was_met:
            yield WARNINGS["too-small-study"].warning(part.text)


def _seeds(cell: CellResults) -> Iterator[ResultWarning]:
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
    yield WARNINGS["few-seeds"].warning(
        text, WANTED=SEEDS_WANTED, SEEDS=", ".join(map(str, range(1, SEEDS_WANTED + 1)))
    )


def _precision(results: StudyResults, cell: CellResults, kind: MetricKind) -> Iterator[ResultWarning]:
    width = results.half_widths(cell.workload).get(cell.stack, 0.0)
    n = len(cell.records)
    target = results.precision
    if width > target:
        reach = f"±{percent(math.expm1(width))}" if math.isfinite(width) else "without an end"
        wanted = math.ceil(n * (width / target) ** 2) if math.isfinite(width) else n + 1
        against = "its ratio to the best stack" if len(results.stacks) > 1 else "its mean"
        yield WARNINGS["not-converged"].warning(
            f"the 95 % interval of {against} reaches {reach} after {n} seeds, and should reach "
            f"±{format_share(target)} ({kind.name})",
            WANTED=f"{max(wanted, n + 1):,}",
            KEY="raise seeds_max" if results.snapshot.precision else f'precision = "{target:.1%}"',
        )
    summary = results.summaries(cell.workload, kind.name).get(cell.stack)
    own = half_width(summary.interval) if summary is not None and summary.interval is not None else 0.0
    if own > _WIDE:
        reach = f"±{percent(math.expm1(own))}" if own < math.log(10) else "more than ten times the value"
        yield WARNINGS["wide-interval"].warning(f"the 95 % interval of {kind.name} reaches {reach}")


def _alike(cell: CellResults, kind: MetricKind) -> Iterator[ResultWarning]:
    series = cell.series(kind.name)
    if series.alike:
        text = f"the seed does not reach {kind.name}: all {len(series.values)} seeds have the same value"
        yield WARNINGS["alike-seeds"].warning(text)


def _outliers(results: StudyResults, cell: CellResults, kind: MetricKind) -> Iterator[ResultWarning]:
    summary = results.summaries(cell.workload, kind.name).get(cell.stack)
    for outlier in summary.outliers if summary is not None else ():
        far = f"{outlier.ratio:.3g} times the median" if outlier.ratio is not None else "the median is 0"
        yield WARNINGS["outlier"].warning(
            f"seed {outlier.seed} is far from the others in {kind.name}: {far}",
            TRIAL=f"{cell.stack}.{cell.workload}.s{outlier.seed}",
        )


def _loops(cell: CellResults, kinds: Sequence[MetricKind]) -> Iterator[ResultWarning]:
    """Open loops that could not keep up, and closed loops, whose percentiles omit requests never sent."""
    records = list(cell.records.values())
    lags = [
        metric
        for metric in records[0].metrics
        if metric.name in {f"{tenant_prefix(metric.tenant)}{lag}" for lag in _LAGS}
    ]
    for lag in lags:
        shares = [_lag_share(record, lag) for record in records]
        behind = [share for share in shares if share > _LAG_SHARE_MAX]
        if behind:
            yield WARNINGS["open-loop-behind"].warning(
                f"{lag.tenant or 'the load'} asked for more than the stack carries in {len(behind)} "
                f"of {len(records)} seeds: up to {percent(max(behind))} of the mean latency is waiting"
            )
    shown = [kind for kind in kinds if kind.quantile is not None]
    if shown and not lags:
        yield WARNINGS["coordinated-omission"].warning(
            f"{shown[0].name} is that of a closed loop: while a request is slow, the requests due "
            "meanwhile are not sent, so that long latencies are counted too rarely"
        )


def _lag_share(record: ResultRecord, kind: Metric) -> float:
    """The mean lag as a share of the mean latency that includes it."""
    lag, prefix = record.metric(kind.name), tenant_prefix(kind.tenant)
    latencies = [record.metric(f"{prefix}{each}latency_ns_mean") for each in ("", "pass_")]
    latency = next((each for each in latencies if each is not None and each.value > 0), None)
    return lag.value / latency.value if lag is not None and latency is not None else 0.0


def _percentiles(cell: CellResults, kinds: Sequence[MetricKind]) -> Iterator[ResultWarning]:
    for kind in kinds:
        series = cell.series(kind.name)
        if series.percentile is None or not series.histograms:
            continue
        values = [*series.values.values()]
        judged = len(values) >= SEEDS_MIN and min(values) > 0
        spread = float(np.std(np.log(values), ddof=1)) if judged else 0.0
        if spread > _SEEDS_APART:
            yield WARNINGS["percentile-interval-too-narrow"].warning(
                f"the seeds' own {kind.name} differ by ±{percent(math.expm1(spread))}: the slowest seeds "
                "decide the merged percentile, and its interval may then cover it in as few as 86 % of cases"
            )
        total = distribution_of(series.histograms).total
        above = total * (100 - series.percentile) / 100
        if above < VALUES_ABOVE_MIN:
            yield WARNINGS["few-values"].warning(
                f"{kind.name} is made of {total:,} values, of which {above:.1f} lie above it: at least "
                f"{VALUES_ABOVE_MIN} should"
            )
