# SPDX-License-Identifier: Apache-2.0
"""The bundled devices as the driver sees them: its own C code reads the text and moves the head."""

from __future__ import annotations

import re

import numpy as np
import pytest

from for_all import for_all
from strata.datasheet.formulas import random_read_ns_mean, seek_ns, sustained_bytes_per_s
from strata.devices.device import bundled_devices, find_device
from strata.devices.kinds.mechanism import mechanism
from strata.lab.disk import driver_config
from strata.lab.model import READ, ModelledDisk

ROTATING = [name for name in bundled_devices() if find_device(name).kind == "rotating"]


def modelled(name: str, capacity_bytes: int | None = None, *, reads_ahead: bool = True) -> ModelledDisk:
    config = driver_config(find_device(name), name="sda", backing_fd=3, capacity_bytes=capacity_bytes)
    if not reads_ahead:
        config = re.sub(r"^read_segments=.*\n", "read_segments=0\n", config, flags=re.MULTILINE)
    return ModelledDisk(config)


@for_all("name", bundled_devices())
@for_all("capacity_bytes", [None, 1 << 20, 40 << 30, 60 << 30])
def test_the_driver_takes_each_bundled_device(name: str, capacity_bytes: int | None) -> None:
    modelled(name, min(capacity_bytes or 1 << 60, find_device(name).capacity_bytes))


@for_all("name", ROTATING)
def test_the_driver_seeks_as_the_formulas_say(name: str) -> None:
    disk, formulas = modelled(name), mechanism(find_device(name))

    for distance in (1, 2, 16, 17, 33, 1000, 34_567, formulas.tracks - 1):
        assert disk.seek_ns(distance) == pytest.approx(seek_ns(formulas, distance), abs=1)


@for_all("name", ROTATING)
@for_all("span_bytes", [None, 1 << 30, 100 << 30])
def test_random_reads_take_the_analytic_mean(name: str, span_bytes: int | None) -> None:
    device = find_device(name)
    span_bytes = min(span_bytes or 1 << 60, device.capacity_bytes)
    blocks = np.random.default_rng(7).integers(0, span_bytes // 4096, 60_000)

    trace = modelled(name, reads_ahead=False).closed_loop(READ, blocks * 8, 8, depth=1)

    expected_ns = random_read_ns_mean(mechanism(device), span_bytes=span_bytes)
    assert float(trace.latency_ns.mean()) == pytest.approx(expected_ns, rel=0.01)


@for_all("name", ROTATING)
@for_all("zone", [0, 7, -1])
@for_all("depth", [1, 2])
def test_sequential_reads_have_the_sustained_rate(name: str, zone: int, depth: int) -> None:
    formulas = mechanism(find_device(name))
    index = min(zone, len(formulas.zones) - 1) % len(formulas.zones)
    in_zone = formulas.zones[index]
    sectors = 2048 if in_zone.sectors > 2000 * 2048 else 128
    count = min(2000, (in_zone.sectors - in_zone.first_sector % 8) // sectors - 1)
    skipped = find_device(name).number("shingle_cache") * (1 << 30) / 512 if index else 0

    starts = in_zone.first_sector - int(skipped) + np.arange(count) * sectors
    trace = modelled(name).closed_loop(READ, starts, sectors, depth=depth)

    elapsed_s = float(trace.complete_ns.max() - trace.complete_ns[0]) / 1e9
    assert (count - 1) * sectors * 512 / elapsed_s == pytest.approx(
        sustained_bytes_per_s(formulas, index), rel=0.01
    )
