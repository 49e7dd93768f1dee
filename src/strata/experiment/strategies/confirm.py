# SPDX-License-Identifier: Apache-2.0
"""Whether real disks do what the lab predicts: the best stacks and the worst, there and on this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from strata.advice.model import Advice
from strata.experiment.experiment import Cells
from strata.results.findings import Finding, Tried, Variation, identity_of
from strata.statistics.confirmation import compared_pairs, confirmed
from strata.statistics.study import StudyResults

_PREDICTED: Final = Variation(name="predicted", why="in the lab, in virtual time")
_MEASURED: Final = Variation(name="measured", time_domain="wall", why="on this machine")


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
        """The prediction for this machine, and then the measurement if there is one to hold it against."""
        wanted = [_PREDICTED.model_copy(update={"changes": dict(self.changes)}), _MEASURED]
        left = wanted[len(tried) if self.changes else 1 + len(tried) :]
        return left[:1] if all(each.verdict for each in tried) else []

    def judge(self, variation: Variation, results: StudyResults) -> Tried:
        self._found.append(results)
        return self._ranked(variation, results)

    def _ranked(self, variation: Variation, results: StudyResults) -> Tried:
        pairs = [
            pair
            for workload in self.cells.workloads
            for pair in compared_pairs(results, workload, self.cells.stacks)
        ]
        empty = {cell: results.lacking(*cell) for cell in self.cells.keys}
        note = "; ".join(f"{cell}: {why}" for cell, why in empty.items() if why)
        has_any = any(results.cells[cell].records for cell in self.cells.keys)
        return variation.tried("ranked" if has_any else "", note, compared=pairs, seeds=len(self.cells.seeds))

    def finding(self, tried: Sequence[Tried], *, whole: bool) -> Finding:
        """Without changes the results are the prediction, whatever lab they are of."""
        sources = self._found if self.changes else [self.results, *self._found]
        before = [] if self.changes else [self._ranked(_PREDICTED, self.results)]
        cells = (confirmed(sources[0], each, cell) for each in sources[1:] for cell in self.cells.keys)
        return Finding(
            kind="confirm",
            subject=self.subject,
            results_sha256=identity_of(self.results.snapshot),
            whole=whole,
            tried=(*before, *tried),
            confirmed=tuple(filter(None, cells)),
        )


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
