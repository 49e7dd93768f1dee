# SPDX-License-Identifier: Apache-2.0
"""The tables of a study's results, for `strata query`, `strata export` and ``--json``, declared once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

from strata.advice.asked import answer_of
from strata.advice.model import Advice
from strata.errors import ResultError
from strata.model.matrix import Factor
from strata.report.advice_text import lead
from strata.report.answer import objections
from strata.report.effects import effects_views
from strata.report.survival import survival_tables
from strata.report.table import Column, Table, objects
from strata.report.wording import picked
from strata.results.capabilities import Capabilities
from strata.results.counts import every_metric
from strata.results.events import Sample, read_events
from strata.results.record import StudySnapshot
from strata.results.store import Reading
from strata.statistics.comparison import Comparison, MetricKind
from strata.statistics.interval import Interval
from strata.statistics.study import StudyResults
from strata.statistics.summary import MetricSummary

Row = tuple[Any, ...]
_Rows = Callable[[StudyResults, Advice | None], Iterable[Row]]
_STUDY: Final = Column("study", meaning="the study's name")
_STACK: Final = Column("stack", meaning="the stack's name in the study")
_WORKLOAD: Final = Column("workload", meaning="the workload's name in the study")
_TRIAL: Final = (
    _STUDY,
    Column("trial", meaning="the trial's id: stack.workload.sSEED"),
    _STACK,
    _WORKLOAD,
    Column("seed", "count", meaning="the trial's seed"),
)
_VALID: Final = Column("valid", "truth", meaning="whether the trial's numbers may be used")
_METRIC: Final = (
    Column("metric", meaning="the metric's name, its unit in it; the counts per operation, too"),
    Column("unit", meaning="1/s, ns, B/s, B or 1: of every number of the row that is no ratio"),
    Column("better", meaning="higher or lower"),
    Column("headline", "truth", meaning="whether a report shows it first"),
)


@dataclass(frozen=True)
class DataTable:
    """A table of a study's results; ``rows`` makes its rows, a value for each column.

    Attributes:
        about: What a row is of.
        is_exported: Whether exports and ``--json`` have it; ``strata query`` has all.
    """

    about: str
    columns: tuple[Column, ...]
    rows: _Rows
    is_exported: bool = True

    def columns_of(self, snapshot: StudySnapshot) -> tuple[Column, ...]:
        """The columns, and one for each factor of the study's matrix."""
        names = {each.key for each in self.columns}
        return (*self.columns, *(_factor(each, names) for each in snapshot.matrix.factors.values()))

    def of(self, results: StudyResults, asked: Advice | None = None) -> Table:
        """The table of these results; ``asked`` is the answer to what the study asks."""
        return self.made(results, self.rows(results, asked))

    def made(self, results: StudyResults, rows: Iterable[Row]) -> Table:
        """The table of these rows, with the level of each factor; empty where one does not concern a row."""
        snapshot, names = results.snapshot, [each.key for each in self.columns]
        if not (factors := snapshot.matrix.factors):
            return Table(self.columns, [*rows])
        cells = {str(key): key.cell for key in snapshot.trials}  # of a probe the workload has another name
        complete = []
        for row in rows:
            named = dict(zip(names, row, strict=True))
            cell = cells[named["trial"]] if "trial" in named else (named["stack"], named["workload"])
            levels = snapshot.matrix.levels_of(*cell)
            complete.append((*row, *(_level(each, levels.get(name)) for name, each in factors.items())))
        return Table(self.columns_of(snapshot), complete)


def _level(factor: Factor, name: str | None) -> float | str | None:
    if name is None:
        return None
    level = factor.level(name)
    return level.number if factor.is_number else level.text


def _factor(factor: Factor, names: Collection[str]) -> Column:
    key = factor.name.replace("-", "_")
    unit = f", in {factor.unit}" if factor.unit not in {None, "", "1"} else ""
    return Column(
        f"factor_{key}" if key in names else key,
        "1" if factor.is_number else "text",
        meaning=f"the level of the matrix's factor {factor.name}{unit}; empty where it does not matter",
    )


def _of_readings(rows: Callable[[Reading], Iterable[Row]]) -> _Rows:
    """A table's rows, made trial by trial, each behind the trial's names."""

    def made(results: StudyResults, _: Advice | None) -> Iterator[Row]:
        for reading in results.readings:
            key = reading.trial
            head = (results.snapshot.name, reading.trial_id, key.stack, key.named_workload, key.seed)
            yield from ((*head, *row) for row in rows(reading))

    return made


def _trial_rows(reading: Reading) -> Iterator[Row]:
    record, attempt = reading.record, reading.attempt
    attempts = (attempt.number if attempt else None, reading.attempts, reading.incomplete)
    head = (*attempts, reading.usable, reading.problem or None)
    if record is None:
        yield (*head, *(None,) * 9)
        return
    window_ns, real = record.phases_ns.get("measure"), record.real_time
    times = (window_ns, real.started_at, real.duration_s, real.virtual_per_real)
    hashes = (record.versions.kernel, record.spec_sha256, reading.record_sha256)
    yield (*head, record.time_domain, record.runner, *times, *hashes)


def _metric_rows(reading: Reading) -> Iterator[Row]:
    for metric in every_metric(reading.record) if reading.record else ():
        kind = (metric.name, metric.unit, metric.better, metric.headline)
        yield (*kind, metric.phase, metric.value, reading.usable)


def _check_rows(reading: Reading) -> Iterator[Row]:
    for check in reading.record.checks if reading.record else ():
        yield (check.name, check.tenant, check.verdict, check.required, check.detail)


def _account_rows(reading: Reading) -> Iterator[Row]:
    for disk, account in (reading.record.disks if reading.record else {}).items():
        yield from ((disk, name, value) for name, value in account.items())


def _sample_rows(reading: Reading) -> Iterator[Row]:
    samples: Sequence[Sample] = ()
    # The record counts; a result whose events were damaged later merely has no samples.
    with suppress(ResultError):
        samples = read_events(reading.attempt.events_path).samples if reading.attempt else ()
    for sample in samples:
        head = (sample.monotonic_ns, sample.at, sample.step)
        for source, values in {**sample.disks, "memory": sample.memory, "cpu": sample.cpu}.items():
            yield from ((*head, source, name, value) for name, value in values.items())


def _cell_rows(results: StudyResults, asked: Advice | None, names: Sequence[str] = ()) -> Iterator[Row]:
    """By workload, headlines first, best stack first."""
    out = objections(asked)
    for workload in results.workloads:
        codes = {
            stack: " ".join(dict.fromkeys(each.code for each in results.warnings(stack, workload))) or None
            for stack in results.stacks
        }
        for kind in [kind for kind in results.kinds(workload) if not names or kind.name in names]:
            ranking, summaries = results.ranking(workload, kind), results.summaries(workload, kind.name)
            best = ranking[0] if ranking else None
            found = results.against(best, {workload: [kind]}) if best is not None else []
            against = {each.stack: each for each in found}
            for stack in dict.fromkeys([*ranking, *summaries]):
                head = (results.snapshot.name, workload, stack, *_kind(kind).values())
                to_best = (1.0, 1.0, 1.0, "best") if stack == best else _ratio(against.get(stack))
                if stack not in ranking:
                    to_best = (None, None, None, "not ranked")
                yield (*head, *_summary(summaries[stack]), best, *to_best, out.get(stack), codes[stack])


def _kind(kind: MetricKind) -> dict[str, Any]:
    return {"metric": kind.name, **picked(kind, "unit", "better", "headline")}


def _ends(interval: Interval | None) -> tuple[float | None, float | None]:
    return (interval.low, interval.high) if interval else (None, None)


def _summary(summary: MetricSummary) -> Row:
    ends = (*_ends(summary.interval), *_ends(summary.prediction))
    return (summary.n, summary.estimate, summary.method, *ends, summary.minimum, summary.maximum)


def _ratio(comparison: Comparison | None) -> Row:
    if comparison is None:
        return (None,) * 4
    return (comparison.ratio.ratio, *_ends(comparison.ratio.interval), comparison.verdict)


TABLES: Final[Mapping[str, DataTable]] = {
    "trials": DataTable(
        "a trial, whether it has a result or not",
        (
            *_TRIAL,
            Column("attempt", "count", meaning="which attempt the row is from"),
            Column("attempts", "count", meaning="how many were begun"),
            Column("incomplete", "count", meaning="how many of them have no result"),
            _VALID,
            Column("problem", meaning="why not, or why there is no result; empty otherwise"),
            Column("time_domain", meaning="virtual or wall; the two are never compared"),
            Column("runner", meaning="what carried it out"),
            Column("measure_ns", "count", meaning="length of the measured window"),
            Column("started_at", meaning="when it began, in UTC"),
            Column("real_duration_s", "1", meaning="real seconds it took"),
            Column("virtual_per_real", "1", meaning="virtual seconds per real second"),
            Column("kernel", meaning="kernel release"),
            Column("spec_sha256", meaning="hash of the plan and the devices' parameters"),
            Column("record_sha256", meaning="hash of the result without real time"),
        ),
        _of_readings(_trial_rows),
    ),
    "metrics": DataTable(
        "a metric of a trial",
        (
            *_TRIAL,
            *_METRIC,
            Column("phase", meaning="the phase that it is of"),
            Column("value", "1", meaning="in the unit"),
            _VALID,
        ),
        _of_readings(_metric_rows),
    ),
    "cells": DataTable(
        "a metric of a stack under a workload, over the seeds",
        (
            *(_STUDY, _WORKLOAD, _STACK),
            *_METRIC,
            Column("n", "count", meaning="valid trials, one per seed"),
            Column("estimate", "1", meaning="over the seeds, by the method"),
            Column("method", meaning="geometric or arithmetic mean, or percentile of the merged histogram"),
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
                meaning="against the best: equal, worse, undecided, marginal, doubtful, too few seeds, "
                "not ranked; best itself",
            ),
            Column("ruled_out", meaning="why the study's requirements rule it out; empty: they do not"),
            Column("warnings", meaning="codes of the reasons to doubt the numbers, with spaces between"),
        ),
        _cell_rows,
    ),
    "checks": DataTable(
        "a question about a trial's numbers",
        (
            *_TRIAL,
            Column("name", meaning="the question in kebab case"),
            Column("tenant", meaning="the tenant whose numbers they are; empty: all"),
            Column("verdict", meaning="yes, no or unknown"),
            Column("required", "truth", meaning="whether a no makes the result invalid"),
            Column("detail", meaning="the reason, with figures"),
        ),
        _of_readings(_check_rows),
    ),
    "disk_accounts": DataTable(
        "a counter of a trial's disk",
        (
            *_TRIAL,
            Column("disk", meaning="the disk's name in the study"),
            Column("name", meaning="the counter, unit last"),
            Column("value", "count", meaning="change over the measured window"),
        ),
        _of_readings(_account_rows),
    ),
    "samples": DataTable(
        "a reading of a trial's monitor",
        (
            *_TRIAL,
            Column("monotonic_ns", "count", meaning="time of the sample"),
            Column("moment", meaning="interval, step_start or step_end"),
            Column("step", meaning="the step that started or ended"),
            Column("source", meaning="disk name, memory or cpu"),
            Column("name", meaning="the reading, unit last"),
            Column("value", "count", meaning="as read; counters are cumulative"),
        ),
        _of_readings(_sample_rows),
        is_exported=False,
    ),
}


def cells_table(results: StudyResults, names: Sequence[str] = (), *, asked: Advice | None = None) -> Table:
    """The cells of these metrics, by default of all; ``asked`` is the answer to what the study asks."""
    return TABLES["cells"].made(results, _cell_rows(results, asked, names))


def trial_metrics(study: str, reading: Reading) -> Table:
    """The metrics of one trial."""
    key = reading.trial
    head = (study, reading.trial_id, key.stack, key.named_workload, key.seed)
    return Table(TABLES["metrics"].columns, [(*head, *row) for row in _metric_rows(reading)])


def study_data(
    results: StudyResults, capabilities: Capabilities | None = None, names: Sequence[str] = ()
) -> dict[str, Any]:
    """A study for ``--json`` and the export's study.json: the answer to what it asks, and its tables.

    ``names`` are the metrics of its cells, by default all.
    """
    snapshot, asked = results.snapshot, answer_of(results, capabilities)
    exported = {name: table for name, table in TABLES.items() if table.is_exported}
    tables = {name: table.of(results, asked) for name, table in exported.items() if name != "cells"}
    tables["cells"] = cells_table(results, names, asked=asked)
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
        **{name: objects(table) for name, table in tables.items()},
        "columns": {
            name: {column.key: column.meaning for column in table.columns} for name, table in tables.items()
        },
        "effects": effects_views(results),
        "searches": results.searches,
        "survival": {table.name: objects(table) for table in survival_tables(capabilities, results)},
    }


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
