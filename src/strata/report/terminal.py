# SPDX-License-Identifier: Apache-2.0
"""A study's results as tables in a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.text import Text

from strata.advice.model import Advice
from strata.model.metric import metric_title
from strata.model.trial import CellKey
from strata.model.warning import ResultWarning
from strata.report.advice_tables import answer_text
from strata.report.answer import Standing, chosen_metrics, objections, standings
from strata.report.costs import counts_table
from strata.report.effects import effects_views
from strata.report.figures import window_ns
from strata.report.knee import search_table, searches_of
from strata.report.origin import added_words, not_converged_words, seeds_words
from strata.report.spans import Tone, as_rich
from strata.report.table import Cell, Column, Table, columns, facts, terminal
from strata.report.warnings import check_lines
from strata.report.wording import ARROWS, SIGNS, gain_cells
from strata.results.counts import every_metric
from strata.results.record import ProcessorUse, ResultRecord, SamplesSummary
from strata.results.store import Reading
from strata.statistics.study import StudyResults
from strata.statistics.warnings import check_warnings
from strata.traces.kinds import TIME_PARTS
from strata.units import NS_PER_S, format_duration, format_size, format_value, percent, times
from strata.words import sentence_case

_SUPERSCRIPTS = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def study_view(
    results: StudyResults,
    metrics: Sequence[str] = (),
    asked: Advice | None = None,
    *,
    counts: bool = False,
) -> RenderableType:
    """A study's results; ``asked`` is the answer to what it asks, with which they begin."""
    notes = _Notes(results, objections(asked))
    parts: list[RenderableType] = [Text(results.snapshot.question, style="bold")]
    parts += [Text(), *([as_rich(answer_text(asked)), Text()] if asked is not None else [])]
    for workload in results.workloads:
        parts += [*_workload_tables(results, workload, metrics, notes), Text()]
        if counts:
            parts += [terminal(counts_table(results, workload), indent=2), Text()]
    for view in effects_views(results):
        parts += [terminal(each, indent=2) for each in (view.effects, view.interactions) if each.rows]
        parts.append(Text())
    lines = (
        (cost_line(results), "dim"),
        (_LEGEND, "dim"),
        (_labs_words(results), "yellow"),
        (added_words(results.snapshot), "dim"),
        (not_converged_words(results.snapshot), "yellow"),
    )
    return Group(*parts, *(Text(line, style) for line, style in lines if line), *notes.lines())


_LEGEND: Final = (
    "values: geometric means over seeds, percentiles of merged histograms; spread: half of max − min\n"
    "to best: times as good, the 95 % interval, and ▲ better, = equal within ±3 %, ▼ worse, ≈ marginal, "
    "? undecided, ! doubtful, · too few seeds, ∅ not ranked"
)


class _Notes:
    """Numbered footnotes, in the order of their first mention."""

    def __init__(self, results: StudyResults, against: Mapping[str, str]) -> None:
        self._results = results
        self._against = against
        self._texts: list[tuple[str, str]] = []
        self._common: dict[str, Counter[str]] = {}

    def mark(self, text: str, remedy: str = "") -> str:
        if (text, remedy) not in self._texts:
            self._texts.append((text, remedy))
        return _superscript(self._texts.index((text, remedy)) + 1)

    def warned(self, warning: ResultWarning) -> str:
        """The mark of a warning; stacks with the same warning share a note."""
        workload = warning.workload
        if workload not in self._common:
            stacks = self._results.stacks
            self._common[workload] = Counter(
                each.text for stack in stacks for each in _denials(self._results, stack, workload)
            )
        alike = not warning.grave and self._common[workload][warning.text] > 1
        place = workload if alike else f"{warning.stack} under {workload}"
        return self.mark(f"{place}: {warning.text}", warning.remedy)

    def objected(self, stack: str) -> str:
        """The mark of what speaks against a stack; empty: nothing does."""
        said = self._against.get(stack)
        return "" if said is None else " " + self.mark(f"{stack} is {said}")

    def lines(self) -> Iterator[RenderableType]:
        """Each note on lines of its own: the cause, then the remedy."""
        for number, (text, remedy) in enumerate(self._texts, start=1):
            yield Text.assemble((f"{_superscript(number)} ", "yellow"), text)
            if remedy:
                yield Padding(Text(sentence_case(remedy), "dim"), (0, 0, 0, 4))


def _superscript(number: int) -> str:
    return str(number).translate(_SUPERSCRIPTS)


def _workload_tables(
    results: StudyResults, workload: str, metrics: Sequence[str], notes: _Notes
) -> Iterator[RenderableType]:
    """One small table per metric: side by side, three of them do not fit into 80 columns."""
    kinds = chosen_metrics(results, workload, metrics)
    titles = {choice.name: choice.title for choice in results.snapshot.workloads}
    yield Text.assemble((workload, "bold cyan"), (f"  {titles[workload]}", "dim"))
    # The tables of a workload are aligned with one another.
    width = min(30, max(len(each) for each in (*map(metric_title, kinds), *results.stacks)))
    for standing in standings(results, workload, kinds):
        yield terminal(_standing_table(results, workload, standing, notes, width), indent=2)
    if searches_of(results, workload):
        yield terminal(search_table(results, workload), indent=2)
    if not kinds:
        yield Text("  no valid result yet", style="yellow")
        for stack in results.stacks:
            yield Text.assemble(f"  {stack} ", _count(results, stack, workload, notes))


def _standing_table(
    results: StudyResults, workload: str, standing: Standing, notes: _Notes, width: int
) -> Table:
    kind = standing.kind
    summaries = results.summaries(workload, kind.name)
    against = {each.stack: each for each in standing.others}
    rows: list[tuple[Any, ...]] = []
    for stack in results.stacks:
        count, comparison = _count(results, stack, workload, notes), against.get(stack)
        value: Cell | None = None
        spread, to_best = "", ""
        ends: str | None = ""
        if summary := summaries.get(stack):
            value = Cell(summary.estimate, tone="best" if stack == standing.best else "")
            spread = f"±{percent(summary.spread)}" if summary.n > 1 else ""
        if stack == standing.best:
            to_best = f"{_best_sign(standing)} best".strip()
        elif results.unranked(stack, workload):
            to_best = f"{SIGNS['not ranked']} not ranked" if summary else ""
        elif comparison is not None:
            gain, ends = gain_cells(comparison)
            to_best = f"{SIGNS[comparison.verdict]} {times(gain)}"
        rows.append((stack, value, spread, to_best + (notes.objected(stack) if value else ""), ends, count))
    columns = (
        Column(metric_title(kind), "stack", width=width),
        Column(ARROWS[kind.better], kind.unit, width=7),
        Column("spread", "figure", width=6, tone="dim"),
        Column("to best", "figure", width=8),
        Column("95 %", "figure", width=11, tone="dim"),
        Column("n", is_whole=True),
    )
    return Table(columns, rows)


def _best_sign(standing: Standing) -> str:
    """The sign of the best stack's most doubtful rival."""
    verdicts = {each.verdict for each in standing.others}
    for verdict in ("too few seeds", "doubtful", "undecided", "marginal", "equal"):
        if verdict in verdicts:
            return SIGNS[verdict]
    return SIGNS["better"] if verdicts else ""


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
    """The warnings of failed checks; an undecided check says nothing against the numbers."""
    return [each for each in check_warnings(results.cells[stack, workload]) if each.denial]


def _missing(results: StudyResults, stack: str, workload: str) -> Iterator[str]:
    """A line for each trial of a cell without a valid result, with the reason."""
    left: dict[str, list[int]] = {}
    for reading in results.readings_of(stack, workload):
        if not reading.problem:
            continue
        if reading.attempts:
            yield f"{reading.trial_id}: {reading.problem}"
        else:
            left.setdefault(reading.problem, []).append(reading.trial.seed)
    # Trials that are left to run share a note for all stacks.
    for problem, seeds in left.items():
        yield f"{workload}, seed{'s' if len(seeds) > 1 else ''} {seeds_words(seeds)}: {problem}"


def cost_line(results: StudyResults) -> str:
    """How many trials are valid, and the real and virtual time that they took."""
    records = results.records
    line = f"{len(records)} of {len(results.readings)} trials are valid"
    if not records:
        return line
    real_s = sum(record.real_time.duration_s for record in records)
    line += f" · {format_duration(real_s * NS_PER_S)} of real time"
    virtual_s = sum((r.real_time.virtual_per_real or 0) * r.real_time.duration_s for r in records)
    if not virtual_s:
        return line
    return f"{line} for {format_duration(virtual_s * NS_PER_S)} of virtual time ({times(virtual_s / real_s)})"


def _labs_words(results: StudyResults) -> str:
    count = len(results.fingerprints)
    return f"measured in {count} different labs: `strata run --fresh` makes them alike" if count > 1 else ""


def trial_view(reading: Reading) -> RenderableType:
    record = reading.record
    head = Text.assemble((reading.trial_id, "bold"), (f"  {reading.attempts} attempt(s)", "dim"))
    if reading.attempt is not None:
        head.append(f", this is {reading.attempt.path.name}", style="dim")
    if record is None:
        return Group(head, Text(f"no result: {reading.problem}", style="yellow"))
    parts: list[RenderableType] = [head, *([Text("valid", style="green")] if record.validity.valid else [])]
    parts += [Text(f"not valid: {reason}", style="red") for reason in record.validity.reasons]
    if record.checks:
        parts += [Text(), _checks(record)]
    tables = [metrics_table(record), *(_disk_table(record, disk) for disk in record.disks)]
    operations = record.operations()
    if record.processor is not None:
        tables.append(processor_table(record.processor, operations.value if operations else 0.0))
    if record.samples.available_bytes_min is not None:
        tables.append(_samples_table(record.samples))
    drawn_models = {**record.drives, **_drawn_processor(record)}
    tables += [_drive_table(model, drawn) for model, drawn in drawn_models.items()]
    for table in (*tables, _origin_table(record)):
        parts += [Text(), terminal(table, indent=2 if table.title else 0)]
    return Group(*parts)


def _drive_table(model: str, drawn: Mapping[str, float]) -> Table:
    rows = [(name, f"{value:g}") for name, value in drawn.items()]
    note = "drawn for this seed from the ranges; `strata list devices` and `list processors` have the units"
    return Table(columns("parameter", ("drawn", "figure")), rows, model, note)


def _drawn_processor(record: ResultRecord) -> Mapping[str, Mapping[str, float]]:
    used = record.processor
    return {used.name: used.drawn} if used is not None and used.drawn else {}


def _checks(record: ResultRecord) -> RenderableType:
    styles = {"yes": "green", "no": "yellow", "unknown": "dim"}
    lines: list[RenderableType] = [Text("checks", "dim")]
    for question, verdict, why in check_lines(record):
        lines.append(Text.assemble((f"{verdict:<8}", styles[verdict]), question))
        lines.append(Padding(Text(why, "dim"), (0, 0, 0, 8)))
    return Group(*lines)


def metrics_table(record: ResultRecord) -> Table:
    rows: list[tuple[Any, ...]] = []
    for each in every_metric(record):
        tone: Tone = "strong" if each.headline else ""
        title = Cell(sentence_case(metric_title(each)), tone=tone)
        rows.append((title, Cell(each.value, each.unit, tone), each.better, each.phase))
    return Table(columns("metric", ("value", "1"), ("better", "figure"), ("phase", "figure")), rows)


def _disk_table(record: ResultRecord, disk: str) -> Table:
    account = record.disks[disk]
    length_ns = record.phases_ns.get("measure", 0)
    count = Counter(account)
    requests = count["reads"] + count["writes"]
    note = (
        f"over the measuring step of {format_duration(length_ns)}: {count['reads']:,} reads "
        f"({format_size(count['read_bytes'])}), {count['writes']:,} writes "
        f"({format_size(count['write_bytes'])}), {count['flushes']:,} flushes"
    )
    rows: list[tuple[Any, ...]] = []
    window = window_ns(record, disk)
    for name, spent_ns in (window or {}).items():
        rows.append((f"window: {name}", Cell(spent_ns / length_ns, "share"), ""))
    for key in TIME_PARTS:
        if account.get(key):
            each = account[key] / requests if requests else ""
            rows.append((f"requests: {key.removesuffix('_ns')}", format_duration(account[key]), each))
    if "busy_ns" in account and window is None and length_ns:
        rows.append(("busy", Cell(account["busy_ns"] / length_ns, "share"), ""))
    heads = columns("where its time went", ("in all", "figure"), ("per request", "ns"))
    return Table(heads, rows, disk, note)


def processor_table(used: ProcessorUse, operations: float) -> Table:
    """The work of the lab's processors over the measured window, by part; ``operations`` may be 0."""
    whole_ns = used.window_ns * used.processors or 1
    times_ns = [(part, ns) for part, ns in used.time_ns.items() if ns]
    times_ns += [("busy", used.busy_ns), ("work that waited for a processor", used.queued_ns)]
    rows = [(part, ns, ns / operations if operations else None, ns / whole_ns) for part, ns in times_ns]
    heads = columns("", ("time", "ns"), ("per operation", "ns"), ("of the processors", "share"))
    note = f"{used.processors} x {used.name}: {used.counts.get('system_calls', 0):,} system calls"
    return Table(heads, rows, "Processors", note)


def _samples_table(samples: SamplesSummary) -> Table:
    sizes = {
        "page cache, most": samples.cached_bytes_max,
        "waiting to be written, most": samples.dirty_bytes_max,
        "being written, most": samples.writeback_bytes_max,
        "left for programs, least": samples.available_bytes_min,
    }
    rows = [(name, format_size(size)) for name, size in sizes.items() if size is not None]
    rows += [(f"processor time: {kind}", format_value(ns, "ns")) for kind, ns in samples.cpu_ns.items()]
    return Table(columns("memory and processors", ("", "figure")), rows)


def _origin_table(record: ResultRecord) -> Table:
    real = record.real_time
    ratio = real.virtual_per_real
    took = f"{format_value(real.duration_s * NS_PER_S, 'ns')} on {real.host or 'this machine'}"
    return facts(
        [
            ("phases", ", ".join(f"{phase} {format_duration(ns)}" for phase, ns in record.phases_ns.items())),
            ("time", record.time_domain + (f", {times(ratio)} as fast as real" if ratio else "")),
            ("real time", f"{took}, started {real.started_at}"),
            ("kernel", record.versions.kernel),
            ("strata", f"{record.versions.strata}, agent {record.versions.agent}, runner {record.runner}"),
            ("packages", _packages(record)),
            ("charges", _charges(record)),
            ("spec", record.spec_sha256),
            ("record", str(record.to_plain()["record_sha256"])),
        ]
    )


def _charges(record: ResultRecord) -> str:
    if record.time_domain == "wall":
        return ""
    each = record.charges
    if not each.syscall_ns:
        used = record.processor
        return (
            f"the price of {used.processors} x {used.name}" if used else "the price of the study's processor"
        )
    parts = f"{each.syscall_ns} ns per system call, {each.clock_read_ns} ns per clock read"
    parts += f", {each.yield_ns} ns per yield"
    parts += f", {each.reclaim_ns} ns per page scanned in reclaim" if each.reclaim_ns else ""
    return f"{parts}; other processor time is free"


def _packages(record: ResultRecord) -> str:
    packages = record.versions.packages
    if len(packages) > 12:
        return f"{len(packages)}; --json lists them"
    return ", ".join(f"{name} {version}" for name, version in sorted(packages.items()))
