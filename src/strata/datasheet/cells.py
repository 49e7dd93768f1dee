# SPDX-License-Identifier: Apache-2.0
"""Measurements of a drive: cells of fio's results or of a table, and the same cells on a modelled device."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import numpy as np

from strata.datasheet.measure import PATTERNS, Pattern, Subject, measure, rate_per_s
from strata.errors import ResultError
from strata.files import read_plain
from strata.seeds import derive_seed
from strata.units import NS_PER_S, NS_PER_US
from strata.words import grouped

PERCENTS: Final = (50.0, 99.0, 99.9)
_COLUMNS: Final = {50.0: "p50_us", 99.0: "p99_us", 99.9: "p999_us"}
_BYTES_MAX: Final = 256 << 20
_FILES_MAX: Final = 2_000
_SYNCHRONOUS: Final = ("sync", "psync", "vsync", "pvsync", "pvsync2", "mmap")
"""Engines that have one request at a time, whatever ``iodepth`` says; ``psync`` is the default."""
_MULTIPLIERS: Final = {"": 1, "b": 1} | {
    f"{letter}{end}": 1 << 10 * power for power, letter in enumerate("kmgt", 1) for end in ("", "b", "ib")
}
MACHINE_NS: Final = 7_000
"""A machine's part of a request, which fio measures and a model has not: an estimate, and the lab's price."""


@dataclass(frozen=True)
class Cell:
    """A load and its figures: measured by fio, or modelled.

    Attributes:
        latencies_ns: By `PERCENTS`, where they are known.
        seconds: How long it was measured.
        place: The file, and the job in it.
        limit: Why it shows the host instead of the drive, or empty.
    """

    pattern: Pattern
    iops: float
    latencies_ns: Mapping[float, float]
    seconds: float = 60.0
    place: str = ""
    limit: str = ""

    @property
    def requests(self) -> int:
        return int(self.iops * self.seconds)


@dataclass(frozen=True)
class Measured:
    """The cells of some files, and what was left out or assumed."""

    cells: tuple[Cell, ...]
    notes: tuple[str, ...]


def parse_block_bytes(text: str) -> int:
    digits = text.rstrip("KkMmGgTtIiBb")
    return int(digits) * _MULTIPLIERS[text[len(digits) :].lower()]


def read_cells(paths: Sequence[Path]) -> Measured:
    """Read fio's results (JSON) and tables (CSV), or all in folders; raises ResultError without a cell."""
    cells: list[Cell] = []
    notes: list[str] = []
    for file in _files(paths):
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
        found, said = _read_fio(text, file.name)
        cells += found
        notes += [f"{file.name}: {each}" for each in said]
    if not cells:
        why = f": {notes[0]}" if notes else ""
        remedy = "measure with the jobs of `strata calibrate --script`"
        raise ResultError(f"there is no measurement in it{why}", place=str(paths[0]), remedy=remedy)
    return Measured(tuple(cells), tuple(notes))


def _files(paths: Iterable[Path]) -> Iterator[Path]:
    for path in paths:
        if path.is_dir():
            found = [each for each in sorted(path.rglob("*")) if each.suffix in {".json", ".csv"}]
            yield from found[:_FILES_MAX]
        else:
            yield path


def read_table(file: Path, text: str) -> list[Cell]:
    """A line for each cell, in the columns of ``devices/real``, after lines that begin with ``#``."""
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    try:
        return [_row(row, file) for row in csv.DictReader(lines)]
    except (ValueError, KeyError) as error:
        cause = f"this is no table of measurements: {error}"
        remedy = "its columns are rw, bs, iodepth, numjobs, iops and, if known, p50_us, p99_us, p999_us"
        raise ResultError(cause, place=str(file), remedy=remedy) from error


def _row(row: Mapping[str, str], file: Path) -> Cell:
    if row["rw"] not in PATTERNS:
        raise ValueError(f"rw={row['rw']}")
    depth = int(row["iodepth"]) * int(row.get("numjobs") or 1)
    pattern = Pattern(row["rw"], parse_block_bytes(row["bs"]), depth)
    latencies = {p: float(row[name]) * NS_PER_US for p, name in _COLUMNS.items() if row.get(name)}
    return Cell(pattern, float(row["iops"]), latencies, place=row.get("file") or file.name)


def _read_fio(text: str, name: str) -> tuple[list[Cell], list[str]]:
    """The cells of fio's output of version 2 or 3, and what was left out and why."""
    content, notes = _objects(text)
    jobs = [job for job in content.get("jobs", []) if isinstance(job, dict)]
    found: list[tuple[int, Cell]] = []
    for job in jobs:
        try:
            options = {**content.get("global options", {}), **job.get("job options", {})}
            found.append(_read_job(job, options, name, notes))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            notes.append(f"the job {str(job.get('jobname', '?'))!r} is left out: {error}")
    if not jobs:
        notes.append("there are no jobs of fio in it")
    cells = []
    for beside in grouped(found).values():
        if len({each.pattern for each in beside}) > 1:
            notes.append(f"{len(beside)} jobs of different loads ran at once, and are left out")
        else:
            cells.append(_together(beside))
    return cells, notes


def _objects(text: str) -> tuple[dict[str, Any], list[str]]:
    """The JSON of a file, also behind warnings of fio; of one that is cut off, the jobs that are whole."""
    decoder, start = json.JSONDecoder(), max(0, text.find("{"))
    try:
        content, _ = decoder.raw_decode(text, start)
        return (content if isinstance(content, dict) else {}), []
    except ValueError:
        jobs: list[Any] = []
        shared: dict[str, Any] = {}
    for key in ("global options", "jobs"):
        at = text.find(f'"{key}"')
        at = text.find("{", at) if at >= 0 else -1
        while at >= 0:
            try:
                found, end = decoder.raw_decode(text, at)
            except ValueError:
                break
            if key != "jobs":
                shared = found
                break
            jobs.append(found)
            rest = text[end:].lstrip()
            at = text.find("{", end) if rest.startswith(",") else -1
    said = f"the file is cut off or damaged; whole jobs in it: {len(jobs)}"
    return {"jobs": jobs, "global options": shared}, [said]


def _read_job(
    job: Mapping[str, Any], options: Mapping[str, Any], name: str, notes: list[str]
) -> tuple[int, Cell]:
    """A job's cell with its group."""
    if job.get("error"):
        raise ValueError(f"fio had the error {job['error']} in it")
    active = [side for side in ("read", "write") if job.get(side, {}).get("iops")]
    if len(active) != 1 or job.get("trim", {}).get("iops"):
        raise ValueError("it reads and writes at once" if active else "it has no requests")
    side = job[active[0]]
    if options and str(options.get("direct", "0")) != "1" and str(options.get("buffered", "1")) != "0":
        raise ValueError("it went through the page cache (direct=0), which says nothing of the disk")
    for limit in ("rate", "rate_iops", "thinktime"):
        if str(options.get(limit, "0")) not in {"", "0"}:
            raise ValueError(f"{limit} held it back")
    pattern, seconds = _pattern(options, side, active[0], notes), float(side.get("runtime", 0)) / 1000
    # Version 2 has microseconds, version 3 nanoseconds.
    times, scale = next((side[k], n) for k, n in (("clat_ns", 1), ("lat_ns", 1), ("clat", 1000)) if k in side)
    if not times.get("percentile") and "lat_ns" in side:
        times = side["lat_ns"]
    stated = {float(key): float(value) * scale for key, value in (times.get("percentile") or {}).items()}
    latencies = {p: stated[p] for p in PERCENTS if stated.get(p)}
    label = str(job.get("jobname", ""))
    cell = Cell(pattern, float(side["iops"]), latencies, seconds or 60.0, f"{name}: {label}")
    # A job that waits for the earlier ones begins a new group: jobs of one group ran at once.
    return int(job.get("groupid", 0)), cell


def _pattern(options: Mapping[str, Any], side: Mapping[str, Any], what: str, notes: list[str]) -> Pattern:
    """The load by the job's options; without them, which fio 2 leaves out, by its figures."""
    if "rw" not in options and "readwrite" not in options:
        requests = float(side["total_ios"])
        block = round(float(side.get("io_bytes", 0)) * _kib(side) / requests / 512) * 512
        times, scale = (side["lat_ns"], 1e9) if "lat_ns" in side else (side["lat"], 1e6)
        depth = max(1, round(float(side["iops"]) * float(times["mean"]) / scale))
        rw = f"rand{what}" if block <= 16 << 10 else what
        notes.append(f"without its options, a job is taken for {rw} of {block} bytes at depth {depth}")
        return Pattern(rw, block, depth)
    rw = str(options.get("rw") or options["readwrite"])
    if rw not in PATTERNS:
        raise ValueError(f"rw={rw} is not fitted")
    block = parse_block_bytes(str(options.get("bs", options.get("blocksize", "4096"))).split(",")[0])
    is_single = str(options.get("ioengine", "psync")) in _SYNCHRONOUS
    depth = 1 if is_single else int(options.get("iodepth", 1))
    flush = int(options.get("fsync") or options.get("fdatasync") or 0)
    target = str(options.get("filename", "")) or str(options.get("directory", "a file"))
    span = 0
    if not target.startswith("/dev/") or target.startswith("/dev/shm/"):  # noqa: S108 - a name in a file
        size = str(options.get("size", "0"))
        span = 0 if size.endswith("%") else parse_block_bytes(size)
        note = "it was measured on a file, which takes a part of the disk; the filesystem's time is in it"
        notes += [note] if note not in notes else []
    return Pattern(rw, block, depth * _shown(options), flush if what == "write" else 0, span)


def _kib(side: Mapping[str, Any]) -> float:
    """The factor to bytes: early versions of fio wrote KiB under the same name."""
    stated, rate = float(side.get("io_bytes", 0)), float(side.get("bw", 0))
    expected = rate * 1024 * float(side.get("runtime", 0)) / 1000
    return 1024.0 if stated and expected / stated > 100 else 1.0


def _shown(options: Mapping[str, Any]) -> int:
    """The jobs that one entry stands for."""
    is_grouped = "group_reporting" in options and str(options["group_reporting"]) != "0"
    return int(options.get("numjobs", 1)) if is_grouped else 1


def _together(beside: Sequence[Cell]) -> Cell:
    """The cell of jobs of one load that ran at once."""
    first, rate = beside[0], sum(each.iops for each in beside)
    known = [p for p in PERCENTS if all(p in each.latencies_ns for each in beside)]
    latencies = {p: sum(each.iops * each.latencies_ns[p] for each in beside) / rate for p in known}
    pattern = replace(first.pattern, depth=first.pattern.depth * len(beside))
    return replace(first, pattern=pattern, iops=rate, latencies_ns=latencies)


@dataclass(frozen=True)
class Modelling:
    """How cells are modelled.

    Attributes:
        requests: At most, of a cell.
        before: Requests that are not counted, before the first of a series: the drive had been in use.
        kept_back: Requests that the host's scheduler keeps from the disk.
        seed: Of the places and of the model's own draws.
    """

    requests: int = 2_000
    before: int = 2_000
    kept_back: int = 0
    seed: int = 1


REQUESTS_MIN: Final = 500


def modelled(reads: Subject, writes: Subject, cells: Sequence[Cell], how: Modelling) -> list[Cell]:
    """The same cells on a model: those of one pattern follow one another on one disk, as they did.

    Reads are of data: a sector that nobody wrote is answered without its cells.
    """
    found: list[Cell] = []
    for _, series in groupby(cells, lambda cell: (cell.pattern.rw, cell.pattern.flush_every)):
        each = list(series)
        subject = writes if each[0].pattern.is_write else reads
        disk = subject.open(derive_seed(how.seed, "model"))
        if each[0].pattern.is_write:
            measure(subject, disk, replace(each[0].pattern, flush_every=0), how.before, seed=how.seed + 1000)
        for cell in each:
            most = max(REQUESTS_MIN, min(cell.requests, how.requests))
            trace = measure(subject, disk, cell.pattern, most, how.kept_back, how.seed)
            latency_ns = trace.latency_ns.astype(np.float64) + MACHINE_NS
            # A program has its next request only after the machine's part, too.
            steady = rate_per_s(trace, depth=cell.pattern.depth)
            rate = min(steady, cell.pattern.depth * NS_PER_S / float(latency_ns.mean()))
            values = np.percentile(latency_ns, PERCENTS)
            latencies = dict(zip(PERCENTS, map(float, values), strict=True))
            found.append(replace(cell, iops=rate, latencies_ns=latencies, place="", limit=""))
    return found
