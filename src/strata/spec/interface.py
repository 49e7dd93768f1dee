# SPDX-License-Identifier: Apache-2.0
"""What joins two layers: block devices, a mounted filesystem, or a pool that volumes are taken from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from strata.units import SECTOR_BYTES

Interface = Literal["block", "filesystem", "pool"]

_ONE: Final = {"block": "one block device", "filesystem": "a mounted filesystem", "pool": "a pool"}


@dataclass(frozen=True)
class LowerInterface:
    """What a layer stands on: a filesystem, a pool, or ``minimum`` to ``maximum`` (None: any) block devices.

    A layer with a ``maximum`` of 0 stands on nothing, as a filesystem in memory does.
    """

    kind: Interface
    minimum: int = 1
    maximum: int | None = 1

    def fits(self, count: int) -> bool:
        """Whether it can stand on this many."""
        return self.minimum <= count and (self.maximum is None or count <= self.maximum)

    def __str__(self) -> str:
        if self.maximum == 0:
            return "no device"
        if self.kind != "block" or self.minimum == self.maximum == 1:
            return _ONE[self.kind]
        if self.maximum is None:
            return f"{self.minimum} or more block devices"
        if self.minimum == self.maximum:
            return f"{self.minimum} block devices"
        return f"{self.minimum} to {self.maximum} block devices"


@dataclass(frozen=True)
class Geometry:
    """How a block device is striped over others; a filesystem is aligned to it.

    Attributes:
        chunk_bytes: What lies on one of them before the next one's turn comes.
        data_chunks: How many chunks of data, parity not counted, are in a full stripe.
    """

    chunk_bytes: int
    data_chunks: int

    @property
    def stripe_bytes(self) -> int:
        """The data of a full stripe."""
        return self.chunk_bytes * self.data_chunks


@dataclass(frozen=True)
class Provided:
    """What a layer, or the devices of a stack, offer to the layer above.

    Attributes:
        kind: Block devices, one mounted filesystem, or one pool.
        capacities_bytes: Of each of them; metadata are not subtracted.
        geometry: Of a striped block device.
        sector_bytes: Of block devices: the smallest that can be read or written. The modelled disks have
            sectors of 512 bytes; some layers have larger ones.
    """

    kind: Interface
    capacities_bytes: tuple[int, ...]
    geometry: Geometry | None = None
    sector_bytes: int = SECTOR_BYTES

    @property
    def count(self) -> int:
        """How many they are."""
        return len(self.capacities_bytes)

    @property
    def smallest_bytes(self) -> int:
        """The capacity of the smallest; of nothing at all: 0."""
        return min(self.capacities_bytes, default=0)

    def of(self, capacity_bytes: int) -> Provided:
        """The same with one other capacity."""
        return replace(self, capacities_bytes=(capacity_bytes,))

    def with_sectors(self, sector_bytes: int) -> Provided:
        """The same with sectors of that size, if they are not larger already."""
        return replace(self, sector_bytes=max(self.sector_bytes, sector_bytes))

    def __str__(self) -> str:
        if self.kind != "block" or self.count == 1:
            return _ONE[self.kind]
        return f"{self.count} block devices" if self.count else "no device"
