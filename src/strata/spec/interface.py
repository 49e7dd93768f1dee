# SPDX-License-Identifier: Apache-2.0
"""The interfaces between layers: block devices, a mounted filesystem, or a pool of volumes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from strata.units import SECTOR_BYTES

Interface = Literal["block", "filesystem", "pool"]

_ONE: Final = {"block": "one block device", "filesystem": "a mounted filesystem", "pool": "a pool"}


@dataclass(frozen=True)
class LowerInterface:
    """The interface below: a filesystem, a pool, or ``minimum`` to ``maximum`` (None: any) block devices.

    A ``maximum`` of 0 is for a layer that stands on nothing, such as a filesystem in memory.
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
        chunk_bytes: Size of the contiguous part on one of them.
        data_chunks: Chunks of data, without parity, in a full stripe.
    """

    chunk_bytes: int
    data_chunks: int

    @property
    def stripe_bytes(self) -> int:
        """The data of a full stripe."""
        return self.chunk_bytes * self.data_chunks


@dataclass(frozen=True)
class Provided:
    """The interface that a layer, or the devices of a stack, offer to the layer above.

    Attributes:
        kind: Block devices, one mounted filesystem, or one pool.
        capacities_bytes: The capacity of each; metadata are not subtracted.
        geometry: The stripes of a block device.
        sector_bytes: The unit of I/O of block devices: 512 bytes of modelled disks, more of some layers.
    """

    kind: Interface
    capacities_bytes: tuple[int, ...]
    geometry: Geometry | None = None
    sector_bytes: int = SECTOR_BYTES

    @property
    def count(self) -> int:
        return len(self.capacities_bytes)

    @property
    def smallest_bytes(self) -> int:
        """The capacity of the smallest, or 0."""
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
