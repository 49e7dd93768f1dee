# SPDX-License-Identifier: Apache-2.0
"""A rotating disk: its seeks, its zones, and its write cache when it is full."""

from __future__ import annotations

from typing import Any, Final

from strata.datasheet.formulas import sustained_bytes_per_s
from strata.datasheet.measure import Curve, Picture, Subject, sequential_bytes_per_s, sequential_trace
from strata.datasheet.sheet import DataSheet, Measurement
from strata.devices.kinds.mechanism import mechanism
from strata.lab.model import FUA, READ, WRITE
from strata.units import NS_PER_MS, SECTOR_BYTES

_SEEK_POINTS: Final = 160
_PLACES: Final = 32
_GB: Final = 1e9
_MB: Final = 1e6


class RotatingSheet(DataSheet):
    """Rates by place, writes with and without the cache."""

    kind = "rotating"
    depths = (1, 4, 16, 32)

    def measurements(self) -> list[Measurement]:
        return [*self.reads(16_000), *self._writes(), *self._zones(), *self.flushes(400)]

    def _writes(self) -> list[Measurement]:
        subject = Subject(self.device)
        full = [
            self.random(subject, WRITE, depth, 40_000 // self.divisor, how=", cache full", warm_up=0.6)
            for depth in self.up_to_queue_depth((1, 32))
        ]
        bypassing: dict[str, Any] = {"how": ", cache off", "warm_up": 0.0, "flags": FUA}
        off = [
            self.random(subject, WRITE, depth, 16_000 // self.divisor, name=name, **bypassing)
            for depth in self.up_to_queue_depth((1, 32))
            for name in [f"random_write_4k_qd{depth}_uncached"]
        ]
        return [*(full if subject.is_volatile else []), *off]

    def _zones(self) -> list[Measurement]:
        end, read_bytes = self.device.capacity_bytes, (64 if self.quick else 256) << 20
        cache_bytes = int(self.device.number("write_cache")) << 20
        subject = Subject(self.device)
        return [
            self.sequential(
                subject, op, total, depth=2, place=place, how=f", {place} tracks", first_byte=first
            )
            for op, total in ((READ, read_bytes), (WRITE, read_bytes + 4 * cache_bytes))
            for place, first in (("outer", 0), ("middle", end // 2), ("inner", end - 2 * total))
        ]

    @property
    def note(self) -> str:
        window, depth = self.device.whole("scheduler_window"), self.device.queue_depth
        if window >= depth:
            return ""
        same = "; that is why QD32 equals QD16" if window <= 16 <= depth else ""
        oldest = f"the {window} oldest commands of its queue of {depth} (scheduler_window)"
        return f"It chooses among {oldest}, so that a deeper queue brings nothing more{same}."

    def pictures(self) -> tuple[Picture, ...]:
        return (self._seeks(), self._rates_by_place())

    def _seeks(self) -> Picture:
        disk, stroke = Subject(self.device).open(), max(1, mechanism(self.device).tracks - 1)
        # Distances grow with the square, so that the steep beginning gets many points.
        shares = ((index / _SEEK_POINTS) ** 2 for index in range(_SEEK_POINTS + 1))
        distances = sorted({max(1, round(stroke * share)) for share in shares})
        points = tuple((100 * d / stroke, disk.seek_ns(d) / NS_PER_MS) for d in distances)
        return Picture("Seek time", "distance, % of the full stroke", "ms", (Curve("seek", points),))

    def _rates_by_place(self) -> Picture:
        disk, capacity = mechanism(self.device), self.device.capacity_bytes
        steps = [
            (zone.first_sector * SECTOR_BYTES / _GB, sustained_bytes_per_s(disk, index) / _MB)
            for index, zone in enumerate(disk.zones)
        ]
        end = (capacity / _GB, steps[-1][1])
        subject, length = Subject(self.device), (16 << 20) if self.quick else (64 << 20)
        measured = []
        for place in range(_PLACES + 1):
            first = (capacity - 2 * length) * place // _PLACES
            trace = sequential_trace(
                subject.open(), READ, subject.sectors, first_byte=first, total_bytes=length, depth=2
            )
            measured.append((first / _GB, sequential_bytes_per_s(trace, 2) / _MB))
        curves = Curve("zones, by formula", (*steps, end), "steps"), Curve("reads", tuple(measured), "dots")
        return Picture("Sequential rate", "place, GB", "MB/s", curves)
