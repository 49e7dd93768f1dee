# SPDX-License-Identifier: Apache-2.0
"""What lost disks and wrong data did to a stack, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from strata.model.survival import Variant
from strata.model.trial import CellKey
from strata.results.capabilities import Capabilities, Verdict
from strata.statistics.comparison import Comparison
from strata.statistics.study import StudyResults
from strata.units import times
from strata.words import listed

_SECOND_LOSS: Final[dict[Verdict, str]] = {
    "yes": "any two disks may fail",
    "partial": "after a second lost disk its content can only be read",
    "no": "a second lost disk takes its content",
}
_VARIANTS: Final[dict[Variant, str]] = {"degraded": "with a disk lost", "rebuilding": "while it is rebuilt"}


def failure_words(
    results: StudyResults, stack: str, workloads: Sequence[str], capabilities: Capabilities | None
) -> str:
    """The findings as clauses; empty: nothing of it was tried."""
    found = list(_slower(results, stack, workloads))
    second = capabilities.of(stack, "second-disk-loss") if capabilities is not None else None
    survives = capabilities.of(stack, "disk-loss") if capabilities is not None else None
    if survives is not None and survives.verdict != "no" and second is not None:
        found += filter(None, [_SECOND_LOSS.get(second.verdict)])
    noticed = capabilities.of(stack, "corruption-detected") if capabilities is not None else None
    if noticed is not None and noticed.returned_as_data is not None:
        known = "a scrub notices it" if noticed.verdict == "partial" else "nobody notices"
        wrong = f"it returns wrong data of a disk as data, and {known}"
        found.append(wrong if noticed.returned_as_data else "it never returned wrong data of a disk as data")
    return "; ".join(found)


def _slower(results: StudyResults, stack: str, workloads: Sequence[str]) -> Iterator[str]:
    declared = results.snapshot.workloads
    for variant, when in _VARIANTS.items():
        gains = [
            f"{times(found.gain)} as good under {name}{' (doubtful)' if found.doubt else ''}"
            for name in workloads
            if (found := slowed(results, stack, name, declared[name].variants.get(variant, ""))) is not None
            and not found.unranked
        ]
        if gains:
            yield f"{when} it is {listed(gains)}"


def slowed(results: StudyResults, stack: str, workload: str, variant: str) -> Comparison | None:
    """A stack under a variant of a workload against the workload itself; None without results of both."""
    lost, sound = CellKey(stack, variant), CellKey(stack, workload)
    if not all(cell in results.cells and results.cells[cell].records for cell in (lost, sound)):
        return None
    return results.compared(results.metrics(workload)[0], lost, sound)
