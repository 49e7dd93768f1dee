# SPDX-License-Identifier: Apache-2.0
"""The rotating disk and its queue against their own formulas, on one drive; tests/property has others."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from kernel_model import NULL_TEXT, Geometry
from strata.devices.kinds import mechanism as lab_disk
from strata.lab.model import (
    DISCARD,
    FLUSH,
    READ,
    WRITE,
    ModelledDisk,
    account_names,
    grid_distance,
    part_names,
)

DRIVE = Geometry()


def random_sectors(geometry: Geometry, count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.integers(0, geometry.capacity_sectors - 8, count)


def test_splitting_a_transfer_does_not_change_its_time() -> None:
    length = 10_000
    whole = ModelledDisk(DRIVE.text()).closed_loop(READ, [0], length, depth=1)
    cuts = ModelledDisk(DRIVE.text()).closed_loop(READ, 500 * np.arange(length // 500), 500, depth=4)
    assert int(cuts.complete_ns[-1]) == int(whole.complete_ns[0])


def test_a_larger_window_gains_more_from_the_same_queue() -> None:
    rates = []
    for window in (1, 4, 16, 32):
        disk = ModelledDisk(Geometry(window=window, wait_limit_ns=10**12).text())
        trace = disk.closed_loop(READ, random_sectors(DRIVE, 20_000, 6), 8, depth=32)
        rates.append(20_000e9 / trace.duration_ns)
    assert rates[0] == pytest.approx(1e9 / DRIVE.mean_random_read_ns(8), rel=0.03)
    for small, large in pairwise(rates):
        assert large > 1.1 * small


def starved(wait_limit_ns: int) -> tuple[int, Geometry]:
    """The latency of one far read among a stream of near ones that always win by position."""
    geometry = Geometry(wait_limit_ns=wait_limit_ns)
    sectors = 64 * np.arange(40_000)
    sectors[10] = geometry.capacity_sectors - 64
    trace = ModelledDisk(geometry.text()).closed_loop(READ, sectors, 64, depth=8)
    return int(trace.latency_ns[10]), geometry


def test_the_wait_limit_bounds_starvation() -> None:
    limit_ns = 50_000_000
    bounded, geometry = starved(limit_ns)
    longest_ns = geometry.overhead_ns + round(geometry.curve_ns(geometry.tracks)) + 3 * geometry.rotation_ns
    unbounded, _ = starved(10**15)
    assert limit_ns < bounded < limit_ns + 2 * longest_ns
    assert unbounded > 10 * bounded


def test_writes_settle_after_a_seek_but_not_in_a_stream() -> None:
    far = DRIVE.first_sector(1)
    read, write = (ModelledDisk(DRIVE.text()).closed_loop(op, [far], 8, depth=1) for op in (READ, WRITE))
    assert int(write.part("seek_ns")[0]) == int(read.part("seek_ns")[0]) + DRIVE.write_settle_ns
    stream = ModelledDisk(DRIVE.text()).closed_loop(WRITE, 293 * np.arange(24), 293, depth=4)
    assert int(stream.part("seek_ns").sum()) == 2 * DRIVE.track_skew_ns  # eight writes fill a track


def test_a_flush_is_a_barrier() -> None:
    ops = [WRITE, WRITE, FLUSH, WRITE, FLUSH]
    sectors = [DRIVE.first_sector(2), 4000, 0, 4008, 0]
    trace = ModelledDisk(DRIVE.text()).arrivals(ops, sectors, [8, 8, 0, 8, 0], [0, 10, 20, 30, 40])
    done = trace.complete_ns.astype(np.int64)
    assert list(trace.order[2:]) == [2, 3, 4]
    assert done[2] == max(done[:2])
    assert done[4] == done[3] > done[2]
    assert int(trace.part("flush_ns")[2]) == done[2] - 20
    idle = ModelledDisk(DRIVE.text()).arrivals([FLUSH], [0], [0], [77])
    assert int(idle.latency_ns[0]) == DRIVE.overhead_ns


def test_account_is_the_sum_of_the_requests() -> None:
    disk = ModelledDisk(DRIVE.text())
    ops = [READ, WRITE, FLUSH, DISCARD]
    trace = disk.arrivals(ops, [0, 800_000, 0, 64], [8, 16, 0, 8], [5, 6, 7, 8])
    account = disk.account()
    assert tuple(account) == account_names()
    assert (account["reads"], account["read_bytes"]) == (1, 8 * 512)
    assert (account["writes"], account["write_bytes"]) == (1, 16 * 512)
    assert (account["flushes"], account["discards"]) == (1, 1)
    assert account["busy_ns"] == int(trace.complete_ns.max()) - 5
    for name in part_names():
        assert account[name] == int(trace.part(name).sum())


def test_seek_table_follows_the_curve_and_the_grid_is_the_one_that_python_uses() -> None:
    assert [grid_distance(i) for i in range(400)] == [lab_disk.grid_distance(i) for i in range(400)]
    disk = ModelledDisk(DRIVE.text())
    assert disk.seek_ns(0) == 0
    for distance in (1, 2, 16, 17, 31, 32, 33, 34, 63, 64, 65, 1000, 12_345, DRIVE.tracks - 1):
        assert disk.seek_ns(distance) == pytest.approx(DRIVE.curve_ns(distance), rel=2e-4)


def test_a_wrong_text_is_refused_with_its_place() -> None:
    for text, message in (
        (DRIVE.text(spindles=2), "line 15: spindles: unknown key of this model"),
        (DRIVE.text(rotation_ns=None), "rotation_ns: missing"),
        (DRIVE.text(rotation_ns="fast"), "rotation_ns=fast: bad value"),
        (DRIVE.text(rotation_ns=10**13), "rotation_ns=10000000000000: bad value"),
        (DRIVE.text(model="tape"), "model=tape: bad value"),
        (DRIVE.text(name="../sda"), "name=../sda: bad value"),
        (DRIVE.text(window=64), "window must not exceed queue_depth"),
        (DRIVE.text(capacity_sectors=DRIVE.capacity_sectors + 1), "more sectors than its tracks hold"),
        (DRIVE.text(seek_curve_ns="1,2,3"), "ends before the longest seek"),
        (DRIVE.text(track_skew_ns=DRIVE.rotation_ns), "track_skew_ns must be below rotation_ns"),
        (DRIVE.text(physical_block_bytes=1000), "powers of two"),
        (DRIVE.text() + "zone=5,5\n", "zone=5,5: bad value"),
        (NULL_TEXT + "name=sdc\n", "line 5: name: given twice"),
        (NULL_TEXT + "tracks=5\n", "tracks: unknown key of this model"),
        (NULL_TEXT + "rubbish\n", "line 5: rubbish: not key=value"),
        ("", "name: missing"),
        (NULL_TEXT.replace("2048", "18446744073709551617"), "bad value"),
    ):
        with pytest.raises(ValueError, match=r"^line \d+: ") as refused:
            ModelledDisk(text)
        assert message in str(refused.value)
