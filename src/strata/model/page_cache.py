# SPDX-License-Identifier: Apache-2.0
"""Steps between the parts of a measurement: write back dirty data, drop the caches.

Both act on the whole machine: everything else has to wait, or to read from the disks again.
"""

from __future__ import annotations

from typing import Final

from strata.model.step import Phase, Step
from strata.model.workload import WorkloadContext
from strata.units import NS_PER_S

SYNC_LIMIT_NS: Final = 3600 * NS_PER_S

TOOLS: Final = ("sync", "tee")
"""The programs of the steps."""

_DROP_LIMIT_NS: Final = 300 * NS_PER_S
_NOBODYS: Final = WorkloadContext("", 0)


def synced(context: WorkloadContext | None, step_id: str, phase: Phase, title: str) -> Step:
    """Write back all dirty data, at the cost that earlier writes put off."""
    cwd = (context or _NOBODYS).scratch_path
    return Step(id=step_id, phase=phase, title=title, argv=("sync",), cwd=cwd, time_limit_ns=SYNC_LIMIT_NS)


def dropped(context: WorkloadContext | None, step_id: str, phase: Phase) -> Step:
    """Forget clean pages, inodes and directory entries, and shrink ZFS's ARC, so that reads reach the disks.

    Dirty data stay: `synced` comes before it.
    """
    return Step(
        id=step_id,
        phase=phase,
        title="Drop the caches, so that reads reach the disks",
        argv=("tee", "/proc/sys/vm/drop_caches"),
        cwd=(context or _NOBODYS).scratch_path,
        # 1 is the page cache, 2 the reclaimable slabs, 3 both.
        stdin="3\n",
        outside=True,
        time_limit_ns=_DROP_LIMIT_NS,
    )
