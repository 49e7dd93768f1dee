# SPDX-License-Identifier: Apache-2.0
"""One trial as blocks: its metrics and checks, where the time of disks and processors went, its origin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final

from strata.model.metric import metric_title
from strata.model.warning import Verdict
from strata.report.document import Block, Bullets, Document, Heading, Item, Paragraph, Section, Terms
from strata.report.figures import window_ns
from strata.report.spans import Text, Tone, Toned, said
from strata.report.table import Cell, Table, columns
from strata.results.counts import every_metric
from strata.results.record import ProcessorUse, ResultRecord, SamplesSummary
from strata.results.store import Reading
from strata.traces.kinds import TIME_PARTS
from strata.units import NS_PER_S, format_duration, format_size, format_value, times
from strata.words import counted, sentence_case

_TONES: Final[Mapping[Verdict, Tone]] = {"yes": "good", "no": "doubt", "unknown": "dim"}


def trial_document(reading: Reading) -> Document:
    """A trial's result, or why there is none."""
    attempt = f", this is {reading.attempt.path.name}" if reading.attempt is not None else ""
    head = Heading(reading.trial_id, 1, f"{counted(reading.attempts, 'attempt')}{attempt}")
    record = reading.record
    if record is None:
        return Document([head, Paragraph(f"no result: {reading.problem}", "warning")])
    states: list[Block] = [Paragraph(Toned("valid", "good"))] if record.validity.valid else []
    states += [Paragraph(Toned(f"not valid: {reason}", "bad")) for reason in record.validity.reasons]
    return Document([head, *states, *record_blocks(record)])


def record_blocks(record: ResultRecord) -> Iterator[Section]:
    """The sections of a trial's result."""
    yield Section("metrics", "Metrics", [metrics_table(record)])
    if record.checks:
        yield Section("checks", "Validity checks", [Bullets([*_checks(record)])])
    tables = [_disk_table(record, disk) for disk in record.disks]
    operations = record.operations()
    if record.processor is not None:
        tables.append(processor_table(record.processor, operations.value if operations else 0.0))
    if record.samples.available_bytes_min is not None:
        tables.append(_samples_table(record.samples))
    yield Section("work", "Disks, processors and memory", tables)
    drawn = {**record.drives, **_drawn_processor(record)}
    if drawn:
        yield Section("drawn", "Drawn for this seed", [_drive_table(*each) for each in drawn.items()])
    yield Section("origin", "Origin", [Terms([row for row in _origin(record) if row[1]], "origin")])


def _checks(record: ResultRecord) -> Iterator[Text | Item]:
    """Each check as a question with its answer, and why."""
    for check in record.checks:
        question = check.question if check.tenant else sentence_case(check.question)
        asked = said("{} {}", question, Toned(check.verdict, _TONES[check.verdict]))
        yield Item(asked, [Paragraph(check.detail, "remark")] if check.detail else [])


def _drive_table(model: str, drawn: Mapping[str, float]) -> Table:
    rows = [(name, f"{value:g}") for name, value in drawn.items()]
    note = "drawn for this seed from the ranges; `strata list devices` and `list processors` have the units"
    return Table(columns("parameter", ("drawn", "figure")), rows, model, note)


def _drawn_processor(record: ResultRecord) -> Mapping[str, Mapping[str, float]]:
    used = record.processor
    return {used.name: used.drawn} if used is not None and used.drawn else {}


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
    return Table(columns("", ("", "figure")), rows, "Memory and processors", is_headed=False)


def _origin(record: ResultRecord) -> list[tuple[str, str]]:
    real = record.real_time
    ratio = real.virtual_per_real
    took = f"{format_value(real.duration_s * NS_PER_S, 'ns')} on {real.host or 'this machine'}"
    return [
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
