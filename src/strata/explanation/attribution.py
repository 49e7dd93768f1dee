# SPDX-License-Identifier: Apache-2.0
"""Whose doing each instant of a disk's time was.

Latencies of requests that overlap add up to more than the time that passed, so they cannot say what that
time was spent on. Here every instant in which requests are at the disk is given to those that are being
served, in equal shares, and each request's share is divided in the proportions of its parts. An instant at
which all of them wait (as for the write cache to be emptied) is given to those that wait, as ``queue``. So
the shares of all requests add up to the time in which the disk had requests, and the rest is idle.

A request's parts have an order only in so far as waiting for other requests comes first: it is taken to be
served from its arrival plus its ``queue_ns`` on.
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
    """The time of a window.

    Attributes:
        shares_ns: A row for each of ``KINDS``, a column for each of ``TIME_PARTS``.
        idle_ns: The time in which the disk had no request.
    """

    shares_ns: Shares
    idle_ns: float

    @property
    def busy_ns(self) -> float:
        """The time in which the disk had a request."""
        return float(self.shares_ns.sum())


def attribute(records: Records, window_ns: tuple[int, int]) -> Attribution:
    """Divide a window's time among the requests of one disk."""
    first, last = window_ns
    length_ns = float(last - first)
    overlapping = (records["complete_ns"].astype(np.int64) > first) & (
        records["arrival_ns"].astype(np.int64) < last
    )
    records = records[overlapping]
    shares = np.zeros((len(KINDS), len(TIME_PARTS)))
    if len(records) == 0:
        return Attribution(shares, length_ns)
    parts = parts_ns(records)
    arrival = records["arrival_ns"].astype(np.int64)
    complete = records["complete_ns"].astype(np.int64)
    start = arrival + parts[:, _QUEUE]
    served, waited = _shares(*(np.clip(times, first, last) for times in (arrival, start, complete)))
    kinds = records["kind"].astype(np.intp)
    service_ns = (complete - start).astype(np.float64)
    rate = np.divide(served, service_ns, out=np.zeros_like(served), where=service_ns > 0)
    for column in range(len(TIME_PARTS)):
        weights = waited if column == _QUEUE else rate * parts[:, column]
        shares[:, column] = np.bincount(kinds, weights=weights, minlength=len(KINDS))
    return Attribution(shares, length_ns - float(shares.sum()))


def _shares(arrival: Times, start: Times, complete: Times) -> tuple[Shares, Shares]:
    """Per request, its share of the instants in which it is served, and of those in which all wait."""
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
    """How many of the intervals cover each step between two times."""
    begun, ended = (np.bincount(np.searchsorted(times, edge), minlength=len(times)) for edge in (begin, end))
    covering: Times = np.cumsum(begun - ended)[:-1]
    return covering
