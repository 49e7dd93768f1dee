# SPDX-License-Identifier: Apache-2.0
"""Dividing a disk's time among its requests.

Latencies of overlapping requests add up to more than the time that passed. So every instant in which the disk
has requests is divided equally among the requests being served, and each request's share in proportion to its
parts. An instant in which all wait (as for the write cache to be emptied) is divided among them as ``queue``.
The shares add up to the time in which the disk had requests; the rest is idle.

A request is assumed to be served from its arrival plus its ``queue_ns`` on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from strata.results.record import TIME_PARTS
from strata.results.trace import KINDS, Records, parts_ns

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
        """The time in which the disk had a request."""
        return float(self.shares_ns.sum())


def attribute(records: Records, window_ns: tuple[int, int]) -> Attribution:
    """Divide a window's time among the requests of one disk."""
    first, last = window_ns
    arrival, complete = (records[name].astype(np.int64) for name in ("arrival_ns", "complete_ns"))
    overlapping = (complete > first) & (arrival < last)
    records, arrival, complete = records[overlapping], arrival[overlapping], complete[overlapping]
    shares = np.zeros((len(KINDS), len(TIME_PARTS)))
    if len(records) == 0:
        return Attribution(shares, float(last - first))
    parts = parts_ns(records)
    start = arrival + parts[:, _QUEUE]
    served, waited = _shares(*(np.clip(times, first, last) for times in (arrival, start, complete)))
    kinds = records["kind"].astype(np.intp)
    service_ns = (complete - start).astype(np.float64)
    rate = np.divide(served, service_ns, out=np.zeros_like(served), where=service_ns > 0)
    for column in range(len(TIME_PARTS)):
        weights = waited if column == _QUEUE else rate * parts[:, column]
        shares[:, column] = np.bincount(kinds, weights=weights, minlength=len(KINDS))
    return Attribution(shares, float(last - first) - float(shares.sum()))


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
