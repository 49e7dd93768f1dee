# SPDX-License-Identifier: Apache-2.0
"""An explanation as tables of text, the same in a terminal and on a page."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from strata.explanation.analysis import Disk, Explanation
from strata.explanation.sentences import KIND_WORDS
from strata.units import format_value, percent, significant, times

_LAYER_WORDS: Final = {
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


@dataclass(frozen=True)
class Table:
    """Rows of text under a title; the first column is text, the others are figures."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def tables(found: Explanation) -> list[Table]:
    """Everything that there is to say in figures."""
    made = [_operation_table(found), _layer_table(found)]
    for disk in found.disks:
        made += [_window_table(disk, found), _kind_table(disk), _wait_table(disk), _part_table(disk)]
    return [table for table in made if table.rows]


def _operation_table(found: Explanation) -> Table:
    """What one operation cost: the driver's counts, and of the trace what only it knows."""
    rows = []
    counted: list[tuple[str, float | None]] = [
        ("syncs asked for", found.syncs),
        *((name, found.sum(name)) for name in ("reads", "writes", "flushes", "discards")),
    ]
    if found.left_out is not None:
        counted += [
            ("journal writes and commits", found.count("requests", "write_journal")),
            ("metadata written back", found.count("requests", "write_metadata")),
            ("forced to the medium (FUA)", found.count("fua")),
            ("seeks, of both kinds", found.seeks),
            ("seeks that requests waited for", found.count("seeks")),
        ]
    counted += [
        ("seeks to empty the write caches", found.sum("destage_seeks")),
        ("writes from the disks' caches", found.sum("destages")),
        ("cache hits", found.sum("cache_hits")),
    ]
    for name, amount in counted:
        if amount is not None and (amount or name in {"reads", "writes", "flushes"}):
            each = found.per_operation(amount)
            rows.append((name, f"{amount:,}", significant(each) if each is not None else "–"))
    for name, words in (("read_bytes", "bytes read"), ("write_bytes", "bytes written")):
        each = found.per_operation(found.sum(name))
        text = format_value(each, "B") if each is not None else "–"
        rows.append((words, format_value(found.sum(name), "B"), text))
    operation = found.operation or "operation"
    note = f"{found.operations:,.0f} {operation}s" if found.operation else "the workload counts no operations"
    return Table("Requests", note, ("", "in all", f"per {operation}"), tuple(rows))


def _layer_table(found: Explanation) -> Table:
    rows = []
    for layer in found.layers:
        rows.append(
            (
                f"{_LAYER_WORDS[layer.name]} ({layer.on})",
                f"{layer.writes:,}" if layer.writes is not None else "–",
                format_value(layer.write_bytes, "B"),
                times(layer.of_application) if layer.of_application is not None else "–",
                times(layer.of_above) if layer.of_above is not None else "–",
            )
        )
    note = "stores to mapped files are not counted" if found.application_bytes is not None else ""
    columns = ("", "writes", "bytes", "of the application's", "of the layer above")
    return Table("Written through the layers", note, columns, tuple(rows))


def _window_table(disk: Disk, found: Explanation) -> Table:
    length_ns = found.window_ns or 1
    rows = [
        ("with requests", format_value(disk.busy_ns, "ns"), percent(disk.busy_ns / length_ns)),
        ("without any", format_value(disk.idle_ns, "ns"), percent(disk.idle_ns / length_ns)),
    ]
    for name, spent_ns in disk.work_ns.items():
        if spent_ns:
            share = percent(spent_ns / length_ns)
            rows.append((f"mechanism: {_WORK_WORDS[name]}", format_value(spent_ns, "ns"), share))
            if name == "destage":
                rows += [
                    (f"  of which {part}", format_value(part_ns, "ns"), percent(part_ns / length_ns))
                    for part, part_ns in disk.destage_parts_ns.items()
                ]
    total_ns = sum(disk.work_ns.values())
    if 0 < total_ns <= length_ns:
        still_ns = length_ns - total_ns
        rows.append(("mechanism: idle", format_value(still_ns, "ns"), percent(still_ns / length_ns)))
    note = "several units work at once" if total_ns > length_ns else ""
    return Table(f"{disk.name}: the window", note, ("", "time", "of the window"), tuple(rows))


def _kind_table(disk: Disk) -> Table:
    rows = [
        (
            KIND_WORDS[kind.name],
            f"{kind.requests:,}",
            format_value(kind.bytes, "B"),
            f"{kind.seeks:,}",
            format_value(kind.latency_ns_p50, "ns"),
            format_value(kind.latency_ns_p99, "ns"),
            format_value(kind.latency_ns_max, "ns"),
            percent(kind.share_ns / disk.busy_ns) if disk.busy_ns else "–",
        )
        for kind in disk.kinds
    ]
    note = "latency at the disk; share: of the time with requests"
    if disk.traced is not None and disk.traced != disk.requests:
        note += f"; of {disk.traced:,} of the {disk.requests:,} requests that the driver counted"
    columns = ("", "requests", "bytes", "seeks", "p50", "p99", "max", "share")
    return Table(f"{disk.name}: by kind", note, columns, tuple(rows))


def _wait_table(disk: Disk) -> Table:
    """What a request of each kind waited for, on average: its latency by part."""
    kinds = [kind for kind in disk.kinds if kind.requests]
    parts = list(dict.fromkeys(part for kind in kinds for part in kind.parts_ns))
    rows = []
    for kind in kinds:
        each = [kind.parts_ns.get(part, 0) / kind.requests for part in parts]
        texts = (format_value(mean, "ns") if mean else "–" for mean in each)
        rows.append((KIND_WORDS[kind.name], format_value(kind.latency_ns / kind.requests, "ns"), *texts))
    note = "mean latency of a request, and its parts; queue: waiting for other requests"
    return Table(f"{disk.name}: what a request waited for", note, ("", "latency", *parts), tuple(rows))


def _part_table(disk: Disk) -> Table:
    """How the disk's time divides by kind and part, in shares of the time with requests."""
    parts = list(dict.fromkeys(part for kind in disk.kinds for part in kind.shares_ns))
    rows = [
        (
            KIND_WORDS[kind.name],
            *(_share(kind.shares_ns.get(part, 0.0), disk.busy_ns) for part in parts),
        )
        for kind in disk.kinds
    ]
    if len(rows) > 1:
        totals = (sum(kind.shares_ns.get(part, 0.0) for kind in disk.kinds) for part in parts)
        rows.append(("together", *(_share(total, disk.busy_ns) for total in totals)))
    note = "of the time with requests; where several are served at once each gets its part of it"
    return Table(f"{disk.name}: where its time went", note, ("", *parts), tuple(rows))


def _share(time_ns: float, busy_ns: float) -> str:
    return percent(time_ns / busy_ns) if time_ns and busy_ns else "–"
