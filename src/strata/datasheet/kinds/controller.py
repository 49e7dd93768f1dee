# SPDX-License-Identifier: Apache-2.0
"""A controller: its cache while it has room, and when it is full."""

from __future__ import annotations

from strata.datasheet.measure import BLOCK_BYTES, Curve, Picture, Subject, random_trace, rate_over_writes
from strata.datasheet.sheet import STEADY_WRITES, WRITES, DataSheet, Measurement
from strata.lab.model import READ, WRITE


class ControllerSheet(DataSheet):
    """Writes into the cache and past it."""

    kind = "controller"

    def measurements(self) -> list[Measurement]:
        """Without a good battery, the measurements of every device."""
        cache_bytes, subject = self._cache_bytes, Subject(self.device)
        if not cache_bytes or not self.device.number("battery"):
            return super().measurements()
        room = min(cache_bytes // BLOCK_BYTES // 4, WRITES)
        depth, count, name = min(32, self.device.queue_depth), 3 * cache_bytes // BLOCK_BYTES, STEADY_WRITES
        full = self.random(subject, WRITE, depth, count, how=", cache full", warm_up=0.7, name=name)
        return [
            *self.reads(40_000),
            *self.fresh_writes(subject, room, ", cache empty"),
            full,
            self.sequential(subject, READ, 1 << 30),
            self.sequential(subject, WRITE, max(1 << 30, 4 * cache_bytes)),
            *self.flushes(200),
        ]

    def pictures(self) -> tuple[Picture, ...]:
        """Also random writes until long after the cache is full."""
        subject, depth = Subject(self.device), min(32, self.device.queue_depth)
        count = max(20_000, int(2.5 * self._cache_bytes / BLOCK_BYTES))
        trace = random_trace(subject.open(), WRITE, subject.sectors, depth=depth, count=count)
        curve = Curve("writes", tuple(rate_over_writes(trace, 1 << 20)))
        writes = Picture("Random 4-KiB writes", "written, MiB", "per second", (curve,), y_log=True)
        return (*super().pictures(), writes)

    @property
    def _cache_bytes(self) -> int:
        return int(self.device.number("cache_size") * (1 << 20))
