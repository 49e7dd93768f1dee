# SPDX-License-Identifier: Apache-2.0
"""The HP 97560, whose seek curve and parameters are published: the drive that models are compared on."""

from __future__ import annotations

import math

from strata.datasheet.curves import Curve, Picture
from strata.datasheet.measure import Subject
from strata.lab.model import READ
from strata.spec.device import find_device
from strata.units import NS_PER_MS
from strata.validation.subject import Found, mean_ms, near, points, subject

_CYLINDERS = 1962
_HEADS = 19
_SECTORS = 72
_ROTATION_MS = 60_000 / 4002
_OVERHEAD_MS = 2.2
_TRACK_SKEW = 8
_LINK_MB_PER_S = 10
_BLOCK_SECTORS = 8


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


@subject(
    "hp-97560",
    "The HP 97560 of the literature",
    """Seek time over d cylinders is 3.24 + 0.400 √d ms up to 383 cylinders and 8.00 + 0.008 d from there
(Ruemmler and Wilkes, 1994; Kotz and others, 1994). 1962 cylinders, 19 heads, 72 sectors a track, 4002 rpm,
2.2 ms of overhead. The model has one axis of tracks, 19 of which make a cylinder. The service time of random
reads is computed here from these numbers alone, over all pairs of cylinders.""",
)
def hp_97560(quick: bool) -> Found:
    """The seek times at a few distances, their worst difference, and the service time."""
    drive = Subject(find_device("hp-97560"))
    disk = drive.open()

    def model_ms(cylinders: int) -> float:
        return disk.seek_ns(cylinders * _HEADS) / NS_PER_MS

    worst = max(range(1, _CYLINDERS), key=lambda d: abs(model_ms(d) / published_seek_ms(d) - 1))
    service_ms = mean_ms(drive.random(READ, depth=1, count=4_000 if quick else 20_000))
    title = f"worst seek of all distances ({worst} cylinders)"
    checks = [
        *(
            near(f"seek over {d} cylinders", model_ms(d), published_seek_ms(d), 0.01, "ms")
            for d in (1, 10, 100, 383, 384, 1000, 1961)
        ),
        near(title, model_ms(worst), published_seek_ms(worst), 0.02, "ms"),
        near("service time, random 4-KiB reads", service_ms, published_service_ms(), 0.015, "ms"),
    ]
    every, some = range(1, _CYLINDERS, 20), range(1, _CYLINDERS, 60)
    curves = (
        Curve("published", points(every, map(published_seek_ms, every)), "theory"),
        Curve("model", points(some, map(model_ms, some)), "dots"),
    )
    return checks, [Picture("Seek time of the HP 97560", "distance, cylinders", "ms", curves)]
