# SPDX-License-Identifier: Apache-2.0
"""The trace of a trial: every request that its modelled disks completed, with the parts of its time.

The driver appends records of 128 bytes (``kernel/disk/trace.h``) to ``trace.bin``; a sealed attempt holds
them as ``trace.parquet`` instead (docs/reference/trace-format.md). The hash in the result record is of the
driver's bytes, so that a table changed later is refused.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import numpy.typing as npt

from strata.errors import ResultError
from strata.files import create, explained, opened_inside, read_plain, refuse_link, sync, temporary_name
from strata.results.query import offline_connection
from strata.results.record import TIME_PARTS, TraceSummary
from strata.results.store import Attempt
from strata.runners.base import TRACE_COUNTS_NAME, TRACE_NAME
from strata.units import NS_PER_S

TRACE_VERSION: Final = 1

OPS: Final = ("read", "write", "flush", "discard")
"""enum disk_op."""
KINDS: Final = (
    *("read", "read_metadata", "write", "write_sync", "write_metadata", "write_journal", "flush", "discard"),
)
"""enum trace_kind: the purpose of a request, by the block layer's flags."""
FLAGS: Final = ("fua", "read_ahead", "failed", "zeroes")
"""The bits of a record's flags, from the lowest."""

RECORD: Final = np.dtype(
    [
        *((name, "<u8") for name in ("arrival_ns", "complete_ns", "sector")),
        ("sectors", "<u4"),
        *((name, "u1") for name in ("op", "kind")),
        ("flags", "<u2"),
        *((name, "<u4") for name in ("disk", "outstanding")),
        *((name, "<u8") for name in TIME_PARTS),
    ]
)
"""struct trace_record."""

Records = npt.NDArray[np.void]

_ROOT: Final = "rootimage"
_DAMAGED: Final = "the file was damaged or edited; run the trial again with `strata run --fresh`"
_ROOM: Final = "is there room on its filesystem?"


@dataclass(frozen=True)
class Trace:
    """A trial's requests.

    Attributes:
        records: In the driver's order, each disk's by completion.
        disks: The names that a record's ``disk`` counts: 0 is the root image.
        has_completions: Whether its source says when requests were complete; fio's log does not.
    """

    records: Records
    disks: tuple[str, ...]
    has_completions: bool = True

    def of_disk(self, name: str) -> Records:
        found: Records = self.records[self.records["disk"] == self.disks.index(name)]
        return found


def latency_ns(records: Records) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = (records["complete_ns"] - records["arrival_ns"]).astype(np.int64)
    return found


def parts_ns(records: Records) -> npt.NDArray[np.int64]:
    """The parts of each request's latency: a row per request, a column for each of ``TIME_PARTS``."""
    return np.stack([records[part].astype(np.int64) for part in TIME_PARTS], axis=1)


def flag(records: Records, name: str) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = (records["flags"] >> FLAGS.index(name)) & 1 != 0
    return found


def parse_records(content: bytes, disks: int, place: Path) -> Records:
    """The driver's records from ``trace.bin``; ``disks`` counts the root image.

    Raises ResultError if they are cut or inconsistent.
    """
    if len(content) % RECORD.itemsize:
        raise ResultError(
            f"the trace ends inside a record: {len(content)} bytes are no multiple of {RECORD.itemsize}",
            place=str(place),
            remedy="was there room on the filesystem? run the trial again with `strata run --fresh`",
        )
    records: Records = np.frombuffer(content, dtype=RECORD)
    wrong = {
        "an unknown operation": records["op"] >= len(OPS),
        "an unknown kind": records["kind"] >= len(KINDS),
        "a disk that the trial does not have": records["disk"] >= disks,
        "a completion before its arrival": records["complete_ns"] < records["arrival_ns"],
    }
    # Unsigned sums wrap on both sides alike, so that no overflow hides a difference.
    total = sum((records[part] for part in TIME_PARTS), np.zeros(len(records), np.uint64))
    wrong["parts that do not add up to its latency"] = total != records["complete_ns"] - records["arrival_ns"]
    for what, where in wrong.items():
        if where.any():
            cause = f"record {int(np.argmax(where))} of the trace has {what}"
            raise ResultError(cause, place=str(place), remedy=_DAMAGED)
    return records


def seal_trace(attempt: Attempt, disks: Sequence[str]) -> TraceSummary | None:
    """Turn ``trace.bin`` into ``trace.parquet``, durably, and remove it; None when no trace was kept.

    Raises ResultError if the trace is damaged, or the table cannot be written.
    """
    source = attempt.path / TRACE_NAME
    with explained(source, "read the trace"):
        if not source.is_file():
            return None
        content = read_plain(source)
    names = (_ROOT, *disks)
    records = parse_records(content, len(names), source)
    summary = TraceSummary(
        kept=len(records),
        left_out=_left_out(attempt.path / TRACE_COUNTS_NAME),
        trace_sha256=hashlib.sha256(content).hexdigest(),
    )
    write_parquet(attempt.trace_path, Trace(records, names))
    with explained(source, "remove the driver's trace"):
        source.unlink()
        (attempt.path / TRACE_COUNTS_NAME).unlink(missing_ok=True)
    return summary


def _left_out(path: Path) -> int:
    with explained(path, "read the trace's counts"):
        if not path.is_file():
            return 0
        content = read_plain(path)
    try:
        return int(json.loads(content)["left_out"])
    except (ValueError, TypeError, KeyError) as error:
        raise ResultError("not the trace's counts", place=str(path), remedy=_DAMAGED) from error


def read_trace(attempt: Attempt, summary: TraceSummary | None) -> Trace:
    """A sealed attempt's trace, checked against its record.

    Raises ResultError if it is missing or damaged.
    """
    path = attempt.trace_path
    if summary is None:
        raise ResultError(
            "the trial has no trace of its requests",
            place=str(attempt.path),
            remedy="only the lab's modelled disks keep one: run it there, without `trace = false` in [study]",
        )
    with explained(path, "read the trace"):
        if not path.is_file():
            raise ResultError("the trial's trace is missing", place=str(path), remedy=_DAMAGED)
    trace = read_parquet(path)
    if hashlib.sha256(trace.records.tobytes()).hexdigest() != summary.trace_sha256:
        raise ResultError("the trace does not match its record's hash", place=str(path), remedy=_DAMAGED)
    return trace


def write_parquet(path: Path, trace: Trace) -> None:
    """Write the table: names instead of numbers, a column for each flag."""
    part = path.with_name(temporary_name(path.name))
    notes = f"{{trace_version: '{TRACE_VERSION}', disks: {_quoted(json.dumps(trace.disks))}}}"
    with explained(path, "write the trace"), opened_inside(path.parent) as folder:
        os.close(create(part.name, folder))  # so that DuckDB follows no link of that name
    with _reported(path, "write the trace"), offline_connection(threads=1) as connection:
        connection.register("records", _columns(trace))
        connection.execute(
            f"copy ({_select(trace.disks)}) to {_quoted(str(part))} "
            f"(format parquet, compression zstd, kv_metadata {notes})"
        )
    with explained(path, "write the trace"):
        sync(part)
        part.replace(path)
        sync(path.parent)


def read_parquet(path: Path) -> Trace:
    """A table by `write_parquet`. Raises ResultError if it is missing, damaged or of an unknown version."""
    with explained(path, "read the trace"):
        refuse_link(path)
        if not path.is_file():
            raise ResultError("there is no such trace", place=str(path), remedy="check the path")
    with _reported(path, "read the trace", _DAMAGED), offline_connection(threads=1) as connection:
        place = _quoted(str(path))
        asked = f"select decode(key), decode(value) from parquet_kv_metadata({place})"  # noqa: S608
        notes = dict(connection.execute(asked).fetchall())
        if notes.get("trace_version") != str(TRACE_VERSION):
            version = notes.get("trace_version")
            cause = f"the trace is of version {version}, this Strata reads version {TRACE_VERSION}"
            remedy = "use the Strata that wrote it, or run the trial again"
            raise ResultError(cause, place=str(path), remedy=remedy)
        disks = tuple(json.loads(notes["disks"]))
        bits = " + ".join(f"{flag}::integer * {1 << bit}" for bit, flag in enumerate(FLAGS))
        numbered = "list_position({names}, {column}) - 1 as {column}"
        columns = _converted(disks, numbered, f"{bits} as flags")
        found = connection.read_parquet(str(path)).project(columns).fetchnumpy()
    records: Records = np.zeros(len(found["sector"]), dtype=RECORD)
    for name in RECORD.names or ():
        records[name] = np.ma.getdata(found[name])
    return Trace(records, disks)


def write_csv(path: Path, trace: Trace) -> None:
    with _reported(path, "write the trace"), offline_connection(threads=1) as connection:
        connection.register("records", _columns(trace))
        connection.execute(f"copy ({_select(trace.disks)}) to {_quoted(str(path))} (format csv, header true)")


def _columns(trace: Trace) -> dict[str, npt.NDArray[Any]]:
    plain = {name: np.ascontiguousarray(trace.records[name]) for name in RECORD.names or ()}
    return plain | {name: flag(trace.records, name) for name in FLAGS}


def _select(disks: Sequence[str]) -> str:
    columns = _converted(disks, "({names})[{column} + 1] as {column}", ", ".join(FLAGS))
    return f"select {columns} from records"  # noqa: S608  names of our own


def _converted(disks: Sequence[str], named: str, flags: str) -> str:
    columns = {name: name for name in RECORD.names or ()} | {"flags": flags}
    for column, names in (("op", OPS), ("kind", KINDS), ("disk", disks)):
        columns[column] = named.format(names=f"[{', '.join(map(_quoted, names))}]", column=column)
    return ", ".join(columns.values())


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def _reported(path: Path, doing: str, remedy: str = _ROOM) -> Iterator[None]:
    try:
        yield
    except (duckdb.Error, KeyError, ValueError) as error:
        said = str(error).strip().splitlines()[0]
        raise ResultError(f"cannot {doing}: {said}", place=str(path), remedy=remedy) from error


# The letters of blkparse's RWBS column by kind; F for FUA and A for read-ahead come in between.
_OPERATION: Final = ("R", "R", "W", "W", "W", "W", "FN", "D")
_SUFFIX: Final = ("", "M", "", "S", "M", "SM", "", "")
_FUA, _AHEAD, _FAILED = (1 << FLAGS.index(name) for name in ("fua", "read_ahead", "failed"))
_PROCESS: Final = "[strata]"
_IO_ERROR: Final = -5
assert len(_OPERATION) == len(_SUFFIX) == len(KINDS)


def blkparse_lines(trace: Trace, window_ns: tuple[int, int] | None) -> Iterator[str]:
    """A trace in blkparse(1)'s default format, in order of time, for the tools that read it.

    Each request gives a Q, a D and a C line. The driver sees a request when it is issued to the disk, so Q
    and D have the same time: waiting in the block layer above is not in the trace, nor is the process, always
    0. With a window, its events, timed from its start, as if blktrace had been run then; else all events,
    timed from the lab's boot.
    """
    records = trace.records
    first, last = window_ns if window_ns is not None else (0, 2**63 - 1)
    arrival, complete = records["arrival_ns"].astype(np.int64), records["complete_ns"].astype(np.int64)
    index = np.arange(len(records))
    # At one instant completions come first, but never before their own arrival.
    when = np.concatenate([arrival, complete])
    rank = np.concatenate([np.ones(len(records), np.int8), np.where(complete > arrival, 0, 2)])
    which = np.concatenate([index, index])
    order = np.lexsort((rank, when))
    order = order[(when[order] >= first) & (when[order] <= last)]
    sequence = 0
    for position in order:
        row = records[which[position]]
        since_ns = int(when[position]) - first
        if position < len(records):
            for action in ("Q", "D"):
                sequence += 1
                yield f"{_head(row, sequence, since_ns, action)}{_place(row, _PROCESS)}\n"
        else:
            sequence += 1
            error = _IO_ERROR if int(row["flags"]) & _FAILED else 0
            yield f"{_head(row, sequence, since_ns, 'C')}{_place(row, f'[{error}]', is_completion=True)}\n"


def _head(row: np.void, sequence: int, since_ns: int, action: str) -> str:
    """``%D %2c %8s %5T.%9t %5p %2a %3d ``: device, CPU, number, seconds, process, action, RWBS."""
    # Of sda, sdb and so on for the lab's disks, a dynamic number for its root image.
    major, minor = (8, 16 * (int(row["disk"]) - 1)) if row["disk"] else (259, 0)
    seconds, rest = divmod(since_ns, NS_PER_S)
    return (
        f"{major:3d},{minor:<3d} {0:2d} {sequence:8d} {seconds:5d}.{rest:09d} {0:5d} {action:>2s} "
        f"{rwbs(int(row['kind']), int(row['flags'])):>3s} "
    )


def rwbs(kind: int, flags: int) -> str:
    fua = "F" if flags & _FUA else ""
    ahead = "A" if flags & _AHEAD else ""
    return f"{_OPERATION[kind]}{fua}{ahead}{_SUFFIX[kind]}"


def _place(row: np.void, end: str, *, is_completion: bool = False) -> str:
    sector, sectors = int(row["sector"]), int(row["sectors"])
    return f"{sector} + {sectors} {end}" if sectors else f"{sector} {end}" if is_completion else end
