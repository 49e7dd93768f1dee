# SPDX-License-Identifier: Apache-2.0
"""Ranking the stacks for a use, with the evidence; or the reason why not, and what would settle it."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from strata.advice.evidence import Evidence, Scorer, evidence_of
from strata.advice.model import (
    COVERAGE_MIN,
    Advice,
    Conclusion,
    Coverage,
    Excluded,
    MissingCapability,
    Part,
    Sensitivity,
    Settling,
    Standing,
    Worse,
    within_zone,
)
from strata.advice.uses import Need, Use, bundled_uses
from strata.plan.catalogue import catalogue
from strata.results.capabilities import Capabilities, Verdict
from strata.results.record import StudySnapshot
from strata.statistics.comparison import Comparison
from strata.statistics.interval import PRACTICAL_ZONE, SEEDS_WANTED, half_width, student_quantile
from strata.statistics.study import StudyResults
from strata.units import percent
from strata.words import listed

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
        # The leader, and the stacks that the evidence does not separate from it.
        front = tuple(each.stack for each in standings if not each.score or each.score.verdict != "worse")
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
        found = ((stack, tuple(self._evidence(stack, leader, evidence))) for stack in (leader, *ordered))
        return tuple(Standing(stack, scores.get(stack), shares.get(stack), each) for stack, each in found)

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
            stacks, need = self._results.stacks, needs.get(probe.name)
            held_by = tuple(other for other in stacks if self._verdict(other, probe.name) == "yes")
            if verdict in ("no", "partial") and (held_by or need):
                yield MissingCapability(stack, probe.name, probe.title, verdict, need, held_by)

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


# A difference that needs more seeds than this to be seen is not worth a night. A judgement.
_SEEDS_WORTH: Final = 100


def settlings(
    results: StudyResults,
    stacks: Sequence[str],
    evidence: Evidence,
    conclusion: Conclusion,
    *,
    tied: Sequence[Comparison],
    unprobed: Sequence[Need],
) -> tuple[Settling, ...]:
    """The measurements to make, the most important first.

    ``stacks`` are the candidates; ``tied`` the scores of the stacks that are not clearly behind the leader.
    """
    snapshot = results.snapshot
    unfinished = [*_unfinished(results, stacks, evidence)]
    more = None
    take_either = conclusion == "undecided" and all(map(within_zone, tied))
    if conclusion in ("too few seeds", "undecided") and not take_either:
        more = _seeds(results, evidence, tied, unfinished=bool(unfinished))
    missing = [*_workloads(snapshot, evidence.coverage)]
    found = [*unfinished, *([more] if more else []), *missing]
    if len(stacks) < 2:
        another = "another one that has what the use requires" if len(results.stacks) > 1 else "another one"
        found.insert(0, Settling("stacks", f"One stack is no choice: add {another} to the study."))
    if unprobed:
        found.append(_probes(snapshot, unprobed))
    return tuple(found)


def _unfinished(results: StudyResults, stacks: Sequence[str], evidence: Evidence) -> Iterator[Settling]:
    counting = {name for each in evidence.coverage for name in (*each.workloads, *each.lacking)}
    missing = [
        each.trial_id
        for each in results.readings
        if not each.usable and each.trial.stack in stacks and each.trial.workload in counting
    ]
    if missing:
        shown = listed([*missing[:3], f"{len(missing) - 3} more"] if len(missing) > 4 else missing)
        count = "1 trial" if len(missing) == 1 else f"{len(missing)} trials"
        have = "has" if len(missing) == 1 else "have"
        yield Settling(
            "trials",
            f"{count} that count here {have} no usable result: {shown}. Running the study again measures "
            "only these.",
            commands=(f"strata run {results.snapshot.file or 'STUDY.toml'}",),
        )


def _workloads(snapshot: StudySnapshot, coverage: Sequence[Coverage]) -> Iterator[Settling]:
    missing = [each for each in coverage if not each.workloads and not each.lacking]
    names = [choice.name for choice in snapshot.workloads]
    for each in sorted(missing, key=lambda one: -one.share):
        pattern = each.weight.fits[0]
        name = each.weight.name
        while name in names:
            name += "-more"
        names.append(name)
        yield Settling(
            "workload",
            f"Nothing was measured of {each.weight.name} ({percent(each.share)} of the weights: "
            f"{each.weight.why}). Add a workload to the study, such as:",
            toml=toml_table(f"workloads.{name}", pattern.example(catalogue())),
            commands=(f"strata run {snapshot.file or 'STUDY.toml'}",),
        )


def _seeds(
    results: StudyResults, evidence: Evidence, tied: Sequence[Comparison], *, unfinished: bool
) -> Settling | None:
    snapshot = results.snapshot
    now = len(evidence.common_seeds(evidence.stacks))
    wanted = max((seeds_wanted(each) for each in tied), default=SEEDS_WANTED)
    if wanted > _SEEDS_WORTH:
        return Settling(
            "seeds",
            f"More than {_SEEDS_WORTH} seeds would be needed to tell on which side of ±3 % the difference "
            "lies: it is too near to that limit to matter.",
        )
    if unfinished and wanted <= len(snapshot.seeds):
        return None  # the study already asks for this many
    named = {name for each in tied for name in (each.stack, each.baseline)}
    stacks = [stack for stack in results.stacks if stack in named]
    workloads = list(dict.fromkeys(part.workload for part in evidence.parts))
    everything = len(stacks) in (0, len(results.stacks))
    command = f"strata run {snapshot.file or 'STUDY.toml'}"
    within = f"{workloads[0]}." if len(workloads) == 1 else ""
    of = "all stacks" if everything else listed(stacks)
    text = f"{wanted} seeds of {of} instead of {now} would give intervals to judge by."
    if all(each.gain_interval is not None for each in tied):
        text = (
            f"About {wanted} seeds of {of} instead of {now} would settle it: an interval narrows with the "
            "square root of their number."
        )
    return Settling(
        "seeds",
        text,
        toml=f"[study]\nseeds = [{', '.join(map(str, _seeds_from(snapshot.seeds, wanted)))}]\n",
        commands=(command,)
        if everything
        else tuple(f"{command} --trial '{stack}.{within}*'" for stack in stacks),
    )


def seeds_wanted(score: Comparison) -> int:
    """The approximate number of seeds that bring a comparison's interval to one side of the zone's edge.

    The half-width falls with the square root of the number of seeds and with Student's quantile for it; the
    estimate is assumed to stay.
    """
    n, width = score.ratio.n, half_width(score.gain_interval)
    if math.isinf(width):
        return SEEDS_WANTED
    room = abs(abs(math.log(score.gain)) - math.log(1 + PRACTICAL_ZONE))
    scale = width * math.sqrt(n) / student_quantile(n - 1)
    for more in range(max(SEEDS_WANTED, n + 1), _SEEDS_WORTH + 1):
        if scale * student_quantile(more - 1) / math.sqrt(more) <= room:
            return more
    return _SEEDS_WORTH + 1


def _seeds_from(declared: Sequence[int], count: int) -> list[int]:
    free = (number for number in itertools.count(1) if number not in declared)
    return [*declared, *itertools.islice(free, max(0, count - len(declared)))]


def _probes(snapshot: StudySnapshot, unprobed: Sequence[Need]) -> Settling:
    words = " ".join(f"--probe {need.capability}" for need in unprobed)
    names = listed([need.capability for need in unprobed])
    return Settling(
        "capabilities",
        f"These capabilities, which the use asks for, were not probed on every stack: {names}.",
        commands=(f"strata capabilities {snapshot.file or 'STUDY.toml'} {words}",),
    )


def toml_table(name: str, table: Mapping[str, Any]) -> str:
    return "\n".join([f"[{name}]", *(f"{key} = {_toml(value)}" for key, value in table.items())]) + "\n"


def _toml(value: Any) -> str:
    match value:
        case Mapping():
            return "{ " + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + " }"
        case list() | tuple():
            return "[" + ", ".join(map(_toml, value)) + "]"
        case _:
            # JSON's texts, numbers and truth values are TOML, too.
            return json.dumps(value, ensure_ascii=False)
