# SPDX-License-Identifier: Apache-2.0
"""Traces as blkparse's text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from strata.traces.kinds import FLAGS, KINDS
from strata.traces.table import Trace
from strata.units import NS_PER_S

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
