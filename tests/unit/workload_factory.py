# SPDX-License-Identifier: Apache-2.0
"""What a workload says against its keys."""

from __future__ import annotations

from strata.model.workload import Workload


def refused(workload: Workload, capacity_bytes: int = 1 << 40) -> str:
    """The mistakes of a workload on a stack of this capacity."""
    return "; ".join(f"{r.key}: {r.cause}: {r.remedy}" for r in workload.diagnostics(capacity_bytes))
