# SPDX-License-Identifier: Apache-2.0
"""A study's results as tables in a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from strata.report.precision import added_words, not_converged_words, seeds_words
from strata.report.figures import window_ns
from strata.report.selection import chosen_metrics
from strata.report.warnings import check_lines
from strata.report.wording import metric_title
from strata.results.record import TIME_PARTS, ResultRecord, SamplesSummary
from strata.results.store import Reading
from strata.spec.trial import CellKey
from strata.spec.warning import ResultWarning
from strata.statistics.comparison import MetricKind
from strata.statistics.study import StudyResults
from strata.statistics.warnings import check_warnings
from strata.units import format_duration, format_size, format_value, percent, scale_for, times
from strata.words import sentence_case

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def study_view(results: StudyResults, metrics: Sequence[str] = ()) -> RenderableType:
    """A table of stacks per workload, then what the numbers cost and which are missing."""
    notes = _Notes(results)
    parts: list[RenderableType] = [Text(results.snapshot.question, style="bold"), Text()]
    for workload in results.workloads:
        parts += [_workload_tables(results, workload, metrics, notes), Text()]
    parts.append(_cost_line(results))
    for said, style in (
        (added_words(results.snapshot), "dim"),
        (not_converged_words(results.snapshot), "yellow"),
    ):
        parts += [Text(said, style=style)] if said else []
    parts += notes.lines()
    return Group(*parts)


class _Notes:
    """Numbered footnotes, in the order of their first mention."""

    def __init__(self, results: StudyResults) -> None:
        self._results = results
        self._texts: list[str] = []
        self._common: dict[str, Counter[str]] = {}

    def mark(self, text: str) -> str:
        if text not in self._texts:
            self._texts.append(text)
        return str(self._texts.index(text) + 1).translate(_SUPERSCRIPTS)

    def warned(self, warning: ResultWarning) -> str:
        """The mark of a warning; one of several stacks alike, as of the data's size, is one note."""
        workload = warning.workload
        if workload not in self._common:
            stacks = self._results.stacks
            self._common[workload] = Counter(
                each.text for stack in stacks for each in _denials(self._results, stack, workload)
            )
        alike = not warning.grave and self._common[workload][warning.text] > 1
        return self.mark(f"{workload if alike else f'{warning.stack} under {workload}'}: {warning.text}")

    def lines(self) -> Iterator[RenderableType]:
        for number, text in enumerate(self._texts, start=1):
            mark = str(number).translate(_SUPERSCRIPTS)
            yield Text.assemble((f"{mark} ", "yellow"), (text, "dim"))


def _workload_tables(
    results: StudyResults, workload: str, metrics: Sequence[str], notes: _Notes
) -> RenderableType:
    """One small table per metric: side by side, three of them do not fit into 80 columns."""
    kinds = chosen_metrics(results, workload, metrics)
    titles = {choice.name: choice.title for choice in results.snapshot.workloads}
    parts: list[RenderableType] = [Text.assemble((workload, "bold cyan"), (f"  {titles[workload]}", "dim"))]
    # The tables of a workload stand in line with each other.
    width = min(44, max(len(each) for each in (*map(_heading, kinds), *results.stacks)))
    for kind in kinds:
        table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
        table.add_column(_heading(kind), min_width=width, overflow="fold")
        for name, width_min in (("", 10), ("spread", 7), ("to best", 7)):
            table.add_column(name, justify="right", no_wrap=True, min_width=width_min)
        table.add_column("n", overflow="fold")
        _add_stacks(table, results, workload, kind, notes)
        parts.append(Padding(table, (0, 0, 0, 2)))
    if not kinds:
        parts.append(Text("  no valid result yet", style="yellow"))
        for stack in results.stacks:
            parts.append(Text.assemble(f"  {stack} ", _count(results, stack, workload, notes)))
    return Group(*parts)


def _heading(kind: MetricKind) -> str:
    return f"{metric_title(kind.name)} {'↑' if kind.better == 'higher' else '↓'}"


def _add_stacks(table: Table, results: StudyResults, workload: str, kind: MetricKind, notes: _Notes) -> None:
    summaries = results.summaries(workload, kind.name)
    ranking = results.ranking(workload, kind)
    for stack in results.stacks:
        count = _count(results, stack, workload, notes)
        if stack not in summaries:
            table.add_row(stack, Text("–", style="dim"), "", "", count)
            continue
        summary = summaries[stack]
        ratio = results.ratio(workload, kind.name, stack, ranking[0])
        best = stack == ranking[0]
        table.add_row(
            stack,
            Text(format_value(summary.estimate, kind.unit), style="bold green" if best else ""),
            Text(f"±{percent(summary.spread)}" if summary.n > 1 else "", style="dim"),
            "best" if best else times(ratio.ratio) if ratio else "",
            count,
        )


def _count(results: StudyResults, stack: str, workload: str, notes: _Notes) -> Text:
    wanted = len(results.snapshot.seeds_of(workload))
    if why := results.snapshot.skipped.get(CellKey(stack, workload)):
        return Text(f"skipped {notes.mark(f'{stack} under {workload}: {why}')}", style="yellow")
    n = len(results.cells[stack, workload].records)
    marks = [notes.mark(text) for text in _missing(results, stack, workload)]
    marks += [notes.warned(each) for each in _denials(results, stack, workload)]
    count = Text(str(n) if n == wanted else f"{n} of {wanted}", style="" if n == wanted else "yellow")
    return count.append(" " + " ".join(marks) if marks else "", style="yellow")


def _denials(results: StudyResults, stack: str, workload: str) -> list[ResultWarning]:
    """The warnings of checks that say "no"; those that cannot tell say nothing against the numbers."""
    return [each for each in check_warnings(results.cells[stack, workload]) if each.denial]


def _missing(results: StudyResults, stack: str, workload: str) -> Iterator[str]:
    """Which of a cell's trials have no valid result, and why, a line each."""
    left: dict[str, list[int]] = {}
    for reading in results.readings:
        if reading.trial.cell != (stack, workload) or not reading.problem:
            continue
        if reading.attempts:
            yield f"{reading.trial_id}: {reading.problem}"
        else:
            left.setdefault(reading.problem, []).append(reading.trial.seed)
    # What is merely left to be run is one note for all stacks.
    for problem, seeds in left.items():
        yield f"{workload}, seed{'s' if len(seeds) > 1 else ''} {seeds_words(seeds)}: {problem}"


def _cost_line(results: StudyResults) -> Text:
    records = results.records
    line = Text(f"{len(records)} of {len(results.readings)} trials are valid", style="dim")
    real_s = sum(record.real_time.duration_s for record in records)
    if not records:
        return line
    line.append(f" · {format_duration(real_s * 1e9)} of real time")
    virtual_s = sum((r.real_time.virtual_per_real or 0) * r.real_time.duration_s for r in records)
    if virtual_s:
        line.append(f" for {format_duration(virtual_s * 1e9)} of virtual time ({times(virtual_s / real_s)})")
    labs = {record.fingerprint for record in records}
    if len(labs) > 1:
        line.append(
            f" · measured in {len(labs)} different labs: `strata run --fresh` makes them alike", "yellow"
        )
    line.append(
        "\nvalues: geometric means over seeds, percentiles of merged histograms; spread: half of max − min"
    )
    return line


def trial_view(reading: Reading) -> RenderableType:
    """Everything about one trial that a person may ask first."""
    record = reading.record
    head = Text.assemble((reading.trial_id, "bold"), (f"  {reading.attempts} attempt(s)", "dim"))
    if reading.attempt is not None:
        head.append(f", this is {reading.attempt.path.name}", style="dim")
    parts: list[RenderableType] = [head]
    if record is None:
        parts.append(Text(f"no result: {reading.problem}", style="yellow"))
        return Group(*parts)
    if record.validity.valid:
        parts.append(Text("valid", style="green"))
    parts += [Text(f"not valid: {reason}", style="red") for reason in record.validity.reasons]
    if record.checks:
        parts += [Text(), _checks(record)]
    parts += [Text(), _metrics_table(record)]
    for disk in record.disks:
        parts += [Text(), _disk_table(record, disk)]
    if record.samples.available_bytes_min is not None:
        parts += [Text(), _samples_table(record.samples)]
    parts += [Text(), _origin_table(record)]
    return Group(*parts)


def _plain_table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right")
    return table


def _checks(record: ResultRecord) -> RenderableType:
    """Each check with its answer, and below it why."""
    styles = {"yes": "green", "no": "yellow", "unknown": "dim"}
    lines: list[RenderableType] = [Text("checks", "dim")]
    for question, verdict, why in check_lines(record):
        lines.append(Text.assemble((f"{verdict:<8}", styles[verdict]), question))
        lines.append(Padding(Text(why, "dim"), (0, 0, 0, 8)))
    return Group(*lines)


def _metrics_table(record: ResultRecord) -> Table:
    table = _plain_table("metric", "value", "better", "phase")
    for each in record.metrics:
        style = "bold" if each.headline else ""
        table.add_row(
            Text(sentence_case(metric_title(each.name)), style=style),
            Text(format_value(each.value, each.unit), style=style),
            each.better,
            each.phase,
        )
    return table


def _disk_table(record: ResultRecord, disk: str) -> RenderableType:
    account = record.disks[disk]
    length_ns = record.phases_ns.get("measure", 0)
    requests = account.get("reads", 0) + account.get("writes", 0)
    heading = Text.assemble((disk, "bold cyan"), "  over the measuring step ")
    heading.append(
        f"of {format_duration(length_ns)}: {account.get('reads', 0):,} reads "
        f"({format_size(account.get('read_bytes', 0))}), {account.get('writes', 0):,} writes "
        f"({format_size(account.get('write_bytes', 0))}), {account.get('flushes', 0):,} flushes",
        style="dim",
    )
    table = _plain_table("where its time went", "in all", "per request")
    window = window_ns(record, disk)
    if window is not None:
        for name, spent_ns in window.items():
            table.add_row(f"window: {name}", percent(spent_ns / length_ns), "")
    for key in TIME_PARTS:
        if account.get(key):
            each = format_value(account[key] / requests, "ns") if requests else ""
            table.add_row(f"requests: {key.removesuffix('_ns')}", format_duration(account[key]), each)
    if "busy_ns" in account and window is None and length_ns:
        table.add_row("busy", percent(account["busy_ns"] / length_ns), "")
    return Group(heading, Padding(table, (0, 0, 0, 2)))


def _samples_table(samples: SamplesSummary) -> RenderableType:
    """The memory's extremes and the processors' time."""
    table = _plain_table("memory and processors", "")
    table.add_row("page cache, most", format_size(samples.cached_bytes_max))
    table.add_row("waiting to be written, most", format_size(samples.dirty_bytes_max))
    table.add_row("being written, most", format_size(samples.writeback_bytes_max))
    if samples.available_bytes_min is not None:
        table.add_row("left for programs, least", format_size(samples.available_bytes_min))
    for kind, spent_ns in samples.cpu_ns.items():
        table.add_row(f"processor time: {kind}", format_value(spent_ns, "ns"))
    return table


def _origin_table(record: ResultRecord) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    real = record.real_time
    ratio = real.virtual_per_real
    scale = scale_for("ns", real.duration_s * 1e9)
    took = f"{scale.format(real.duration_s * 1e9)} {scale.label} on {real.host or 'this machine'}"
    phases = ", ".join(f"{phase} {format_duration(ns)}" for phase, ns in record.phases_ns.items())
    lines = {
        "phases": phases,
        "time": record.time_domain + (f", {times(ratio)} as fast as real" if ratio else ""),
        "real time": f"{took}, started {real.started_at}",
        "kernel": record.versions.kernel,
        "strata": f"{record.versions.strata}, agent {record.versions.agent}, runner {record.runner}",
        "packages": _packages(record),
        "charges": _charges(record),
        "spec": record.spec_sha256,
        "record": str(record.to_plain()["record_sha256"]),
    }
    for name, text in lines.items():
        if text:
            table.add_row(Text(name, style="dim"), escape(text))
    return table


def _charges(record: ResultRecord) -> str:
    if record.time_domain == "wall":
        return ""
    charges = record.charges
    parts = f"{charges.syscall_ns} ns per system call, {charges.clock_read_ns} ns per clock read"
    parts += f", {charges.yield_ns} ns per yield"
    if charges.reclaim_ns:
        parts += f", {charges.reclaim_ns} ns per page looked at in reclaim"
    return f"{parts}; other processor time is free"


def _packages(record: ResultRecord) -> str:
    packages = record.versions.packages
    if len(packages) > 12:
        return f"{len(packages)}; --json lists them"
    return ", ".join(f"{name} {version}" for name, version in sorted(packages.items()))
