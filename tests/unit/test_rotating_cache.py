# SPDX-License-Identifier: Apache-2.0
"""A rotating disk's write cache: what it absorbs, when it is emptied, and what a flush and FUA are worth."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_model import Geometry
from strata.lab.model import DISCARD, FLUSH, READ, WRITE, ModelledDisk

DRIVE = Geometry()
MIB = 1 << 20
MS = 1_000_000
IDLE_NS = 50 * MS


def text(**changed: object) -> str:
    values = {
        "volatile_cache": 1,
        "write_cache_bytes": 8 * MIB,
        "write_cache_extents": 1024,
        "destage_window": 8,
        "destage_idle_ns": IDLE_NS,
        "link_bytes_per_s": 300_000_000,
    }
    return DRIVE.text(**(values | changed))


def scattered(count: int, seed: int = 1) -> np.ndarray:
    """Whole 4-KiB blocks anywhere."""
    return np.random.default_rng(seed).integers(0, DRIVE.capacity_sectors // 8 - 1, count) * 8


def flush_ns(writes: int, seed: int) -> int:
    disk = ModelledDisk(text())
    ops = [WRITE] * writes + [FLUSH]
    trace = disk.closed_loop(ops, [*scattered(writes, seed), 0], [8] * writes + [0], depth=1)
    return int(trace.latency_ns[-1])


def test_a_cached_write_takes_its_overhead_and_the_link() -> None:
    trace = ModelledDisk(text()).closed_loop(WRITE, scattered(100), 8, depth=1)
    assert set(trace.latency_ns) == {DRIVE.overhead_ns + 4096 * 1000 // 300}
    assert trace.part("seek_ns").sum() == 0


def test_a_buffered_command_can_have_an_overhead_of_its_own() -> None:
    trace = ModelledDisk(text(buffer_overhead_ns=40_000)).closed_loop(WRITE, [80, 800], 8, depth=1)
    assert set(trace.part("overhead_ns")) == {40_000}


def test_cached_writes_share_the_link() -> None:
    trace = ModelledDisk(text()).arrivals(WRITE, [0, 4096], 2048, [0, 0])
    first, second = (int(time) for time in trace.complete_ns)
    assert second - first == MIB * 10**9 // 300_000_000


def test_sequential_writes_reach_the_rate_of_the_surface_when_the_cache_is_full() -> None:
    sectors = 2048 * np.arange(400)
    disk = ModelledDisk(text())
    trace = disk.closed_loop(WRITE, sectors, 2048, depth=1)
    seconds = float(trace.complete_ns[-1] - trace.complete_ns[100]) / 1e9
    assert 299 * MIB / seconds == pytest.approx(DRIVE.sustained_bytes_per_s(0), rel=0.02)
    assert int(trace.part("cache_ns").sum()) > 0


def test_random_writes_are_destaged_faster_than_they_could_be_made_one_by_one() -> None:
    cached = ModelledDisk(text()).closed_loop(WRITE, scattered(6000), 8, depth=1)
    through = ModelledDisk(text(volatile_cache=0)).closed_loop(WRITE, scattered(6000), 8, depth=1)
    assert 2 < through.duration_ns / cached.duration_ns < 4


def test_a_larger_destage_window_destages_faster() -> None:
    durations = [
        ModelledDisk(text(destage_window=window)).closed_loop(WRITE, scattered(4000), 8, depth=1)
        for window in (1, 4, 16)
    ]
    first, second, third = (trace.duration_ns for trace in durations)
    assert first > 1.2 * second > 1.2 * third


def test_a_flush_takes_an_intercept_and_something_for_each_write() -> None:
    counts = (1, 2, 4, 8, 16, 32, 64)
    means = [float(np.mean([flush_ns(count, seed) for seed in range(40)])) / MS for count in counts]
    assert means == sorted(means)
    one = (DRIVE.mean_random_read_ns(8) + DRIVE.write_settle_ns) / MS
    assert means[0] == pytest.approx(one, rel=0.25)
    slope = (means[-1] - means[-3]) / (counts[-1] - counts[-3])
    assert slope < 0.75 * means[0]  # the more there is, the nearer the next


def test_a_flush_of_a_clean_cache_takes_its_overhead() -> None:
    disk = ModelledDisk(text())
    disk.closed_loop(WRITE, scattered(5), 8, depth=1)
    disk.advance(disk.now_ns + 1000 * MS)
    trace = disk.closed_loop(FLUSH, [0], 0, depth=1)
    assert list(trace.latency_ns) == [DRIVE.overhead_ns]


def test_a_drive_that_ignores_flushes_answers_at_once_and_destages_nothing() -> None:
    disk = ModelledDisk(text() + "fault=ignores-flush\n")
    trace = disk.closed_loop([WRITE, FLUSH], [800_000, 0], [8, 0], depth=1)
    assert int(trace.latency_ns[1]) == DRIVE.overhead_ns
    assert disk.account()["destages"] == 0


def test_a_write_that_is_overwritten_in_the_cache_reaches_the_medium_once() -> None:
    disk = ModelledDisk(text())
    disk.closed_loop(WRITE, [80_000] * 50 + [80_004] * 50, 8, depth=1)
    disk.closed_loop(FLUSH, [0], 0, depth=1)
    account = disk.account()
    assert account["write_bytes"] == 100 * 4096
    assert (account["media_write_bytes"], account["destages"]) == (12 * 512, 1)


def test_neighbours_are_destaged_together() -> None:
    disk = ModelledDisk(text())
    order = np.random.default_rng(3).permutation(64)
    disk.closed_loop(WRITE, order * 8, 8, depth=4)
    disk.closed_loop(FLUSH, [0], 0, depth=1)
    assert disk.account()["destages"] == 1


def test_a_read_of_what_was_just_written_needs_no_surface() -> None:
    trace = ModelledDisk(text()).closed_loop([WRITE, READ], [80_000, 80_002], [8, 4], depth=1)
    assert int(trace.part("seek_ns")[1] + trace.part("rotation_ns")[1]) == 0
    assert int(trace.latency_ns[1]) < 2 * DRIVE.overhead_ns


def test_an_idle_drive_destages_after_its_time() -> None:
    disk = ModelledDisk(text())
    written = disk.closed_loop(WRITE, scattered(3), 8, depth=1)
    last = int(written.arrival_ns[-1])
    disk.advance(last + IDLE_NS - 1)
    assert disk.account()["destages"] == 0
    disk.advance(last + IDLE_NS + 200 * MS)
    assert disk.account()["destages"] == 3


def test_above_the_high_watermark_reads_share_the_surface_with_destaging() -> None:
    disk = ModelledDisk(text(destage_high_bytes=MIB // 4))
    disk.closed_loop(WRITE, scattered(60), 8, depth=1)
    disk.closed_loop(READ, scattered(50, 2), 8, depth=1)
    assert disk.account()["destages"] == 0
    disk.closed_loop(WRITE, scattered(200, 3), 8, depth=1)
    before = disk.account()
    disk.closed_loop(READ, scattered(50, 4), 8, depth=2)
    after = disk.account()
    assert after["destages"] - before["destages"] == pytest.approx(50, abs=2)


def test_the_cache_is_limited_in_runs_as_well() -> None:
    trace = ModelledDisk(text(write_cache_extents=16)).closed_loop(WRITE, scattered(17), 8, depth=1)
    assert int(trace.part("cache_ns")[:16].sum()) == 0
    assert int(trace.part("cache_ns")[16]) > 0


def test_a_write_larger_than_the_cache_goes_through() -> None:
    disk = ModelledDisk(text())
    disk.record_durable(10)
    trace = disk.closed_loop(WRITE, [0], 9 * MIB // 512, depth=1)
    assert int(disk.durable[0][3]) == int(trace.complete_ns[0])


def test_without_a_volatile_cache_a_sequential_write_loses_a_revolution() -> None:
    trace = ModelledDisk(text(volatile_cache=0)).closed_loop(WRITE, 8 * np.arange(50), 8, depth=1)
    gaps = np.diff(trace.complete_ns.astype(np.int64))
    assert np.all(np.abs(gaps - DRIVE.rotation_ns) < 40_000)


def test_discarded_data_need_not_be_destaged() -> None:
    disk = ModelledDisk(text(discard=1))
    disk.closed_loop([WRITE, DISCARD, FLUSH], [80_000, 80_000, 0], [8, 8, 0], depth=1)
    assert disk.account()["media_write_bytes"] == 0


def test_destaging_says_how_often_the_head_moved_and_what_its_time_was() -> None:
    disk = ModelledDisk(text())
    far = DRIVE.capacity_sectors // 16 * 8
    disk.closed_loop([WRITE, WRITE, FLUSH], [far, far // 2 // 8 * 8, 0], [8, 8, 0], depth=1)
    account = disk.account()
    assert (account["destages"], account["destage_seeks"]) == (2, 2)
    parts = [account[f"destage_{part}_ns"] for part in ("seek", "rotation", "transfer")]
    assert sum(parts) == account["destage_work_ns"]
    assert all(parts)


def test_destaging_a_run_along_one_track_moves_the_head_once() -> None:
    disk = ModelledDisk(text())
    far = DRIVE.capacity_sectors // 16 * 8
    disk.closed_loop([WRITE] * 2 + [FLUSH], [far, far + 16, 0], [8, 8, 0], depth=1)
    assert (disk.account()["destages"], disk.account()["destage_seeks"]) == (2, 1)
