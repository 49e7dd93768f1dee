# SPDX-License-Identifier: Apache-2.0
"""Ranking the stacks for a use, with the evidence; or the reason why not, and what would settle it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from strata.advice.evidence import (
    MEANS,
    Evidence,
    Scorer,
    counting_workloads,
    cuts_under,
    durability_of,
    evidence_of,
)
from strata.advice.failures import failure_words
from strata.advice.model import (
    COVERAGE_MIN,
    Advice,
    Conclusion,
    Excluded,
    MissingCapability,
    Standing,
    Worse,
)
from strata.advice.settling import settlings
from strata.advice.uses import DURABLE, Need, Use
from strata.results.capabilities import Capabilities, PowerCutFinding, Verdict, lost_words
from strata.statistics.comparison import Comparison
from strata.statistics.study import StudyResults
from strata.words import counted

_HAVING: Final[tuple[Verdict, ...]] = ("yes", "partial")


def advise(
    results: StudyResults, uses: Sequence[Use], capabilities: Capabilities | None, *, evidence: bool = True
) -> list[Advice]:
    """Advise on each use, in their order; without ``evidence`` hundreds of cells take a second less."""
    adviser = _Adviser(results, capabilities, evidence, Scorer(results))
    return [adviser.advise(use) for use in uses]


@dataclass(frozen=True)
class _Adviser:
    """Shared by the advice on several uses of one study."""

    _results: StudyResults
    _capabilities: Capabilities | None
    _evidence_wanted: bool
    _scorer: Scorer

    def advise(self, use: Use) -> Advice:
        cuts = {
            stack: cuts_under(self._results, use, stack, self._capabilities) for stack in self._results.stacks
        }
        durability = self._durability(use, cuts)
        unfit: dict[str, Excluded] = {}
        for out in (each for need in use.needs for each in self._without(need, durability)):
            unfit.setdefault(out.stack, out)
        left = [stack for stack in self._results.stacks if stack not in unfit]
        evidence = evidence_of(self._results, use, left, self._scorer)
        standings: tuple[Standing, ...] = ()
        if len(evidence.stacks) > 1 and evidence.covered >= COVERAGE_MIN and evidence.parts:
            standings = self._standings(evidence)
        conclusion = _conclusion(standings, len(left))
        front = [each for each in standings if each.in_front]
        leaders = tuple(each.stack for each in front) if conclusion != "too few seeds" else ()
        tied = [score for each in front for score in each.means]
        asked = [each.stack for each in standings] or left
        unprobed = tuple(
            need
            for need in use.needs
            if None in [self._verdict(stack, need.capability, durability) for stack in asked]
        )
        return Advice(
            use=use,
            study=self._results.snapshot.name,
            time_domain=self._results.snapshot.time_domain,
            conclusion=conclusion,
            candidates=tuple(left),
            leaders=leaders,
            standings=standings,
            out=(*self._priced(use, unfit, left, standings), *evidence.out),
            coverage=evidence.coverage,
            covered=evidence.covered,
            parts=evidence.parts,
            measured=tuple(self._results.summaries(part.workload, part.kind.name) for part in evidence.parts),
            seeds=tuple(evidence.common_seeds(evidence.stacks)),
            missing=tuple(each for stack in leaders for each in self._missing(stack, use)),
            worse=tuple(each for stack in leaders for each in self._worse(stack, evidence)),
            apart=tuple(self._apart(leaders, evidence)) if conclusion != "clear" else (),
            unprobed=unprobed,
            baseline=evidence.baseline if standings else None,
            weightings=evidence.weightings() if standings else {},
            warnings=tuple(
                warning
                for stack in leaders
                for workload in dict.fromkeys(part.workload for part in evidence.parts)
                for warning in self._results.warnings(stack, workload)
            ),
            durability=durability,
            power_cuts={stack: each for stack in left if (each := _kept_words(cuts[stack]))},
            failures={stack: each for stack in left if (each := self._failures(use, stack))},
            settling=settlings(self._results, left, evidence, conclusion, tied=tied, unprobed=unprobed),
        )

    def _durability(self, use: Use, cuts: Mapping[str, Sequence[PowerCutFinding]]) -> dict[str, str]:
        """What gives durability away: by the settings, and by the power cuts. A stack may be unknown."""
        found = {}
        for stack in self._results.stacks:
            risks, lost = durability_of(self._results, use, stack), lost_words(cuts[stack])
            if risks is not None or lost:
                found[stack] = "; ".join(filter(None, (risks, lost)))
        return found

    def _failures(self, use: Use, stack: str) -> str:
        workloads = counting_workloads(self._results, use)
        return failure_words(self._results, stack, workloads, self._capabilities)

    def _verdict(self, stack: str, capability: str, durability: Mapping[str, str]) -> Verdict | None:
        """A stack's capability; None: unknown."""
        if capability == DURABLE:
            return None if stack not in durability else "no" if durability[stack] else "yes"
        cell = self._capabilities.of(stack, capability) if self._capabilities is not None else None
        return cell.verdict if cell is not None and cell.verdict != "failed" else None

    def _without(self, need: Need, durability: Mapping[str, str]) -> Iterator[Excluded]:
        stacks = self._results.stacks
        verdicts = {stack: self._verdict(stack, need.capability, durability) for stack in stacks}
        if need.level == "wished" or (need.level == "preferred" and not {*verdicts.values()} & {*_HAVING}):
            return
        for stack, verdict in verdicts.items():
            if verdict == "no" and need.capability == DURABLE:
                yield Excluded(stack, "requirement", durability[stack], need.capability)
            elif verdict == "no" and self._capabilities is not None:
                why = f"{self._capabilities.title(need.capability)}: no ({need.why})"
                yield Excluded(stack, "requirement", why, need.capability)

    def _priced(
        self, use: Use, unfit: Mapping[str, Excluded], left: Sequence[str], standings: Sequence[Standing]
    ) -> Iterator[Excluded]:
        """The stacks that are out for a requirement, each with its waiting against the leader's."""
        leader = standings[0].stack if standings else left[0] if len(left) == 1 else None
        for stack, out in unfit.items():
            both = evidence_of(self._results, use, [leader, stack], self._scorer) if leader else None
            seeds = both.common_seeds([leader, stack]) if leader and both and len(both.stacks) == 2 else []
            if leader is None or both is None or not seeds or both.covered < COVERAGE_MIN:
                yield out
                continue
            price = replace(both, weighed_by=leader).against(stack, leader)
            yield replace(out, price=price if price.gain > 1 else None)

    def _standings(self, evidence: Evidence) -> tuple[Standing, ...]:
        """The stacks' places: the leader, then the others by their scores against it.

        If the stacks in front share more seeds than all stacks do, these seeds decide between them.
        """
        stacks = evidence.stacks
        seeds = evidence.common_seeds(stacks)
        if not seeds:
            return ()
        found = self._against(_best(stacks, evidence, seeds), evidence)
        front = [each.stack for each in found if each.in_front]
        shared = evidence.common_seeds(front)
        if len(front) > 1 and len(shared) > len(seeds):
            found = self._against(_best(front, evidence, shared), evidence)
        if any(each.gain_interval is None for standing in found for each in standing.means):
            return found
        shares = evidence.best_shares()
        return tuple(replace(each, best_share=shares[each.stack]) for each in found)

    def _against(self, leader: str, evidence: Evidence) -> tuple[Standing, ...]:
        """All stacks' scores against the leader's, each over the common seeds of the two."""
        families = {mean: evidence.family(mean) for mean in MEANS}
        found = []
        for stack in evidence.stacks:
            score, geometric = (
                None if stack == leader else evidence.against(stack, leader, mean, families[mean])
                for mean in MEANS
            )
            waiting = evidence.against(stack, evidence.baseline, family=families["arithmetic"]).ratio.ratio
            measured = tuple(self._evidence(stack, leader, evidence))
            found.append(Standing(stack, waiting, score, geometric, None, measured))
        return tuple(sorted(found, key=lambda each: each.score.ratio.ratio if each.score else 0.0))

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
            verdict = self._verdict(stack, probe.name, {})
            stacks, need = self._results.stacks, needs.get(probe.name)
            held_by = tuple(other for other in stacks if self._verdict(other, probe.name, {}) == "yes")
            if verdict in ("no", "partial") and (held_by or need):
                yield MissingCapability(stack, probe.name, probe.title, verdict, need, held_by)

    def _apart(self, leaders: Sequence[str], evidence: Evidence) -> Iterator[Worse]:
        """The parts at which one leader is better than others, and these against it."""
        for part in evidence.parts if len(leaders) > 1 else ():
            best, *others = (s for s in self._results.ranking(part.workload, part.kind) if s in leaders)
            for other in others:
                compared = self._scorer.compared(part, other, best)
                if compared is not None and compared.verdict == "worse":
                    yield Worse(part, compared)

    def _worse(self, stack: str, evidence: Evidence) -> Iterator[Worse]:
        for part in evidence.parts:
            ranking = self._results.ranking(part.workload, part.kind)
            for other in ranking[: ranking.index(stack)]:
                compared = self._scorer.compared(part, stack, other) if other in evidence.stacks else None
                if compared is not None and compared.verdict == "worse":
                    yield Worse(part, compared)
                    break


def _best(stacks: Sequence[str], evidence: Evidence, seeds: Sequence[int]) -> str:
    estimates = evidence.estimates(stacks, seeds)
    return min(stacks, key=lambda stack: estimates[stack])


def _kept_words(cuts: Sequence[PowerCutFinding]) -> str:
    """That nothing acknowledged was lost, where power cuts show it; empty: they show something else."""
    kept = [cut for cut in cuts if cut.durability_held]
    if not kept or len(kept) < len(cuts):
        return ""
    acknowledged = sum(cut.acknowledged or 0 for cut in kept)
    return f"{counted(len(kept), 'power cut')} lost none of {acknowledged:,} acknowledged operations"


def _conclusion(standings: Sequence[Standing], stacks: int) -> Conclusion:
    if stacks < 2:
        return "nothing to compare" if stacks else "no stack left"
    if not standings:
        return "cannot say"
    verdicts = {each.verdict for standing in standings for each in standing.means}
    if "too few seeds" in verdicts:
        return "too few seeds"
    if verdicts == {"worse"}:
        return "clear"
    if any(each.geometric is not None and each.geometric.verdict == "better" for each in standings):
        return "the means disagree"
    front = {each.verdict for standing in standings if standing.in_front for each in standing.means}
    return "even" if front == {"equal"} else "undecided"
