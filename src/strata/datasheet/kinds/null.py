# SPDX-License-Identifier: Apache-2.0
"""A disk without latency has nothing to measure."""

from __future__ import annotations

from strata.datasheet.curves import Picture
from strata.datasheet.sheet import DataSheet, Measurement


class NullSheet(DataSheet):
    """An empty data sheet."""

    kind = "null"

    def measurements(self) -> list[Measurement]:
        """None."""
        return []

    def pictures(self) -> tuple[Picture, ...]:
        """None."""
        return ()
