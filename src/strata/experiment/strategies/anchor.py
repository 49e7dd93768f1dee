# SPDX-License-Identifier: Apache-2.0
"""Anchored replication: the test beds that meet published levels, and the claims judged on these.

The unknown parts of a test bed are drawn. `Anchor` keeps the beds on which the reference stacks meet their
levels; it has no claims, so that no ratio can decide. `Anchored` judges a claim on the kept beds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from strata.errors import ResultError
from strata.experiment.experiment import Cells
from strata.experiment.strategies.what_if import WhatIf
from strata.model.trial import CellKey
from strata.reading.claims import ClaimSubject, PublishedLevel, UnknownPart
from strata.results.findings import DROPPED, KEPT, Compared, Finding, Tried, Variation, identity_of
from strata.statistics.claims import Judgement
from strata.statistics.levels import beside
from strata.statistics.study import StudyResults

BEDS: Final = 16
"""The test beds that are drawn by default."""
_KEPT_MAX: Final = 4  # each costs the trials of all the claim's cells


def references(judged: Judgement, levels: Sequence[PublishedLevel]) -> list[PublishedLevel]:
    """The published levels of the stacks that a claim compares with."""
    cells = dict.fromkeys(
        (each.against, each.expectation.other_workload, each.expectation.metric)
        for each in judged.findings
        if each.against is not None
    )
    return [
        level.model_copy(update={"stack": [stack]})
        for stack, workload, metric in cells
        for level in levels
        if stack and (level.workload, level.metric) == (workload, metric) and level.stacks([stack])
    ]


def drawn_beds(unknowns: Sequence[UnknownPart], number: int) -> list[Variation]:
    """Test beds drawn evenly over the ranges; always the same."""
    from scipy.stats import qmc  # noqa: PLC0415 - takes a second to load, which no other command should pay

    places = qmc.LatinHypercube(len(unknowns), rng=0).random(number)
    beds = []
    for row in places:
        drawn = [(part, part.at(float(place))) for part, place in zip(unknowns, row, strict=True)]
        beds.append(
            Variation(
                name=", ".join(
                    f"{' and '.join(part.quantity or part.key or [])} = {value}" for part, value in drawn
                ),
                changes={name: value for part, value in drawn for name in part.key or ()},
                values={name: float(f"{value}") for part, value in drawn for name in part.quantity or ()},
                seeds=1,
            )
        )
    return beds


@dataclass(frozen=True)
class Anchor:
    """The drawn test beds on which stacks meet their published levels.

    Attributes:
        levels: Of one stack each.
        number: Of beds.
    """

    levels: Sequence[PublishedLevel]
    unknowns: Sequence[UnknownPart]
    results: StudyResults
    subject: ClaimSubject
    number: int = BEDS

    @property
    def cells(self) -> Cells:
        cells = [CellKey(each.stack[0], each.workload) for each in self.levels]
        seeds = sorted(set.intersection(*(set(self.results.cells[cell].records) for cell in cells)))
        if not seeds:
            cause = f"no seed has a result of {' and '.join(map(str, cells))}"
            raise ResultError(cause, place="--anchor", remedy="run the study with `strata run`")
        stacks, workloads = (list(dict.fromkeys(names)) for names in zip(*cells, strict=True))
        return Cells(stacks, workloads, seeds[:1])

    def next(self, tried: Sequence[Tried]) -> list[Variation]:
        return [] if tried else drawn_beds(self.unknowns, self.number)

    def judge(self, variation: Variation, results: StudyResults) -> Tried:
        found = beside(self.levels, results, self.subject)
        if lacking := next((each for each in found if each.measured is None or each.why), None):
            return variation.tried(note=lacking.why or results.lacking(lacking.stack, lacking.level.workload))
        compared = [
            Compared(
                workload=each.level.workload,
                metric=each.level.metric,
                stack=each.stack,
                verdict=KEPT if each.is_met else DROPPED,
                unit=each.level.unit,
                level=each.measured,
                low=each.level.value[0],
                high=each.level.value[1],
            )
            for each in found
        ]
        is_kept = all(each.is_met for each in found)
        return variation.tried(KEPT if is_kept else DROPPED, "", compared, 1)

    def finding(self, tried: Sequence[Tried], *, whole: bool) -> Finding:
        subject = ", ".join(f"{each.stack[0]}.{each.workload}.{each.metric}" for each in self.levels)
        return Finding(
            kind="anchor",
            subject=subject,
            results_sha256=identity_of(self.results.snapshot),
            whole=whole,
            tried=tuple(tried),
        )


@dataclass(frozen=True)
class Anchored(WhatIf):
    """A claim on the test beds that an `Anchor` kept."""

    beds: Finding = field(kw_only=True)

    def next(self, tried: Sequence[Tried]) -> list[Variation]:
        kept = [bed for bed in self.beds.tried if bed.verdict == KEPT][:_KEPT_MAX]
        return [] if tried else [Variation(name=b.name, changes=b.changes, values=b.values) for b in kept]

    def finding(self, tried: Sequence[Tried], *, whole: bool) -> Finding:
        """All drawn beds, and after them the judged ones."""
        found = super().finding((*self.beds.tried, *tried), whole=whole and self.beds.whole)
        return found.model_copy(update={"kind": "anchor"})
