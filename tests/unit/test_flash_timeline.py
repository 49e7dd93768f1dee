# SPDX-License-Identifier: Apache-2.0
"""Waiting in a flash drive: dies, channels, link and buffer, one command after the other."""

from __future__ import annotations

import numpy as np
import pytest

from flash_texts import BLOCK, GIB, MIB, Drive, blocks
from strata.lab.model import FLUSH, READ, WRITE

ONE_DIE = Drive(dies=1, buffer_bytes=16 * MIB)
PAGE = 32
"""Sectors of a page."""
FILLED = {"precondition": 2, "channels": 1}
FAR = 400_000
"""A sector that no test writes."""


def test_what_an_interrupted_program_loses_the_work_behind_it_loses() -> None:
    ends = {}
    for reads in (0, 1):
        disk = ONE_DIE.open(**FILLED, program_suspend_ns=30_000, link_bytes_per_s=50 * GIB)
        # Two pages are on their way when the read comes; a third one follows, and a flush waits for it.
        ops = [WRITE, *[READ] * reads, WRITE, FLUSH]
        places, lengths = [0, *[FAR] * reads, 64, 0], [2 * PAGE, *[BLOCK] * reads, PAGE, 0]
        times = [0, *[100_000] * reads, 200_000, 200_000]
        ends[reads] = int(disk.arrivals(ops, places, lengths, times).complete_ns[-1])
    assert ends[1] - ends[0] == 30_000 + 50_000


def test_a_program_is_not_suspended_for_ever() -> None:
    disk = ONE_DIE.open(**FILLED, program_suspend_ns=1000, program_ns=5_000_000)
    count = 200
    ops = [WRITE] + [READ] * count
    places, lengths = [0, *(FAR + PAGE * np.arange(count))], [PAGE] + [BLOCK] * count
    trace = disk.arrivals(ops, places, lengths, [0, *(100_000 + 51_000 * np.arange(count))])
    waits = trace.part("queue_ns")[1:]
    assert (waits[:16] <= 2000).all()
    assert waits[16] > 3_000_000, "the seventeenth lets the program end"


def test_reads_tell_waits_for_cleaning_from_waits_for_commands() -> None:
    places = blocks(ONE_DIE, 30_000)
    ops = np.arange(len(places)) % 2
    found = {}
    for state in (0, 1):
        drive = Drive(volatile_cache=0)
        trace = drive.open(precondition=state).closed_loop(ops, places, BLOCK, depth=8)
        reads = trace.part("cleaning_ns")[ops == READ]
        found[state] = float(reads.sum()) / float(trace.part("queue_ns")[ops == READ].sum() + 1)
    assert found[0] == 0
    assert found[1] > 1


def test_cleaning_keeps_the_dies_busy_and_no_busier_than_they_can_be() -> None:
    drive = Drive(volatile_cache=0)
    disk = drive.open(precondition=1)
    disk.closed_loop(WRITE, blocks(drive, 20_000), BLOCK, depth=32)
    before = disk.account()
    trace = disk.closed_loop(WRITE, blocks(drive, 60_000, 2), BLOCK, depth=32)
    after = disk.account()
    work = sum(after[key] - before[key] for key in ("cleaning_work_ns", "destage_work_ns"))
    assert work / (drive.dies * trace.duration_ns) == pytest.approx(1, rel=0.03)


def test_blocks_are_erased_as_often_as_the_drives_own_are() -> None:
    drive = Drive(capacity_bytes=128 * MIB)
    disk = drive.open(pages_per_block=64)
    turns = 40
    disk.closed_loop(WRITE, np.tile(np.arange(1024) * 256, turns), 256, depth=8)
    pages = disk.account()["media_write_bytes"] // drive.page_bytes
    erases = disk.account()["cleaning_work_ns"] / drive.erase_ns
    assert erases == pytest.approx(pages / 64, rel=0.06), "and nothing else was to be cleaned"


def test_no_command_waits_for_the_cleaning_of_a_whole_block() -> None:
    drive = Drive(capacity_bytes=512 * MIB, dies=4, volatile_cache=0, spare_ppm=70_000)
    disk = drive.open(precondition=1, buffer_bytes=MIB // 2, erase_ns=0)
    disk.closed_loop(WRITE, blocks(drive, 20_000), BLOCK, depth=1)
    trace = disk.closed_loop(WRITE, blocks(drive, 60_000, 2), BLOCK, depth=1)
    waits = (trace.part("cleaning_ns") + trace.part("cache_ns")).astype(float)
    # A page pays for its share: some eight pages' work, on four dies.
    assert np.percentile(waits, 99.9) < 20 * 400_000 / 4
