# SPDX-License-Identifier: Apache-2.0
"""What would reproduce a claim: its study is changed one thing at a time, and the claim judged anew.

Each variation is run on the claim's stacks and workloads alone, with the seeds of the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from strata.errors import ResultError
from strata.experiment.candidates import candidates
from strata.experiment.experiment import Cells
from strata.reading.claims import ClaimSubject, Expectation, PublishedLevel
from strata.results.declared import declared_study
from strata.results.findings import SEEDS, Compared, Finding, Tried, Variation, identity_of
from strata.statistics.claims import ClaimFinding, Judgement, cells_of, judge
from strata.statistics.study import StudyResults


@dataclass(frozen=True)
class WhatIf:
    """The changes of a study that flip the verdict of a claim.

    Attributes:
        judgement: Of the claim by the results.
        subject: The names that the claims of the results may use.
        file: The study's file, if it needs files beside it.
        seeds_max: Of each variation.
        levels: The published ones.
    """

    judgement: Judgement
    results: StudyResults
    subject: ClaimSubject
    file: Path | None = None
    seeds_max: int = SEEDS
    levels: Sequence[PublishedLevel] = ()

    @cached_property
    def _measured(self) -> list[ClaimFinding]:
        """The comparisons of which the results have numbers. Raises ResultError without any."""
        claim, cells = self.judgement.claim, self.results.cells
        found = [
            comparison
            for comparison in self.judgement.findings
            if comparison.verdict != "not testable"
            and all(cells[cell].records for cell in cells_of(comparison))
        ]
        if not found:
            why = self.judgement.why or "they have no results of its stacks and workloads"
            cause = f"these results say nothing of {claim.id}, so nothing can change it: {why}"
            raise ResultError(
                cause, place="--what-if", remedy="run its stacks and workloads with `strata run`"
            )
        return found

    @cached_property
    def cells(self) -> Cells:
        """Those of the claim. Raises ResultError if no seed has results of all of them."""
        cells = [cell for comparison in self._measured for cell in cells_of(comparison)]
        common = set.intersection(*(set(self.results.cells[cell].records) for cell in cells))
        if not common:
            cause = "no seed has a result of every stack and workload of the claim"
            raise ResultError(cause, place="--what-if", remedy="run the study again with `strata run`")
        named = {cell.stack for cell in cells}
        stacks = [stack for stack in self.results.stacks if stack in named]
        workloads = list(dict.fromkeys(cell.workload for cell in cells))
        return Cells(stacks, workloads, sorted(common)[: self.seeds_max])

    def next(self, tried: Sequence[Tried]) -> list[Variation]:
        """Every candidate at once, the study as it is before them."""
        if tried:
            return []
        full = declared_study(self.results.snapshot, full=True, file=self.file)
        return candidates(full, self.judgement.claim, self.cells.stacks, self.cells.workloads)

    def judge(self, variation: Variation, results: StudyResults) -> Tried:
        subject = replace(self.subject, stacks=self.cells.stacks)
        claim = self.judgement.claim

        def pair(comparison: ClaimFinding) -> tuple[Expectation, str, str | None]:
            return comparison.expectation, comparison.stack, comparison.against

        wanted = list(map(pair, self._measured))
        # Only comparisons with results: another workload may not have run at all.
        expected = [each for each in claim.expect if any(each == expectation for expectation, *_ in wanted)]
        [judged] = judge([claim.model_copy(update={"expect": expected})], results, subject, self.levels)
        judged = replace(judged, findings=[each for each in judged.findings if pair(each) in wanted])
        compared = map(_compared, judged.findings)
        return variation.tried(judged.verdict, judged.why, compared, len(self.cells.seeds))

    def finding(self, tried: Sequence[Tried], *, whole: bool) -> Finding:
        return Finding(
            kind="what-if",
            subject=self.judgement.claim.id,
            results_sha256=identity_of(self.results.snapshot),
            whole=whole,
            tried=tuple(tried),
        )


def _compared(finding: ClaimFinding) -> Compared:
    interval = finding.interval
    return Compared(
        workload=finding.expectation.workload,
        metric=finding.expectation.metric,
        stack=finding.stack,
        against=finding.against,
        verdict=finding.verdict,
        unit="1" if finding.against is not None else finding.unit or "1",
        level=finding.level,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
    )
