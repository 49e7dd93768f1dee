# SPDX-License-Identifier: Apache-2.0
"""How a rotating disk chooses among the commands of its queue, and among writes that wait for its cache."""

from __future__ import annotations

import numpy as np

from kernel_model import Geometry
from strata.datasheet.measure import Subject, rate_per_s
from strata.devices.device import bundled_devices, find_device
from strata.devices.plausible import plausible_drive
from strata.lab.model import READ, WRITE, ModelledDisk

DRIVE = Geometry(window=32)
QUEUEING = [
    name
    for name in bundled_devices()
    if (device := find_device(name)).kind == "rotating" and device.whole("scheduler_window") > 1
]
SEEDS = range(1, 13)


def test_every_drawn_drive_gains_from_depth_16_to_32() -> None:
    """Five of five real drives gain 1.08 to 1.25 times, and 1.40 to 1.82 times from depth 1."""
    for model in QUEUEING:
        for seed in SEEDS:
            drive = Subject(plausible_drive(find_device(model), seed))
            rates = {
                depth: rate_per_s(drive.random(READ, depth=depth, count=1500), depth=depth, warm_up=0.1)
                for depth in (1, 16, 32)
            }

            assert rates[32] > 1.04 * rates[16], seed
            assert 1.3 < rates[32] / rates[1] < 2.6, seed


def read_rate(depth: int, **keys: int) -> float:
    sectors = np.random.default_rng(3).integers(0, DRIVE.capacity_sectors // 8 - 1, 6000) * 8
    disk = ModelledDisk(DRIVE.text(**keys))
    return rate_per_s(disk.closed_loop(READ, sectors, 8, depth=depth), depth=depth)


def test_a_drive_whose_whole_queue_is_overdue_goes_on_choosing() -> None:
    """At a limit of zero one in four is served in order of arrival, the others by place."""
    in_order, chosen, overdue = read_rate(1), read_rate(32), read_rate(32, wait_limit_ns=0)

    assert 1.3 * in_order < overdue < 0.95 * chosen


def test_a_margin_costs_a_part_of_the_gain_and_a_lone_command_nothing() -> None:
    alone, ideal = read_rate(1), read_rate(32)
    rates = [read_rate(32, positioning_margin_ns=margin) for margin in (500_000, 1_500_000, 4_000_000)]

    assert read_rate(1, positioning_margin_ns=4_000_000) == alone
    assert ideal > rates[0] > rates[1] > rates[2] > 1.2 * alone


CACHE = {
    "volatile_cache": 1,
    "write_cache_bytes": 1 << 20,
    "write_cache_extents": 32,
    "link_bytes_per_s": 300_000_000,
}


def cached_writes(sectors: object, **keys: int) -> np.ndarray:
    """The indices in the order of completion, at depth 16."""
    disk = ModelledDisk(DRIVE.text(**CACHE, **keys))
    return disk.closed_loop(WRITE, sectors, 8, depth=16).order


def test_writes_that_wait_for_room_are_taken_in_order_or_by_place_but_never_forgotten() -> None:
    sectors = np.random.default_rng(4).integers(0, DRIVE.capacity_sectors // 8 - 1, 2000) * 8

    assert list(cached_writes(sectors)) == list(range(2000))
    behind = np.arange(2000) - cached_writes(sectors, admission_oldest_every=3)
    assert 16 < behind.max() < 3 * 16  # one in three is the oldest, so each waits for three queues at most


def test_writes_to_the_same_sectors_keep_their_order() -> None:
    sectors = np.repeat(np.random.default_rng(5).integers(0, DRIVE.capacity_sectors // 8 - 1, 500) * 8, 4)
    place = np.argsort(cached_writes(sectors, admission_oldest_every=32)).reshape(-1, 4)

    assert (np.diff(place, axis=1) > 0).all()


def test_a_stream_of_writes_is_not_torn_apart() -> None:
    assert list(cached_writes(8 * np.arange(4000), admission_oldest_every=32)) == list(range(4000))
