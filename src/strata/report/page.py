# SPDX-License-Identifier: Apache-2.0
"""The report: a study's results as one HTML page.

Results in virtual time give the same bytes wherever and whenever they were measured, because nothing of real
time enters the page.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

from markupsafe import Markup

from strata.errors import ResultError
from strata.report import charts
from strata.report.answer import Answer, answer
from strata.report.doubts import verdict_rows, warnings
from strata.report.palette import PARTS, stack_colours
from strata.report.tables import window_ns
from strata.report.templates import page_style, page_templates
from strata.report.wording import (
    format_value,
    metric_title,
    percent,
    sentence_case,
    significant,
    times,
)
from strata.results.record import COUNTS
from strata.results.snapshot import StudySnapshot
from strata.statistics.comparison import MetricKind
from strata.statistics.level import distribution_of
from strata.statistics.ratio import PRACTICAL_ZONE, Ratio
from strata.statistics.study import StudyResults
from strata.statistics.summary import Summary, percentile_curve
from strata.units import format_duration

_CURVE_TABLE: Final = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)


@dataclass(frozen=True)
class Comparison:
    """A metric's chart and table."""

    title: str
    better: str
    chart: charts.Drawing
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]


@dataclass(frozen=True)
class Figure:
    """A chart with the numbers behind it."""

    chart: charts.Drawing
    columns: tuple[str, ...]
    rows: list[tuple[str, ...]]
    title: str = ""


@dataclass(frozen=True)
class Section:
    """One workload of the report."""

    name: str
    title: str
    stands_for: str
    answer: Answer
    warnings: list[str]
    checks: list[tuple[str, ...]]
    comparisons: list[Comparison]
    latencies: list[Figure]
    disk: Figure | None
    costs: tuple[tuple[str, ...], list[tuple[str, ...]]] | None
    others: list[tuple[str, ...]]


def render(results: StudyResults) -> str:
    """The whole page.

    Raises:
        ResultError: If there is no valid result to report.
    """
    if not results.records:
        raise ResultError(
            "there is no valid result to report",
            place=results.snapshot.name,
            remedy="`strata show RESULTS` says of each trial what is wrong with it",
        )
    environment = page_templates()
    environment.globals.update(times=times, sentence_case=sentence_case, duration=format_duration)
    colours = stack_colours(results.stacks)

    def mark(stack: str) -> Markup:
        return Markup('<b class="stack" style="--stack: var(--{})">{}</b>').format(
            colours[stack].variable, stack
        )

    page = environment.get_template("report.html.j2").render(
        style=page_style(environment),
        study=results.snapshot,
        sections=[_section(results, workload, mark) for workload in results.workloads],
        mark=mark,
        parts=PARTS,
        command=_command(results.snapshot),
        origin=_origin(results),
        zone=f"±{PRACTICAL_ZONE * 100:.0f}\u00a0%",
        trials=[
            {"id": r.trial_id, "problem": r.problem, "usable": r.usable, "record": r.record}
            for r in results.readings
        ],
        plain_hash=lambda record: record.to_plain()["record_sha256"],
    )
    return page.rstrip() + "\n"


def _command(study: StudySnapshot) -> str:
    """The command that reproduces the study, made from what it is.

    Not as it was typed: that holds folders of the machine, which are nobody else's, and would make the
    page differ between two of them.
    """
    if not study.file:
        return ""
    runner = () if study.runner == "lab" else ("--runner", study.runner)
    return shlex.join(["strata", "run", *runner, PurePath(study.file).name])


def _section(results: StudyResults, workload: str, mark: Any) -> Section:
    titles = {choice.name: choice.title for choice in results.snapshot.workloads}
    paragraphs = {choice.name: choice.stands_for for choice in results.snapshot.workloads}
    leading = results.leading(workload)
    return Section(
        name=workload,
        title=titles[workload],
        stands_for=paragraphs[workload],
        answer=answer(results, workload, mark),
        warnings=warnings(results, workload),
        checks=verdict_rows(results, workload),
        comparisons=[_comparison(results, workload, kind) for kind in leading],
        latencies=_latency_figures(results, workload),
        disk=_disk_figure(results, workload),
        costs=_costs(results, workload),
        others=[
            (
                sentence_case(metric_title(kind.name)),
                stack,
                str(each.n),
                _value(each, kind),
                _range(each, kind),
            )
            for kind in results.metrics(workload)
            if kind not in leading
            for stack, each in results.summaries(workload, kind.name).items()
        ],
    )


def _comparison(results: StudyResults, workload: str, kind: MetricKind) -> Comparison:
    title = metric_title(kind.name)
    summaries = results.summaries(workload, kind.name)
    best = results.ranking(workload, kind)[0]
    rows: list[tuple[str, ...]] = []
    for stack, summary in summaries.items():
        ratio = results.ratio(workload, kind.name, stack, best)
        against = "best" if stack == best else _ratio(ratio)
        interval = summary.interval
        ends = _between(interval.low, interval.high, kind.unit) if interval else "–"
        row = (stack, str(summary.n), _value(summary, kind), ends, _range(summary, kind), against)
        rows.append(row)
    method = "mean" if kind.unit == "1/s" or not kind.name.endswith("p99") else "value"
    return Comparison(
        title=sentence_case(title),
        better="more is better" if kind.better == "higher" else "less is better",
        chart=charts.bars(summaries, kind.unit, title, stack_colours(results.stacks)),
        columns=("stack", "n", method, "95 % interval", "seeds from – to", "to best (95 % interval)"),
        rows=rows,
    )


def _value(summary: Summary, kind: MetricKind) -> str:
    return format_value(summary.estimate, kind.unit)


def _range(summary: Summary, kind: MetricKind) -> str:
    return _between(summary.minimum, summary.maximum, kind.unit)


def _between(low: float, high: float, unit: str) -> str:
    first, last = format_value(low, unit), format_value(high, unit)
    if first.split(" ")[-1] == last.split(" ")[-1]:
        first = first.split(" ")[0]
    return f"{first} – {last}"


def _ratio(ratio: Ratio | None) -> str:
    if ratio is None:
        return "–"
    if ratio.interval is None:
        return times(ratio.ratio)
    digits = 3 if ratio.interval.low < 1.995 else 2
    low, high = (significant(end, digits) for end in (ratio.interval.low, ratio.interval.high))
    note = {"even": ", even", "undecided": ", undecided"}.get(ratio.verdict, "")
    return f"{times(ratio.ratio)} ({low} – {high}{note})"


def _latency_figures(results: StudyResults, workload: str) -> list[Figure]:
    """One figure per distribution: the whole one when a workload has it, else each part's."""
    names = [kind.name for kind in results.metrics(workload) if kind.name.endswith("latency_ns_p50")]
    whole = [name for name in names if name == "latency_ns_p50"]
    figures = []
    for name in whole or names:
        title = metric_title(name).removesuffix(", median")
        curves, rows = [], []
        for stack in results.stacks:
            histograms = results.cells[stack, workload].series(name).histograms
            if not histograms:
                continue
            distribution = distribution_of(histograms)
            points = percentile_curve(distribution)
            if points:
                curves.append(charts.Curve(stack, points))
                row = [format_value(value, "ns") for p, value in points if p in _CURVE_TABLE]
                row += ["–"] * (len(_CURVE_TABLE) - len(row))
                rows.append((stack, f"{distribution.total:,}", *row))
        if curves:
            chart = charts.latencies(curves, title, stack_colours(results.stacks))
            columns = ("stack", "values", *(f"{percentile:g} %" for percentile in _CURVE_TABLE))
            figures.append(Figure(chart, columns, rows, sentence_case(title)))
    return figures


def _disk_figure(results: StudyResults, workload: str) -> Figure | None:
    """How the measured window of the modelled disks was spent, per stack over seeds and disks."""
    shares = {}
    for stack in results.stacks:
        spent = [
            parts
            for record in results.cells[stack, workload].records.values()
            for disk in record.disks
            if (parts := window_ns(record, disk)) is not None
        ]
        total = sum(sum(parts.values()) for parts in spent)
        if total:
            shares[stack] = {name: sum(parts.get(name, 0) for parts in spent) / total for name in PARTS}
    if not shares:
        return None
    used = [name for name in PARTS if any(parts[name] for parts in shares.values())]
    shares = {stack: {name: parts[name] for name in used} for stack, parts in shares.items()}
    rows = [(stack, *(percent(share) for share in parts.values())) for stack, parts in shares.items()]
    return Figure(charts.shares(shares, "where the disks' time went"), ("stack", *used), rows)


def _costs(results: StudyResults, workload: str) -> tuple[tuple[str, ...], list[tuple[str, ...]]] | None:
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
    return (
        (COUNTS[name], *("reads", "writes", "flushes", "read", "written", "wait in the disk's queue")),
        rows,
    )


def _origin(results: StudyResults) -> dict[str, Any]:
    """Versions, charges and hashes; several values of one where the results differ in it."""
    records = results.records
    packages: dict[str, list[str]] = {}
    for record in records:
        for name, version in record.versions.packages.items():
            if version not in packages.setdefault(name, []):
                packages[name].append(version)
    fingerprints = list(dict.fromkeys(record.fingerprint for record in records))
    charges = list(dict.fromkeys(record.charges for record in records))
    wall = results.snapshot.time_domain == "wall"
    return {
        "kernels": list(dict.fromkeys(record.versions.kernel for record in records)),
        "strata": list(dict.fromkeys(record.versions.strata for record in records)),
        "agents": list(dict.fromkeys(record.versions.agent for record in records)),
        "packages": {name: ", ".join(packages[name]) for name in sorted(packages)},
        "fingerprints": fingerprints,
        "charges": charges,
        "hosts": sorted({record.real_time.host for record in records}) if wall else [],
        "started": min(record.real_time.started_at for record in records) if wall else "",
        "valid": len(records),
        "trials": len(results.readings),
    }
