# SPDX-License-Identifier: Apache-2.0
"""Properties of the trace of any stream on any kind of modelled disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.devices.device import find_device
from strata.explanation.replay import replay
from strata.lab.disk import driver_config
from strata.lab.model import DISCARD, FLUSH, ModelledDisk
from strata.traces.attribution import attribute
from strata.traces.kinds import TIME_PARTS
from strata.traces.table import RECORD, Records, parse_records

DEVICES = ("wd-re4-500gb", "generic-sata-ssd", "generic-cloud-general-purpose")
CAPACITY = 1 << 33
_KINDS = np.array([0, 3, 6, 7])  # read, write_sync, flush, discard: by operation

streams = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, (CAPACITY >> 12) - 64),
        st.integers(1, 64),
        st.one_of(st.just(0), st.integers(0, 30_000_000)),
    ),
    min_size=1,
    max_size=30,
)


def recorded(device: str, stream: list[tuple[int, int, int, int]]) -> tuple[Records, ModelledDisk]:
    """A stream's trace as the driver would write it."""
    op, block, blocks, gap = (np.array(column) for column in zip(*stream, strict=True))
    disk = ModelledDisk(driver_config(find_device(device), name="sda", backing_fd=3, capacity_bytes=CAPACITY))
    sectors = np.where(op == FLUSH, 0, blocks * 8)
    done = disk.arrivals(op, np.where(op == FLUSH, 0, block * 8), sectors, np.cumsum(gap))
    made = np.zeros(len(op), RECORD)
    made["arrival_ns"], made["complete_ns"] = done.arrival_ns, done.complete_ns
    made["sector"], made["sectors"] = np.where(op == FLUSH, 0, block * 8), sectors
    made["op"], made["kind"], made["disk"] = op, _KINDS[op], 1
    # The number of outstanding I/Os distinguishes records of one instant.
    made["outstanding"] = np.arange(1, len(op) + 1)
    for index, part in enumerate(TIME_PARTS):
        made[part] = done.parts[:, index]
    return made[done.order.astype(np.intp)], disk


@pytest.mark.parametrize("device", DEVICES)
@given(stream=streams)
def test_the_parts_of_every_record_add_up_to_its_latency(
    device: str, stream: list[tuple[int, int, int, int]]
) -> None:
    made, _ = recorded(device, stream)

    np.testing.assert_array_equal(parse_records(made.tobytes(), 2, Path("trace.bin")), made)


@pytest.mark.parametrize("device", DEVICES)
@given(stream=streams)
def test_every_instant_of_a_disks_time_is_charged_exactly_once(
    device: str, stream: list[tuple[int, int, int, int]]
) -> None:
    made, disk = recorded(device, stream)
    window = (0, int(made["complete_ns"].max()) + 1000)

    found = attribute(made, window)

    assert found.busy_ns == pytest.approx(disk.account()["busy_ns"], abs=1)
    assert found.busy_ns + found.idle_ns == pytest.approx(window[1])
    assert (found.shares_ns >= -1e-3).all()


@pytest.mark.parametrize("mode", ["open", "closed"])
@pytest.mark.parametrize("device", DEVICES)
@given(stream=streams)
def test_a_replay_on_its_own_disk_is_the_recording(
    device: str, mode: str, stream: list[tuple[int, int, int, int]]
) -> None:
    made, _ = recorded(device, stream)

    found = replay(made, find_device(device), capacity_bytes=CAPACITY, mode=mode)  # type: ignore[arg-type]

    np.testing.assert_array_equal(found.complete_ns, found.records["complete_ns"])


def test_the_stream_has_every_operation() -> None:
    assert len(_KINDS) == DISCARD + 1
