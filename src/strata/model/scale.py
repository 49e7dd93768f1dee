# SPDX-License-Identifier: Apache-2.0
"""The same study in a share of its time and data.

The windows and amounts of its workloads become smaller. Stacks, disks and memory stay as they are, so that
data which exceeded the memory may fit into it.
"""

from __future__ import annotations

from dataclasses import replace

from strata.model.study import Study
from strata.units import format_share


def scaled(study: Study, share: float) -> Study:
    """The study with another name, as its results are others."""
    if share == 1:
        return study
    number = f"{share * 100:g}".replace(".", "-")
    workloads = {name: load.scaled(share) for name, load in study.workloads.items()}
    return replace(study, name=f"{study.name}-scale-{number}", workloads=workloads, scale=share)


def unlike(full: Study, share: float) -> dict[str, str]:
    """The workloads of a full study that say something else in this share of its data, with the reason."""
    found = {}
    for name, load in full.workloads.items():
        whole, part = load.data_bytes, load.scaled(share).data_bytes
        if whole is not None and part is not None and whole > full.memory_bytes >= part:
            found[name] = f"at a scale of {format_share(share)} its data fit into memory"
    return found


def reduced(full: Study, share: float) -> dict[str, float]:
    """The workloads of a full study that have less to do in this share of it, with the share."""
    if share == 1:
        return {}
    return {name: share for name, load in full.workloads.items() if load.scaled(share) != load}
