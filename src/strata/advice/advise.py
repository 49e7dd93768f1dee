# SPDX-License-Identifier: Apache-2.0
"""Ranking the stacks for a use, with the evidence; or the reason why not, and what would settle it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from strata.advice.evidence import Evidence, Scorer, evidence_of
from strata.advice.model import (
    COVERAGE_MIN,
    Advice,
    Conclusion,
    Excluded,
    MissingCapability,
    Part,
    Sensitivity,
    Standing,
    Worse,
)
from strata.advice.settling import settlings
from strata.advice.uses import Need, Use, bundled_uses
from strata.plan.catalogue import catalogue
from strata.results.capabilities import Capabilities, Verdict
from strata.statistics.comparison import Comparison
from strata.statistics.study import StudyResults

_HAVING: Final[tuple[Verdict, ...]] = ("yes", "partial")
_FACTORS: Final = (0.5, 2.0)


def advise(
    results: StudyResults, uses: Sequence[Use], capabilities: Capabilities | None, *, evidence: bool = True
) -> list[Advice]:
    """Advise on each use, in their order; without ``evidence`` hundreds of cells take a second less."""
    adviser = _Adviser(results, capabilities, evidence, Scorer(results))
    return [adviser.advise(use) for use in uses]


def advise_on_all(
    results: StudyResults, capabilities: Capabilities | None, *, evidence: bool = False
) -> list[Advice]:
    """Advise on every use that Strata has, as reports do."""
    uses = list(bundled_uses(catalogue()).values())
    return advise(results, uses, capabilities, evidence=evidence)


@dataclass(frozen=True)
class _Adviser:
    """Shared by the advice on several uses of one study."""

    _results: StudyResults
    _capabilities: Capabilities | None
    _evidence_wanted: bool
    _scorer: Scorer

    def advise(self, use: Use) -> Advice:
        unfit = {out.stack: out for need in use.needs for out in self._without(need)}
        left = [stack for stack in self._results.stacks if stack not in unfit]
        evidence = evidence_of(self._results, use, left, self._scorer)
        standings: tuple[Standing, ...] = ()
        if len(evidence.stacks) > 1 and evidence.covered >= COVERAGE_MIN and evidence.parts:
            standings = self._standings(use, evidence)
        conclusion = _conclusion(standings, len(left))
        front = _front(standings)
        leaders = front if conclusion != "too few seeds" else ()
        tied = [each.score for each in standings if each.score is not None and each.stack in front]
        asked = [each.stack for each in standings] or left
        unprobed = tuple(
            need for need in use.needs if None in [self._verdict(stack, need.capability) for stack in asked]
        )
        return Advice(
            use=use,
            study=self._results.snapshot.name,
            time_domain=self._results.snapshot.time_domain,
            conclusion=conclusion,
            candidates=tuple(left),
            leaders=leaders,
            standings=standings,
            out=(*unfit.values(), *evidence.out),
            coverage=evidence.coverage,
            covered=evidence.covered,
            parts=evidence.parts,
            measured=tuple(self._results.summaries(part.workload, part.kind.name) for part in evidence.parts),
            seeds=tuple(evidence.common_seeds(evidence.stacks)),
            missing=tuple(each for stack in leaders for each in self._missing(stack, use)),
            worse=tuple(each for stack in leaders for each in self._worse(stack, evidence)),
            unprobed=unprobed,
            sensitivity=tuple(self._sensitivity(evidence, leaders)) if conclusion == "clear" else (),
            warnings=tuple(
                warning
                for stack in leaders
                for workload in dict.fromkeys(part.workload for part in evidence.parts)
                for warning in self._results.warnings(stack, workload)
            ),
            settling=settlings(self._results, left, evidence, conclusion, tied=tied, unprobed=unprobed),
        )

    def _verdict(self, stack: str, capability: str) -> Verdict | None:
        """A stack's capability; None: unknown."""
        cell = self._capabilities.of(stack, capability) if self._capabilities is not None else None
        return cell.verdict if cell is not None and cell.verdict != "failed" else None

    def _without(self, need: Need) -> Iterator[Excluded]:
        verdicts = {stack: self._verdict(stack, need.capability) for stack in self._results.stacks}
        if need.level != "required" or self._capabilities is None or not {*verdicts.values()} & {*_HAVING}:
            return
        for stack, verdict in verdicts.items():
            if verdict == "no":
                why = f"{self._capabilities.title(need.capability)}: no ({need.why})"
                yield Excluded(stack, "requirement", why, need.capability)

    def _standings(self, use: Use, evidence: Evidence) -> tuple[Standing, ...]:
        """The stacks' places: the leader, then the others by their scores against it.

        If the stacks in front share more seeds than all stacks do, these seeds decide between them.
        """
        stacks, parts = evidence.stacks, evidence.parts
        seeds = evidence.common_seeds(stacks)
        if not seeds:
            return ()
        leader = self._best(stacks, parts, seeds)
        scores = self._scores(use, leader, evidence)
        front = [stack for stack in stacks if stack == leader or scores[stack].verdict != "worse"]
        shared = evidence.common_seeds(front)
        if len(front) > 1 and len(shared) > len(seeds):
            leader = self._best(front, parts, shared)
            scores = self._scores(use, leader, evidence)
        sure = all(score.gain_interval is not None for score in scores.values())
        shares = self._scorer.best_shares(stacks, parts, seeds) if sure else {}
        ordered = sorted(scores, key=lambda stack: -scores[stack].gain)
        return tuple(
            Standing(
                stack, scores.get(stack), shares.get(stack), tuple(self._evidence(stack, leader, evidence))
            )
            for stack in (leader, *ordered)
        )

    def _best(self, stacks: Sequence[str], parts: Sequence[Part], seeds: Sequence[int]) -> str:
        estimates = self._scorer.estimates(stacks, parts, seeds)
        return max(stacks, key=lambda stack: estimates[stack])

    def _scores(self, use: Use, leader: str, evidence: Evidence) -> dict[str, Comparison]:
        """Every other stack's score against the leader's, over the common seeds of the two."""
        return {
            stack: self._scorer.against(
                use.name, stack, leader, evidence.parts, evidence.common_seeds([stack, leader])
            )
            for stack in evidence.stacks
            if stack != leader
        }

    def _evidence(self, stack: str, leader: str, evidence: Evidence) -> Iterator[Comparison]:
        for part in evidence.parts if stack != leader and self._evidence_wanted else ():
            compared = self._scorer.compared(part, stack, leader)
            if compared is not None:
                yield compared

    def _missing(self, stack: str, use: Use) -> Iterator[MissingCapability]:
        """Capabilities that a stack lacks and the use asks for, or another stack has."""
        if self._capabilities is None:
            return
        needs = {need.capability: need for need in use.needs}
        for probe in self._capabilities.probes:
            verdict = self._verdict(stack, probe.name)
            held_by = tuple(
                other for other in self._results.stacks if self._verdict(other, probe.name) == "yes"
            )
            if verdict in ("no", "partial") and (held_by or probe.name in needs):
                yield MissingCapability(
                    stack, probe.name, probe.title, verdict, needs.get(probe.name), held_by
                )

    def _worse(self, stack: str, evidence: Evidence) -> Iterator[Worse]:
        for part in evidence.parts:
            ranking = self._results.ranking(part.workload, part.kind)
            for other in ranking[: ranking.index(stack)]:
                compared = self._scorer.compared(part, stack, other) if other in evidence.stacks else None
                if compared is not None and compared.verdict == "worse":
                    yield Worse(part, compared)
                    break

    def _sensitivity(self, evidence: Evidence, leaders: Sequence[str]) -> Iterator[Sensitivity]:
        """Weights that decide: counted half or double, another stack leads."""
        seeds = evidence.common_seeds(evidence.stacks)
        for weight in dict.fromkeys(part.weight for part in evidence.parts):
            for factor in _FACTORS:
                parts = [
                    replace(part, share=part.share * (factor if part.weight == weight else 1.0))
                    for part in evidence.parts
                ]
                best = self._best(evidence.stacks, parts, seeds)
                if best not in leaders:
                    yield Sensitivity(weight, factor, best)


def _front(standings: Sequence[Standing]) -> tuple[str, ...]:
    return tuple(each.stack for each in standings if each.score is None or each.score.verdict != "worse")


def _conclusion(standings: Sequence[Standing], stacks: int) -> Conclusion:
    if stacks < 2:
        return "nothing to compare"
    if not standings:
        return "cannot say"
    verdicts = {each.score.verdict for each in standings if each.score is not None}
    if "too few seeds" in verdicts:
        return "too few seeds"
    if verdicts == {"worse"}:
        return "clear"
    return "even" if "undecided" not in verdicts else "undecided"
