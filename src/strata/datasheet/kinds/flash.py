# SPDX-License-Identifier: Apache-2.0
"""A flash drive: filled, empty, and in the steady state."""

from __future__ import annotations

from typing import Final

from strata.datasheet.measure import (
    BLOCK_BYTES,
    Curve,
    Picture,
    Subject,
    random_blocks,
    random_trace,
    rate_over_writes,
    rate_per_s,
)
from strata.datasheet.sheet import STEADY_WRITES, WRITES, DataSheet, Measurement
from strata.devices.kinds.flash import PRECONDITIONS
from strata.lab.model import READ, WRITE

# The used part of a drive, with its share of spare room: the map of a whole drive takes seconds.
_USED_BYTES: Final = 8 << 30
_USED_WRITES: Final = "random_write_4k_qd32_used"
_OVERWRITES: Final = 8.0  # of the capacity: by then uniform random writing is close to its steady state
_SMALL_BYTES: Final = 1 << 28
_BUFFER_PART: Final = 64  # of the used bytes; a larger buffer would join writes that it does not on the drive


class FlashSheet(DataSheet):
    """Reads of a filled drive; writes to an empty one and in the steady state."""

    kind = "flash"
    latency_depths = (1, 16)

    def readable(self) -> Subject:
        return self.in_state("filled")

    def in_state(self, state: str) -> Subject:
        device = self.device
        used_bytes = min(device.capacity_bytes, _USED_BYTES)
        values: dict[str, float] = {"precondition": PRECONDITIONS[state]}
        if state == "steady":
            values["slc_cache"] = device.number("slc_cache") * used_bytes / device.capacity_bytes
        return Subject(device, capacity_bytes=used_bytes).with_values(values)

    def measurements(self) -> list[Measurement]:
        empty, used, steady = (self.in_state(state) for state in ("fresh", "used", "steady"))
        depth, count, name = min(32, self.device.queue_depth), 400_000 // self.divisor, STEADY_WRITES
        settled = self.random(steady, WRITE, depth, count, how=", steady state", warm_up=0.5, name=name)
        has_far_tails = any(name.endswith("_p99999") for name in self.device.published)
        return [
            *self.reads(50_000, for_latencies=2_000_000 if has_far_tails else 200_000),
            *self.fresh_writes(empty, WRITES, ", fresh"),
            self.random(used, WRITE, depth, count, how=", used", warm_up=0.5, name=_USED_WRITES),
            settled,
            self.sequential(self.readable(), READ, 2 << 30),
            self.sequential(empty, WRITE, 4 << 30, how=", fresh"),
            *(
                self.sequential(each, WRITE, 2 << 30, how=f", {state}", place=state)
                for state, each in (("used", used), ("steady", steady))
            ),
            *self.flushes(200),
        ]

    def pictures(self) -> tuple[Picture, ...]:
        return (*super().pictures(), self._writes_to_steady_state())

    def _writes_to_steady_state(self) -> Picture:
        """Random writes from an empty drive on, and the same from the computed steady state.

        The drive and its cache are scaled down: only the number of overwrites of its capacity matters.
        """
        device = self.device
        used = min(device.capacity_bytes, _SMALL_BYTES // (4 if self.quick else 1))
        least_mib = device.number("dies") * device.number("page_size") / 1024
        buffer_mib = min(device.number("write_buffer"), max(used / (1 << 20) / _BUFFER_PART, least_mib))
        slc_gib = device.number("slc_cache") * used / device.capacity_bytes
        empty = Subject(device, capacity_bytes=used).with_values(
            {"slc_cache": slc_gib, "write_buffer": buffer_mib, "precondition": PRECONDITIONS["fresh"]}
        )
        depth, count = min(32, device.queue_depth), int(_OVERWRITES * used / BLOCK_BYTES)
        trace = empty.open().closed_loop(WRITE, random_blocks(empty.sectors, count, "steady"), 8, depth=depth)
        steady = empty.with_values({"precondition": PRECONDITIONS["steady"]})
        settled = random_trace(steady.open(), WRITE, empty.sectors, depth=depth, count=count // 8)
        level = rate_per_s(settled, depth=depth, warm_up=0.5)
        curves = (
            Curve("from an empty drive", tuple(rate_over_writes(trace, used))),
            Curve("computed steady state", ((0.0, level), (_OVERWRITES, level)), "theory"),
        )
        return Picture("Random 4-KiB writes", "written, in capacities", "per second", curves)
