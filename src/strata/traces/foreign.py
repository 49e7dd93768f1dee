# SPDX-License-Identifier: Apache-2.0
"""Traces of other programs, as requests that can be replayed: fio's iolog, blkparse's text, blktrace's files.

What such a trace does not tell is 0: the parts of a request's time, and in an iolog its completion.
"""

from __future__ import annotations

import glob
import os
import re
import struct
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from strata.errors import ResultError
from strata.files import explained, open_named
from strata.traces.kinds import FLAGS, KINDS, OPS
from strata.traces.table import END_SECTOR_MAX, NS_MAX, RECORD, Records, Trace
from strata.units import NS_PER_S, NS_PER_US, SECTOR_BYTES

_NONE: Final = "none"  # in place of the root image, which such a trace does not have


# What happened to a request: it was queued (Q), issued to its disk (D) or completed (C). ``disk`` counts the
# names that were met, and so does ``rwbs``: blkparse's letters for what the request is for.
_EVENT: Final = np.dtype(
    [
        *((name, "<u8") for name in ("at_ns", "sector")),
        *((name, "<u4") for name in ("sectors", "disk", "rwbs")),
        ("action", "u1"),
    ]
)
_EVENT_ACTIONS: Final = "QDC"
_SECTORS_MAX: Final = (1 << 32) - 1
_LINE_BYTES_MAX: Final = 1 << 16

_REQUEST: Final = np.dtype(
    [
        *((name, "<u8") for name in ("arrival_ns", "sector")),
        *((name, "<u4") for name in ("sectors", "kind", "flags", "disk")),
    ]
)
_Table = npt.NDArray[np.void]


class _Names(dict[str, int]):
    """Names by the order in which they were met."""

    def number(self, name: str) -> int:
        return self.setdefault(name, len(self))


def files_of(path: Path) -> list[Path]:
    """The files of a trace: of blktrace's ``sda.blktrace.0`` all ``sda.blktrace.*``, one for each CPU.

    Of ``load.iolog.0`` likewise all ``load.iolog.*``, one for each job of fio.
    """
    kinds = (f".blktrace{path.suffix}", f".iolog{path.suffix}")
    is_one_of_several = path.name.endswith(kinds) and path.suffix[1:].isdecimal()
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
        with open_named(path) as file:
            is_blktrace = bool(_byte_order(file.read(4)))
            file.seek(0)
            is_iolog = file.read(len(_IOLOG_HEAD)) == _IOLOG_HEAD
        if is_blktrace:
            trace = joined(event for each in files_of(path) for event in _blktrace(each))
        else:
            trace = _iolog(path) if is_iolog else joined(_blkparse(path))
    if not len(trace.records):
        raise ResultError(
            "no request of a disk was found",
            place=str(path),
            remedy="formats: trace.parquet of Strata, fio's iolog 2 and 3, blkparse's default text, blktrace",
        )
    return trace


_OP_OF_KIND: Final = np.array([OPS.index(kind.partition("_")[0]) for kind in KINDS], "u1")


def _records(requests: _Table, complete_ns: npt.NDArray[np.uint64]) -> Records:
    """The trace's records, from the first arrival on."""
    records = np.zeros(len(requests), RECORD)
    if len(requests):
        first_ns = requests["arrival_ns"].min()
        for name in ("sector", "sectors", "kind", "flags", "disk"):
            records[name] = requests[name]
        records["op"] = _OP_OF_KIND[requests["kind"]]
        records["arrival_ns"] = requests["arrival_ns"] - first_ns
        records["complete_ns"] = complete_ns - first_ns
    return records


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a text, numbered; only one is in memory."""
    with open_named(path) as file:
        for number in count(1):
            line = file.readline(_LINE_BYTES_MAX)
            if not line:
                return
            if len(line) == _LINE_BYTES_MAX:
                raise _bad(path, number, line.decode(errors="replace"))
            yield number, line.decode(errors="replace").rstrip("\r\n")


def _ranged(text: str, most: int) -> int:
    """A number from 0 to ``most``. Raises ValueError."""
    if not (text.isascii() and text.isdecimal()) or len(text) > 20 or int(text) > most:
        raise ValueError
    return int(text)


def _bad(path: Path, number: int, line: str) -> ResultError:
    cause = f"this is no line of the format: {line[:200]!r}"
    if re.search(r"\d{16}|\s-\d", line):
        cause = f"a number is out of range: {line[:200]!r}"
    return ResultError(cause, place=f"{path}:{number}")


_IOLOG_KINDS: Final = {
    "read": "read",
    "write": "write_sync",
    "sync": "flush",
    "datasync": "flush",
    "trim": "discard",
}


_IOLOG_HEAD: Final = b"fio version"


def _iolog(path: Path) -> Trace:
    disks = _Names({_NONE: 0})
    jobs = [_iolog_requests(each, disks) for each in files_of(path)]
    found = np.fromiter((row for job in jobs for row in job), _REQUEST)
    if (found["arrival_ns"][1:] < found["arrival_ns"][:-1]).any():  # of several jobs, each from its start
        found = found[np.argsort(found["arrival_ns"], kind="stable")]
    return Trace(_records(found, found["arrival_ns"]), tuple(disks), has_completions=False)


def _iolog_requests(path: Path, disks: _Names) -> Iterator[tuple[int, ...]]:
    """fio(1), "TRACE FILE FORMAT": version 3 begins each line with microseconds, version 2 has waits."""
    lines = _lines(path)
    timed = next(lines)[1].split()[2:3] == ["3"]
    at_us, most_us, most_bytes = 0, NS_MAX // NS_PER_US, END_SECTOR_MAX * SECTOR_BYTES
    for number, line in lines:
        words = line.split()
        if timed and words == ["fio", "version", "3", "iolog"]:
            continue  # of the next job, whose lines have times, too
        if words[:2] == ["fio", "version"]:
            raise ResultError(
                "a second log begins here: several jobs (numjobs) wrote this file, and the order of their "
                "requests is lost",
                place=f"{path}:{number}",
                remedy="give each job a write_iolog of its own (load.iolog.0, load.iolog.1), or take a fio "
                "that writes version 3",
            )
        try:
            if timed and words:
                at_us = _ranged(words.pop(0), most_us)
            match words:
                case [] | [_, "add" | "open" | "close"]:
                    continue
                case [_, "wait", wait_us, *_] if not timed:
                    at_us = _ranged(str(at_us + _ranged(wait_us, most_us)), most_us)
                case [file, action, offset, length] if action in _IOLOG_KINDS:
                    kind = _IOLOG_KINDS[action]
                    start, size = _ranged(offset, most_bytes), _ranged(length, most_bytes)
                    end = 0 if kind == "flush" else _ranged(str(start + size), most_bytes)
                    sectors = max(0, -(-end // SECTOR_BYTES) - start // SECTOR_BYTES)
                    sector = start // SECTOR_BYTES if sectors else 0
                    _ranged(str(sectors), _SECTORS_MAX)
                    yield at_us * NS_PER_US, sector, sectors, KINDS.index(kind), 0, disks.number(file)
                case _:
                    raise _bad(path, number, line)
        except ValueError as error:
            raise _bad(path, number, line) from error


_HEAD: Final = re.compile(r"\s*\d+,\d+\s")
_BLKPARSE: Final = re.compile(
    r"\s*(?P<disk>\d+,\d+)\s+\d+\s+\d+\s+(?P<s>\d+)\.(?P<ns>\d{9})\s+\d+\s+(?P<action>[A-Za-z]+)\s+"
    r"(?P<rwbs>[A-Z]+)(?!\s+(?:-|\d+ \+ (?!\d)))(?:\s+(?P<sector>\d+)(?: \+ (?P<sectors>\d+))?)?(?:\s|$)"
)


@dataclass(frozen=True)
class Event:
    """What happened to a request; ``action`` is one of ``_EVENT_ACTIONS``."""

    at_ns: int
    action: str
    disk: str
    rwbs: str
    sector: int
    sectors: int


def _blkparse(path: Path) -> Iterator[Event]:
    """blkparse(1)'s default output; other lines than those of events are its summary."""
    for number, line in _lines(path):
        if not _HEAD.match(line):
            continue
        found = _BLKPARSE.match(line)
        try:
            if found is None:
                raise ValueError
            at_ns = _ranged(found["s"], NS_MAX // NS_PER_S - 1) * NS_PER_S + int(found["ns"])
            sectors = _ranged(found["sectors"] or "0", _SECTORS_MAX)
            sector = _ranged(found["sector"] or "0", END_SECTOR_MAX - sectors)
        except ValueError as error:
            raise _bad(path, number, line) from error
        if found["action"] in _EVENT_ACTIONS:
            yield Event(at_ns, found["action"], found["disk"], found["rwbs"], sector, sectors)


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


def _blktrace(path: Path) -> Iterator[Event]:
    with open_named(path) as file:
        form = struct.Struct(f"{_byte_order(file.read(4)) or '<'}{_RECORD}")
        file.seek(0)
        at = 0
        while content := file.read(form.size):
            if len(content) < form.size:
                raise ResultError(f"the file ends inside the record at byte {at}", place=str(path))
            magic, _, at_ns, sector, length, action, _, device, _, _, more = form.unpack(content)
            if magic & ~0xFF != _MAGIC:
                raise ResultError(f"there is no record at byte {at}", place=str(path))
            sectors = length // SECTOR_BYTES
            if not action & _NOTIFY and action & 0xFFFF in _ACTIONS:
                if at_ns > NS_MAX or sector + sectors > END_SECTOR_MAX:
                    cause = f"a number of the record at byte {at} is out of range"
                    raise ResultError(cause, place=str(path))
                disk = f"{device >> _MINOR_BITS},{device & ((1 << _MINOR_BITS) - 1)}"
                rwbs = _rwbs(action >> 16, bool(length))
                yield Event(at_ns, _ACTIONS[action & 0xFFFF], disk, rwbs, sector, sectors)
            at += form.size + more
            file.seek(more, os.SEEK_CUR)


def _rwbs(category: int, has_data: bool) -> str:
    """BLK_TC_* as blkparse's letters."""
    read, write, flush, sync, ahead, meta, discard, fua = (
        bool(category >> bit & 1) for bit in (0, 1, 2, 3, 11, 12, 13, 15)
    )
    operation = "D" if discard else "W" if write and has_data else "R" if read and has_data else "N"
    letters = (("F", flush), (operation, True), ("F", fua), ("A", ahead), ("S", sync), ("M", meta))
    return "".join(letter for letter, is_set in letters if is_set)


_RWBS: Final = re.compile(r"(?P<preflush>F?)(?P<operation>[RWDNF])(?P<rest>[A-Z]*)")


def _meaning(rwbs: str, has_data: bool) -> tuple[int, int] | None:
    """Kind and flags of a request for data, a flush or a discard; None for anything else."""
    found = _RWBS.fullmatch(rwbs)
    kind = found and _kind(found["operation"], found["rest"], bool(found["preflush"]), has_data)
    if not found or not kind:
        return None
    names = () if kind == "flush" else (("fua", "F"), ("read_ahead", "A"))
    flags = sum(1 << FLAGS.index(name) for name, letter in names if letter in found["rest"])
    return KINDS.index(kind), flags


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


def joined(events: Iterable[Event]) -> Trace:
    """The requests of blktrace's events, each with its completion."""
    disks, letters = _Names({_NONE: 0}), _Names()

    def row(event: Event) -> tuple[int, ...]:
        names = disks.number(event.disk), letters.number(event.rwbs)
        return event.at_ns, event.sector, event.sectors, *names, _EVENT_ACTIONS.index(event.action)

    table = np.fromiter(map(row, events), _EVENT)
    meanings = [[_meaning(rwbs, has_data) for has_data in (False, True)] for rwbs in letters]
    issued = _EVENT_ACTIONS.index("D")
    arrival = issued if (table["action"] == issued).any() else _EVENT_ACTIONS.index("Q")
    asked, begun = (
        0,
        dict[tuple[int, ...], deque[int]](),
    )  # the incomplete ones, oldest first
    requests = np.zeros(int((table["action"] == arrival).sum()), _REQUEST)
    complete_ns, is_complete = np.zeros(len(requests), "u8"), np.zeros(len(requests), bool)
    has_completions = bool((table["action"] == _COMPLETE).any())
    for at in np.argsort(table["at_ns"], kind="stable"):
        at_ns, sector, sectors, disk, rwbs, action = table[at].item()
        meaning = meanings[rwbs][sectors > 0]
        if meaning is None:
            continue
        kind, flags = meaning
        if kind == _FLUSH:
            sector = sectors = 0
        key = (disk, kind, sector, sectors)
        if action == arrival:
            requests[asked] = (at_ns, sector, sectors, kind, flags, disk)
            if has_completions:  # else all would be kept
                begun.setdefault(key, deque()).append(asked)
            asked += 1
        elif action == _COMPLETE and key in begun:
            index = begun[key].popleft()
            complete_ns[index], is_complete[index] = at_ns, True
            if not begun[key]:
                del begun[key]
    if not is_complete.any():
        found = requests[:asked]
        return Trace(_records(found, found["arrival_ns"]), tuple(disks), has_completions=False)
    return Trace(_records(requests[is_complete], complete_ns[is_complete]), tuple(disks))


_FLUSH: Final = KINDS.index("flush")
_COMPLETE: Final = _EVENT_ACTIONS.index("C")
