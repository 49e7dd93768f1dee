# SPDX-License-Identifier: Apache-2.0
"""Whether real disks do what the lab predicts: the best stacks and the worst, there and on this machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from strata.advice.model import Advice
from strata.experiment.experiment import Cells
from strata.results.findings import Confirmed, Finding, Tried, Variation, identity_of
from strata.statistics.confirmation import compared_pairs, confirmed
from strata.statistics.study import StudyResults


@dataclass(frozen=True)
class Confirm:
    """One prediction, of a use or of a workload, held against a measurement.

    Attributes:
        results: Of the lab study.
        changes: What is known of this machine: its processor, its disks.
    """

    subject: str
    cells: Cells
    results: StudyResults
    changes: Mapping[str, Any] = field(default_factory=dict)
    _found: list[StudyResults] = field(default_factory=list)

    def next(self, tried: Sequence[Tried]) -> list[Variation]:
        """The prediction, and then the measurement if there is one to hold it against."""
        if not tried:
            return [
                Variation(name="predicted", changes=dict(self.changes), why="in the lab, in virtual time")
            ]
        is_there = len(tried) == 1 and tried[0].verdict
        return [Variation(name="measured", time_domain="wall", why="on this machine")] if is_there else []

    def judge(self, variation: Variation, results: StudyResults) -> Tried:
        self._found.append(results)
        pairs = [
            pair
            for workload in self.cells.workloads
            for pair in compared_pairs(results, workload, self.cells.stacks)
        ]
        empty = {cell: results.lacking(*cell) for cell in self.cells.keys}
        note = "; ".join(f"{cell}: {why}" for cell, why in empty.items() if why)
        return variation.tried("ranked", note, compared=pairs, seeds=len(self.cells.seeds))

    def finding(self, tried: Sequence[Tried], *, whole: bool) -> Finding:
        return Finding(
            kind="confirm",
            subject=self.subject,
            results_sha256=identity_of(self.results.snapshot),
            whole=whole,
            tried=tuple(tried),
            confirmed=tuple(self._confirmed()),
        )

    def _confirmed(self) -> Iterator[Confirmed]:
        for measured in self._found[1:]:
            found = (confirmed(self._found[0], measured, cell) for cell in self.cells.keys)
            yield from filter(None, found)


def confirmations(results: StudyResults, advice: Advice | None, best: int, seeds: int) -> list[Confirm]:
    """A question for the use that the study asks about, or for each workload, by the ranking that it has.

    It takes the ``best`` stacks and the worst.
    """
    ranked: dict[str, tuple[Sequence[str], Sequence[str]]] = {}
    if advice is not None and advice.standings:
        workloads = dict.fromkeys(part.workload for part in advice.parts)
        ranked[advice.use.name] = [each.stack for each in advice.standings], [*workloads]
    else:
        for workload in results.workloads:
            for kind in results.metrics(workload)[:1]:
                ranked[workload] = results.ranking(workload, kind), [workload]
    return [
        Confirm(
            subject,
            Cells([*dict.fromkeys([*stacks[:best], stacks[-1]])], workloads, results.snapshot.seeds[:seeds]),
            results,
        )
        for subject, (stacks, workloads) in ranked.items()
        if stacks
    ]
