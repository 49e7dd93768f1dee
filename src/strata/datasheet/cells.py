# SPDX-License-Identifier: Apache-2.0
"""Measurements of a drive: cells of fio's results or of a table, and the same cells on a modelled device."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Final

import numpy as np

from strata.datasheet.fio_logs import read_log, telling_logs
from strata.datasheet.fio_results import PERCENTS, MeasuredCell, parse_block_bytes, read_fio
from strata.datasheet.measure import PATTERNS, Pattern, Subject, measure, rate_per_s
from strata.devices.kinds.flash import READ_ALIKE
from strata.errors import ResultError
from strata.files import read_plain
from strata.lab.model import ModelTrace
from strata.results.events import read_events
from strata.results.store import ResultsFolder
from strata.seeds import derive_seed
from strata.units import MIB, NS_PER_S, NS_PER_US

_COLUMNS: Final = {50.0: "p50_us", 99.0: "p99_us", 99.9: "p999_us"}
_LOAD_COLUMNS: Final = ("rw", "bs", "iodepth", "numjobs", "flush_every", "span_bytes", "beside_percent")
_FIO: Final = '"fio version"'
_BYTES_MAX: Final = 256 << 20
_FILES_MAX: Final = 2_000
_MACHINE_NS: Final = 7_000
"""A machine's part of a request, which fio measures and a model has not: an estimate, and the lab's price."""
_COMPLETION_NS: Final = 4_000  # of these, what fio's completion latency has: an estimate


@dataclass(frozen=True)
class Measurements:
    """The cells of some files or of a disk, and what was left out or assumed."""

    cells: tuple[MeasuredCell, ...]
    notes: tuple[str, ...]
    rotates: bool | None = None
    """Whether the disk says that it rotates; None: it did not say, or another machine's disk is behind it."""


def read_cells(paths: Sequence[Path]) -> Measurements:
    """Read fio's results (JSON) and tables (CSV), or all in folders; raises ResultError without a cell."""
    cells: list[MeasuredCell] = []
    notes: list[str] = []
    for file in _files(paths):
        if (file / "study.json").is_file():
            found, said = read_results(file)
            cells, notes = [*cells, *found], [*notes, *said]
            continue
        try:
            text = read_plain(file, _BYTES_MAX, follow=True).decode(errors="replace")
        except OSError as error:
            remedy = "name fio's JSON or a table of measurements"
            raise ResultError(
                f"it cannot be read: {error.strerror}", place=str(file), remedy=remedy
            ) from error
        if file.suffix == ".csv":
            cells += read_table(file, text)
            continue
        found, said = (read_log if file.suffix == ".log" else read_fio)(text, file.name)
        cells += found
        notes += [f"{file.name}: {each}" for each in said]
    if not cells:
        why = f": {notes[0]}" if notes else ""
        remedy = "measure with the jobs of `strata calibrate --script`"
        raise ResultError(f"there is no measurement in it{why}", place=str(paths[0]), remedy=remedy)
    return Measurements(tuple(cells), tuple(notes))


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir() and not (path / "study.json").is_file():
            every = sorted(path.rglob("*"))
            found = [each for each in every if each.suffix in {".json", ".csv"}]
            yield from [*found, *telling_logs(every)][:_FILES_MAX]
        else:
            yield path


def read_results(folder: Path) -> tuple[list[MeasuredCell], list[str]]:
    """The cells of a study's trials with fio, of one seed, since each seed draws a drive."""
    valid = [each for each in ResultsFolder.open(folder).readings() if each.usable]
    first = min((each.trial.seed for each in valid), default=0)
    cells: list[MeasuredCell] = []
    notes = [f"{folder.name}: the trials of seed {first}"]
    for each in valid:
        if each.attempt is None or each.trial.seed != first:
            continue
        events = read_events(each.attempt.events_path)
        for step, run in events.steps.items():
            if run.phase == "measure" and _FIO in (text := events.output(step)):
                found, said = read_fio(text, each.trial_id)
                cells, notes = [*cells, *found], [*notes, *said]
    return cells, notes


def read_table(file: Path, text: str) -> list[MeasuredCell]:
    """A line for each cell, in the columns of ``devices/real``, after lines that begin with ``#``."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    try:
        return [_row(row, file) for row in csv.DictReader(lines)]
    except (ValueError, KeyError) as error:
        cause = f"this is no table of measurements: {error}"
        remedy = "its columns are rw, bs, iodepth, iops and, if known, numjobs, p50_us, p99_us, p999_us"
        raise ResultError(cause, place=str(file), remedy=remedy) from error


def table_text(cells: Sequence[MeasuredCell], source: str) -> str:
    """Cells as a table that `read_table` reads."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow([*_LOAD_COLUMNS, "iops", *_COLUMNS.values(), "seconds", "capacity_bytes", "file"])
    for each in cells:
        load = each.pattern
        figures = [each.latencies_ns.get(percent, 0) / NS_PER_US or "" for percent in _COLUMNS]
        loads = [load.rw, load.block_bytes, load.depth, 1, load.flush_every, load.span_bytes]
        loads.append(load.beside_percent)
        writer.writerow([*loads, each.iops, *figures, each.seconds, each.capacity_bytes, each.place])
    return f"# source: {source}\n{written.getvalue()}"


def _row(row: Mapping[str, str], file: Path) -> MeasuredCell:
    if row["rw"] not in PATTERNS:
        raise ValueError(f"rw={row['rw']}")
    depth = int(row["iodepth"]) * int(row.get("numjobs") or 1)
    more = (int(row.get(name) or 0) for name in _LOAD_COLUMNS[4:])
    pattern = Pattern(row["rw"], parse_block_bytes(row["bs"]), depth, *more)
    latencies = {p: float(row[name]) * NS_PER_US for p, name in _COLUMNS.items() if row.get(name)}
    seconds = float(row.get("seconds") or 60)
    place, capacity_bytes = row.get("file") or file.name, int(row.get("capacity_bytes") or 0)
    return MeasuredCell(pattern, float(row["iops"]), latencies, seconds, place, capacity_bytes=capacity_bytes)


@dataclass(frozen=True)
class Modelling:
    """How cells are modelled.

    Attributes:
        requests: At most, of a cell.
        before: Requests that are not counted, before the first of a series: the drive had been in use.
        kept_back: Reads that the host's scheduler keeps from the disk: the tails of cached writes, which it
            does not, are those of the drive's own choice from depth 2 on (devices/real).
        submit_ns: The machine's time for a request before it counts as submitted: in no latency, in the rate.
        machine_ns: The machine's time in each latency.
        seed: Of the places and of the model's own draws.
    """

    requests: int = 2_000
    before: int = 2_000
    kept_back: int = 0
    submit_ns: float = 0
    machine_ns: float = _COMPLETION_NS
    seed: int = 1


REQUESTS_MIN: Final = 500
_BYTES_RUN: Final = 128 << 20
_BEFORE_MAX: Final = 40_000


def _buffered(subject: Subject, load: Pattern) -> int:
    """The writes that fill a drive's cache twice: a measurement of a minute saw it full."""
    parameters = subject.device.parameters
    if load.flush_every:
        return 0
    if "write_buffer" not in parameters:
        return 2 * int(parameters["write_cache_runs"].value) if "write_cache_runs" in parameters else 0
    return min(_BEFORE_MAX, int(2 * float(parameters["write_buffer"].value) * MIB / load.block_bytes))


def _few(load: Pattern) -> int:
    """Enough requests of large blocks."""
    return max(4 * load.depth, _BYTES_RUN // load.block_bytes)


def _holds_data(subject: Subject) -> bool:
    past = subject.device.parameters.get("precondition")
    return past is not None and past.value in READ_ALIKE


def modelled(
    reads: Subject, writes: Subject, cells: Sequence[MeasuredCell], how: Modelling
) -> list[MeasuredCell]:
    """The same cells on a model: those of one pattern follow one another on one disk, as they did.

    Reads are of data: a sector that nobody wrote is answered without its cells.
    """
    found: list[MeasuredCell] = []
    for _, series in groupby(cells, lambda cell: (cell.pattern.job, cell.pattern.flush_every)):
        each = list(series)
        first = each[0].pattern
        has_writes = first.is_write or not first.is_pure
        subject = writes if has_writes and (first.is_pure or _holds_data(writes)) else reads
        disk = subject.open(derive_seed(how.seed, "model"))
        kept_back = 0 if first.is_write and first.is_pure else how.kept_back
        if has_writes:
            before = min(how.before + _buffered(subject, first), _few(first))
            measure(subject, disk, first, before, seed=how.seed + 1000)
        for cell in each:
            most = max(REQUESTS_MIN, min(cell.requests, how.requests))
            trace = measure(subject, disk, cell.pattern, min(most, _few(cell.pattern)), kept_back, how.seed)
            inside, outside = how.machine_ns, how.submit_ns
            if cell.is_total:
                inside, outside = inside + outside, 0
            rate, latencies_ns = as_fio_measures(trace, cell.pattern, inside, outside, how.seed)
            found.append(replace(cell, iops=rate, latencies_ns=latencies_ns, place="", limit=""))
    return found


def as_fio_measures(
    trace: ModelTrace, load: Pattern, machine_ns: float = _MACHINE_NS, submit_ns: float = 0, seed: int = 1
) -> tuple[float, dict[float, float]]:
    """The rate per second and the latencies by `PERCENTS`, with the machine's part of each request.

    Of a mix those of the load's own direction; ``seed`` is that of its trace.
    """
    latency_ns, depth = trace.latency_ns.astype(np.float64) + machine_ns, load.depth
    # A program has its next request only after the machine's part, too.
    cycle_ns = float(latency_ns.mean()) + submit_ns
    rate = min(rate_per_s(trace, depth=depth), depth * NS_PER_S / cycle_ns)
    own = load.own(len(latency_ns), seed)
    found = np.percentile(latency_ns[own], PERCENTS)
    return rate * float(own.mean()), dict(zip(PERCENTS, map(float, found), strict=True))
