# SPDX-License-Identifier: Apache-2.0
"""The mean rates of a rotating disk in closed form: for tests and reports, never for results."""

from __future__ import annotations

from typing import Final

from strata.devices.kinds.mechanism import Mechanism, Zone, grid_distance
from strata.units import NS_PER_S, SECTOR_BYTES

_CELLS: Final = 1024


def sustained_bytes_per_s(disk: Mechanism, zone: int) -> float:
    """The sequential rate of a zone, ``sectors * 512 / (rotation + skew)``, in bytes per second."""
    track_bytes = disk.zones[zone].sectors_per_track * SECTOR_BYTES
    return track_bytes * NS_PER_S / (disk.rotation_ns + disk.track_skew_ns)


def random_read_ns_mean(disk: Mechanism, *, block_bytes: int = 4096, span_bytes: int | None = None) -> float:
    """The mean service time of random reads at queue depth 1, in nanoseconds.

    ``overhead + E[seek] + rotation / 2 + transfer`` over blocks drawn uniformly from the first ``span_bytes``
    (default: all), of which outer tracks hold more. The last physical sector still has to pass the link.
    """
    span_sectors = disk.sectors if span_bytes is None else span_bytes // SECTOR_BYTES
    sectors = block_bytes / SECTOR_BYTES
    zones = _spanned(disk, span_sectors)
    tracks = _tracks(zones)
    # A block of n sectors takes n/s of a turn, and crosses into the next track in about n of s cases.
    mean_inverse_length = tracks / span_sectors
    transfer_ns = sectors * mean_inverse_length * disk.rotation_ns
    crossing_ns = (sectors - 1) * mean_inverse_length * disk.track_skew_ns
    last_bytes = min(block_bytes, disk.physical_sector_bytes)
    link_ns = last_bytes * NS_PER_S / disk.link_bytes_per_s if disk.link_bytes_per_s else 0.0
    seek_ns_mean, turn_ns = _seek_ns_mean(disk, zones, tracks), disk.rotation_ns / 2
    return disk.overhead_ns + seek_ns_mean + turn_ns + transfer_ns + crossing_ns + link_ns


def transfer_ns(disk: Mechanism, span_bytes: int) -> float:
    """The time to transfer the first bytes in sequence, each zone at its rate, in nanoseconds."""
    return _tracks(_spanned(disk, span_bytes // SECTOR_BYTES)) * (disk.rotation_ns + disk.track_skew_ns)


def third_stroke_ns(disk: Mechanism, span_bytes: int) -> float:
    """The seek over a third of the first bytes' tracks: the mean distance of two random places there."""
    return seek_ns(disk, _tracks(_spanned(disk, span_bytes // SECTOR_BYTES)) / 3)


def _spanned(disk: Mechanism, span_sectors: int) -> list[tuple[Zone, int]]:
    """The zones of the first sectors, and how many of each."""
    return [
        (zone, min(zone.sectors, span_sectors - zone.first_sector))
        for zone in disk.zones
        if zone.first_sector < span_sectors
    ]


def _tracks(zones: list[tuple[Zone, int]]) -> float:
    return sum(used / zone.sectors_per_track for zone, used in zones)


def seek_ns(disk: Mechanism, distance: float) -> float:
    """The driver's seek time at a distance in tracks: linear between the points of the grid."""
    curve = disk.seek_curve_ns
    low, high = 0, len(curve) - 1
    if distance <= 1:
        return curve[0]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if grid_distance(middle) <= distance else (low, middle)
    at, beyond = grid_distance(low), grid_distance(high)
    return curve[low] + (curve[high] - curve[low]) * (distance - at) / (beyond - at)


def _seek_ns_mean(disk: Mechanism, zones: list[tuple[Zone, int]], tracks: float) -> float:
    """E[seek] over pairs of blocks, on cells of equally many tracks.

    The weight of a cell is its share of the blocks. Two places in cells ``n`` apart are ``n`` widths apart on
    average, and in the same cell a third of a width. Blocks of one track need no seek.
    """
    width = tracks / _CELLS
    weights = _cell_weights(zones, width)
    total_ns = 0.0
    for apart in range(_CELLS):
        pairs = sum(weights[i] * weights[i + apart] for i in range(_CELLS - apart))
        distance = apart * width if apart else width / 3
        total_ns += (2 if apart else 1) * pairs * seek_ns(disk, distance)
    sectors = sum(used for _, used in zones)
    same_track = sum(
        used / zone.sectors_per_track * (zone.sectors_per_track / sectors) ** 2 for zone, used in zones
    )
    return total_ns - same_track * disk.seek_curve_ns[0]


def _cell_weights(zones: list[tuple[Zone, int]], width: float) -> list[float]:
    total = sum(used for _, used in zones)
    bounds = [(zone.first_track, zone.first_track + used / zone.sectors_per_track) for zone, used in zones]
    weights = []
    for cell in range(_CELLS):
        start, end = cell * width, (cell + 1) * width
        held = sum(
            max(0.0, min(end, last) - max(start, first)) * zone.sectors_per_track
            for (zone, _), (first, last) in zip(zones, bounds, strict=True)
        )
        weights.append(held / total)
    return weights
