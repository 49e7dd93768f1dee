# SPDX-License-Identifier: Apache-2.0
"""What is smaller in a study than on the machine that it is for, and what that changes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from strata.model.study import Study
from strata.model.workload import loads_of
from strata.rules.untouched import DIRTY_TENTHS
from strata.units import format_share, format_size, significant
from strata.words import listed

# An entry of a B-tree of 8 KiB pages takes some 24 bytes, and pages are two thirds full. An estimate.
_FAN_OUT: Final = 220
_PAGE_BYTES: Final = 8192
_SAME: Final = 1.02  # sizes are whole MiB


def smaller(study: Study) -> Iterator[str]:
    """The differences, a sentence each; none for a study at the size of its machine."""
    times = study.data_ratio
    if study.machine_memory_bytes is None or study.scale > 1 or max(study.machine_ratio, times) == 1:
        return
    memory_bytes = study.memory_bytes
    data_bytes = max(
        (sum(each.data_bytes or 0 for each in loads_of(load)) for load in study.workloads.values()), default=0
    )
    theirs_bytes = round(data_bytes * times)
    lab, machine = format_size(memory_bytes), format_size(study.machine_memory_bytes)
    yield f"The lab has {lab} of your {machine} of memory, and {format_share(1 / times)} of your data"
    here, there = data_bytes / memory_bytes, theirs_bytes / study.machine_memory_bytes
    if there <= here * _SAME:
        yield "working set: data and memory are smaller alike, so caches hold the same share of the data"
    else:
        yield (
            f"working set: the most data are {here:.3g} times memory here and {there:.3g} times on your "
            "machine, whose caches hold less of them"
        )
    levels = [_levels(each) for each in (data_bytes, theirs_bytes)]
    yield (
        f"indexes: a B-tree over these data has {levels[0]} levels here and {levels[1]} there"
        + ("" if levels[0] < levels[1] else ", so a search takes as many steps")
    )
    dirty = [format_size(each * DIRTY_TENTHS // 10) for each in (memory_bytes, study.machine_memory_bytes)]
    yield f"dirty limit: bursts of writes above {dirty[0]} wait here, above {dirty[1]} there"
    yield from _of_disks(study)


def _levels(data_bytes: int) -> int:
    return max(1, math.ceil(math.log(max(2, data_bytes / _PAGE_BYTES), _FAN_OUT)))


def _of_disks(study: Study) -> Iterator[str]:
    kept, shorter = [], []
    for name, used in study.devices.items():
        if any(rule.follows_size for rule in used.device.provisioning.values()):
            kept.append(name)
        elif used.device.kind == "rotating" and used.capacity_bytes < used.device.capacity_bytes:
            shorter.append(name)
    if kept:
        keep = "keeps its" if len(kept) == 1 else "keep their"
        yield f"volumes: {listed(kept)} {keep} size, which sets the rate"
    if shorter:
        used = study.devices[shorter[0]]
        share = used.capacity_bytes / used.device.capacity_bytes
        yield (
            f"seeks: of {listed(shorter)} the outer {significant(share * 100, 2)} % is used: they are "
            "shorter, and the rate is the highest of the disk"
        )
