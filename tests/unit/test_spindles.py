# SPDX-License-Identifier: Apache-2.0
"""Each spindle turns at a phase and a speed of its own, drawn from the disk's seed."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pytest

from strata.datasheet.measure import Subject
from strata.devices.device import Device, find_device
from strata.lab.disk import driver_config
from strata.lab.model import READ, ModelledDisk

_COUNT = 300
_GAP_NS = 50_000_017
"""Longer than any access."""
_TURN_NS = 60e9 / 7200


@pytest.fixture(scope="module")
def drive() -> Device:
    return find_device("wd-re4-500gb")


def in_step(drive: Device) -> Device:
    """The same drive, at its exact speed and from angle 0."""
    return Subject(drive).with_values({"rotation_tolerance": 0.0}).device


def rotations_ns(drive: Device, seeds: Iterable[int]) -> np.ndarray:
    """The rotational wait of the same reads, at the same instants: a row for each drive."""
    sectors = np.random.default_rng(7).integers(0, drive.capacity_bytes // 4096, _COUNT) * 8
    rows = []
    for seed in seeds:
        disk = ModelledDisk(driver_config(drive, name="sda", backing_fd=3, seed=seed))
        trace = disk.arrivals(READ, sectors, 8, np.arange(1, _COUNT + 1) * _GAP_NS)
        rows.append(trace.part("rotation_ns"))
    return np.array(rows)


@pytest.mark.parametrize("width", [1, 2, 4])
def test_the_slowest_of_several_spindles_takes_as_long_as_that_of_random_phases(
    drive: Device, width: int
) -> None:
    waits_ns = rotations_ns(drive, range(1, 241)).reshape(-1, width, _COUNT).max(axis=1)
    # The greatest of n values uniform over a turn has the mean n / (n + 1); of spindles in step, one half.
    assert waits_ns.mean() == pytest.approx(_TURN_NS * width / (width + 1), rel=0.03)


def test_a_seed_is_one_spindle(drive: Device) -> None:
    first, again, other = rotations_ns(drive, [5, 5, 6])
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_speeds_differ_within_the_tolerance(drive: Device) -> None:
    def transfer_ns(device: Device, seed: int) -> int:
        disk = ModelledDisk(driver_config(device, name="sda", backing_fd=3, seed=seed))
        trace = disk.arrivals(READ, [0, 1 << 20], 1 << 14, [_GAP_NS, 10 * _GAP_NS])
        return int(trace.part("transfer_ns").sum())

    # The time under the head depends on the speed alone, not on the angle.
    exact_ns = transfer_ns(in_step(drive), 1)
    ratios = np.array([transfer_ns(drive, seed) / exact_ns for seed in range(1, 101)])
    assert np.all(np.abs(ratios - 1) < 0.00101)
    assert ratios.std() == pytest.approx(0.001 / 3**0.5, rel=0.15)


def test_without_tolerance_all_turn_in_step(drive: Device) -> None:
    first, other = rotations_ns(in_step(drive), [5, 6])
    assert np.array_equal(first, other)
