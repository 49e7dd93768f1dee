# SPDX-License-Identifier: Apache-2.0
"""The bundled devices as the driver sees them: its own C code reads the text and moves the head."""

from __future__ import annotations

import numpy as np
import pytest

from kernel_model import READ, ModelledDisk
from kernel_model import grid_distance as driver_grid_distance
from strata.lab.disk import driver_config
from strata.lab.models.rotating import grid_distance, mechanism
from strata.lab.models.rotating_formulas import random_read_ns_mean, seek_ns, sustained_bytes_per_s
from strata.spec.device import bundled_devices, find_device

ROTATING = [name for name in bundled_devices() if find_device(name).kind == "rotating"]


def modelled(name: str, capacity_bytes: int | None = None) -> ModelledDisk:
    config = driver_config(find_device(name), name="sda", backing_fd=3, capacity_bytes=capacity_bytes)
    return ModelledDisk(config)


@pytest.mark.parametrize("name", bundled_devices())
@pytest.mark.parametrize("capacity_bytes", [None, 1 << 20, 40 << 30, 60 << 30])
def test_the_driver_takes_each_bundled_device(name: str, capacity_bytes: int | None) -> None:
    modelled(name, capacity_bytes)


def test_the_grid_is_that_of_the_driver() -> None:
    assert [grid_distance(i) for i in range(400)] == [driver_grid_distance(i) for i in range(400)]


@pytest.mark.parametrize("name", ROTATING)
def test_the_driver_seeks_as_the_formulas_say(name: str) -> None:
    disk, formulas = modelled(name), mechanism(find_device(name))

    for distance in (1, 2, 16, 17, 33, 1000, 54_321, formulas.tracks - 1):
        assert disk.seek_ns(distance) == pytest.approx(seek_ns(formulas, distance), abs=1)


@pytest.mark.parametrize("name", ROTATING)
@pytest.mark.parametrize("span_bytes", [None, 1 << 30, 100 << 30])
def test_random_reads_take_the_analytic_mean(name: str, span_bytes: int | None) -> None:
    formulas = mechanism(find_device(name))
    span_blocks = (span_bytes // 512 if span_bytes else formulas.sectors) // 8
    blocks = np.random.default_rng(7).integers(0, span_blocks, 60_000)

    trace = modelled(name).closed_loop(READ, blocks * 8, 8, depth=1)

    expected_ns = random_read_ns_mean(formulas, span_bytes=span_bytes)
    assert float(trace.latency_ns.mean()) == pytest.approx(expected_ns, rel=0.01)


@pytest.mark.parametrize("name", ROTATING)
@pytest.mark.parametrize("zone", [0, 7, -1])
def test_sequential_reads_have_the_sustained_rate(name: str, zone: int) -> None:
    formulas = mechanism(find_device(name))
    first, count, sectors = formulas.zones[zone].first_sector, 2000, 2048

    starts = first + np.arange(count) * sectors
    trace = modelled(name).closed_loop(READ, starts, sectors, depth=2)

    elapsed_s = float(trace.complete_ns.max()) / 1e9
    assert count * sectors * 512 / elapsed_s == pytest.approx(
        sustained_bytes_per_s(formulas, zone % len(formulas.zones)), rel=0.01
    )
