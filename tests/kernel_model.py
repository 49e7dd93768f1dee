# SPDX-License-Identifier: Apache-2.0
"""Rotating disks in plain numbers, as texts to feed the models of ``strata.lab.model`` with.

The configuration text is generated here apart from ``strata.lab.disk``, so that a mistake in either shows
as a difference.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Geometry:
    """A rotating disk in plain numbers, and what theory says about it.

    ``zones`` holds (tracks, sectors per track), outermost first. Seek time in ns at d tracks of N,
    x = d/N: a + b sqrt(x) up to x = k, then c + e x with value and slope continuous (Ruemmler and Wilkes).
    """

    rotation_ns: int = 8_333_333
    track_skew_ns: int = 1_041_667
    overhead_ns: int = 200_000
    write_settle_ns: int = 500_000
    window: int = 8
    wait_limit_ns: int = 500_000_000
    queue_depth: int = 32
    zones: tuple[tuple[int, int], ...] = ((20_000, 2344), (20_000, 1730), (20_000, 1117))
    seek: tuple[float, float, float] = field(default=(2.0e6, 12.13e6, 0.233))

    @property
    def tracks(self) -> int:
        return sum(tracks for tracks, _ in self.zones)

    @property
    def capacity_sectors(self) -> int:
        return sum(tracks * sectors for tracks, sectors in self.zones)

    def first_sector(self, zone: int) -> int:
        """The first sector of a zone."""
        return sum(tracks * sectors for tracks, sectors in self.zones[:zone])

    def curve_ns(self, distance: float) -> float:
        """The seek curve itself, not its table."""
        a, b, k = self.seek
        x = distance / self.tracks
        root = math.sqrt(k)
        return a + b * math.sqrt(x) if x <= k else a + b * root / 2 + b / (2 * root) * x

    def text(self, **changed: object) -> str:
        """The configuration text; keywords replace or, with None, remove keys."""
        points = [round(self.curve_ns(1))]
        while _grid(len(points) - 1) < self.tracks - 1:
            points.append(round(self.curve_ns(_grid(len(points)))))
        values: dict[str, object] = {
            "name": "sda",
            "capacity_sectors": self.capacity_sectors,
            "read_only": 0,
            "backing_fd": 3,
            "model": "rotating",
            "queue_depth": self.queue_depth,
            "overhead_ns": self.overhead_ns,
            "rotation_ns": self.rotation_ns,
            "track_skew_ns": self.track_skew_ns,
            "write_settle_ns": self.write_settle_ns,
            "window": self.window,
            "wait_limit_ns": self.wait_limit_ns,
            "tracks": self.tracks,
            "seek_curve_ns": ",".join(map(str, points)),
        }
        values.update(changed)
        lines = [f"{key}={value}" for key, value in values.items() if value is not None]
        track = 0
        for index, (tracks, sectors) in enumerate(self.zones):
            lines.append(f"zone={self.first_sector(index)},{track},{sectors}")
            track += tracks
        return "\n".join(lines) + "\n"

    def mean_random_read_ns(self, sectors: int) -> float:
        """Overhead + E[seek] + rotation/2 + transfer, for reads uniform over all sectors."""
        return (
            self.overhead_ns + self._mean_seek_ns() + self.rotation_ns / 2 + self._mean_transfer_ns(sectors)
        )

    def sustained_bytes_per_s(self, zone: int) -> float:
        """Sectors per track * 512 / (rotation + skew)."""
        return self.zones[zone][1] * 512 / (self.rotation_ns + self.track_skew_ns) * 1e9

    def _mean_seek_ns(self) -> float:
        """Over all pairs of tracks, weighted by their sectors; a step to the next track costs the skew."""
        weight = np.concatenate([np.full(tracks, float(sectors)) for tracks, sectors in self.zones])
        weight /= weight.sum()
        size = 1 << (2 * len(weight)).bit_length()
        spectrum = np.fft.rfft(weight, size)
        pairs = np.fft.irfft(spectrum * np.conj(spectrum), size)[: len(weight)]
        cost = np.array([self.curve_ns(d) for d in range(len(weight))])
        if len(weight) < 2:
            return 0.0
        back_and_forth = 2 * float((pairs[2:] * cost[2:]).sum())
        return back_and_forth + float(pairs[1]) * (float(cost[1]) + self.track_skew_ns)

    def _mean_transfer_ns(self, sectors: int) -> float:
        """Media time, and the crossings that a read of this length meets on average."""
        share = [tracks * per / self.capacity_sectors for tracks, per in self.zones]
        return sum(
            part * (sectors * self.rotation_ns + (sectors - 1) * self.track_skew_ns) / per
            for part, (_, per) in zip(share, self.zones, strict=True)
        )


def _grid(index: int) -> int:
    if index < 16:
        return index + 1
    octave, step = divmod(index - 16, 16)
    return (16 << octave) + ((step + 1) << octave)


NULL_TEXT = "name=sdb\ncapacity_sectors=2048\nbacking_fd=4\nmodel=null\n"
