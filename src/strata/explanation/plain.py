# SPDX-License-Identifier: Apache-2.0
"""An explanation as JSON types."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from strata.explanation.analysis import Explanation
from strata.explanation.comparison import Comparison
from strata.explanation.sentences import sentences


def explanation_plain(found: Explanation) -> dict[str, Any]:
    """One trial: times in ns, sizes in bytes, counts over the measured window."""
    plain = {**asdict(found), "missing": found.missing, "seeks": found.seeks}
    for disk, made in zip(found.disks, plain["disks"], strict=True):
        made["requests"] = disk.requests
        made["destage_parts_ns"] = disk.destage_parts_ns
    return plain


def comparison_plain(comparison: Comparison) -> dict[str, Any]:
    """Both trials, and what each kind of request contributes to the difference per operation."""
    return {
        "faster": explanation_plain(comparison.faster),
        "slower": explanation_plain(comparison.slower),
        "operation": comparison.faster.operation,
        "faster_ns": comparison.faster_ns,
        "slower_ns": comparison.slower_ns,
        "difference_ns": comparison.difference_ns,
        "contributions": [
            {
                "kind": each.kind,
                "faster": asdict(each.faster),
                "slower": asdict(each.slower),
                "difference_ns": each.difference_ns,
                "by_count_ns": each.by_count_ns,
                "by_cost_ns": each.by_cost_ns,
                "parts_ns": each.parts_ns,
            }
            for each in comparison.contributions
        ],
        "sentences": sentences(comparison),
    }
