# SPDX-License-Identifier: Apache-2.0
"""A structure of a layer or device whose cost small data do not meet: see `strata.rules.untouched`."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Structure:
    """A structure of a layer or device, such as the bitmap of an array or a cache.

    Attributes:
        name: One unit of it in words: ``region of the bitmap``; ``names`` several.
        unit_bytes: What one unit stands for, by its settings, or the capacity of a cache or log.
        covers: The data that one unit covers, in ``unit_bytes``: a region of each disk of a RAID has several.
        why: The consequence of too few units, as a clause.
        units_min: The least number of units that the data must touch to meet its cost.
        is_purpose: It is the layer's purpose, so that the same stack without the layer is compared with it.
        is_log: It has to be written full: in results the writes of the window decide, not the data.
        counter: A counter of the disks' accounts that shows that its cost was met.
    """

    name: str
    unit_bytes: int
    why: str
    units_min: int = 1
    names: str = ""
    covers: int = field(default=1, compare=False)
    is_purpose: bool = False
    is_log: bool = False
    counter: str = ""

    @property
    def covered_bytes(self) -> int:
        """The data that one unit covers."""
        return self.unit_bytes * self.covers

    @property
    def least_bytes(self) -> int:
        """The data with which its cost is met."""
        return self.covered_bytes * self.units_min
