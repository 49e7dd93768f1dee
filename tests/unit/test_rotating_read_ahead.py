# SPDX-License-Identifier: Apache-2.0
"""A rotating disk reads ahead while no command needs its head."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_model import Geometry
from strata.lab.model import READ, WRITE, ModelledDisk

DRIVE = Geometry()
MS = 1_000_000
SEGMENT = 1 << 20


def text(**changed: object) -> str:
    values = {"read_segments": 8, "read_segment_bytes": SEGMENT, "link_bytes_per_s": 300_000_000}
    return DRIVE.text(**(values | changed))


def test_sequential_reads_have_the_rate_of_the_surface_at_any_depth() -> None:
    for zone in (0, 1, 2):
        for sectors in (64, 128, 1000):
            for depth in (1, 2, 4):
                count = 600_000 // sectors
                starts = DRIVE.first_sector(zone) + sectors * np.arange(count)
                disk = ModelledDisk(text(buffer_overhead_ns=50_000))
                trace = disk.closed_loop(READ, starts, sectors, depth=depth)
                seconds = float(trace.complete_ns[-1] - trace.complete_ns[0]) / 1e9
                rate = (count - 1) * sectors * 512 / seconds
                assert rate == pytest.approx(DRIVE.sustained_bytes_per_s(zone), rel=0.01)


def test_small_sequential_reads_are_limited_by_the_overhead_not_by_the_surface() -> None:
    trace = ModelledDisk(text()).closed_loop(READ, 8 * np.arange(4000), 8, depth=1)
    hit_ns = DRIVE.overhead_ns + 4096 * 10**9 // 300_000_000
    assert float(np.median(trace.latency_ns)) == hit_ns


def test_a_hit_costs_overhead_and_link_and_counts_as_one() -> None:
    disk = ModelledDisk(text())
    disk.closed_loop(READ, [80_000], 8, depth=1)
    disk.advance(disk.now_ns + 100 * MS)
    hit = disk.closed_loop(READ, [80_008], 256, depth=1)
    assert list(hit.latency_ns) == [DRIVE.overhead_ns + 256 * 512 * 10 // 3]
    assert disk.account()["cache_hits"] == 1


def test_reading_ahead_stops_when_the_segment_is_full() -> None:
    disk = ModelledDisk(text())
    disk.closed_loop(READ, [80_000], 8, depth=1)
    disk.advance(disk.now_ns + 10_000 * MS)
    miss = disk.closed_loop(READ, [80_008 + SEGMENT // 512], 8, depth=1)
    account = disk.account()
    assert account["cache_hits"] == 0
    assert int(miss.part("rotation_ns")[0]) > 0
    assert account["media_read_bytes"] == 2 * 4096 + SEGMENT
    turns = SEGMENT / 512 / DRIVE.zones[0][1]
    assert account["prefetch_work_ns"] == pytest.approx(turns * DRIVE.rotation_ns, rel=0.15)


def test_a_command_ends_reading_ahead_at_once() -> None:
    alone = ModelledDisk(text(read_segments=0)).closed_loop(READ, [80_000, DRIVE.first_sector(1)], 8, depth=1)
    ahead = ModelledDisk(text()).closed_loop(READ, [80_000, DRIVE.first_sector(1)], 8, depth=1)
    assert int(ahead.complete_ns[1]) == int(alone.complete_ns[1])


def test_as_many_streams_as_segments_profit() -> None:
    def hits(streams: int) -> int:
        disk = ModelledDisk(text())
        starts = np.arange(streams) * 4_000_000
        for step in range(20):
            for start in starts:
                disk.closed_loop(READ, [int(start) + step * 64], 64, depth=1)
                disk.advance(disk.now_ns + 20 * MS)
        return disk.account()["cache_hits"]

    assert hits(8) >= 19 * 8 - 8
    assert hits(9) == 0


def test_a_written_sector_is_read_from_the_surface_again() -> None:
    disk = ModelledDisk(text())
    disk.closed_loop([READ, WRITE], [80_000, 80_000], [64, 8], depth=1)
    again = disk.closed_loop(READ, [80_000, 80_032], 8, depth=1)
    assert int(again.part("rotation_ns")[0]) > 0
    assert int(again.part("rotation_ns")[1]) == 0
