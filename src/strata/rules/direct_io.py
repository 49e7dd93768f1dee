# SPDX-License-Identifier: Apache-2.0
"""Direct I/O that is not direct: layers that carry it out through a cache, and the loads that ask for it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from strata.model.layer import Layer
from strata.model.study import Study
from strata.model.warning import WARNINGS, ResultWarning
from strata.model.workload import Workload, loads_of
from strata.words import listed

_VERSION: Final = re.compile(r"(\d+)\.(\d+)")


def kernel_version(text: str) -> tuple[int, int] | None:
    """The version that a release, or the name of a study's kernel, begins with; None for a path."""
    match = _VERSION.match(text)
    return (int(match[1]), int(match[2])) if match else None


def buffered_by(layers: Iterable[Layer], load: Workload, version: tuple[int, int] | None) -> str | None:
    """Why a load's direct I/O is not direct on these layers, as a clause; None if it is, or there is none."""
    if not load.bypasses_page_cache:
        return None
    found = (layer.buffers_direct_io(version, load.write_bytes_min) for layer in layers)
    return next(filter(None, found), None)


def direct_io_warnings(study: Study) -> list[ResultWarning]:
    """The reasons for which direct I/O of the study's loads will not be direct, each with its cells."""
    found: dict[str, list[str]] = {}
    for name, workload in study.workloads.items():
        for stack in study.stacks.values():
            version = kernel_version(study.of(stack.name).kernel.name)
            layers = stack.at(workload.place).layers
            reasons = (buffered_by(layers, load, version) for load in loads_of(workload))
            for why in dict.fromkeys(filter(None, reasons)):
                found.setdefault(why, []).append(f"{stack.name}.{name}")
    kind = WARNINGS["buffered-direct-io"]
    return [kind.warning(f"{listed(cells)}: {kind.denial}: {why}") for why, cells in found.items()]
