# SPDX-License-Identifier: Apache-2.0
"""The HP 97560, whose seek curve and parameters are published: the drive that models are compared on."""

from __future__ import annotations

import math

from strata.datasheet.curves import Curve, Picture
from strata.datasheet.measure import READ, Subject, random_trace
from strata.spec.device import find_device
from strata.units import NS_PER_MS
from strata.validation.check import Section, near

_CYLINDERS = 1962
_HEADS = 19
_SECTORS = 72
_ROTATION_MS = 60_000 / 4002
_OVERHEAD_MS = 2.2
_TRACK_SKEW = 8
_LINK_MB_PER_S = 10
_COUNT = 20_000
_COUNT_QUICK = 4_000
_BLOCK_SECTORS = 8
_TEXT = """Seek time over d cylinders is 3.24 + 0.400 √d ms up to 383 cylinders and 8.00 + 0.008 d from
there (Ruemmler and Wilkes, 1994; Kotz and others, 1994). 1962 cylinders, 19 heads, 72 sectors a track,
4002 rpm, 2.2 ms of overhead. The model has one axis of tracks, 19 of which make a cylinder. The service
time of random reads is computed here from these numbers alone, over all pairs of cylinders."""


def published_seek_ms(cylinders: int) -> float:
    """The published curve."""
    if cylinders <= 0:
        return 0.0
    return 3.24 + 0.400 * math.sqrt(cylinders) if cylinders <= 383 else 8.00 + 0.008 * cylinders


def published_service_ms() -> float:
    """Random 4-KiB reads by the published parameters; within a cylinder, a track switch is the seek."""
    pairs = ((d, (2 if d else 1) * (_CYLINDERS - d) / _CYLINDERS**2) for d in range(_CYLINDERS))
    switch_ms = 1.6 * (_HEADS - 1) / _HEADS
    seek_ms = sum(share * (published_seek_ms(d) if d else switch_ms) for d, share in pairs)
    sector_ms = _ROTATION_MS / _SECTORS
    crossing_ms = (_BLOCK_SECTORS - 1) / _SECTORS * _TRACK_SKEW * sector_ms
    last_sector_ms = 512 / (_LINK_MB_PER_S * 1000)
    transfer_ms = _BLOCK_SECTORS * sector_ms + crossing_ms + last_sector_ms
    return _OVERHEAD_MS + seek_ms + _ROTATION_MS / 2 + transfer_ms


def examine(*, quick: bool = False) -> Section:
    """The seek times at a few distances, their worst difference, and the service time."""
    subject = Subject(find_device("hp-97560"))
    disk = subject.open()

    def model_ms(cylinders: int) -> float:
        return disk.seek_ns(cylinders * _HEADS) / NS_PER_MS

    differences = {d: abs(model_ms(d) / published_seek_ms(d) - 1) for d in range(1, _CYLINDERS)}
    worst = max(differences, key=lambda d: differences[d])
    trace = random_trace(
        subject.open(), READ, subject.sectors, depth=1, count=_COUNT_QUICK if quick else _COUNT
    )
    service_ms = float(trace.latency_ns.mean()) / NS_PER_MS
    checks = [
        near(f"seek over {d} cylinders", model_ms(d), published_seek_ms(d), part=0.01, unit="ms")
        for d in (1, 10, 100, 383, 384, 1000, 1961)
    ]
    checks.append(
        near(
            f"worst seek of all distances ({worst} cylinders)",
            model_ms(worst),
            published_seek_ms(worst),
            part=0.02,
            unit="ms",
        )
    )
    checks.append(
        near("service time, random 4-KiB reads", service_ms, published_service_ms(), part=0.015, unit="ms")
    )
    distances = range(1, _CYLINDERS, 20)
    picture = Picture(
        "Seek time of the HP 97560",
        "distance, cylinders",
        "ms",
        (
            Curve("published", tuple((float(d), published_seek_ms(d)) for d in distances), "theory"),
            Curve("model", tuple((float(d), model_ms(d)) for d in range(1, _CYLINDERS, 60)), "dots"),
        ),
    )
    return Section("hp-97560", "The HP 97560 of the literature", _TEXT, tuple(checks), (picture,))
