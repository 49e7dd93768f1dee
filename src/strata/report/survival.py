# SPDX-License-Identifier: Apache-2.0
"""The damage by the failures of ``[survival]`` to each stack, as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from strata.advice.failures import slowed
from strata.model.survival import DEGRADED, REBUILDING, REBUILT, VARIANTS
from strata.model.trial import CellKey
from strata.report.capability_table import TONES
from strata.report.document import Section
from strata.report.report import Report
from strata.report.spans import Tone
from strata.report.table import Cell, Table, columns
from strata.report.wording import interval_words
from strata.results.capabilities import Capabilities, Capability, PowerCutFinding, mean_recovery_ns
from strata.statistics.study import CellResults as StudyCell
from strata.statistics.study import StudyResults
from strata.units import format_duration, times
from strata.words import grouped

TITLE: Final = "What failures did"
_CUTS: Final = "Power cuts at drawn instants of the workloads' windows"
_SPEED: Final = "Speed with a disk lost, and while the stack is rebuilt"
_DAMAGE: Final = "Lost disks, and data that a disk returns wrong"
_LOSSES: Final = ("disk-loss", "second-disk-loss")
_NOTICED: Final = "corruption-detected"
_MENDED: Final = "corruption-healed"
_RETURNED: Final[dict[bool, tuple[str, Tone]]] = {True: ("yes", "bad"), False: ("no", "good")}
_UNTRIED: Final = "not tried"


def survival(report: Report) -> Iterator[Section]:
    """The damage by power cuts, lost disks and wrong data."""
    if tables := survival_tables(report.capabilities, report.results):
        note = "power cuts, lost disks and wrong data, in the lab"
        yield Section("survival", TITLE, tables, note)


def survival_tables(found: Capabilities | None, results: StudyResults) -> list[Table]:
    """The tables that have rows: power cuts, speed without a disk, losses and corruption."""
    made = [] if found is None else [_cuts_table(found), _damage_table(found)]
    made.insert(1, _speed_table(results))
    return [table for table in made if table.rows]


def _cuts_table(found: Capabilities) -> Table:
    """A row for each workload and stack, and for each workload that is not cut."""
    cells = grouped(((cut.workload, cut.stack), cut) for cut in found.cuts)
    heads = columns(
        *("workload", ("stack", "stack"), ("power cuts", "count", "power_cuts")),
        *(("sound after recovery", "text", "sound"), ("acknowledged", "count")),
        *(("of these lost", "count", "lost"), ("time to recover", "ns", "recovery_ns")),
    )
    rows: list[tuple[object, ...]] = [(*names, *_survived(cuts)) for names, cuts in cells.items()]
    for workload, why in found.uncut.items():
        rows.append((workload, None, 0, Cell("cannot say", tone="doubt", remark=why), None, None, None))
    return Table(heads, rows, _CUTS, name="power_cuts")


def _survived(cuts: Sequence[PowerCutFinding]) -> Iterator[object]:
    yield len(cuts)
    judged = [cut for cut in cuts if cut.verdict not in ("unknown", "failed")]
    bad = Counter(cut.verdict for cut in judged if cut.verdict != "sound")
    said = f"{len(judged) - bad.total()} of {len(judged)}" if judged else "cannot say"
    unjudged = [cut.note.partition("\n")[0] for cut in cuts if cut not in judged][:1]
    remarks = [*(f"{count} {verdict}" for verdict, count in bad.items()), *unjudged]
    yield Cell(said, tone="bad" if bad else "good" if judged else "doubt", remark="; ".join(remarks))
    counted = [cut for cut in cuts if cut.lost is not None]
    if not counted:
        why = next((cut.uncounted for cut in cuts if cut.uncounted), "")
        yield from (Cell("cannot say", tone="doubt", remark=why), Cell("cannot say", tone="doubt"))
    else:
        lost = sum(cut.lost or 0 for cut in counted)
        yield from (sum(cut.acknowledged or 0 for cut in counted), Cell(lost, tone="bad" if lost else "good"))
    yield mean_recovery_ns(cuts)


def _speed_table(results: StudyResults) -> Table:
    """A row for each stack and workload that was measured with all disks and without one."""
    heads = columns(
        *("workload", ("stack", "stack"), ("with all disks", "1/s", "all_disks")),
        *(("with a disk lost", "figure", DEGRADED), ("while rebuilt", "figure", REBUILDING)),
        ("time to rebuild", "ns", REBUILT),
    )
    rows = []
    for workload in results.workloads:
        variants = [results.snapshot.workloads[workload].variants.get(variant, "") for variant in VARIANTS]
        for stack in results.stacks if variants[0] else ():
            if (stack, workload) in results.cells and results.cells[stack, workload].records:
                rows.append((workload, stack, *_speeds(results, stack, workload, variants)))
    return Table(heads, rows, _SPEED, name="speed")


def _speeds(results: StudyResults, stack: str, workload: str, variants: Sequence[str]) -> Iterator[object]:
    kind = results.metrics(workload)[0]
    yield Cell(results.summaries(workload, kind.name)[stack].estimate, kind.unit)
    for variant in variants:
        cell = results.cells.get((stack, variant))
        if cell is None or not cell.records:
            yield Cell(_UNTRIED, tone="dim", remark=results.snapshot.skipped.get(CellKey(stack, variant), ""))
            continue
        found = slowed(results, stack, workload, variant)
        if found is None:
            yield None
            continue
        why = found.unranked or found.doubt
        remark = "; ".join(filter(None, (interval_words(found.gain_interval), why)))
        yield Cell(f"{times(found.gain)} as good", tone="doubt" if why else "", remark=remark)
    yield _rebuilt(results.cells.get((stack, variants[1])), results, variants[1])


def _rebuilt(cell: StudyCell | None, results: StudyResults, workload: str) -> Cell:
    """The time from the loss to the end of the rebuild under the load: the mean over the seeds."""
    if cell is None or not cell.records:
        return Cell(_UNTRIED, tone="dim")
    took = list(cell.series(REBUILT).values.values())
    if len(took) == len(cell.records):
        return Cell(sum(took) / len(took), "ns")
    window = results.snapshot.workloads[workload].window_ns
    longer = "no end seen in the window" + (f" of {format_duration(window)}" if window else "")
    unended = f"in {len(cell.records) - len(took)} of {len(cell.records)} trials"
    return Cell(longer, tone="doubt", remark=unended)


def _damage_table(found: Capabilities) -> Table:
    """A row for each stack on which a loss or corruption was tried."""
    heads = columns(
        *(("stack", "stack"), ("works without any one disk", "text", "disk_loss")),
        *(
            ("without any two", "text", "second_disk_loss"),
            ("wrong data: noticed", "text", "corruption_detected"),
        ),
        *(("mended", "text", "corruption_healed"), ("returned as data", "text", "returned_as_data")),
    )
    rows = []
    for stack in found.stacks:
        noticed = found.of(stack, _NOTICED)
        tried = [*(found.of(stack, probe) for probe in _LOSSES), noticed, found.of(stack, _MENDED)]
        if any(tried):
            rows.append((stack, *map(_verdict, tried), _returned(noticed)))
    return Table(heads, rows, _DAMAGE, name="damage")


def _verdict(cell: Capability | None) -> Cell:
    if cell is None:
        return Cell(_UNTRIED, tone="dim")
    said = "cannot say" if cell.verdict == "failed" else cell.verdict
    return Cell(said, tone=TONES[cell.verdict], remark=cell.note)


def _returned(cell: Capability | None) -> Cell:
    if cell is None or cell.returned_as_data is None:
        return Cell(_UNTRIED if cell is None else "cannot say", tone="dim")
    said, tone = _RETURNED[cell.returned_as_data]
    return Cell(said, tone=tone)
