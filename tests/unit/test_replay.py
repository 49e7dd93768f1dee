# SPDX-License-Identifier: Apache-2.0
"""Replaying a recorded list of requests, on the disk that it was recorded on and on others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from strata.devices.device import find_device
from strata.errors import ResultError
from strata.explanation.replay import Replay, in_order_of_arrival, replay, waits
from strata.lab.disk import driver_config
from strata.lab.model import FLUSH, READ, WRITE, ModelledDisk
from strata.traces.kinds import KINDS, TIME_PARTS
from strata.traces.table import RECORD, Records

MS = 1_000_000
DEVICE = "wd-re4-500gb"
_KIND_OF = {READ: KINDS.index("read"), WRITE: KINDS.index("write_sync"), FLUSH: KINDS.index("flush")}


def record(depth: int, count: int = 400, think_ns: int = 0) -> Records:
    """A list recorded on a modelled disk: bursts of ``depth`` requests, each as long as the last is done."""
    draw = np.random.default_rng(7)
    disk = ModelledDisk(driver_config(find_device(DEVICE), name="sda", backing_fd=3))
    rows: list[Any] = []
    now = 0
    while len(rows) < count:
        ops = draw.choice([READ, WRITE, WRITE, FLUSH], depth)
        sectors = draw.integers(0, 900_000_000, depth) // 8 * 8
        lengths = np.where(ops == FLUSH, 0, 8)
        sectors = np.where(ops == FLUSH, 0, sectors)
        arrival = now + np.sort(draw.integers(0, 3 * MS, depth)) * (think_ns > 0)
        done = disk.arrivals(ops, sectors, lengths, arrival)
        for index in range(depth):
            row = np.zeros((), RECORD)
            row["arrival_ns"], row["complete_ns"] = done.arrival_ns[index], done.complete_ns[index]
            row["sector"], row["sectors"], row["op"] = sectors[index], lengths[index], ops[index]
            row["kind"], row["disk"], row["outstanding"] = _KIND_OF[int(ops[index])], 1, index + 1
            for part, value in zip(TIME_PARTS, done.parts[index], strict=True):
                row[part] = value
            rows.append(row)
        now = int(done.complete_ns.max()) + think_ns
    rows.sort(key=lambda row: int(row["complete_ns"]))
    return np.array(rows, RECORD)


def faster(mode: Any) -> Replay:
    return replay(record(8), find_device("generic-nvme-consumer"), mode=mode)


def test_a_closed_replay_on_a_faster_disk_is_over_sooner() -> None:
    assert faster("closed").replayed_span_ns < faster("closed").recorded_span_ns / 5


def test_a_slower_disk_holds_requests_back_when_its_queue_is_full() -> None:
    crowd = record(1, count=200)
    crowd["arrival_ns"] = np.arange(200)
    crowd["outstanding"] = np.arange(1, 201)

    found = replay(crowd, find_device(DEVICE), mode="open")

    assert found.replayed["all"].requests == 200
    assert found.replayed["all"].max > 5 * found.replayed["all"].p50 / 4
    assert (found.latency_ns > 0).all()


def test_waits_count_completions_and_think_times() -> None:
    arrival, complete = np.array([10, 10, 70, 120]), np.array([50, 60, 110, 130])

    delay, after = waits(arrival, complete)

    assert list(after) == [0, 0, 2, 3]
    assert list(delay) == [10, 10, 10, 10]


def test_requests_of_one_instant_keep_their_order() -> None:
    made = np.zeros(3, RECORD)
    made["arrival_ns"], made["outstanding"], made["sector"] = [7, 7, 5], [3, 2, 1], [3, 2, 1]

    assert list(in_order_of_arrival(made)["sector"]) == [1, 2, 3]


def test_a_device_that_is_too_small_is_refused() -> None:
    with pytest.raises(ResultError, match="the trace reaches up to"):
        replay(record(1), find_device(DEVICE), capacity_bytes=1 << 30)


def test_a_disk_without_requests_is_refused() -> None:
    with pytest.raises(ResultError, match="no requests of this disk"):
        replay(np.zeros(0, RECORD), find_device(DEVICE))


def arriving_every(gap_ns: int, count: int = 400) -> Records:
    """Random reads that the recorded disk answered at once."""
    made = np.zeros(count, RECORD)
    made["arrival_ns"] = np.arange(count) * gap_ns
    made["complete_ns"] = made["arrival_ns"] + 1
    made["sector"] = np.random.default_rng(7).integers(0, 900_000_000, count) // 8 * 8
    made["sectors"], made["disk"], made["outstanding"] = 8, 1, 1
    return made


def test_a_load_that_is_too_much_overloads_the_disk_and_half_of_it_is_twice_the_share() -> None:
    much = replay(arriving_every(MS), find_device(DEVICE)).carried_share
    half = replay(arriving_every(2 * MS), find_device(DEVICE)).carried_share

    assert much is not None
    assert half is not None
    assert half == pytest.approx(2 * much, rel=0.1)


def test_only_requests_of_the_window_are_summarised_and_those_before_it_are_replayed() -> None:
    made = record(4, think_ns=5 * MS)
    half_ns = int(made["arrival_ns"].max()) // 2
    whole = replay(made, find_device(DEVICE))
    found = replay(made, find_device(DEVICE), window_ns=(half_ns, 1 << 60))

    inside = whole.records["arrival_ns"] >= half_ns
    np.testing.assert_array_equal(found.latency_ns, whole.latency_ns)
    assert found.replayed["all"].requests == inside.sum() < len(made)
    assert found.replayed["all"].mean == whole.latency_ns[inside].mean()
    assert found.replayed_span_ns < whole.replayed_span_ns


def test_the_window_of_an_open_replay_begins_without_a_backlog_of_the_preparation() -> None:
    """The recorded disk was prepared faster than this one can be, and then had little to do."""
    much, little = arriving_every(MS // 100, 2000), arriving_every(50 * MS, 100)
    begin_ns = int(much["complete_ns"].max()) + 50 * MS
    for column in ("arrival_ns", "complete_ns"):
        little[column] += begin_ns

    found = replay(np.concatenate([much, little]), find_device(DEVICE), window_ns=(begin_ns, 1 << 60))
    alone = replay(little, find_device(DEVICE))

    assert found.carried_share is None
    assert found.replayed["all"].requests == 100
    assert found.replayed["all"].mean == pytest.approx(alone.replayed["all"].mean, rel=0.2)


def test_a_window_without_requests_is_refused() -> None:
    with pytest.raises(ResultError, match="in the measured window"):
        replay(record(1), find_device(DEVICE), window_ns=(1 << 60, 1 << 61))
