# SPDX-License-Identifier: Apache-2.0
"""Whose a disk's time is: a window divided among the requests that the disk served in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from strata.traces.kinds import KINDS, TIME_PARTS
from strata.traces.table import Records, parts_ns

_QUEUE: Final = TIME_PARTS.index("queue_ns")

Times = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Attribution:
    """The time of a window: shares in a row for each of ``KINDS`` and a column for each of ``TIME_PARTS``."""

    shares_ns: Shares
    idle_ns: float

    @property
    def busy_ns(self) -> float:
        return float(self.shares_ns.sum())


@dataclass(frozen=True)
class _Divided:
    """The requests of one disk that overlap a window, and for each its shares of the time."""

    records: Records
    service_ns: Times
    served_ns: Shares
    waited_ns: Shares


def _divide(records: Records, window_ns: tuple[int, int]) -> _Divided:
    first, last = window_ns
    arrival, complete = (records[name].astype(np.int64) for name in ("arrival_ns", "complete_ns"))
    overlapping = (complete > first) & (arrival < last)
    records, arrival, complete = records[overlapping], arrival[overlapping], complete[overlapping]
    start = arrival + records["queue_ns"].astype(np.int64)
    none = np.zeros(0)
    shares = (
        _shares(*(np.clip(times, first, last) for times in (arrival, start, complete)))
        if len(records)
        else (none, none)
    )
    return _Divided(records, complete - start, *shares)


def attribute(records: Records, window_ns: tuple[int, int]) -> Attribution:
    """Divide a window's time among the requests of one disk.

    Latencies of overlapping requests add up to more than the time that passed. So every instant in which the
    disk has requests is divided equally among the requests being served, and each request's share in
    proportion to its parts. An instant in which all wait (as for the write cache to be emptied) is divided
    among them as ``queue``. The shares add up to the time in which the disk had requests; the rest is idle. A
    request is assumed to be served from its arrival plus its ``queue_ns`` on.
    """
    first, last = window_ns
    found = _divide(records, window_ns)
    shares = np.zeros((len(KINDS), len(TIME_PARTS)))
    if len(found.records) == 0:
        return Attribution(shares, float(last - first))
    parts, kinds = parts_ns(found.records), found.records["kind"].astype(np.intp)
    served, service_ns = found.served_ns, found.service_ns.astype(np.float64)
    rate = np.divide(served, service_ns, out=np.zeros_like(served), where=service_ns > 0)
    for column in range(len(TIME_PARTS)):
        weights = found.waited_ns if column == _QUEUE else rate * parts[:, column]
        shares[:, column] = np.bincount(kinds, weights=weights, minlength=len(KINDS))
    return Attribution(shares, float(last - first) - float(shares.sum()))


def shares_of(records: Records, window_ns: tuple[int, int]) -> tuple[Records, Shares]:
    """The requests of one disk that overlap a window, and the time of the disk that each took."""
    found = _divide(records, window_ns)
    return found.records, found.served_ns + found.waited_ns


def _shares(arrival: Times, start: Times, complete: Times) -> tuple[Shares, Shares]:
    """Per request, its share of the instants in which it is served, and of instants in which all wait."""
    times = np.sort(np.concatenate([arrival, start, complete]))
    served = _count(times, start, complete)
    waiting = _count(times, arrival, start)
    steps = np.diff(times).astype(np.float64)
    each_served = np.divide(steps, served, out=np.zeros_like(steps), where=served > 0)
    alone = (served == 0) & (waiting > 0)
    each_waiting = np.divide(steps, waiting, out=np.zeros_like(steps), where=alone)

    def between(each: Shares, begin: Times, end: Times) -> Shares:
        total = np.concatenate([[0.0], np.cumsum(each)])
        gained: Shares = total[np.searchsorted(times, end)] - total[np.searchsorted(times, begin)]
        return gained

    return between(each_served, start, complete), between(each_waiting, arrival, start)


def _count(times: Times, begin: Times, end: Times) -> Times:
    """The number of intervals that cover each step between two times."""
    begun, ended = (np.bincount(np.searchsorted(times, edge), minlength=len(times)) for edge in (begin, end))
    covering: Times = np.cumsum(begun - ended)[:-1]
    return covering


def completed(records: Records, window: tuple[int, int]) -> Records:
    """The requests that completed in a window, as the disk's account counts them."""
    complete = records["complete_ns"]
    found: Records = records[(complete > window[0]) & (complete <= window[1])]
    return found
