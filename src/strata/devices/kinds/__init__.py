# SPDX-License-Identifier: Apache-2.0
"""The kinds of modelled device: a module each, registered by existing."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from operator import attrgetter
from typing import ClassVar, Final

from strata.devices.kind import DeviceKind, parameter_table, spread_table

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(_module.name)


class Null(DeviceKind):
    """A disk that takes no time."""

    name = "null"
    title = "A disk that takes no time"
    introduction = "A disk that takes no time: what remains is the software above it."
    parameters: ClassVar = parameter_table("""
        capacity     int 2^20..2^60 B  addressable bytes, a multiple of 512
        queue_depth  int 1..1024       commands that the device holds at once
    """)
    spreads: ClassVar = spread_table("capacity, queue_depth  fixed  there is no such drive")


KINDS: Final[Mapping[str, DeviceKind]] = {
    kind.name: kind() for kind in sorted(DeviceKind.__subclasses__(), key=attrgetter("name"))
}
"""Every kind by its name, in alphabetical order."""
