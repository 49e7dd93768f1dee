# SPDX-License-Identifier: Apache-2.0
"""Burst credits of cloud volumes against the provider's own table."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from strata.datasheet.curves import Curve, Picture
from strata.datasheet.measure import READ, Subject
from strata.lab.model import ModelledDisk
from strata.spec.device import Device, find_device
from strata.units import NS_PER_S
from strata.validation.check import Check, Section, near

_VOLUME = "aws-ebs-gp2-100gib"
_BURST_S = {33: 1862.0, 100: 2000.0, 334: 2703.0, 750: 7200.0}
_REFILL_S = {33: 54_000.0, 100: 18_000.0, 334: 5389.0, 750: 2400.0}
_OPERATIONS = 128  # of one I/O here: 64 KiB, counted in sectors
_SECTORS = 128
_TEXT = """A gp2 volume earns 3 credits a GiB and second, at least 100, and spends one an operation; with
5.4 million saved up it makes 3000 operations a second until they are gone. Amazon's user guide (General
Purpose SSD volumes) tabulates for how long, and how long an empty balance takes to fill. The model's
buckets know neither number. Here an I/O counts as 128 operations, so that few are enough."""


def examine(*, quick: bool = False) -> Section:
    """Volumes of the table's sizes."""
    sizes = [100] if quick else list(_BURST_S)
    checks: list[Check] = []
    for size in sizes:
        disk = Subject(_volume(size)).open()
        checks.append(
            near(f"{size} GiB: burst of 3000/s", _burst_s(disk), _BURST_S[size], part=0.005, unit="s")
        )
        disk.advance(disk.now_ns + round(_REFILL_S[size] * NS_PER_S))
        checks.append(
            near(
                f"{size} GiB: burst after {_REFILL_S[size]:,.0f} s of rest",
                _burst_s(disk),
                _BURST_S[size],
                part=0.005,
                unit="s",
            )
        )
    return Section("credits", "Burst credits", _TEXT, tuple(checks), (_picture(sizes),))


def _volume(size_gib: int) -> Device:
    """A gp2 volume of another size, in the table's rounding of 33.33 GiB and less."""
    device = find_device(_VOLUME)
    changed: Mapping[str, float] = {
        "operation_rate": max(100, 3 * size_gib),
        "operation_size_max": 0.5,
    }
    parameters = dict(device.parameters)
    for name, value in changed.items():
        parameters[name] = parameters[name].model_copy(update={"value": value})
    return replace(device, parameters=parameters)


def _ends_s(disk: ModelledDisk, count: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """When so many I/Os in a closed loop were complete, from now on."""
    start_ns = disk.now_ns
    trace = disk.closed_loop(READ, np.zeros(count, np.uint64), _SECTORS, depth=8)
    ends: np.ndarray[tuple[int], np.dtype[np.float64]] = (
        np.sort(trace.complete_ns - np.uint64(start_ns)) / NS_PER_S
    )
    return ends


def _burst_s(disk: ModelledDisk) -> float:
    """For how long it keeps the rate of the burst: until ten I/Os take a tenth longer than they should."""
    ends = _ends_s(disk, 3000 * 7500 // _OPERATIONS)
    slow = np.flatnonzero(ends[10:] - ends[:-10] > 1.1 * 10 * _OPERATIONS / 3000)
    return float(ends[slow[0]]) if len(slow) else float("inf")


def _picture(sizes: list[int]) -> Picture:
    curves = []
    for size in sizes:
        ends = _ends_s(Subject(_volume(size)).open(), 3000 * 7500 // _OPERATIONS)
        edges = np.linspace(0, len(ends) - 1, 120).astype(int)
        rates = np.diff(edges) * _OPERATIONS / np.diff(ends[edges])
        places = ends[edges[1:]]
        shown = places <= 8000
        points = zip(places[shown].tolist(), rates[shown].tolist(), strict=True)
        curves.append(Curve(f"{size} GiB", tuple(points)))
    return Picture("Random reads of gp2 volumes", "time, s", "per second", tuple(curves))
