# SPDX-License-Identifier: Apache-2.0
"""Predictions of the lab beside measurements on real disks, as blocks."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from strata.report.document import Block, Bullets, Code, Heading, Paragraph, Section
from strata.report.report import Report
from strata.report.spans import StackName, Text, Times, Tone, Toned, WorkloadName, joined, said
from strata.report.table import Cell, Column, Table, columns
from strata.results.findings import CONFIRMED_ZONE, Compared, Confirmed, Finding
from strata.statistics.interval import Interval
from strata.units import format_share, format_value
from strata.words import counted, grouped, listed

_ZONE: Final = format_share(CONFIRMED_ZONE)
_FEW: Final = 0.01  # per operation
_COUNT_ZONE: Final = 0.1
_TONES: Final[dict[str, Tone]] = {"holds": "good", "fails": "bad", "open": "doubt"}
_SHARES: Final = {"disk": "disk", "processor": "processor", "counts": "requests"}
_CAUSES: Final = {
    "disk": "the disk takes other times than its model",
    "processor": "the time in which no disk has a request differs: the processor's, or waiting",
    "counts": "the kernel asks the disks for another number of requests",
}


def confirmations(report: Report) -> Iterator[Section]:
    """The section of a page."""
    blocks = [block for found in report.confirmed.values() for block in confirmation(found)]
    if blocks:
        note = "virtual time and wall time stand side by side; they are never pooled"
        yield Section("confirmed", "On real disks", blocks, note)


def confirmation(
    found: Finding, paths: Mapping[str, str] | None = None, files: Mapping[str, str] | None = None
) -> Iterator[Block]:
    """Prediction against measurement, the explanation, the ranking, and what to measure again.

    The disks' paths and calibrated device files are known where the disks are.
    """
    yield Heading(found.subject)
    yield from (Paragraph(f"{each.name}: {each.note}", "warning") for each in found.tried if each.note)
    if not found.confirmed:
        return
    yield _table(found)
    yield Bullets([_explained(each) for each in found.confirmed])
    for workload, pairs in grouped((each.workload, each) for each in found.tried[1].compared).items():
        before = [each for each in found.tried[0].compared if each.workload == workload]
        yield Paragraph(said("{}: {}", WorkloadName(workload), ranking_words(before, pairs)))
    yield from _again([each for each in found.confirmed if each.outcome == "fails"], paths or {}, files or {})


def _table(found: Finding) -> Table:
    rows = [
        (
            Cell(each.workload),
            each.stack,
            format_value(each.predicted, each.unit),
            format_value(each.measured, each.unit),
            Cell(_ratio(each), tone=_TONES[each.outcome]),
            *(_signed(each.shares_ns[share]) for share in _SHARES),
        )
        for each in found.confirmed
    ]
    heads = columns(
        *("workload", ("stack", "stack"), ("predicted", "figure"), ("measured", "figure")),
        ("ratio", "figure"),
    )
    shares = tuple(Column(name, "figure") for name in _SHARES.values())
    note = "measured over predicted, with its 95 % interval; shares of the difference per operation"
    return Table((*heads, *shares), rows, "Prediction and measurement", note)


def _ratio(each: Confirmed) -> Times:
    ends = Interval(each.low, each.high) if each.low is not None and each.high is not None else None
    return Times(each.ratio, ends)


def _signed(time_ns: float) -> str:
    text = format_value(abs(time_ns), "ns")
    return f"+{text}" if time_ns >= 0 else f"\u2212{text}"


def _explained(each: Confirmed) -> Text:
    """How the prediction did, where the time went, and the counts that differ."""
    before, after = (format_value(time_ns, "ns") for time_ns in each.times_ns)
    parts = [f"{name} {_signed(each.shares_ns[share])}" for share, name in _SHARES.items()]
    differing = [
        f"{key.replace('_', ' ')} {_count(key, one)} → {_count(key, two)}"
        for key, (one, two) in each.counts.items()
        if abs(two - one) > max(_COUNT_ZONE * max(one, two), _FEW)
    ]
    text = f"{before} per {each.operation} predicted and {after} measured ({', '.join(parts)})."
    text += f" Most of it: {_CAUSES[each.cause]}." if each.outcome == "fails" else ""
    text += f" Per {each.operation} there are other {listed(differing)}." if differing else ""
    text += "" if each.low is not None else " There are too few seeds for an interval."
    text += f" In doubt: {each.doubt}." if each.doubt else ""
    outcome = {"holds": f"holds within ±{_ZONE}", "fails": f"fails by more than ±{_ZONE}"}
    said_of = Toned(outcome.get(each.outcome, "is open"), _TONES[each.outcome])
    return joined([StackName(each.stack), said("under {}: {};", each.workload, said_of), text])


def _count(key: str, value: float) -> str:
    return format_value(value, "B" if key.endswith("bytes") else "1")


def ranking_words(predicted: list[Compared], measured: list[Compared]) -> str:
    """Whether the order of the stacks held, pair by pair; Kendall's tau is 1 where all pairs keep theirs."""
    known = {(each.stack, each.against): each for each in predicted}
    pairs = [(known[key], each) for each in measured if (key := (each.stack, each.against)) in known]
    turned = [pair for pair in pairs if len({(each.level or 1) > 1 for each in pair}) > 1]
    if not pairs:
        return "no two stacks were measured, so nothing is ranked."
    words = f"{len(pairs) - len(turned)} of {counted(len(pairs), 'pair')} in the predicted order"
    words += f" (Kendall's tau {1 - 2 * len(turned) / len(pairs):.2g})" if len(pairs) > 1 else ""
    how = grouped((_how(*pair), f"{pair[0].stack} and {pair[0].against}") for pair in turned)
    return "; ".join([words, *(f"{listed(names)} changed places {it}" for it, names in how.items())]) + "."


def _how(one: Compared, two: Compared) -> str:
    is_sure = {one.verdict, two.verdict} == {"better", "worse"}
    return "beyond their intervals" if is_sure else "within what is known"


def _again(failing: list[Confirmed], paths: Mapping[str, str], files: Mapping[str, str]) -> Iterator[Block]:
    """The commands that measure again what the prediction got wrong.

    A path that is not known is left to the user: the commands may overwrite a disk.
    """
    disks = grouped((each.disk, each) for each in failing if each.cause == "disk" and each.load)
    for disk, cells in disks.items():
        yield Paragraph(f"Calibrate {disk or 'the disk'} with the loads in which the prediction fails:")
        yield from _calibrated(cells, shlex.quote(paths.get(disk, "DISK")), files.get(disk))
    if any(each.cause == "processor" for each in failing):
        yield Paragraph("Measure the processor again, while the machine does nothing else:")
        yield Code("sudo strata lab price --output this-machine.toml", "sh")
    if any(each.cause == "counts" for each in failing):
        yield Paragraph(
            "Where requests differ, give the study this machine's `kernel` and `memory` if you can."
        )


def _calibrated(cells: Sequence[Confirmed], path: str, file: str | None) -> Iterator[Block]:
    """A disk's calibration with more loads; beside its device file are the measurements of the first."""
    disk = cells[0].disk or "disk"
    if file is None:
        file = f"my-{disk}.toml"
        yield Code(f"sudo strata calibrate {path} --output {file}", "sh")
    table = shlex.quote(str(Path(file).with_suffix(".csv")))
    loads = {" ".join(f"--{key}={value}" for key, value in each.load.items()): each for each in cells}
    for number, (options, each) in enumerate(loads.items(), start=1):
        output = f"{each.stack}-{each.workload}-{disk}-{number}.json"
        guard = "" if each.load["rw"] == "randwrite" else " --readonly"
        yield Code(
            f"sudo fio --name=again --filename={path} --direct=1 --ioengine=libaio {options}{guard} "
            f"--time_based --runtime=30 --output-format=json --output={output}\n"
            f"strata calibrate --fio {table} --fio {output} --output {shlex.quote(file)}",
            "sh",
        )
    if any(each.load["rw"] == "randwrite" for each in cells):
        yield Paragraph(f"fio overwrites the content of {cells[0].disk or 'the disk'}.", "warning")
