# SPDX-License-Identifier: Apache-2.0
"""What one operation of a workload cost the disks and processors, on each stack."""

from __future__ import annotations

from collections import Counter
from typing import Final

from strata.devices.processor import PARTS
from strata.model.metric import metric_title
from strata.report.table import Cell, Table, columns
from strata.results.counts import LOAD, unit_of_work
from strata.results.record import COUNTS
from strata.statistics.study import StudyResults
from strata.units import significant

_PER: Final = " per operation"


def costs(results: StudyResults, workload: str) -> list[Table]:
    """The tables that have rows: the counts, and where the load counts its operations, their parts."""
    counted = {kind.name for kind in results.metrics(workload) if kind.unit == "1"}
    name = next((name for name in COUNTS if name in counted), None)
    tables = [counts_table(results, workload)]
    if name is not None:
        tables += [_volumes_cost(results, workload, name), _processors_cost(results, workload, name)]
    return [table for table in tables if table.rows]


def counts_table(results: StudyResults, workload: str) -> Table:
    """A row for each stack: its counts per operation, over the seeds; without counts of 0 on all stacks."""
    cells = {stack: results.cells[stack, workload] for stack in results.stacks}
    found = {
        kind: [cell.series(kind.name).estimate for cell in cells.values()]
        for kind in results.counts(workload)
    }
    counted = {kind: levels for kind, levels in found.items() if any(levels)}
    rows = [
        (stack, *levels)
        for stack, *levels in zip(cells, *counted.values(), strict=True)
        if levels != [None] * len(levels)
    ]
    titles = ((metric_title(kind).removesuffix(_PER), kind.unit) for kind in counted)
    heads = columns(("stack", "stack"), *titles)
    records = (record for cell in cells.values() for record in cell.records.values())
    noun = next((unit_of_work(record)[0] for record in records), LOAD)
    one = "the load" if noun == LOAD else f"one {noun}"
    note = f"requests, head movements and data of the disks, and time of the processors, for {one}"
    return Table(heads, rows, f"What {one} cost", note, name="counts")


def _processors_cost(results: StudyResults, workload: str, name: str) -> Table:
    rows = []
    for stack in results.stacks:
        records = [
            (record.processor, metric.value)
            for record in results.cells[stack, workload].records.values()
            if record.processor is not None and (metric := record.metric(name)) is not None and metric.value
        ]
        operations = sum(count for _, count in records)
        if not operations or not any(used.busy_ns for used, _ in records):
            continue
        sums: Counter[str] = Counter()
        for used, _ in records:
            sums.update(used.time_ns)
        utilisation = sum(used.utilisation for used, _ in records) / len(records)
        rows.append((stack, Cell(utilisation, "share"), *(sums[part] / operations for part in PARTS)))
    heads = columns(("stack", "stack"), ("busy", "share"), *((part, "ns") for part in PARTS))
    one = COUNTS[name]
    note = f"time of the lab’s processors per {one}, by part; busy: their share of the measured window"
    return Table(heads, rows, f"What one {one} cost the processors", note)


def _volumes_cost(results: StudyResults, workload: str, name: str) -> Table:
    """The disks' work by filesystem and partition, of stacks that have several."""
    rows = []
    for stack in results.stacks:
        records = [each for each in results.cells[stack, workload].records.values() if each.metric(name)]
        operations = sum(metric.value for each in records if (metric := each.metric(name)))
        busy_ns: Counter[str] = Counter()
        sums: dict[str, Counter[str]] = {}
        for record in records:
            for volume, each in record.volumes.items():
                sums.setdefault(volume, Counter()).update(each.account)
                busy_ns[each.disk] += each.account.get("busy_ns", 0)
        kinds = {volume: each for record in records for volume, each in record.volumes.items()}
        for volume, each in kinds.items() if operations else ():
            counts = [significant(sums[volume][key] / operations) for key in ("reads", "writes", "flushes")]
            sizes = [sums[volume][key] / operations for key in ("read_bytes", "write_bytes")]
            share = sums[volume]["busy_ns"] / busy_ns[each.disk] if busy_ns[each.disk] else None
            rows.append((stack, each.named(stack), volume, *counts, *sizes, share))
    one = COUNTS[name]
    heads = columns(
        *(("stack", "stack"), "filesystem", "on"),
        *(("reads", "figure"), ("writes", "figure"), ("flushes", "figure")),
        *(("read", "B"), ("written", "B"), ("of the disk’s time", "share")),
    )
    note = (
        f"requests and bytes per {one}; a flush counts for the filesystem that wrote last; share: of "
        "the disk’s time with requests"
    )
    return Table(heads, rows, f"What one {one} cost by filesystem", note)
