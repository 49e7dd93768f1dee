# SPDX-License-Identifier: Apache-2.0
"""Traces as records and as Parquet tables (docs/reference/trace-format.md)."""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
import numpy.typing as npt

from strata.database import offline_connection, table_file
from strata.errors import ResultError
from strata.files import create, explained, open_plain, opened_inside, refuse_link, sync, temporary_name
from strata.traces.kinds import FLAGS, KINDS, OPS, TIME_PARTS

TRACE_VERSION: Final = 1

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

DAMAGED: Final = "the file was damaged or edited; run the trial again with `strata run --fresh`"
_ROOM: Final = "is there room on its filesystem?"
NS_MAX: Final = (1 << 63) - 1
END_SECTOR_MAX: Final = 1 << 54  # 2^63 bytes
_BATCH: Final = 1 << 16  # records, of 128 bytes


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


def map_records(path: Path, disks: int) -> Records:
    """The driver's records in ``trace.bin``, mapped, not read: see `parse_records`. Raises OSError, too."""
    with os.fdopen(open_plain(path), "rb") as file:
        size_bytes = os.fstat(file.fileno()).st_size
        content = mmap.mmap(file.fileno(), size_bytes, prot=mmap.PROT_READ) if size_bytes else b""
    return parse_records(content, disks, path)


def parse_records(content: bytes | mmap.mmap, disks: int, place: Path) -> Records:
    """The driver's records from the bytes of ``trace.bin``; ``disks`` counts the root image.

    Raises ResultError if they are cut or inconsistent.
    """
    if len(content) % RECORD.itemsize:
        raise ResultError(
            f"the trace ends inside a record: {len(content)} bytes are no multiple of {RECORD.itemsize}",
            place=str(place),
            remedy="was there room on the filesystem? run the trial again with `strata run --fresh`",
        )
    records: Records = np.frombuffer(content, dtype=RECORD)
    for start, batch in batches(records):
        for what, where in _wrong(batch, disks).items():
            if where.any():
                cause = f"record {start + int(np.argmax(where))} of the trace has {what}"
                raise ResultError(cause, place=str(place), remedy=DAMAGED)
    return records


def batches(records: Records) -> Iterator[tuple[int, Records]]:
    """Parts of a trace, each with its first index: work on all records at once takes as much memory again."""
    for start in range(0, len(records), _BATCH):
        yield start, records[start : start + _BATCH]


def _wrong(records: Records, disks: int) -> dict[str, npt.NDArray[np.bool_]]:
    """Where each thing that cannot be is."""
    # Unsigned sums wrap on both sides alike, so that no overflow hides a difference.
    total = sum((records[part] for part in TIME_PARTS), np.zeros(len(records), np.uint64))
    return {
        "an unknown operation": records["op"] >= len(OPS),
        "an unknown kind": records["kind"] >= len(KINDS),
        "a disk that the trial does not have": records["disk"] >= disks,
        "a completion before its arrival": records["complete_ns"] < records["arrival_ns"],
        "parts that do not add up to its latency": total != records["complete_ns"] - records["arrival_ns"],
    }


def write_parquet(path: Path, trace: Trace) -> None:
    """Write the table: names instead of numbers, a column for each flag."""
    part = path.with_name(temporary_name(path.name))
    notes = f"{{trace_version: '{TRACE_VERSION}', disks: {_quoted(json.dumps(trace.disks))}}}"
    with explained(path, "write the trace"), opened_inside(path.parent) as folder:
        os.close(create(part.name, folder))  # so that DuckDB follows no link of that name
    with _reported(path, "write the trace"), offline_connection(threads=1) as connection:
        connection.register("records", _columns(trace.records))
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
    with _reported(path, "read the trace", DAMAGED), offline_connection(threads=1) as connection:
        name = table_file(path)
        place = _quoted(name)
        asked = f"select decode(key), decode(value) from parquet_kv_metadata({place})"  # noqa: S608
        notes = dict(connection.execute(asked).fetchall())
        if notes.get("trace_version") != str(TRACE_VERSION):
            version = notes.get("trace_version")
            cause = f"the trace is of version {version}, this Strata reads version {TRACE_VERSION}"
            remedy = "use the Strata that wrote it, or run the trial again"
            raise ResultError(cause, place=str(path), remedy=remedy)
        disks = tuple(json.loads(notes["disks"]))
        numbered = "list_position({names}, {column}) - 1"
        table = connection.read_parquet(name, hive_partitioning=False)
        # An earlier driver knew fewer flags: they were on no request.
        known = [(bit, flag) for bit, flag in enumerate(FLAGS) if flag in table.columns]
        bits = " + ".join(f"{flag}::integer * {1 << bit}" for bit, flag in known)
        records: Records = np.zeros(len(table), dtype=RECORD)
        for field, column in _converted(disks, numbered, {"flags": bits}).items():
            found = table.project(f"{column} as {field}").fetchnumpy()  # one column at a time: see `batches`
            if np.ma.is_masked(found[field]):
                raise ResultError(f"{field} is missing of a request", place=str(path), remedy=DAMAGED)
            records[field] = np.ma.getdata(found[field])
    return Trace(records, disks)


def write_csv(path: Path, trace: Trace) -> None:
    with _reported(path, "write the trace"), offline_connection(threads=1) as connection:
        connection.register("records", _columns(trace.records))
        connection.execute(f"copy ({_select(trace.disks)}) to {_quoted(str(path))} (format csv, header true)")


def _columns(records: Records) -> dict[str, npt.NDArray[Any]]:
    """The columns in place: DuckDB follows an array's stride."""
    return {name: records[name] for name in RECORD.names or ()}


def _select(disks: Sequence[str]) -> str:
    bits = {name: f"(flags & {1 << bit}) != 0" for bit, name in enumerate(FLAGS)}
    columns = _converted(disks, "({names})[{column} + 1]", bits)
    listed = ", ".join(f"{text} as {name}" for name, text in columns.items())
    return f"select {listed} from records"  # noqa: S608  names of our own


def _converted(disks: Sequence[str], named: str, flags: Mapping[str, str]) -> dict[str, str]:
    columns: dict[str, str] = {}
    for name in RECORD.names or ():
        columns |= flags if name == "flags" else {name: name}
    for column, names in (("op", OPS), ("kind", KINDS), ("disk", disks)):
        columns[column] = named.format(names=f"[{', '.join(map(_quoted, names))}]", column=column)
    return columns


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@contextmanager
def _reported(path: Path, doing: str, remedy: str = _ROOM) -> Iterator[None]:
    try:
        yield
    except (duckdb.Error, KeyError, ValueError) as error:
        said = str(error).strip().splitlines()[0]
        raise ResultError(f"cannot {doing}: {said}", place=str(path), remedy=remedy) from error
