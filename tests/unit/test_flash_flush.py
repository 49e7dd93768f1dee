# SPDX-License-Identifier: Apache-2.0
"""A flash drive's promises about power loss, and their costs: flushes, FUA, open pages."""

from __future__ import annotations

import numpy as np
import pytest

from flash_texts import BLOCK, Drive, blocks
from strata.lab.model import FLUSH, FUA, READ, WRITE, ModelTrace

DRIVE = Drive()
PROTECTED = Drive(volatile_cache=0)


def test_a_flush_programs_the_open_page_and_saves_the_map() -> None:
    trace = DRIVE.open().closed_loop([WRITE, FLUSH], [0, 0], [BLOCK, 0], depth=1)
    # The program began when the data came over the link, one interface latency before the flush.
    assert trace.latency_ns[1] == 400_000 + DRIVE.flush_ns + DRIVE.interface_ns
    assert trace.part("flush_ns")[1] == trace.latency_ns[1]


def test_a_flush_without_anything_to_save_takes_the_interface_alone() -> None:
    trace = DRIVE.open().closed_loop([WRITE, FLUSH, FLUSH], [0, 0, 0], [BLOCK, 0, 0], depth=1)
    assert trace.latency_ns[2] == DRIVE.interface_ns


def test_a_flush_holds_up_later_commands_on_sata_and_not_on_nvme() -> None:
    for queued in (0, 1):
        disk = DRIVE.open(precondition=2, flush_queued=queued)
        trace = disk.arrivals([WRITE, FLUSH, READ], [0, 0, 32_800], [BLOCK, 0, BLOCK], [0, 100_000, 100_001])
        alone = 50_000 + DRIVE.link_ns(4096) + DRIVE.interface_ns
        if queued:
            assert trace.latency_ns[2] == alone
        else:
            assert trace.complete_ns[2] == trace.complete_ns[1] + alone
            assert trace.part("queue_ns")[2] == trace.complete_ns[1] - trace.arrival_ns[2]


def test_a_write_with_fua_waits_for_its_own_page_only() -> None:
    disk = DRIVE.open()
    disk.record_durable(100)
    other = disk.closed_loop(WRITE, [80_000], 32 * 64, depth=1)
    trace = disk.closed_loop(WRITE, [0], BLOCK, depth=1, flags=FUA)
    assert trace.part("flush_ns")[0] == DRIVE.flush_ns
    assert 400_000 <= int(trace.part("cell_ns")[0]) + int(trace.part("queue_ns")[0]) < 4 * 400_000
    assert int(trace.complete_ns[0]) > int(other.complete_ns[0])
    protected = PROTECTED.open().closed_loop(WRITE, [0], BLOCK, depth=1, flags=FUA)
    assert protected.latency_ns[0] == PROTECTED.link_ns(4096) + PROTECTED.interface_ns


OFF = {"write_through": 1}


def _forced(depth: int, count: int = 4000, **changed: object) -> ModelTrace:
    return DRIVE.open(**OFF, **changed).closed_loop(WRITE, blocks(DRIVE, count), BLOCK, depth=depth)


def test_with_the_cache_off_a_lone_write_takes_a_program_and_the_saving_of_the_map() -> None:
    trace = _forced(1)
    assert trace.latency_ns[0] == DRIVE.link_ns(4096) + 400_000 + DRIVE.flush_ns + DRIVE.interface_ns
    assert (trace.latency_ns == trace.latency_ns[0]).mean() > 0.95
    assert (trace.sum_ns == trace.latency_ns).all()


def test_with_the_cache_off_dies_work_side_by_side_and_writes_that_wait_for_one_share_its_page() -> None:
    alone_ns = float(_forced(1).latency_ns.mean())
    for depth in (4, 16):  # as many as dies, and fewer
        assert float(_forced(depth).latency_ns.mean()) == pytest.approx(alone_ns, rel=0.08)
    deep = _forced(256)
    pages = 16_384 // 4096
    per_die = 4000 / 16 * alone_ns  # if each had a program of its own
    assert float(deep.complete_ns.max()) == pytest.approx(per_die / pages, rel=0.15)
    written = DRIVE.open(**OFF)
    written.closed_loop(WRITE, blocks(DRIVE, 4000), BLOCK, depth=256)
    assert written.account()["media_write_bytes"] < 1.15 * 4000 * 4096


def test_large_writes_with_the_cache_off_run_at_the_rate_of_the_dies_and_save_the_map_on_all_of_them() -> (
    None
):
    disk = DRIVE.open(**OFF, link_bytes_per_s=1 << 36, precondition=0)
    count, pages = 200, 64  # of 1 MiB: four pages on each die
    trace = disk.closed_loop(WRITE, np.arange(count) * 2048, 2048, depth=16)
    dies_ns = count * (pages * 400_000 + DRIVE.flush_ns) / 16
    assert float(trace.complete_ns.max()) == pytest.approx(dies_ns, rel=0.1)


def test_with_the_cache_off_nothing_acknowledged_is_lost() -> None:
    disk = DRIVE.open(**OFF)
    disk.record_durable(5000)
    trace = disk.closed_loop(WRITE, np.arange(2000) * BLOCK, BLOCK, depth=64)
    durable_ns = {int(sector): int(at) for sector, _, _, at in disk.durable}
    for place, ns in enumerate(trace.complete_ns):
        assert durable_ns[place * BLOCK] <= int(ns)


def test_a_drive_that_ignores_flushes_answers_them_at_once() -> None:
    disk = DRIVE.open(fault="ignores-flush")
    trace = disk.closed_loop([WRITE, FLUSH], [0, 0], [2048, 0], depth=1)
    assert trace.latency_ns[1] == DRIVE.interface_ns


def test_with_power_loss_protection_a_write_is_durable_when_it_completes() -> None:
    disk = PROTECTED.open()
    disk.record_durable(100)
    trace = disk.closed_loop(WRITE, blocks(PROTECTED, 50), BLOCK, depth=1)
    assert len(disk.durable) == 50
    assert list(disk.durable[:, 3]) == list(trace.complete_ns)
    assert list(disk.durable[:, 2]) == list(range(1, 51))


def test_a_page_that_no_more_data_come_for_is_programmed_after_a_second() -> None:
    disk = DRIVE.open()
    disk.record_durable(10)
    disk.closed_loop(WRITE, [40], BLOCK, depth=1)
    disk.advance(900_000_000)
    assert len(disk.durable) == 0
    disk.advance(2_000_000_000)
    assert len(disk.durable) == 1
    assert disk.durable[0, 0] == 40
    assert 1_000_000_000 < disk.durable[0, 3] < 1_002_000_000
