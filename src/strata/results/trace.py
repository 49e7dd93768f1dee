# SPDX-License-Identifier: Apache-2.0
"""The trace of a trial: every request that its modelled disks completed, with the parts of its time.

The driver appends records of 128 bytes (``kernel/disk/trace.h``) to ``trace.bin``; a sealed attempt holds
them as ``trace.parquet`` instead (docs/reference/trace-format.md). The hash in the result record is of the
driver's bytes, so that a table changed later is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np

from strata.errors import ResultError
from strata.files import explained, read_plain
from strata.results.record import TraceSummary
from strata.results.records import Attempt
from strata.runners.base import TRACE_COUNTS_NAME, TRACE_NAME
from strata.traces.attribution import completed
from strata.traces.kinds import KINDS
from strata.traces.table import (
    DAMAGED,
    Records,
    Trace,
    batches,
    map_records,
    read_parquet,
    write_parquet,
)

_ROOT: Final = "rootimage"


def seal_trace(
    attempt: Attempt, disks: Sequence[str], window_ns: tuple[int, int] | None = None
) -> TraceSummary | None:
    """Turn ``trace.bin`` into ``trace.parquet``, durably, and remove it; None when no trace was kept.

    The summary counts the requests of the measured window, if it is given.

    Raises ResultError if the trace is damaged, or the table cannot be written.
    """
    source = attempt.path / TRACE_NAME
    with explained(source, "read the trace"):
        if not source.is_file():
            return None
        names = (_ROOT, *disks)
        records = map_records(source, len(names))
    summary = TraceSummary(
        kept=len(records),
        left_out=_left_out(attempt.path / TRACE_COUNTS_NAME),
        trace_sha256=_sha256(records),
        window={} if window_ns is None else _counted(records, window_ns),
    )
    write_parquet(attempt.trace_path, Trace(records, names))
    with explained(source, "remove the driver's trace"):
        source.unlink()
        (attempt.path / TRACE_COUNTS_NAME).unlink(missing_ok=True)
    return summary


def _sha256(records: Records) -> str:
    found = hashlib.sha256()
    for _, batch in batches(records):
        found.update(batch.tobytes())
    return found.hexdigest()


def _counted(records: Records, window_ns: tuple[int, int]) -> dict[str, int]:
    """The requests of the study's disks that completed in a window, by kind, and the number of seeks."""
    kinds, seeks = np.zeros(len(KINDS), np.int64), 0
    for _, batch in batches(records):
        done = completed(batch[batch["disk"] > 0], window_ns)
        kinds += np.bincount(done["kind"], minlength=len(KINDS))
        seeks += int((done["seek_ns"] > 0).sum())
    return {**dict(zip(KINDS, kinds.tolist(), strict=True)), "seeks": seeks}


def _left_out(path: Path) -> int:
    with explained(path, "read the trace's counts"):
        if not path.is_file():
            return 0
        content = read_plain(path)
    try:
        return int(json.loads(content)["left_out"])
    except (ValueError, TypeError, KeyError) as error:
        raise ResultError("not the trace's counts", place=str(path), remedy=DAMAGED) from error


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
            raise ResultError("the trial's trace is missing", place=str(path), remedy=DAMAGED)
    trace = read_parquet(path)
    if _sha256(trace.records) != summary.trace_sha256:
        raise ResultError("the trace does not match its record's hash", place=str(path), remedy=DAMAGED)
    return trace
