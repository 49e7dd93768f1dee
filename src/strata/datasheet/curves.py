# SPDX-License-Identifier: Apache-2.0
"""What a device does over an axis: seeks over distance, rates over place, queue depth and time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from strata.datasheet.formulas import sustained_bytes_per_s
from strata.datasheet.measure import (
    READ,
    WRITE,
    Subject,
    random_blocks,
    random_trace,
    rate_per_s,
    sequential_bytes_per_s,
    sequential_trace,
)
from strata.datasheet.sheet import filled
from strata.lab.model import Trace
from strata.spec.device import Device
from strata.spec.device_kinds.flash import PRECONDITIONS
from strata.spec.device_kinds.mechanism import mechanism
from strata.units import NS_PER_MS, NS_PER_S

_SEEK_POINTS: Final = 160
_DEPTHS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_PLACES: Final = 32
_WINDOWS: Final = 80
_OVERWRITES: Final = 8.0  # of the capacity: by then uniform random writing is close to its steady state
_SMALL_BYTES: Final = 1 << 28
_BUFFER_PART: Final = 64  # of what is used; a larger buffer would join writes that it does not on the drive
_BLOCK_BYTES: Final = 4096
_GB: Final = 1e9
_MB: Final = 1e6


@dataclass(frozen=True)
class Curve:
    """One curve: ``style`` is ``line``, ``dots``, ``steps`` or ``theory``."""

    name: str
    points: tuple[tuple[float, float], ...]
    style: str = "line"


@dataclass(frozen=True)
class Picture:
    """Curves over the same axes."""

    title: str
    x: str
    y: str
    curves: tuple[Curve, ...]
    x_log: bool = False
    y_log: bool = False


def pictures(device: Device, *, quick: bool = False) -> tuple[Picture, ...]:
    """What there is to draw of a device; nothing of one without latency.

    Raises:
        LabError: If the model refuses the device.
    """
    if device.kind == "null":
        return ()
    if device.kind == "rotating":
        return (_seeks(device), _rates_by_place(device, quick=quick))
    if device.kind == "flash":
        return (_rates_by_depth(device, quick=quick), _writes_to_steady_state(device, quick=quick))
    if device.kind == "controller":
        return (_rates_by_depth(device, quick=quick), _writes_past_cache(device))
    return (_rates_by_depth(device, quick=quick),)


def _seeks(device: Device) -> Picture:
    disk, stroke = Subject(device).open(), max(1, mechanism(device).tracks - 1)
    # As the distances grow with the square, the steep beginning gets as many points as the rest.
    shares = ((index / _SEEK_POINTS) ** 2 for index in range(_SEEK_POINTS + 1))
    distances = sorted({max(1, round(stroke * share)) for share in shares})
    points = tuple((100 * d / stroke, disk.seek_ns(d) / NS_PER_MS) for d in distances)
    return Picture("Seek time", "distance, % of the full stroke", "ms", (Curve("seek", points),))


def _rates_by_place(device: Device, *, quick: bool) -> Picture:
    zones = mechanism(device)
    steps = [
        (zone.first_sector * 512 / _GB, sustained_bytes_per_s(zones, index) / _MB)
        for index, zone in enumerate(zones.zones)
    ]
    end = (device.capacity_bytes / _GB, steps[-1][1])
    subject, length = Subject(device), (16 << 20) if quick else (64 << 20)
    measured = []
    for place in range(_PLACES + 1):
        first = (device.capacity_bytes - 2 * length) * place // _PLACES
        trace = sequential_trace(
            subject.open(), READ, subject.sectors, first_byte=int(first), total_bytes=length, depth=2
        )
        measured.append((first / _GB, sequential_bytes_per_s(trace, 2) / _MB))
    curves = (Curve("zones, by formula", (*steps, end), "steps"), Curve("reads", tuple(measured), "dots"))
    return Picture("Sequential rate", "place, GB", "MB/s", curves)


def _rates_by_depth(device: Device, *, quick: bool) -> Picture:
    subject = filled(device) if device.kind == "flash" else Subject(device)
    count = 2_000 if quick else 20_000
    points = [
        (
            float(depth),
            rate_per_s(
                random_trace(subject.open(), READ, subject.sectors, depth=depth, count=count), depth=depth
            ),
        )
        for depth in _DEPTHS
        if depth <= device.queue_depth
    ]
    return Picture(
        "Random 4-KiB reads", "queue depth", "per second", (Curve("reads", tuple(points)),), x_log=True
    )


def _writes_to_steady_state(device: Device, *, quick: bool) -> Picture:
    """Random writes from an empty drive on, and the same from the computed steady state.

    The drive is scaled down, cache and all: what matters is how often its capacity is overwritten.
    """
    used = min(device.capacity_bytes, _SMALL_BYTES // (4 if quick else 1))
    least_mib = device.number("dies") * device.number("page_size") / 1024
    values = {
        "slc_cache": device.number("slc_cache") * used / device.capacity_bytes,
        "write_buffer": min(device.number("write_buffer"), max(used / (1 << 20) / _BUFFER_PART, least_mib)),
        "precondition": PRECONDITIONS["none"],
    }
    subject = Subject(device, capacity_bytes=used).with_values(values)
    depth = min(32, device.queue_depth)
    count = int(_OVERWRITES * used / _BLOCK_BYTES)
    trace = subject.open().closed_loop(WRITE, random_blocks(subject.sectors, count, "steady"), 8, depth=depth)
    fresh = _rate_over_writes(trace, used)
    steady = random_trace(
        subject.with_values({"precondition": PRECONDITIONS["steady"]}).open(),
        WRITE,
        subject.sectors,
        depth=depth,
        count=count // 8,
    )
    level = rate_per_s(steady, depth=depth, warm_up=0.5)
    curves = (
        Curve("from an empty drive", tuple(fresh)),
        Curve("computed steady state", ((0.0, level), (_OVERWRITES, level)), "theory"),
    )
    return Picture("Random 4-KiB writes", "written, in capacities", "per second", curves)


def _writes_past_cache(device: Device) -> Picture:
    """Random writes through a controller until its cache has long been full."""
    subject = Subject(device)
    count = max(20_000, int(2.5 * device.number("cache_size") * (1 << 20) / _BLOCK_BYTES))
    depth = min(32, device.queue_depth)
    trace = random_trace(subject.open(), WRITE, subject.sectors, depth=depth, count=count)
    points = tuple(_rate_over_writes(trace, 1 << 20))
    return Picture(
        "Random 4-KiB writes", "written, MiB", "per second", (Curve("writes", points),), y_log=True
    )


def _rate_over_writes(trace: Trace, used_bytes: int) -> Sequence[tuple[float, float]]:
    ends = np.sort(trace.complete_ns).astype(np.float64)
    edges = np.linspace(0, len(ends) - 1, _WINDOWS + 1).astype(int)
    rates = np.diff(edges) * NS_PER_S / np.maximum(np.diff(ends[edges]), 1.0)
    middles = (edges[1:] + edges[:-1]) / 2 * _BLOCK_BYTES / used_bytes
    return list(zip(middles.tolist(), rates.tolist(), strict=True))
