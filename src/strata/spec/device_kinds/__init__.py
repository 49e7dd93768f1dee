# SPDX-License-Identifier: Apache-2.0
"""The kinds of modelled device: a module each, registered by existing."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from typing import Final

from strata.spec.device_kind import DeviceKind

for _module in pkgutil.iter_modules(__path__, f"{__name__}."):
    importlib.import_module(_module.name)

KINDS: Final[Mapping[str, DeviceKind]] = {kind.name: kind() for kind in DeviceKind.__subclasses__()}
"""Every kind by its name, in alphabetical order."""
