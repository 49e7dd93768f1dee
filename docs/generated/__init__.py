# SPDX-License-Identifier: Apache-2.0
"""The parts of the reference that are made from the code, as Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from generated import applications, claims, commands, devices, layers, metrics, tables, uses, workloads

PARTS: Final[Mapping[str, Callable[[], str]]] = {
    "commands": commands.part,
    "exit-codes": commands.exit_codes,
    "layers": layers.part,
    "workloads": workloads.part,
    "applications": applications.part,
    "metrics": metrics.part,
    "checks": metrics.checks,
    "warnings": metrics.warnings,
    "devices": devices.part,
    "uses": uses.part,
    "uses-keys": uses.keys,
    "claims-keys": claims.keys,
    "tables": tables.part,
}
"""By NAME of a page's line ``<!-- generated: NAME -->``."""

_MARK: Final = re.compile(r"^<!-- generated: ([a-z-]+) -->$", re.MULTILINE)


def filled(page: str) -> str:
    """The text of a page with its generated parts."""
    return _MARK.sub(lambda mark: PARTS[mark[1]](), page)
