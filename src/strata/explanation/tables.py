# SPDX-License-Identifier: Apache-2.0
"""An explanation as tables, for a terminal, a page and JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from strata.explanation.analysis import DiskTime, Explanation
from strata.explanation.comparison import TrialComparison
from strata.explanation.sentences import KIND_WORDS, sentences
from strata.report.table import Cell, Column, Table, columns, terminal
from strata.report.trial import processor_table
from strata.traces.kinds import TIME_PARTS
from strata.units import format_duration
from strata.words import counted

_LEVEL_WORDS: Final = {
    "filesystem": "applications to the filesystem",
    "disk": "filesystem to the disk",
    "medium": "disk to its medium",
}
_WORK_WORDS: Final = {
    "command": "serving requests",
    "destage": "emptying the write cache",
    "prefetch": "reading ahead",
    "cleaning": "cleaning",
}


def tables(found: Explanation) -> list[Table]:
    """All figures of a trial, without empty tables."""
    made = [_operation_table(found), _level_table(found), _machine_table(found), _volume_table(found)]
    if found.processor is not None:
        made.append(processor_table(found.processor, found.operations))
    for disk in found.disks:
        made += [_window_table(disk, found), _kind_table(disk), _wait_table(disk), _part_table(disk)]
    return [table for table in made if table.rows]


def _operation_table(found: Explanation) -> Table:
    """The cost of one operation: the driver's counts, and the counts that only the trace has."""
    counts: list[tuple[str, float | None]] = [("syncs asked for", found.syncs)]
    counts += [(name, found.sum(name)) for name in ("reads", "writes", "flushes", "discards")]
    if found.left_out is not None:
        counts += [
            ("journal writes and commits", found.count("requests", "write_journal")),
            ("metadata written back", found.count("requests", "write_metadata")),
            ("forced to the medium (FUA)", found.count("fua")),
            ("served because they had waited too long (scheduler_wait_limit)", found.count("overdue")),
            ("seeks, of both kinds", found.seeks),
            ("seeks that requests waited for", found.count("seeks")),
        ]
    counts += [
        ("seeks to empty the write caches", found.sum("destage_seeks")),
        ("writes from the disks' caches", found.sum("destages")),
        ("cache hits", found.sum("cache_hits")),
    ]
    rows: list[tuple[Any, ...]] = [
        (name, amount, found.per_operation(amount))
        for name, amount in counts
        if amount is not None and (amount or name in {"reads", "writes", "flushes"})
    ]
    for words, size in (("bytes read", found.sum("read_bytes")), ("bytes written", found.sum("write_bytes"))):
        rows.append((words, Cell(size, "B"), Cell(found.per_operation(size), "B")))
    done = f"{counted(round(found.operations), found.operation or 'operation')} {found.whose}".rstrip()
    note = done if found.operation else "the workload counts no operations"
    return Table(columns("", ("in all", "count"), (f"per {found.unit}", "1")), rows, "Requests", note)


def _level_table(found: Explanation) -> Table:
    names = (f"{_LEVEL_WORDS[each.name]} ({each.on})" for each in found.layers)
    counts = ((each.writes, each.write_bytes, each.of_application, each.of_above) for each in found.layers)
    rows = [(name, *each) for name, each in zip(names, counts, strict=True)]
    note = "stores to mapped files are not counted" if found.application_bytes is not None else ""
    ratios = (("of the application's", "ratio"), ("of the layer above", "ratio"))
    heads = columns("", ("writes", "count"), ("bytes", "B"), *ratios)
    return Table(heads, rows, "Written through the layers", note)


def _machine_table(found: Explanation) -> Table:
    """The requests on their way through both kernels, from a machine's applications down to the disks."""
    rows: list[tuple[Any, ...]] = []

    def row(where: str, asked: Mapping[str, int], parts: Sequence[str] = ()) -> None:
        flushes = asked.get("flushes", asked.get("syncs"))
        took_ns = sum(asked.get(part, 0) for part in parts) or None
        sizes = (asked.get("read_bytes"), asked.get("write_bytes"))
        rows.append((where, asked.get("reads"), asked.get("writes"), flushes, *sizes, took_ns))

    for name, accounts in found.machines.items():
        for kind in sorted(accounts.keys() - {"disk"}):
            row(f"applications in {name} to {kind}", accounts[kind])
        row(f"{name} to its virtual disk", accounts["disk"], ("read_ns", "write_ns", "discard_ns"))
    if rows:
        for name, asked in found.applications.items():
            row(f"outside, to the filesystem {name}", asked)
        for disk in found.disks:
            row(f"outside, to {disk.name}", disk.account, TIME_PARTS)
    counts = (("reads", "count"), ("writes", "count"), ("flushes or syncs", "count"))
    heads = columns("", *counts, ("read", "B"), ("written", "B"), ("latencies", "ns"))
    note = (
        "a machine counts a flush without data as a write, too; latencies are sums over the requests, "
        "which below can run later (caches) or side by side (RAID)"
    )
    return Table(heads, rows, "Through both kernels", note)


def _volume_table(found: Explanation) -> Table:
    busy_ns = {disk.name: disk.busy_ns for disk in found.disks}
    rows = []
    for name, each in found.volumes.items():
        asked, account = found.applications.get(name, {}), each.account
        time_ns = account.get("busy_ns")
        share = time_ns / busy_ns[each.disk] if time_ns is not None and busy_ns.get(each.disk) else None
        counts = (account.get(key) for key in ("reads", "writes", "flushes", "read_bytes", "write_bytes"))
        names = (each.named(found.stack), name)
        rows.append((*names, share, *counts, asked.get("write_bytes"), asked.get("syncs")))
    note = "time: of the disk’s time with requests; a flush counts for the filesystem that wrote last"
    heads = columns(
        *("filesystem", "on", ("time", "share")),
        *(("reads", "count"), ("writes", "count"), ("flushes", "count"), ("read", "B"), ("written", "B")),
        *(("asked to write", "B"), ("syncs", "count")),
    )
    return Table(heads, rows, "By filesystem", note)


def _window_table(disk: DiskTime, found: Explanation) -> Table:
    length_ns, total_ns = found.window_ns or 1, sum(disk.work_ns.values())
    times: list[tuple[str, float]] = [("with requests", disk.busy_ns), ("without any", disk.idle_ns)]
    for name, spent_ns in disk.work_ns.items():
        if spent_ns:
            times.append((f"mechanism: {_WORK_WORDS[name]}", spent_ns))
            if name == "destage":
                times += [(f"  of which {part}", part_ns) for part, part_ns in disk.destage_parts_ns.items()]
    if 0 < total_ns <= length_ns:
        times.append(("mechanism: idle", length_ns - total_ns))
    rows = [(name, time_ns, time_ns / length_ns) for name, time_ns in times]
    note = "several units work at once" if total_ns > length_ns else ""
    heads = columns("", ("time", "ns"), ("of the window", "share"))
    return Table(heads, rows, f"{disk.name}: the window", note)


def _kind_table(disk: DiskTime) -> Table:
    rows = [
        (
            *(KIND_WORDS[kind.name], kind.requests, kind.bytes, kind.seeks),
            *(kind.latency_ns_p50, kind.latency_ns_p99, kind.latency_ns_max),
            kind.share_ns / disk.busy_ns if disk.busy_ns else None,
        )
        for kind in disk.kinds
    ]
    note = "latency at the disk; share: of the time with requests"
    if disk.traced is not None and disk.traced != disk.requests:
        note += f"; of {disk.traced:,} of the {disk.requests:,} requests that the driver counted"
    counts, latencies = (("requests", "count"), ("bytes", "B"), ("seeks", "count")), ("p50", "p99", "max")
    heads = columns("", *counts, *((title, "ns") for title in latencies), ("share", "share"))
    return Table(heads, rows, f"{disk.name}: by kind", note)


def _wait_table(disk: DiskTime) -> Table:
    kinds = [kind for kind in disk.kinds if kind.requests]
    parts = list(dict.fromkeys(part for kind in kinds for part in kind.parts_ns))
    rows = []
    for kind in kinds:
        means = [kind.parts_ns.get(part, 0) / kind.requests or None for part in parts]
        rows.append((KIND_WORDS[kind.name], kind.latency_ns / kind.requests, *means))
    note = "mean latency of a request, and its parts; queue: waiting for other requests"
    heads = columns("", *((title, "ns") for title in ("latency", *parts)))
    return Table(heads, rows, f"{disk.name}: what a request waited for", note)


def _part_table(disk: DiskTime) -> Table:
    """The disk's time by kind and part, in shares of the time with requests."""
    parts = list(dict.fromkeys(part for kind in disk.kinds for part in kind.shares_ns))

    def row(title: str, times: Iterable[float]) -> Sequence[Any]:
        return [title, *(time_ns / disk.busy_ns if time_ns and disk.busy_ns else None for time_ns in times)]

    rows = [row(KIND_WORDS[each.name], (each.shares_ns.get(p, 0.0) for p in parts)) for each in disk.kinds]
    if len(rows) > 1:
        totals = (sum(kind.shares_ns.get(part, 0.0) for kind in disk.kinds) for part in parts)
        rows.append(row("together", totals))
    note = "of the time with requests; requests that are served at once share it equally"
    heads = (Column(""), *(Column(part, "share") for part in parts))
    return Table(heads, rows, f"{disk.name}: where its time went", note)


def explanation_view(found: Explanation) -> RenderableType:
    head = Text.assemble((found.name, "bold cyan"), (f"  {found.workload_title}", "dim"))
    head.append(f"\nmeasured window of {format_duration(found.window_ns)}, {found.time_domain} time", "dim")
    parts: list[RenderableType] = [head]
    if found.left_out is None:
        parts.append(Text("no trace of its requests: the figures are the disks' counts", style="yellow"))
    elif found.missing:
        text = f"the trace was full: {found.missing:,} requests are missing where kinds are distinguished"
        parts.append(Text(text, style="yellow"))
    for table in tables(found):
        parts += [Text(), terminal(table, indent=2)]
    return Group(*parts)


def comparison_view(comparison: TrialComparison) -> RenderableType:
    """Why one trial is faster, a paragraph for each sentence."""
    first, *others = sentences(comparison)
    return Group(Text(first, style="bold"), *(Text(f"\n{sentence}") for sentence in others))
