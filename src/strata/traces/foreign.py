# SPDX-License-Identifier: Apache-2.0
"""Traces of other programs, as requests that can be replayed: fio's iolog, blkparse's text, blktrace's files.

What such a trace does not tell is 0: the parts of a request's time, and in an iolog its completion.
"""

from __future__ import annotations

import glob
import re
import struct
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Final

import numpy as np

from strata.errors import ResultError
from strata.files import explained
from strata.traces.kinds import FLAGS, KINDS, OPS
from strata.traces.table import RECORD, Trace
from strata.units import NS_PER_S, NS_PER_US, SECTOR_BYTES

_NONE: Final = "none"  # in place of the root image, which such a trace does not have


@dataclass(frozen=True)
class _Request:
    """One request; ``kind`` is one of ``KINDS``, ``complete_ns`` is None where the trace does not tell it."""

    disk: str
    kind: str
    sector: int
    sectors: int
    arrival_ns: int
    complete_ns: int | None = None
    flags: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Event:
    """What happened to a request: it was queued (Q), issued to its disk (D) or completed (C).

    ``rwbs`` are blkparse's letters for what the request is for.
    """

    at_ns: int
    action: str
    disk: str
    rwbs: str
    sector: int
    sectors: int


def files_of(path: Path) -> list[Path]:
    """The files of a trace: of blktrace's ``sda.blktrace.0`` all ``sda.blktrace.*``, one for each CPU."""
    is_one_of_several = path.name.endswith(f".blktrace{path.suffix}") and path.suffix[1:].isdecimal()
    if not is_one_of_several:
        return [path]
    beside = path.parent.glob(f"{glob.escape(path.stem)}.*")
    return sorted(each for each in beside if each.suffix[1:].isdecimal())


def read_foreign(path: Path) -> Trace:
    """The requests of a file, and those beside it (`files_of`), in a format that is known by its content.

    Of blktrace's events the issue to the disk (D) is a request's arrival; if none was recorded, its queueing
    (Q) is. Requests that the recording ended before, without completion (C), are left out if others have one.

    Raises ResultError if the file cannot be read, has a bad line or no requests.
    """
    with explained(path, "read the trace"):
        content = path.read_bytes()
        if _byte_order(content):
            files = files_of(path)
            requests = _joined(event for file in files for event in _blktrace(file.read_bytes(), file))
        else:
            lines = content.decode(errors="replace").splitlines()
            is_iolog = lines[:1] and lines[0].startswith("fio version")
            requests = list(_iolog(lines, path)) if is_iolog else _joined(_blkparse(lines, path))
    if not requests:
        raise ResultError(
            "no request of a disk was found",
            place=str(path),
            remedy="formats: trace.parquet of Strata, fio's iolog 2 and 3, blkparse's default text, blktrace",
        )
    return _trace(requests)


def _trace(requests: Sequence[_Request]) -> Trace:
    disks = (_NONE, *dict.fromkeys(each.disk for each in requests))
    first_ns = min(each.arrival_ns for each in requests)
    records = np.zeros(len(requests), RECORD)
    for row, each in zip(records, requests, strict=True):
        arrival_ns = each.arrival_ns - first_ns
        row["arrival_ns"] = arrival_ns
        row["complete_ns"] = arrival_ns if each.complete_ns is None else each.complete_ns - first_ns
        row["sector"], row["sectors"] = each.sector, each.sectors
        row["kind"], row["op"] = KINDS.index(each.kind), OPS.index(each.kind.partition("_")[0])
        row["flags"] = sum(1 << FLAGS.index(name) for name in each.flags)
        row["disk"] = disks.index(each.disk)
    return Trace(records, disks, any(each.complete_ns is not None for each in requests))


def _bad(path: Path, number: int, line: str) -> ResultError:
    return ResultError(f"this is no line of the format: {line!r}", place=f"{path}:{number}")


_IOLOG_KINDS: Final = {
    "read": "read",
    "write": "write_sync",
    "sync": "flush",
    "datasync": "flush",
    "trim": "discard",
}


def _iolog(lines: Sequence[str], path: Path) -> Iterator[_Request]:
    """fio(1), "TRACE FILE FORMAT": version 3 begins each line with microseconds, version 2 has waits."""
    timed = lines[0].split()[2:3] == ["3"]
    at_us = 0
    for number, line in enumerate(lines[1:], 2):
        words = line.split()
        if words[:2] == ["fio", "version"]:
            raise ResultError(
                "a second log begins here: several jobs (numjobs) wrote this file, and the order of their "
                "requests is lost",
                place=f"{path}:{number}",
                remedy="give each job a write_iolog of its own, or record with numjobs=1",
            )
        try:
            if timed and words:
                at_us = int(words.pop(0))
            match words:
                case [] | [_, "add" | "open" | "close"]:
                    continue
                case [_, "wait", wait_us, *_] if not timed:
                    at_us += int(wait_us)
                case [file, action, offset, length] if action in _IOLOG_KINDS:
                    kind = _IOLOG_KINDS[action]
                    start, end = int(offset), 0 if kind == "flush" else int(offset) + int(length)
                    sectors = max(0, -(-end // SECTOR_BYTES) - start // SECTOR_BYTES)
                    sector = start // SECTOR_BYTES if sectors else 0
                    yield _Request(file, kind, sector, sectors, at_us * NS_PER_US)
                case _:
                    raise _bad(path, number, line)
        except ValueError as error:
            raise _bad(path, number, line) from error


_HEAD: Final = re.compile(r"\s*\d+,\d+\s")
_BLKPARSE: Final = re.compile(
    r"\s*(?P<disk>\d+,\d+)\s+\d+\s+\d+\s+(?P<s>\d+)\.(?P<ns>\d{9})\s+\d+\s+(?P<action>[A-Za-z]+)\s+"
    r"(?P<rwbs>[A-Z]+)(?:\s+(?P<sector>\d+)(?: \+ (?P<sectors>\d+))?)?(?:\s|$)"
)


def _blkparse(lines: Sequence[str], path: Path) -> Iterator[_Event]:
    """blkparse(1)'s default output; other lines than those of events are its summary."""
    for number, line in enumerate(lines, 1):
        if not _HEAD.match(line):
            continue
        found = _BLKPARSE.match(line)
        if found is None:
            raise _bad(path, number, line)
        at_ns = int(found["s"]) * NS_PER_S + int(found["ns"])
        place = int(found["sector"] or 0), int(found["sectors"] or 0)
        yield _Event(at_ns, found["action"], found["disk"], found["rwbs"], *place)


# struct blk_io_trace of linux/blktrace_api.h: magic, sequence, time, sector, bytes, action, pid, device, cpu,
# error, length of what follows.
_RECORD: Final = "IIQQIIIIIHH"
_MAGIC: Final = 0x65617400
_ACTIONS: Final = {1: "Q", 7: "D", 8: "C"}
_NOTIFY: Final = 1 << 26
_MINOR_BITS: Final = 20


def _byte_order(content: bytes) -> str:
    """Of blktrace's records, as for `struct`; empty if the content is something else."""
    head = content[:4]
    found = (
        order for order in "<>" if len(head) == 4 and struct.unpack(f"{order}I", head)[0] & ~0xFF == _MAGIC
    )
    return next(found, "")


def _blktrace(content: bytes, path: Path) -> Iterator[_Event]:
    form = struct.Struct(f"{_byte_order(content) or '<'}{_RECORD}")
    at = 0
    while at < len(content):
        try:
            record = form.unpack_from(content, at)
        except struct.error as error:
            raise ResultError(f"the file ends inside the record at byte {at}", place=str(path)) from error
        magic, _, at_ns, sector, length, action, _, device, _, _, more = record
        if magic & ~0xFF != _MAGIC:
            raise ResultError(f"there is no record at byte {at}", place=str(path))
        at += form.size + more
        if not action & _NOTIFY and action & 0xFFFF in _ACTIONS:
            disk = f"{device >> _MINOR_BITS},{device & ((1 << _MINOR_BITS) - 1)}"
            rwbs = _rwbs(action >> 16, bool(length))
            yield _Event(at_ns, _ACTIONS[action & 0xFFFF], disk, rwbs, sector, length // SECTOR_BYTES)


def _rwbs(category: int, has_data: bool) -> str:
    """BLK_TC_* as blkparse's letters."""
    read, write, flush, sync, ahead, meta, discard, fua = (
        bool(category >> bit & 1) for bit in (0, 1, 2, 3, 11, 12, 13, 15)
    )
    operation = "D" if discard else "W" if write and has_data else "R" if read and has_data else "N"
    letters = (("F", flush), (operation, True), ("F", fua), ("A", ahead), ("S", sync), ("M", meta))
    return "".join(letter for letter, is_set in letters if is_set)


_RWBS: Final = re.compile(r"(?P<preflush>F?)(?P<operation>[RWDNF])(?P<rest>[A-Z]*)")


def _request(event: _Event) -> _Request | None:
    """The request for data, a flush or a discard; None for anything else."""
    found = _RWBS.fullmatch(event.rwbs)
    kind = found and _kind(found["operation"], found["rest"], bool(found["preflush"]), bool(event.sectors))
    if not found or not kind:
        return None
    if kind == "flush":
        return _Request(event.disk, kind, 0, 0, event.at_ns)
    flags = frozenset(name for name, letter in (("fua", "F"), ("read_ahead", "A")) if letter in found["rest"])
    return _Request(event.disk, kind, event.sector, event.sectors, event.at_ns, flags=flags)


def _kind(operation: str, rest: str, preflush: bool, has_data: bool) -> str | None:
    if operation == "F" or (preflush and not has_data):
        return "flush"
    if operation == "D":
        return "discard"
    if operation == "N" or not has_data:
        return None
    if operation == "R":
        return "read_metadata" if "M" in rest else "read"
    if preflush or "F" in rest or {"S", "M"} <= set(rest):
        return "write_journal"
    return "write_sync" if "S" in rest else "write_metadata" if "M" in rest else "write"


def _joined(events: Iterable[_Event]) -> list[_Request]:
    """The requests of blktrace's events, each with its completion."""
    ordered = sorted(events, key=attrgetter("at_ns"))
    arrival = "D" if any(each.action == "D" for each in ordered) else "Q"
    begun: dict[tuple[str, str, int, int], deque[int]] = defaultdict(deque)
    requests: list[_Request] = []
    for event in ordered:
        asked = _request(event)
        if asked is None:
            continue
        key = (asked.disk, asked.kind, asked.sector, asked.sectors)
        if event.action == arrival:
            begun[key].append(len(requests))
            requests.append(asked)
        elif event.action == "C" and begun[key]:
            index = begun[key].popleft()
            requests[index] = replace(requests[index], complete_ns=event.at_ns)
    if all(each.complete_ns is None for each in requests):
        return requests
    return [each for each in requests if each.complete_ns is not None]
