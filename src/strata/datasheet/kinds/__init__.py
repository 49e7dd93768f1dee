# SPDX-License-Identifier: Apache-2.0
"""The data sheet of each kind of device; every module of this package is loaded."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Final

from strata.datasheet.measure import Picture
from strata.datasheet.sheet import DataSheet, Measurement
from strata.devices.device import Device

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(_module.name)


class NetworkSheet(DataSheet):
    """The common measurements, of a volume in the network."""

    kind = "network"


class NullSheet(DataSheet):
    """A disk without latency has nothing to measure."""

    kind = "null"

    def measurements(self) -> list[Measurement]:
        return []

    def pictures(self) -> tuple[Picture, ...]:
        return ()


SHEETS: Final[Mapping[str, type[DataSheet]]] = {sheet.kind: sheet for sheet in DataSheet.__subclasses__()}
"""By the name of the kind."""


def sheet_of(device: Device, *, quick: bool = False) -> DataSheet:
    """The data sheet of a device; ``quick`` makes fewer I/Os, and figures some per cent off."""
    return SHEETS[device.kind](device, quick=quick)
