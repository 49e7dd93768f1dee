# SPDX-License-Identifier: Apache-2.0
"""Counts per operation: the work of disks and processors for one unit of a load's work, from a record.

In the lab they are a function of the specification, so that any difference has a cause: one flush more for
each fsync shows here even where it costs no time. The operation is what the load counts, such as a
transaction; of a load that counts nothing it is the load as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from strata.model.metric import Metric
from strata.results.record import COUNTS, ResultRecord

LOAD: Final = "load"
PROCESSOR_TIME: Final = "processor_time_ns_per_operation"


def unit_of_work(record: ResultRecord) -> tuple[str, float]:
    """The noun for one unit of a load's work, and their number in the measured window."""
    counted = record.operations()
    return (LOAD, 1.0) if counted is None else (COUNTS[counted.name], counted.value)


def _of_disks(key: str) -> Callable[[ResultRecord], float | None]:
    def total(record: ResultRecord) -> float | None:
        counted = [account[key] for account in record.disks.values() if key in account]
        return sum(counted) if counted else None

    return total


def _of_trace(key: str) -> Callable[[ResultRecord], float | None]:
    def total(record: ResultRecord) -> float | None:
        trace = record.trace
        return None if trace is None or trace.left_out else trace.window.get(key)

    return total


def _seeks(record: ResultRecord) -> float | None:
    """Movements of heads for requests, and to empty write caches."""
    found = _of_trace("seeks")(record)
    return None if found is None else found + (_of_disks("destage_seeks")(record) or 0)


def _processor_ns(record: ResultRecord) -> float | None:
    used = record.processor
    return used.busy_ns if used is not None and used.busy_ns else None


_COUNTED: Final[Mapping[str, tuple[str, Callable[[ResultRecord], float | None]]]] = {
    "reads_per_operation": ("1", _of_disks("reads")),
    "writes_per_operation": ("1", _of_disks("writes")),
    "flushes_per_operation": ("1", _of_disks("flushes")),
    "journal_writes_per_operation": ("1", _of_trace("write_journal")),
    "seeks_per_operation": ("1", _seeks),
    "read_bytes_per_operation": ("B", _of_disks("read_bytes")),
    "write_bytes_per_operation": ("B", _of_disks("write_bytes")),
    PROCESSOR_TIME: ("ns", _processor_ns),
}

COUNT_NAMES: Final = tuple(_COUNTED)


def count_of(record: ResultRecord, name: str) -> Metric | None:
    """A count of this name; None for other names, and where the trial did not count it."""
    if name not in _COUNTED:
        return None
    unit, total = _COUNTED[name]
    amount, operations = total(record), unit_of_work(record)[1]
    if amount is None or not operations:
        return None
    return Metric(name=name, value=amount / operations, unit=unit, better="lower")


def counts_of(record: ResultRecord) -> list[Metric]:
    """All that the trial counted, in one order everywhere."""
    found = (count_of(record, name) for name in _COUNTED)
    return [each for each in found if each is not None]


def every_metric(record: ResultRecord) -> list[Metric]:
    """The metrics that the load yielded, and the counts."""
    return [*record.metrics, *counts_of(record)]


def metric_of(record: ResultRecord, name: str) -> Metric | None:
    """A metric that the load yielded, or a count."""
    return record.metric(name) or count_of(record, name)
