# SPDX-License-Identifier: Apache-2.0
"""The parts of the reference that are made from the code, as Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from generated import (
    applications,
    cases,
    claims,
    commands,
    devices,
    layers,
    metrics,
    study,
    tables,
    uses,
    workloads,
)

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
    "cases": cases.part,
    "tables": tables.part,
}
"""By NAME of a page's line ``<!-- generated: NAME -->``."""

PARTS_OF: Final[Mapping[str, Callable[[str], str]]] = {
    "layer": layers.page,
    "workload": workloads.page,
    "keys": lambda name: study.key_tables()[name],
}
"""By NAME of a page's line ``<!-- generated: NAME OF -->``, such as ``layer md``."""

_MARK: Final = re.compile(r"^<!-- generated: ([a-z-]+)(?: (\S+))? -->$", re.MULTILINE)


def filled(page: str) -> str:
    """The text of a page with its generated parts."""
    return _MARK.sub(lambda mark: PARTS_OF[mark[1]](mark[2]) if mark[2] else PARTS[mark[1]](), page)
