# SPDX-License-Identifier: Apache-2.0
"""Burst credits of cloud volumes against the provider's own table."""

from __future__ import annotations

import numpy as np

from strata.datasheet.measure import Curve, Picture, Subject
from strata.devices.device import find_device
from strata.devices.provisioning import provision
from strata.lab.model import READ, ModelledDisk
from strata.units import NS_PER_S
from strata.validation.measured import Floats
from strata.validation.subject import Found, ModelCheck, near, points, subject

_VOLUME = "aws-ebs-gp2"
_BURST_S = {33: 1862.0, 100: 2000.0, 334: 2703.0, 750: 7200.0}
_REFILL_S = {33: 54_000.0, 100: 18_000.0, 334: 5389.0, 750: 2400.0}
_OPERATIONS = 128  # of one I/O here: 64 KiB, counted in sectors
_COUNT = 3000 * 7500 // _OPERATIONS


@subject(
    "credits",
    "Burst credits",
    """A gp2 volume earns 3 credits a GiB and second, at least 100, and spends one an operation; with 5.4
million saved up it makes 3000 operations a second until they are gone. Amazon's user guide (General Purpose
SSD volumes) tabulates how long that is, and how long an empty balance takes to fill. The model's buckets
know neither number. Here an I/O counts as 128 operations, so that few are enough.""",
)
def credits(quick: bool) -> Found:
    sizes = [100] if quick else list(_BURST_S)
    checks: list[ModelCheck] = []
    curves = []
    for size in sizes:
        rest_s, disk = _REFILL_S[size], _volume(size).open()
        checks.append(near(f"{size} GiB: burst of 3000/s", _burst_s(disk), _BURST_S[size], 0.005, "s"))
        disk.advance(disk.now_ns + round(rest_s * NS_PER_S))
        title = f"{size} GiB: burst after {rest_s:,.0f} s of rest"
        checks.append(near(title, _burst_s(disk), _BURST_S[size], 0.005, "s"))
        ends = _ends_s(_volume(size).open())
        edges = np.linspace(0, len(ends) - 1, 120).astype(int)
        rates, places = np.diff(edges) * _OPERATIONS / np.diff(ends[edges]), ends[edges[1:]]
        shown = places <= 8000
        curves.append(Curve(f"{size} GiB", points(places[shown], rates[shown])))
    return checks, [Picture("Random reads of gp2 volumes", "time, s", "per second", tuple(curves))]


def _volume(size_gib: int) -> Subject:
    """A gp2 volume of another size, in the table's rounding of 33.33 GiB and less."""
    device, _ = provision(find_device(_VOLUME), size_gib << 30)
    return Subject(device).with_values({"operation_size_max": 0.5})


def _ends_s(disk: ModelledDisk) -> Floats:
    """The times from now at which I/Os in a closed loop were complete."""
    start_ns = disk.now_ns
    trace = disk.closed_loop(READ, np.zeros(_COUNT, np.uint64), _OPERATIONS, depth=8)
    ends: Floats = np.sort(trace.complete_ns - np.uint64(start_ns)) / NS_PER_S
    return ends


def _burst_s(disk: ModelledDisk) -> float:
    """How long it keeps the burst rate: until ten I/Os take a tenth longer than they should."""
    ends = _ends_s(disk)
    slow = np.flatnonzero(ends[10:] - ends[:-10] > 1.1 * 10 * _OPERATIONS / 3000)
    return float(ends[slow[0]]) if len(slow) else float("inf")
