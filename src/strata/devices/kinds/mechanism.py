# SPDX-License-Identifier: Apache-2.0
"""The mechanism of a rotating disk in the integers of ``kernel/disk/rotating.c``: zones, tracks, seeks."""

from __future__ import annotations

import hashlib
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from strata.devices.kind import BYTES_PER_MB, nearest
from strata.errors import LabError
from strata.units import NS_PER_MS, NS_PER_S, SECTOR_BYTES

if TYPE_CHECKING:
    from strata.devices.device import Device

_BISECTIONS: Final = 100
_BLOCK_BYTES: Final = 4096
_NS_PER_MINUTE: Final = 60 * NS_PER_S
_PAIR: Final = re.compile(r"\s*(\d+)\s+(\d+(?:\.\d+)?)\s*")


@dataclass(frozen=True)
class SeekCurve:
    """Seek time over distance: ``a + b sqrt(x)`` up to ``x = k``, then ``c + e x``.

    ``x`` is the distance as a fraction of the full stroke; times are in milliseconds. The form is by Ruemmler
    and Wilkes (IEEE Computer 27(3), 1994), with value and slope continuous at ``k``: three inputs are left.
    """

    a: float
    b: float
    k: float

    @property
    def e(self) -> float:
        return self.b / (2 * math.sqrt(self.k))

    @property
    def c(self) -> float:
        return self.a + self.b * math.sqrt(self.k) / 2

    def at(self, x: float) -> float:
        return self.a + self.b * math.sqrt(x) if x <= self.k else self.c + self.e * x

    @property
    def mean(self) -> float:
        """The mean over pairs of random tracks, ``integral 2 (1 - x) t(x) dx``, in milliseconds."""
        k, root = self.k, math.sqrt(self.k)
        below = self.a * (2 * k - k * k) + self.b * (4 / 3 * k * root - 4 / 5 * k * k * root)
        above = self.c * (1 - k) * (1 - k) + self.e * (1 / 3 - k * k + 2 / 3 * k * k * k)
        return below + above


def fit_seek_curve(intercept_ms: float, mean_ms: float, full_ms: float) -> SeekCurve:
    """The curve with this intercept, mean and full stroke: the mean grows with ``k``, which is bisected.

    Raises LabError if there is none, which reading a device file excludes.
    """

    def curve_to(k: float) -> SeekCurve:
        return SeekCurve(intercept_ms, 2 * (full_ms - intercept_ms) / (math.sqrt(k) + 1 / math.sqrt(k)), k)

    low, high, curve = 0.0, 1.0, curve_to(1.0)
    if not intercept_ms + (full_ms - intercept_ms) / 3 < mean_ms < curve.mean:
        values = f"the intercept {intercept_ms} ms, the mean {mean_ms} ms and the full stroke {full_ms} ms"
        raise LabError(f"no seek curve has {values}")
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        curve = curve_to(middle)
        low, high = (middle, high) if curve.mean < mean_ms else (low, middle)
    return curve


@dataclass(frozen=True)
class Zone:
    """Tracks with the same number of sectors. Zones follow each other from the outermost inwards."""

    first_sector: int
    first_track: int
    sectors_per_track: int
    sectors: int

    @property
    def tracks(self) -> int:
        return -(-self.sectors // self.sectors_per_track)


@dataclass(frozen=True)
class Mechanism:
    """A rotating disk in the driver's integers."""

    rotation_ns: int
    track_skew_ns: int
    overhead_ns: int
    write_settle_ns: int
    link_bytes_per_s: int
    physical_sector_bytes: int
    zones: tuple[Zone, ...]
    seek_curve_ns: tuple[int, ...]

    @property
    def tracks(self) -> int:
        return self.zones[-1].first_track + self.zones[-1].tracks

    @property
    def sectors(self) -> int:
        """All sectors, with the persistent cache of a shingled disk."""
        return self.zones[-1].first_sector + self.zones[-1].sectors


def grid_distance(index: int) -> int:
    """The distance in tracks of a point of the seek table; ``kernel/disk/rotating.h`` has the same grid."""
    if index < 16:
        return index + 1
    octave, step = divmod(index - 16, 16)
    return (16 << octave) + ((step + 1) << octave)


def mechanism(device: Device) -> Mechanism:
    """The integers of a device of kind ``rotating``.

    Sectors per track fall linearly from the outermost zone to the innermost and follow from the sustained
    rates, ``rate = sectors * 512 / (rotation + skew)``; all zones have the same number of tracks. The last
    zone ends where the capacity does.
    """
    rotation_ns = nearest(_NS_PER_MINUTE / device.number("rotation_speed"))
    track_skew_ns = nearest(device.number("track_skew") * rotation_ns)
    zones = _zones(device, rotation_ns + track_skew_ns)
    tracks = zones[-1].first_track + zones[-1].tracks
    return Mechanism(
        rotation_ns=rotation_ns,
        track_skew_ns=track_skew_ns,
        overhead_ns=nearest(device.number("command_overhead") * NS_PER_MS),
        write_settle_ns=nearest(write_settle_ms(device) * NS_PER_MS),
        link_bytes_per_s=nearest(device.number("link_rate") * BYTES_PER_MB),
        physical_sector_bytes=device.whole("physical_sector"),
        zones=zones,
        seek_curve_ns=_seek_table(device, tracks),
    )


def _zones(device: Device, revolution_ns: int) -> tuple[Zone, ...]:
    def sectors_per_track(rate_name: str) -> float:
        return device.number(rate_name) * BYTES_PER_MB * revolution_ns / (NS_PER_S * SECTOR_BYTES)

    outer, inner = sectors_per_track("sustained_rate_outer"), sectors_per_track("sustained_rate_inner")
    count = device.whole("zone_count")
    step = (outer - inner) / (count - 1) if count > 1 else 0.0
    lengths = [max(1, nearest(outer - step * index)) for index in range(count)]
    left = (device.capacity_bytes + shingle_cache_bytes(device)) // SECTOR_BYTES
    tracks = -(-left // sum(lengths))
    zones: list[Zone] = []
    first_sector = first_track = 0
    for length in lengths:
        sectors = min(left, tracks * length)
        if sectors:
            zones.append(Zone(first_sector, first_track, length, sectors))
        left -= sectors
        first_sector += sectors
        first_track += tracks
    return tuple(zones)


def shingle_cache_bytes(device: Device) -> int:
    """The persistent cache in whole blocks, before the first band."""
    return nearest(device.number("shingle_cache") * (1 << 30) / _BLOCK_BYTES) * _BLOCK_BYTES


def _seek_table(device: Device, tracks: int) -> tuple[int, ...]:
    measured = measured_seeks(device.text("seek_table"))
    if measured:
        return _measured_table(measured, tracks)
    curve = fit_seek_curve(
        device.number("seek_intercept"), device.number("seek_average_read"), device.number("seek_full_stroke")
    )
    full_stroke = max(tracks - 1, 1)
    # The driver uses this first point for a step back by a track; a step to the next costs the skew.
    table = [nearest(device.number("seek_track_to_track") * NS_PER_MS)]
    index = 0
    while grid_distance(index) < full_stroke:
        index += 1
        table.append(nearest(curve.at(grid_distance(index) / full_stroke) * NS_PER_MS))
    return tuple(table)


def measured_seeks(text: str) -> list[tuple[int, float]] | None:
    """The points of a measured seek curve, or None: ascending distances in tracks from 1 on, and ms."""
    matches = [_PAIR.fullmatch(part) for part in text.split(",")]
    points = [(int(match[1]), float(match[2])) for match in matches if match]
    distances = [distance for distance, _ in points]
    good = len(points) == len(matches) and distances[0] == 1 and distances == sorted(set(distances))
    return points if good and points[-1][1] <= 200 else None


def write_settle_ms(device: Device) -> float:
    """The time that a write adds to a seek: stated, or the difference of the mean seeks."""
    mean_write = device.number("seek_average_write")
    return mean_write - device.number("seek_average_read") if mean_write else device.number("write_settle")


def _measured_table(points: list[tuple[int, float]], tracks: int) -> tuple[int, ...]:
    """The measured curve on the driver's grid: linear between its points, constant beyond the last."""
    table: list[int] = []
    at = 0
    while not table or grid_distance(len(table) - 1) < tracks - 1:
        distance = grid_distance(len(table))
        while at + 2 < len(points) and points[at + 1][0] <= distance:
            at += 1
        (low, low_ms), (high, high_ms) = points[at], points[min(at + 1, len(points) - 1)]
        share = min(1.0, (distance - low) / (high - low)) if high > low else 0.0
        table.append(nearest((low_ms + (high_ms - low_ms) * share) * NS_PER_MS))
    return tuple(table)


def grown_defects(device: Device, disk: Mechanism, places: int) -> list[tuple[int, int]]:
    """First sector and spare of each grown defect among the first ``places`` sectors.

    They are spread evenly, and equal for every drive of this size; spares lie at the end of each zone.
    """
    block = disk.physical_sector_bytes // SECTOR_BYTES
    found: dict[int, int] = {}
    for index in range(device.whole("grown_defects")):
        digest = hashlib.sha256(f"grown defect {index}".encode()).digest()
        sector = int.from_bytes(digest[:8], "big") % (disk.sectors // block) * block
        zone = next(zone for zone in reversed(disk.zones) if zone.first_sector <= sector)
        end = zone.first_sector + zone.tracks * zone.sectors_per_track
        found[sector] = end - (len(found) + 1) * block
    return sorted((sector, spare) for sector, spare in found.items() if sector < places)
