# SPDX-License-Identifier: Apache-2.0
"""The measured cells of fio's JSON, of versions 2 and 3, also of a file that is cut off."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from strata.datasheet.measure import MIXES, PATTERNS, Pattern
from strata.units import NS_PER_S, NS_PER_US, SECTOR_BYTES
from strata.words import grouped

PERCENTS: Final = (50.0, 99.0, 99.9)
_SYNCHRONOUS: Final = ("sync", "psync", "vsync", "pvsync", "pvsync2", "mmap")
"""Engines that have one request at a time, whatever ``iodepth`` says; ``psync`` is the default."""
_MULTIPLIERS: Final = {"": 1, "b": 1} | {
    f"{letter}{end}": 1 << 10 * power for power, letter in enumerate("kmgt", 1) for end in ("", "b", "ib")
}
_SMALL_BYTES: Final = 16 << 10  # larger requests are usually in order
_KIB_FAR: Final = 100  # between 1 and 1024
_ON_FILE: Final = "it was measured on a file, which takes a part of the disk; the filesystem's time is in it"


@dataclass(frozen=True)
class MeasuredCell:
    """A load and its figures: measured by fio, or modelled.

    Attributes:
        latencies_ns: By `PERCENTS`, where they are known.
        is_total: Whether the latencies begin at the submission's begin (fio's lat) instead of its end (clat).
        seconds: How long it was measured.
        place: The file, and the job in it.
        limit: Why it shows the host instead of the drive, or empty.
        capacity_bytes: Of the disk; 0: unknown.
    """

    pattern: Pattern
    iops: float
    latencies_ns: Mapping[float, float]
    seconds: float = 60.0
    place: str = ""
    limit: str = ""
    is_total: bool = False
    capacity_bytes: int = 0

    @property
    def requests(self) -> int:
        return int(self.iops * self.seconds)


def parse_block_bytes(text: str) -> int:
    digits = text.rstrip("KkMmGgTtIiBb")
    return int(digits) * _MULTIPLIERS[text[len(digits) :].lower()]


def read_fio(text: str, name: str) -> tuple[list[MeasuredCell], list[str]]:
    """The cells of fio's output, and what was left out or assumed, and why."""
    content, notes = _objects(text)
    jobs = [job for job in content.get("jobs", []) if isinstance(job, dict)]
    found: list[tuple[int, list[MeasuredCell]]] = []
    for job in jobs:
        try:
            options = {**content.get("global options", {}), **job.get("job options", {})}
            halves = _read_job(job, options, name, notes)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            notes.append(f"the job {str(job.get('jobname', '?'))!r} is left out: {error}")
        else:
            # A job that waits for the earlier ones begins a new group: jobs of one group ran at once.
            found.append((int(job.get("groupid", 0)), halves))
    if not jobs:
        notes.append("there are no jobs of fio in it")
    cells = []
    for beside in grouped(found).values():
        if len({tuple(load_of(half) for half in halves) for halves in beside}) > 1:
            notes.append(f"{len(beside)} jobs of different loads ran at once, and are left out")
        else:
            cells += [_together(halves) for halves in zip(*beside, strict=True)]
    return cells, list(dict.fromkeys(notes))


def _objects(text: str) -> tuple[dict[str, Any], list[str]]:
    """The JSON of a file, also behind warnings of fio; of one that is cut off, the jobs that are whole."""
    decoder, start = json.JSONDecoder(), max(0, text.find("{"))
    try:
        content, _ = decoder.raw_decode(text, start)
    except ValueError:
        shared, jobs = _whole(text, "global options", 1), _whole(text, "jobs")
        said = f"the file is cut off or damaged; whole jobs in it: {len(jobs)}"
        return {"jobs": jobs, "global options": shared[0] if shared else {}}, [said]
    return (content if isinstance(content, dict) else {}), []


def _whole(text: str, key: str, most: int = 1 << 20) -> list[Any]:
    """The whole objects behind a key, until the first that is cut off."""
    decoder = json.JSONDecoder()
    found: list[Any] = []
    begin = text.find(f'"{key}"')
    at = text.find("{", begin) if begin >= 0 else -1
    while at >= 0 and len(found) < most:
        try:
            each, end = decoder.raw_decode(text, at)
        except ValueError:
            break
        found.append(each)
        at = text.find("{", end) if text[end:].lstrip().startswith(",") else -1
    return found


def load_of(cell: MeasuredCell) -> Pattern:
    """Its load without the exact share of a mix, which chance decides."""
    return replace(cell.pattern, beside_percent=0)


def _read_job(
    job: Mapping[str, Any], options: Mapping[str, Any], name: str, notes: list[str]
) -> list[MeasuredCell]:
    """The job's cell; of one that reads and writes at once, a cell for each direction."""
    _refuse_held_back(options)
    sides = {what: job[what] for what in _directions(job)}
    place = f"{name}: {job.get('jobname', '')}"
    at_random, pattern = _load(options, sides, notes)
    total = sum(float(side["iops"]) for side in sides.values())
    cells = []
    for what, side in sides.items():
        beside = min(99, max(1, round(100 * (1 - float(side["iops"]) / total)))) if len(sides) > 1 else 0
        seconds = float(side.get("runtime", 0)) / 1000
        latencies, is_total = _latencies(side)
        load = replace(pattern, rw=f"{'rand' * at_random}{what}", beside_percent=beside)
        cells.append(
            MeasuredCell(load, float(side["iops"]), latencies, seconds or 60.0, place, is_total=is_total)
        )
    return cells


def _directions(job: Mapping[str, Any]) -> list[str]:
    """``read``, ``write`` or both: the sides that have requests."""
    if job.get("error"):
        raise ValueError(f"fio had the error {job['error']} in it")
    active = [side for side in ("read", "write", "trim") if job.get(side, {}).get("iops")]
    if not active or "trim" in active:
        raise ValueError("it trims" if active else "it has no requests")
    return active


def _refuse_held_back(options: Mapping[str, Any]) -> None:
    """Raise ValueError if not the disk decided how long the job's requests took."""
    if options and str(options.get("direct", "0")) != "1" and str(options.get("buffered", "1")) != "0":
        raise ValueError("it went through the page cache (direct=0), which says nothing of the disk")
    for limit in ("rate", "rate_iops", "thinktime"):
        if str(options.get(limit, "0")) not in {"", "0"}:
            raise ValueError(f"{limit} held it back")
    several = set(str(options.get("bs", options.get("blocksize", ""))).split(",")) - {""}
    if len(several) > 1 or "bssplit" in options or "bsrange" in options:
        raise ValueError("its requests have several sizes")
    if not str(options.get("random_distribution", "random")).startswith("random"):
        raise ValueError(f"random_distribution={options['random_distribution']}: its places are not uniform")


def _latencies(side: Mapping[str, Any]) -> tuple[dict[float, float], bool]:
    """By `PERCENTS`, and whether they are of the whole request.

    Version 2 has microseconds, version 3 nanoseconds, of completion or of the whole.
    """
    for key, scale in (("clat_ns", 1), ("lat_ns", 1), ("clat", NS_PER_US), ("lat", NS_PER_US)):
        if stated := side.get(key, {}).get("percentile"):
            known = {float(percent): float(value) * scale for percent, value in stated.items()}
            found = {percent: known[percent] for percent in PERCENTS if known.get(percent)}
            return found, key.startswith("lat")
    return {}, False


def _load(
    options: Mapping[str, Any], sides: Mapping[str, Mapping[str, Any]], notes: list[str]
) -> tuple[bool, Pattern]:
    """Whether its places are random, and the load by the job's options; the pattern's ``rw`` is open."""
    rw = str(options.get("rw") or options.get("readwrite") or "").split(":")[0]
    if not rw:
        return _guessed(sides, notes)
    if rw not in {*PATTERNS, *MIXES}:
        raise ValueError(f"rw={rw} is not fitted")
    flush = int(options.get("fsync") or options.get("fdatasync") or 0) if "write" in sides else 0
    if flush and len(sides) > 1:
        raise ValueError("flushes between reads and writes are not fitted")
    block = parse_block_bytes(str(options.get("bs", options.get("blocksize", "4096"))).split(",")[0])
    is_single = str(options.get("ioengine", "psync")) in _SYNCHRONOUS
    depth = 1 if is_single else int(options.get("iodepth", 1))
    # With group_reporting one entry stands for all jobs of its load.
    is_grouped = str(options.get("group_reporting", "0")) != "0"
    depth *= int(options.get("numjobs", 1)) if is_grouped else 1
    size = str(options.get("size", "0"))
    span = 0 if size.endswith("%") else parse_block_bytes(size)
    if not str(options.get("filename", "a file")).startswith("/dev/"):
        notes.append(_ON_FILE)
    return rw.startswith("rand"), Pattern("", block, depth, flush, span)


def _guessed(sides: Mapping[str, Mapping[str, Any]], notes: list[str]) -> tuple[bool, Pattern]:
    """The load by its figures, of a job without its options, which early versions leave out."""
    held, blocks = 0.0, []
    for side in sides.values():
        stated, runtime_s = float(side["io_bytes"]), float(side["runtime"]) / 1000
        # The earliest versions wrote KiB under the same name; ``bw`` is in KiB/s in all.
        is_kib = float(side.get("bw", 0)) * 1024 * runtime_s > _KIB_FAR * stated
        requests = float(side.get("total_ios") or float(side["iops"]) * runtime_s)
        blocks.append(round(stated * (1024 if is_kib else 1) / requests / SECTOR_BYTES) * SECTOR_BYTES)
        latency_ns = side["lat_ns"]["mean"] if "lat_ns" in side else side["lat"]["mean"] * NS_PER_US
        held += float(side["iops"]) * float(latency_ns) / NS_PER_S
    return guessed_load(tuple(sides), blocks[0], held, notes)


def guessed_load(sides: Sequence[str], block: int, held: float, notes: list[str]) -> tuple[bool, Pattern]:
    """As `_load`, of requests of a size; ``held`` is the mean number in flight."""
    depth, at_random = max(1, round(held)), block <= _SMALL_BYTES
    rw = f"{'rand' * at_random}{'rw' if len(sides) > 1 else sides[0]}"
    notes.append(f"without its options, a job is taken for {rw} of {block} bytes at depth {depth}")
    return at_random, Pattern("", block, depth)


def _together(beside: Sequence[MeasuredCell]) -> MeasuredCell:
    """The cell of jobs of one load that ran at once."""
    first, rate = beside[0], sum(each.iops for each in beside)
    known = [p for p in PERCENTS if all(p in each.latencies_ns for each in beside)]
    latencies = {p: sum(each.iops * each.latencies_ns[p] for each in beside) / rate for p in known}
    pattern = replace(first.pattern, depth=first.pattern.depth * len(beside))
    return replace(first, pattern=pattern, iops=rate, latencies_ns=latencies)
