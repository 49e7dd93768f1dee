# SPDX-License-Identifier: Apache-2.0
"""Tails of a flash drive: each mechanism against its definition, and all against a measured drive."""

from __future__ import annotations

import numpy as np
import pytest

from flash_texts import BLOCK, GIB, Drive, blocks
from strata.datasheet.kinds import sheet_of
from strata.devices.device import find_device
from strata.lab.model import FLUSH, READ, WRITE
from strata.validation.subjects.published import is_tail, judge

MS = 1_000_000
FILLED = {"precondition": 2, "link_bytes_per_s": 50 * GIB}
DRIVE = Drive(volatile_cache=0)


def _reads(count: int = 20_000, **changed: object) -> np.ndarray:
    """The parts of random reads, one at a time, that are not the link's."""
    trace = DRIVE.open(**FILLED, **changed).closed_loop(READ, blocks(DRIVE, count), BLOCK, depth=1)
    return (trace.part("cell_ns") + trace.part("cleaning_ns")).astype(np.int64)


def test_a_part_of_the_reads_is_repeated_and_a_part_of_these_again() -> None:
    cells = _reads(read_retry_ppm=100_000, read_retry_again_ppm=200_000, read_retry_ns=30_000)
    shares = [np.mean(cells == 50_000 + retries * 30_000) for retries in range(4)]
    assert shares == pytest.approx([0.9, 0.08, 0.016, 0.0032], abs=0.006)


def test_a_page_always_takes_its_own_time() -> None:
    spread = {"read_spread_ppm": 100_000}
    cells = _reads(**spread)
    cells = cells[cells > 0]  # the die's register still had the page
    assert np.abs(cells - 50_000).max() <= 5_000
    assert cells.mean() == pytest.approx(50_000, rel=0.002)
    assert np.std(cells) == pytest.approx(5_000 / np.sqrt(6), rel=0.1), "the mean of two uniform draws"
    turns = [0, 512] * 2  # two pages of one die
    twice = DRIVE.open(**FILLED, **spread).closed_loop(READ, turns, BLOCK, depth=1).part("cell_ns")
    assert list(twice[:2]) == list(twice[2:])
    assert twice[0] != twice[1]


def test_the_firmware_pauses_once_in_each_interval() -> None:
    disk = DRIVE.open(**FILLED, housekeeping_interval_ns=100 * MS, housekeeping_ns=2 * MS)
    trace = disk.closed_loop(READ, blocks(DRIVE, 50_000), BLOCK, depth=1)
    met = trace.part("cleaning_ns") > 0
    starts = trace.arrival_ns[met] // (100 * MS)
    assert list(starts) == list(range(len(starts))), "one read a pause, one pause an interval"
    assert len(starts) == pytest.approx(trace.duration_ns / 1e8, abs=1)
    assert trace.part("cleaning_ns")[met].min() > 1.9 * MS
    assert trace.part("cleaning_ns").max() <= 2 * MS
    assert (trace.sum_ns == trace.latency_ns).all()


def test_cleaning_in_bursts_changes_no_rate_but_lets_most_writes_pass_and_a_few_wait() -> None:
    steady = {"precondition": 1, "link_bytes_per_s": 50 * GIB}
    found = {}
    for burst in (0, 32 * DRIVE.page_bytes):
        disk = DRIVE.open(**steady, cleaning_burst_bytes=burst)
        trace = disk.closed_loop(WRITE, blocks(DRIVE, 60_000), BLOCK, depth=8)
        found[burst] = trace.latency_ns[20_000:].astype(np.float64)
        assert disk.flash_problem() is None
    smooth, bursty = found.values()
    assert bursty.mean() == pytest.approx(smooth.mean(), rel=0.1)
    assert np.median(bursty) < 0.5 * np.median(smooth)
    # A burst is 128 writes, of which the eight that are outstanding wait for it.
    assert np.mean(bursty > 4 * bursty.mean()) == pytest.approx(8 / 128, rel=0.5)
    assert np.quantile(bursty, 0.99) > 4 * np.quantile(smooth, 0.99)


def test_the_drive_rewrites_its_cells_beside_reads() -> None:
    disk = DRIVE.open(**FILLED, refresh_page_ns=10 * MS, program_suspend_ns=20_000)
    trace = disk.closed_loop(READ, blocks(DRIVE, 100_000), BLOCK, depth=1)
    pages = int(trace.complete_ns.max()) // (10 * MS)
    assert disk.account()["media_write_bytes"] == pytest.approx(
        pages * DRIVE.page_bytes, abs=DRIVE.page_bytes
    )
    # A page keeps one of sixteen dies busy for 400 us in 10 ms.
    waited = np.mean(trace.part("cleaning_ns") > 0)
    assert waited == pytest.approx(0.4 / 10 / 16, rel=0.4)


def test_a_flush_that_saves_the_map_keeps_a_die_busy_for_reads() -> None:
    drive = Drive(dies=4)
    count = 400
    disk = drive.open(**FILLED, flush_queued=1, program_suspend_ns=0)
    ops, lengths = [WRITE, FLUSH, READ] * count, [BLOCK, 0, BLOCK] * count
    places = np.where(np.array(ops) == FLUSH, 0, blocks(drive, 3 * count))
    # The page is programmed within 400 us; the read comes while the map is being saved.
    at = (np.repeat(np.arange(count), 3) * 5_000_000 + np.tile([0, 20_000, 900_000], count)).tolist()
    waits = disk.arrivals(ops, places, lengths, at).part("queue_ns")[2::3]
    assert np.mean(waits > 200_000) == pytest.approx(1 / 4, abs=0.08)


def test_the_tails_of_a_drive_that_was_measured_come_out() -> None:
    """AnandTech measured 2 million reads and more: mean, median, 99 % and 99.999 %, at depths 1 and 16."""
    device = find_device("intel-p3700-800gb")
    found = [each for each in sheet_of(device).ratings() if each.published and "latency" in each.name]
    assert sum(is_tail(each.name) for each in found) == 6
    assert [each for each in found if judge(device, each).verdict != "passed"] == []
    alone = {each.name: each.ratio for each in found if "_qd1_p" in each.name}
    assert list(alone.values()) == pytest.approx([1.0] * 3, abs=0.05)
