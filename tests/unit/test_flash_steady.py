# SPDX-License-Identifier: Apache-2.0
"""Cleaning: the steady state against theory and against itself, TRIM, and the SLC cache."""

from __future__ import annotations

import math

import numpy as np
import pytest

from flash_texts import BLOCK, GIB, MIB, Drive, amplification, blocks, rate_per_s
from strata.lab.model import DISCARD, READ, WRITE, ModelledDisk

STEADY = {"precondition": 1}


def greedy_amplification(spare: float) -> float:
    """Of uniform random writes under greedy cleaning with large blocks.

    The victim is the oldest block, of which the part v is still valid: with (1 + spare) blocks' worth of
    cells, 1 + spare = -ln(v) / (1 - v), and each cleaned block makes room for 1 - v (Menon 1995; Desnoyers,
    SYSTOR 2012, where it is written with Lambert's W).
    """
    low, high = 1e-9, 1 - 1e-9
    for _ in range(100):
        valid = (low + high) / 2
        low, high = (valid, high) if -math.log(valid) / (1 - valid) > 1 + spare else (low, valid)
    return 1 / (1 - low)


def _overwrite(drive: Drive, disk: ModelledDisk, turns: float, seed: int) -> float:
    """Uniform random writes of ``turns`` times the capacity; returns their write amplification."""
    before = disk.account()
    disk.closed_loop(WRITE, blocks(drive, int(drive.units * turns), seed), BLOCK, depth=32)
    return amplification(disk, before)


def test_the_computed_steady_state_is_the_one_that_writing_leads_to() -> None:
    for spare_percent in (7, 12, 20, 28):
        drive = Drive(capacity_bytes=GIB, spare_ppm=spare_percent * 10_000, volatile_cache=0)
        disk = drive.open(**STEADY)
        assert disk.flash_problem() is None
        at_once = _overwrite(drive, disk, 0.25, seed=1)
        _overwrite(drive, disk, 2.5, seed=2)
        later = _overwrite(drive, disk, 0.25, seed=3)
        assert at_once == pytest.approx(later, rel=0.03)
        assert at_once == pytest.approx(greedy_amplification(spare_percent / 100), rel=0.05)
        assert disk.flash_problem() is None


def test_a_part_of_a_drive_behaves_as_the_whole() -> None:
    found = []
    for size in (128 * MIB, 512 * MIB):
        drive = Drive(capacity_bytes=size, volatile_cache=0)
        found.append(_overwrite(drive, drive.open(**STEADY), 1, seed=1))
    assert found[0] == pytest.approx(found[1], rel=0.05)


def test_every_unit_of_a_preconditioned_drive_has_cells() -> None:
    drive = Drive(capacity_bytes=8 * MIB)
    for state in (1, 2):
        disk = drive.open(precondition=state, page_bytes=4096)
        trace = disk.closed_loop(READ, np.arange(drive.units) * BLOCK, BLOCK, depth=1)
        assert trace.part("cell_ns").all()
        assert disk.flash_problem() is None


USED = {
    "precondition": 3,
    "used_filled_ppm": 750_000,
    "used_scattered_ppm": 500_000,
    "used_collected_ppm": 500_000,
}


def test_a_used_drive_holds_data_in_a_part_and_writes_freely_until_its_free_blocks_are_gone() -> None:
    for seed in (1, 2):
        drive = Drive(capacity_bytes=512 * MIB, volatile_cache=0)
        held = drive.open(**USED, seed=seed).closed_loop(
            READ, np.arange(0, drive.units, 64) * BLOCK, BLOCK, depth=1
        )
        assert np.mean(held.part("cell_ns") > 0) == pytest.approx(0.75, abs=0.02)
        # Data that was written in order would free whole blocks of so small a drive.
        disk = drive.open(**USED | {"used_scattered_ppm": 1_000_000}, seed=seed)
        # Half of the cells without data: 12 % of spare room and a quarter of the capacity.
        free = (0.12 + 0.25) / 2 * drive.units
        written = 0
        while disk.account()["media_write_bytes"] <= written * 4096:
            disk.closed_loop(WRITE, (written + np.arange(256)) * BLOCK, BLOCK, depth=8)
            written += 256
        assert written == pytest.approx(free, rel=0.1)
        assert disk.flash_problem() is None


def test_discarding_a_used_drive_makes_it_fresh_but_for_erases() -> None:
    drive = Drive(capacity_bytes=256 * MIB, volatile_cache=0)
    disk = drive.open(**USED)
    disk.closed_loop(DISCARD, np.arange(0, drive.sectors, 1024), 1024, depth=1)
    before = disk.account()
    disk.closed_loop(WRITE, np.arange(drive.units) * BLOCK, BLOCK, depth=32)
    assert amplification(disk, before) == 1.0
    assert disk.account()["cleaning_work_ns"] > before["cleaning_work_ns"]
    assert disk.flash_problem() is None


def test_discarding_half_the_drive_makes_its_cells_spare() -> None:
    drive = Drive(capacity_bytes=256 * MIB, spare_ppm=100_000, volatile_cache=0)
    disk = drive.open(**STEADY)
    full = _overwrite(drive, disk, 0.5, seed=1)
    half = drive.sectors // 2
    disk.closed_loop(DISCARD, np.arange(half, drive.sectors, 1024), 1024, depth=1)
    places = blocks(drive, drive.units) % half
    disk.closed_loop(WRITE, places, BLOCK, depth=32)
    before = disk.account()
    disk.closed_loop(WRITE, places, BLOCK, depth=32)
    # The remaining data have the other half and a tenth of both as spare room: 120 %.
    assert amplification(disk, before) == pytest.approx(greedy_amplification(1.2), rel=0.05)
    assert full > 4
    assert disk.flash_problem() is None


def test_writing_one_block_again_and_again_needs_no_cleaning_and_no_memory() -> None:
    drive = Drive(capacity_bytes=64 * GIB)
    disk = drive.open()
    ops = np.tile([WRITE, 2], 20_000)
    disk.closed_loop(ops, np.zeros(len(ops), int), np.tile([BLOCK, 0], 20_000), depth=1)
    account = disk.account()
    assert account["cleanings"] == 0
    assert account["media_write_bytes"] == 20_000 * drive.page_bytes, "each flush closes a page"
    assert disk.flash_problem() is None


def test_the_slc_cache_is_fast_until_it_is_full_and_again_after_a_pause() -> None:
    drive = Drive(capacity_bytes=512 * MIB, program_ns=(1_500_000,))
    disk = drive.open(slc_bytes=128 * MIB, slc_program_ns=300_000, slc_idle_ns=1_000_000_000)

    def rate(first_mib: int, count_mib: int) -> float:
        places = (first_mib * MIB + np.arange(count_mib * 8) * 131_072) // 512
        trace = disk.closed_loop(WRITE, places, 256, depth=8)
        return rate_per_s(trace) * 131_072

    fast, slow = rate(0, 100), rate(200, 100)
    assert fast == pytest.approx(131_072e9 / drive.link_ns(131_072), rel=0.02)
    assert slow < 0.6 * fast
    before = disk.account()
    disk.advance(disk.now_ns + 20_000_000_000)
    assert rate(300, 100) == pytest.approx(fast, rel=0.02)
    folded = disk.account()["media_write_bytes"] - before["media_write_bytes"] - 100 * MIB
    assert folded == 128 * MIB
