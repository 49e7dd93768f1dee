# SPDX-License-Identifier: Apache-2.0
"""The flash model against what can be worked out by hand: reads, writes, link and dies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flash_texts import BLOCK, GIB, MIB, Drive, blocks, rate_per_s
from strata.lab.model import DISCARD, READ, WRITE

DRIVE = Drive()
WIDE = {"link_bytes_per_s": 50 * GIB, "command_ns": 0, "interface_read_ns": 0, "interface_write_ns": 0}
"""A link that is never the limit."""
FILLED = {"precondition": 2}


def test_a_lone_read_takes_one_page_type_the_link_and_the_interface() -> None:
    drive = Drive(read_ns=(40_000, 60_000, 110_000))
    pages = np.random.default_rng(1).permutation(drive.sectors // 32)[:3000] * 32
    trace = drive.open(**FILLED).closed_loop(READ, pages, BLOCK, depth=1)
    rest = drive.link_ns(4096) + drive.interface_ns
    assert set(trace.latency_ns) == {time + rest for time in drive.read_ns}
    assert trace.latency_ns.mean() == pytest.approx(70_000 + rest, rel=0.02), "each type is as frequent"
    assert not trace.part("queue_ns").any()
    assert set(trace.part("cell_ns")) == set(drive.read_ns)


def test_what_was_never_written_or_was_discarded_is_read_without_cells() -> None:
    disk = DRIVE.open(**FILLED)
    disk.closed_loop(DISCARD, [0], 1024, depth=1)
    discarded = disk.closed_loop(READ, [0, 1024], BLOCK, depth=1)
    fresh = DRIVE.open().closed_loop(READ, blocks(DRIVE, 10), BLOCK, depth=1)
    lone = DRIVE.link_ns(4096) + DRIVE.interface_ns
    assert list(discarded.latency_ns) == [lone, lone + 50_000]
    assert set(fresh.latency_ns) == {lone}


def test_a_channel_limits_the_dies_behind_it() -> None:
    disk = DRIVE.open(**FILLED, **WIDE, channel_bytes_per_s=100_000_000)
    trace = disk.closed_loop(READ, blocks(DRIVE, 20_000), BLOCK, depth=512)
    assert rate_per_s(trace) == pytest.approx(4 * 100e6 / 4096, rel=0.03)


def test_writes_are_quick_while_the_buffer_has_room_then_as_quick_as_the_dies() -> None:
    drive = Drive(program_ns=(2_000_000,), buffer_bytes=4 * MIB)
    trace = drive.open().closed_loop(WRITE, np.arange(2000) * 256, 256, depth=1)
    lone = drive.link_ns(131_072) + drive.interface_ns
    # 31 transfers fill the buffer, in which some pages have been programmed already.
    assert set(trace.latency_ns[:30]) == {lone}
    late = trace.latency_ns[1000:]
    assert 131_072 / late.mean() == pytest.approx(16 * 16_384 / 2_000_000, rel=0.01)
    assert trace.part("cache_ns")[1000:].mean() > 0.4 * late.mean()
    assert not trace.part("cleaning_ns").any()


def test_a_read_interrupts_a_program_where_the_drive_can_and_waits_otherwise() -> None:
    latencies = {}
    for suspend_ns in (0, 30_000):
        disk = Drive(dies=1).open(**FILLED, channels=1, program_suspend_ns=suspend_ns)
        # One page of four blocks goes to the only die; the read of another block arrives in its program.
        ops, lengths = [WRITE, READ], [32, BLOCK]
        trace = disk.arrivals(ops, [0, 4096], lengths, [0, 200_000])
        latencies[suspend_ns] = trace.part("queue_ns")[1], int(trace.latency_ns[1])
    program_end = DRIVE.link_ns(16_384) + 400_000
    alone = 50_000 + DRIVE.link_ns(4096) + DRIVE.interface_ns
    assert latencies[30_000] == (30_000, alone + 30_000)
    assert latencies[0] == (program_end - 200_000, alone + program_end - 200_000)


def test_reads_cannot_starve_a_program_that_they_interrupt() -> None:
    drive = Drive(dies=1, volatile_cache=0, buffer_bytes=32_768)
    disk = drive.open(**FILLED, channels=1, program_suspend_ns=1000)
    ops = np.tile([WRITE] + [READ] * 15, 300)
    trace = disk.closed_loop(ops, blocks(drive, len(ops)), BLOCK, depth=16)
    assert trace.latency_ns[ops == WRITE].max() < 100_000_000


def test_media_that_are_overwritten_in_place_need_no_cleaning() -> None:
    drive = Drive(page_bytes=4096, read_ns=(5000,), program_ns=(6000,), volatile_cache=0)
    disk = drive.open(in_place=1)
    assert disk.closed_loop(READ, [80], BLOCK, depth=1).part("cell_ns")[0] == 5000, "never written or not"
    disk.closed_loop(WRITE, blocks(drive, 4 * drive.units), BLOCK, depth=32)
    account = disk.account()
    assert account["media_write_bytes"] == account["write_bytes"]
    assert account["cleanings"] == account["cleaning_work_ns"] == 0


def test_a_description_that_makes_no_drive_is_refused() -> None:
    changed: dict[str, Any]
    for changed, reason in (
        ({"page_bytes": 12_288}, "powers of two"),
        ({"mapping_unit_bytes": 32_768}, "1 to 64 mapping units"),
        ({"channels": 17}, "more channels than dies"),
        ({"buffer_bytes": 16_384}, "two pages"),
        ({"slc_bytes": 1}, "slc_program_ns"),
        ({"in_place": 1}, "one mapping unit"),
        ({"read_ns": "1,2,3,4,5"}, "bad value"),
        ({"program_ns": "0"}, "bad value"),
        ({"precondition": 4}, "bad value"),
        ({"housekeeping_interval_ns": 1000, "housekeeping_ns": 501}, "at most half"),
        ({"capacity_sectors": 1 << 40}, "32 bits"),
        ({"spare_ppm": None}, "missing"),
    ):
        with pytest.raises(ValueError, match=reason):
            DRIVE.open(**changed)
