# SPDX-License-Identifier: Apache-2.0
"""The kinds without measurements of their own."""

from __future__ import annotations

from strata.datasheet.measure import Picture
from strata.datasheet.sheet import DataSheet, Measurement


class NetworkSheet(DataSheet):
    """The common measurements of a volume in the network."""

    kind = "network"


class NullSheet(DataSheet):
    """A disk without latency has nothing to measure."""

    kind = "null"

    def measurements(self) -> list[Measurement]:
        return []

    def pictures(self) -> tuple[Picture, ...]:
        return ()
