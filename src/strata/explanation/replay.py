# SPDX-License-Identifier: Apache-2.0
"""A disk's recorded requests, sent to another modelled disk.

Open: each of the window arrives at its recorded time. Closed: each arrives after as many completions as
recorded, with the same delay (its think time), so that as many requests are outstanding and a faster disk
gets more work. A full queue holds requests back in both modes; the latency of an open one includes that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from strata.devices.device import Device
from strata.errors import ResultError
from strata.explanation.analysis import nearest_rank
from strata.lab.disk import driver_config
from strata.lab.model import FUA, ModelledDisk
from strata.traces.kinds import KINDS
from strata.traces.table import Records, flag, latency_ns
from strata.units import SECTOR_BYTES, format_size

Mode = Literal["open", "closed"]
_CARRIED_MIN: Final = 0.95
"""A disk that ends at most this much later than the recorded one is not overloaded: an estimate."""
_QUARTERS: Final = 4

Times = npt.NDArray[np.int64]
_NEVER: Final = int(np.iinfo(np.int64).max)
_NO_CONTENT: Final = 3  # the descriptor of a disk's content, which the models never use


@dataclass(frozen=True)
class Latencies:
    """Latencies of some requests, in ns."""

    requests: int
    mean: float
    p50: int
    p99: int
    max: int


@dataclass(frozen=True)
class Replay:
    """The outcome of the requests.

    Attributes:
        records: The recorded requests in the order of their arrival, as in the arrays of the other disk.
        recorded: Latencies by kind, and of all under ``all``; ``replayed`` on the other disk.
        recorded_span_ns: From the first arrival to the last completion, of the summarised requests.
        carried_share: Of an open load under which the backlog grows to its end, the share that the disk
            carries; None if the disk is not overloaded.
    """

    records: Records = field(repr=False)
    complete_ns: Times = field(repr=False)
    latency_ns: Times = field(repr=False)
    recorded: Mapping[str, Latencies]
    replayed: Mapping[str, Latencies]
    recorded_span_ns: int
    replayed_span_ns: int
    carried_share: float | None = None


def replay(
    records: Records,
    device: Device,
    *,
    capacity_bytes: int | None = None,
    mode: Mode = "open",
    seed: int = 0,
    window_ns: tuple[int, int] | None = None,
) -> Replay:
    """Send one disk's recorded requests to a modelled disk.

    With a window, requests that arrive outside it are sent, too, because they bring the disk into its state,
    but latencies and spans are of the window's. Those before it are sent as in a closed replay, so that a
    slower disk brings no backlog of the preparation into the window.

    The ``seed`` of the model's random draws is `strata.lab.initrd.disk_seed` of the trial's.

    Raises ResultError if there are no records, in the window or at all, or the device is too small for them.
    """
    if len(records) == 0:
        raise ResultError("the trace has no requests of this disk", remedy="name another one with --disk")
    capacity_bytes = min(capacity_bytes or device.capacity_bytes, device.capacity_bytes)
    records = in_order_of_arrival(records)
    _refuse_beyond(records, device, capacity_bytes)
    arrival, complete = (records[name].astype(np.int64) for name in ("arrival_ns", "complete_ns"))
    first_ns, end_ns = window_ns or (0, _NEVER)
    opening = _Opening.of(arrival, complete, first_ns if mode == "open" else _NEVER)
    delay, after = opening.waits(arrival, complete)
    config = driver_config(
        device, name="sda", backing_fd=_NO_CONTENT, capacity_bytes=capacity_bytes, seed=seed
    )
    op, sector, sectors = (records[name] for name in ("op", "sector", "sectors"))
    flags = np.where(flag(records, "fua"), FUA, 0)
    done = ModelledDisk(config).replay(op, sector, sectors, delay, after, flags=flags)
    finished = done.complete_ns.astype(np.int64)
    began = opening.began(arrival, done.arrival_ns.astype(np.int64), finished)
    taken = finished - began
    inside = (arrival >= first_ns) & (arrival < end_ns)
    if not inside.any():
        cause = "no request of this disk arrives in the measured window"
        raise ResultError(cause, remedy="name another disk with --disk, or add --whole")
    kept = records[inside]
    recorded_span_ns = int(complete[inside].max() - arrival[inside].min())
    replayed_span_ns = int(finished[inside].max() - began[inside].min())
    carried = recorded_span_ns / replayed_span_ns if replayed_span_ns else 1.0
    overloaded = mode == "open" and carried < _CARRIED_MIN and _grows(taken[inside])
    return Replay(
        records=records,
        complete_ns=finished,
        latency_ns=taken,
        recorded=_by_kind(kept, latency_ns(kept)),
        replayed=_by_kind(kept, taken[inside]),
        recorded_span_ns=recorded_span_ns,
        replayed_span_ns=replayed_span_ns,
        carried_share=carried if overloaded else None,
    )


def _grows(taken: Times) -> bool:
    """Whether each quarter of the requests, in order of arrival, takes longer than the quarter before."""
    if len(taken) < _QUARTERS:
        return False
    means = np.array([quarter.mean() for quarter in np.array_split(taken, _QUARTERS)])
    return bool((np.diff(means) > 0).all())


@dataclass(frozen=True)
class _Opening:
    """The last completion before the window: from it on requests are sent at their recorded times.

    Attributes:
        closed: The requests before the window, which are sent after completions.
        completions: The number of them that were complete.
        recorded_ns: The instant in the recording.
    """

    closed: npt.NDArray[np.bool_]
    completions: int
    recorded_ns: int

    @classmethod
    def of(cls, arrival: Times, complete: Times, first_ns: int) -> _Opening:
        closed = arrival < first_ns
        ended = complete[closed & (complete <= first_ns)]
        return cls(closed, len(ended), int(ended.max(initial=0)))

    def waits(self, arrival: Times, complete: Times) -> tuple[Times, Times]:
        delay, after = waits(arrival, complete)
        open_delay = arrival - self.recorded_ns
        return np.where(self.closed, delay, open_delay), np.where(self.closed, after, self.completions)

    def began(self, arrival: Times, sent: Times, finished: Times) -> Times:
        """The arrivals: an open request waits from its time on, although a full queue delays it."""
        opened_ns = int(np.sort(finished)[self.completions - 1]) if self.completions else 0
        return np.where(self.closed, sent, opened_ns + arrival - self.recorded_ns)


def in_order_of_arrival(records: Records) -> Records:
    """Requests of one instant are ordered by the disk's count of outstanding requests."""
    found: Records = records[np.lexsort((records["outstanding"], records["arrival_ns"]))]
    return found


def waits(arrival: Times, complete: Times) -> tuple[Times, Times]:
    """The delay of each request since the last completion before it, and the number of completions before."""
    finished = np.sort(complete)
    after = np.searchsorted(finished, arrival, side="right")
    # Where a request takes no time, its own completion and later ones may be at the instant of its arrival.
    at_once = np.concatenate([[0], np.cumsum(complete == arrival)])
    after = after - (at_once[np.searchsorted(arrival, arrival, side="right")] - at_once[:-1])
    latest = np.concatenate([[0], finished])[after]
    return arrival - latest, after


def _refuse_beyond(records: Records, device: Device, capacity_bytes: int) -> None:
    end_bytes = int((records["sector"].astype(np.int64) + records["sectors"]).max()) * SECTOR_BYTES
    if end_bytes > capacity_bytes:
        end, holds = format_size(end_bytes), format_size(capacity_bytes)
        cause = f"the trace reaches up to {end}, and {device.name} holds {holds}"
        remedy = "name a larger device; of a study: run it with a smaller `capacity`"
        raise ResultError(cause, place="--device", remedy=remedy)


def _by_kind(records: Records, latencies: Times) -> dict[str, Latencies]:
    by_kind = {kind: latencies[records["kind"] == number] for number, kind in enumerate(KINDS)}
    groups = {"all": latencies} | {kind: each for kind, each in by_kind.items() if len(each)}
    return {name: _summary(each) for name, each in groups.items()}


def _summary(latencies: Times) -> Latencies:
    ordered = np.sort(latencies)
    p50, p99, largest = (nearest_rank(ordered, share) for share in (0.5, 0.99, 1.0))
    return Latencies(len(ordered), float(ordered.mean()), p50, p99, largest)
