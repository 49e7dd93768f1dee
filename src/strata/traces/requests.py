# SPDX-License-Identifier: Apache-2.0
"""The requests of a trace in any format, as the load generator repeats them (``strata-load replay``)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from strata.errors import ResultError
from strata.files import explained, open_named
from strata.traces.foreign import read_foreign
from strata.traces.kinds import KINDS, OPS
from strata.traces.table import DAMAGED, END_SECTOR_MAX, NS_MAX, Trace, flag, read_parquet
from strata.units import SECTOR_BYTES

_PARQUET: Final = b"PAR1"
_AREA_SECTORS: Final = (1 << 20) // SECTOR_BYTES  # AREA_BYTES of crates/load/src/replay/requests.rs
_DATA: Final = [OPS.index(name) for name in ("read", "write")]


def read_any(path: Path) -> Trace:
    """The trace of a file in any known format, by its content. Raises ResultError."""
    with explained(path, "read the trace"), open_named(path) as file:
        is_table = file.read(len(_PARQUET)) == _PARQUET
    if not is_table:
        return read_foreign(path)
    trace = read_parquet(path)
    _refuse_ranges(trace, path)
    return trace


def _refuse_ranges(trace: Trace, path: Path) -> None:
    """Refuse numbers that no trace has: the file may be a stranger's. Raises ResultError."""
    records = trace.records
    end = records["sector"] + records["sectors"]
    wrong = (end > END_SECTOR_MAX) | (records["sector"] > END_SECTOR_MAX)
    wrong |= (records["complete_ns"] < records["arrival_ns"]) | (records["complete_ns"] > NS_MAX)
    wrong |= (
        (records["disk"] >= len(trace.disks)) | (records["op"] >= len(OPS)) | (records["kind"] >= len(KINDS))
    )
    if wrong.any():
        cause = f"a number of request {int(np.argmax(wrong)) + 1} is out of range"
        raise ResultError(cause, place=str(path), remedy=DAMAGED)


def request_lines(trace: Trace) -> Iterator[str]:
    """``NANOSECONDS KIND OFFSET BYTES DISK`` by time; the root image's, disk 0, are left out."""
    records = trace.records[trace.records["disk"] > 0]
    records = records[np.argsort(records["arrival_ns"], kind="stable")]
    first_ns = int(records["arrival_ns"][0]) if len(records) else 0
    is_fua = flag(records, "fua")
    for row, fua in zip(records, is_fua, strict=True):
        kind = OPS[row["op"]]
        place = int(row["sector"]) * SECTOR_BYTES, int(row["sectors"]) * SECTOR_BYTES
        offset, size = (0, 0) if kind == "flush" else place
        if kind == "flush" or size:
            name = "fua" if kind == "write" and fua else kind
            yield f"{int(row['arrival_ns']) - first_ns} {name} {offset} {size} {trace.disks[row['disk']]}\n"


def touched_bytes(trace: Trace) -> dict[str, int]:
    """By disk, the bytes in all areas of 1 MiB that reads and writes touch: the data that a replay fills."""
    return {name: _touched(trace, number) for number, name in enumerate(trace.disks) if number}


def _touched(trace: Trace, disk: int) -> int:
    records = trace.records
    records = records[(records["disk"] == disk) & np.isin(records["op"], _DATA)]
    if not len(records):
        return 0
    first = (records["sector"] // _AREA_SECTORS).astype(np.int64)
    end = -(-(records["sector"] + records["sectors"]).astype(np.int64) // _AREA_SECTORS)
    order = np.argsort(first)
    first, end = first[order], np.maximum.accumulate(end[order])
    # An area counts from where the earlier ones have ended.
    begin = np.maximum(first[1:], end[:-1])
    areas = int(end[0] - first[0]) + int(np.maximum(end[1:] - begin, 0).sum())
    return areas * _AREA_SECTORS * SECTOR_BYTES
