# SPDX-License-Identifier: Apache-2.0
"""What would change an answer: values of uncertain quantities at which another stack becomes best.

Each end of a quantity's range is tried with one seed. The ends at which a rival comes near are tried with all
seeds, and where it leads there, the value between is found by bisection. The stacks of a trial are paired by
seed, as everywhere, and each seed keeps its drive but for the value. Weights need no trials.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from strata.advice.advise import advise
from strata.advice.evidence import Evidence, Scorer, evidence_of
from strata.advice.model import Advice
from strata.advice.uses import Use
from strata.errors import ResultError, StudyError
from strata.experiment.experiment import Cells
from strata.experiment.quantities import Quantity, quantities
from strata.model.study import Study
from strata.results.declared import declared_study
from strata.results.findings import (
    SEEDS,
    Compared,
    Finding,
    Tried,
    Uncertain,
    Variation,
    findings_of,
    identity_of,
    read_capabilities,
)
from strata.results.store import ResultsFolder
from strata.statistics.study import StudyResults, gather
from strata.words import listed

NEAR: Final = 1.1
"""A judgement: where the rival waits longer by more than this with one seed, no further seed is tried."""
WITHIN: Final = 0.05
"""How near the values come between which the answer changes, as a share."""
_STEPS_MAX: Final = 8
_WEIGHT_WITHIN: Final = 1e-4


@dataclass(frozen=True)
class Answered:
    """The answer that could change: ``leaders`` against the other ``stacks``."""

    leaders: tuple[str, ...]
    stacks: tuple[str, ...]


def answered(results: StudyResults, advice: Advice) -> Answered:
    """The answer that could change. Where no stack is shown to be behind, it is the one that leads.

    Raises ResultError if there is no answer, or all stacks are even.
    """
    use = advice.use.name
    remedy = f"`strata advise RESULTS --use {use}` says what is missing"
    if advice.conclusion in ("no stack left", "nothing to compare"):
        left = listed(advice.candidates) or "none"
        cause = f"{advice.conclusion} for {use}: {left} of {listed(results.stacks)}"
        raise ResultError(cause, place="--use", remedy=remedy)
    ranked = tuple(standing.stack for standing in advice.standings)
    if not advice.leaders or not ranked:
        cause = f"the results choose no stack for {use} ({advice.conclusion}), so nothing can change that"
        raise ResultError(cause, place="--use", remedy=remedy)
    if not set(ranked) <= set(advice.leaders):
        return Answered(advice.leaders, ranked)
    if advice.take_either:
        cause = f"no stack is ahead of another for {use}: {listed(ranked)} are even within ±3 %"
        raise ResultError(cause, place="--use", remedy="add a stack that differs, or weigh otherwise")
    return Answered(ranked[:1], ranked)


def weights_tried(results: StudyResults, advice: Advice) -> tuple[list[Uncertain], list[Tried]]:
    """Each weight as a quantity, and the shares tried; the other weights keep their proportions."""
    answer, scorer = answered(results, advice), Scorer(results)
    evidence = evidence_of(results, advice.use, answer.stacks, scorer)
    names = list(dict.fromkeys(part.weight for part in evidence.parts))
    if len(names) < 2:
        return [], []
    baseline, seeds = scorer.baseline(evidence.stacks), evidence.common_seeds(evidence.stacks)
    weights: list[Uncertain] = []
    found: list[Tried] = []
    for name in names:
        mine = [part for part in evidence.parts if part.weight == name]
        rest = [part for part in evidence.parts if part.weight != name]
        times = [
            scorer.estimates(
                evidence.stacks,
                baseline,
                [replace(part, share=part.share / sum(one.share for one in parts)) for part in parts],
                seeds,
            )
            for parts in (mine, rest)
        ]
        weight = _weight(name, sum(part.share for part in mine))

        def tried(share: float, weight: Uncertain = weight, times: list[dict[str, float]] = times) -> Tried:
            score = {stack: share * times[0][stack] + (1 - share) * times[1][stack] for stack in times[0]}
            leader, rival = best_two(score, answer.leaders)
            level = score[rival] / score[leader]
            compared = Compared(workload=advice.use.name, stack=rival, against=leader, level=level)
            return weight.varied(share).tried("flips" if level < 1 else "stays", compared=[compared])

        weights.append(weight)
        for end in weight.ends:
            found += _halved(tried, weight.stated, end)
    return weights, found


def _halved(tried: Callable[[float], Tried], stated: float, end: float) -> list[Tried]:
    """The end of a weight's range; if that flips the answer, also the shares that narrow down where."""
    found = [tried(end)]
    does_flip, stays, flips = found[-1].ratio < 1, stated, end
    while does_flip and abs(flips - stays) > _WEIGHT_WITHIN:
        found.append(at := tried((stays + flips) / 2))
        stays, flips = (stays, at.value) if at.ratio < 1 else (at.value, flips)
    return found


def _weight(name: str, stated: float) -> Uncertain:
    return Uncertain(
        quantity=f"weights.{name}",
        kind="weight",
        words=f"weight of {name}",
        unit="share",
        stated=stated,
        low=0.0,
        high=1.0,
        known="chosen",
        source="any weight",
    )


def best_two(score: dict[str, float], leaders: Sequence[str]) -> tuple[str, str]:
    """The best of the leaders, and the best of the others."""
    leading = min((stack for stack in score if stack in leaders), key=lambda stack: score[stack])
    return leading, min((stack for stack in score if stack not in leaders), key=lambda stack: score[stack])


@dataclass(frozen=True)
class Sensitivity:
    """The break-even points of the answer for a use.

    Attributes:
        study: None: only weights are tried, as of results of a real machine.
        seeds_max: Of each value near a break-even point.
        globs: Over the names of quantities; none: all are tried.
    """

    folder: ResultsFolder
    results: StudyResults
    advice: Advice
    study: Study | None
    seeds_max: int = SEEDS
    globs: Sequence[str] = ()

    @cached_property
    def answered(self) -> Answered:
        """The answer that could change. Raises ResultError if there is none."""
        return answered(self.results, self.advice)

    @cached_property
    def cells(self) -> Cells:
        evidence = self._evidence(self.results, Scorer(self.results))
        workloads = list(dict.fromkeys(part.workload for part in evidence.parts))
        seeds = evidence.common_seeds(evidence.stacks)[: self.seeds_max]
        return Cells(self.answered.stacks, workloads, seeds)

    def _evidence(self, results: StudyResults, scorer: Scorer) -> Evidence:
        return evidence_of(results, self.advice.use, self.answered.stacks, scorer)

    def next(self, tried: Sequence[Tried]) -> list[Variation]:
        """The ends of all ranges with one seed; then, point by point, the values between.

        Raises StudyError if no quantity has a name that was asked for.
        """
        if not tried:
            return [quantity.varied(end, 1) for quantity in self._wanted for end in quantity.ends]
        sides = ((each, each.on_side(end, tried)) for each in self._wanted for end in each.ends)
        near = [(side[0].ratio, quantity, side) for quantity, side in sides if side[0].ratio < NEAR]
        for _, quantity, side in sorted(near, key=lambda found: found[0]):
            value = self._following(quantity, side)
            if value is not None:
                return [quantity.varied(value, len(self.cells.seeds))]
        return []

    def _following(self, quantity: Quantity, side: Sequence[Tried]) -> float | None:
        """The next value of a quantity on one side, whose end was tried first; None after the last one."""
        end = side[0].value
        if len(self.cells.seeds) > 1:
            side = side[1:]  # without the one seed
        if not side:
            return end
        at_end, *between = side
        if at_end.ratio >= 1 or len(between) >= _STEPS_MAX or not all(each.verdict for each in side):
            return None
        stays, flips = quantity.stated, end
        for each in between:
            stays, flips = (stays, each.value) if each.ratio < 1 else (each.value, flips)
        middle = quantity.near(math.sqrt(stays * flips) if min(stays, flips) > 0 else (stays + flips) / 2)
        is_near = abs(flips - stays) <= WITHIN * max(abs(stays), abs(flips))
        return None if is_near or middle in (stays, flips) else middle

    @cached_property
    def _wanted(self) -> list[Quantity]:
        if self.study is None:
            return []
        every = quantities(self.study, self.cells.workloads)
        found = [quantity for quantity in every if self._is_asked(quantity.quantity)]
        weights = [f"weights.{part.name}" for part in self.advice.use.weights]
        if not found and not any(map(self._is_asked, weights)):
            names = ", ".join([*(quantity.quantity for quantity in every), *weights])
            cause = f'no quantity is called "{", ".join(self.globs)}"'
            raise StudyError(cause, place="--parameter", remedy=f"there are: {names}")
        return found

    def _is_asked(self, name: str) -> bool:
        return not self.globs or any(fnmatchcase(name, glob) for glob in self.globs)

    def judge(self, variation: Variation, results: StudyResults) -> Tried:
        """The comparison of the best leader with the best rival, or why there is none."""
        scorer = Scorer(results)
        evidence = self._evidence(results, scorer)
        common, leaders = evidence.common_seeds(evidence.stacks), set(self.answered.leaders)
        sides = [set(evidence.stacks) & leaders, set(evidence.stacks) - leaders]
        if not all(sides) or len(common) != variation.seeds:
            problems = (reading.problem for reading in results.readings if reading.problem)
            return variation.tried(note=next(problems, "it has no numbers that count"))
        baseline = scorer.baseline(evidence.stacks)
        score = scorer.estimates(evidence.stacks, baseline, evidence.parts, common)
        leader, rival = best_two(score, self.answered.leaders)
        found = scorer.against(
            *(self.advice.use.name, rival, leader),
            baseline=baseline,
            parts=evidence.parts,
            seeds=common,
            mean="arithmetic",
            family=scorer.family(evidence.stacks, baseline, evidence.parts, common, "arithmetic"),
        ).ratio
        low, high = (found.interval.low, found.interval.high) if found.interval else (None, None)
        compared = Compared(
            workload=self.advice.use.name, stack=rival, against=leader, level=found.ratio, low=low, high=high
        )
        return variation.tried("flips" if found.ratio < 1 else "stays", "", [compared], len(common))

    def finding(self, tried: Sequence[Tried], *, whole: bool) -> Finding:
        """What was found now, and before of other quantities or with a larger budget."""
        weights, shares = weights_tried(self.results, self.advice)
        weights = [weight for weight in weights if self._is_asked(weight.quantity)]
        names = {weight.quantity for weight in weights}
        shares = [share for share in shares if names.intersection(share.values)]
        now = {(*share.values.items(), share.seeds): share for share in (*shares, *tried)}
        earlier = self._earlier
        before = [each for each in earlier.tried if each.verdict] if earlier else []
        judged = {name for each in before for name in each.values}
        known = {
            each.quantity: each for each in (earlier.quantities if earlier else ()) if each.quantity in judged
        }
        wanted = (Uncertain(**each.plain) for each in self._wanted)
        known |= {each.quantity: each for each in (*weights, *wanted)}
        return Finding(
            kind="sensitivity",
            subject=self.advice.use.name,
            results_sha256=identity_of(self.results.snapshot),
            whole=whole,
            tried=tuple(({(*each.values.items(), each.seeds): each for each in before} | now).values()),
            leaders=self.answered.leaders,
            conclusion=self.advice.conclusion,
            quantities=tuple(known.values()),
        )

    @cached_property
    def _earlier(self) -> Finding | None:
        found = findings_of(self.folder, "sensitivity").get(self.advice.use.name)
        return found if found is not None and found.leaders == self.answered.leaders else None


def sensitivities(
    folder: ResultsFolder,
    uses: Sequence[Use],
    *,
    is_named: bool,
    file: Path | None = None,
    **limits: Any,
) -> list[Sensitivity]:
    """The questions of the uses that the results answer; ``file`` is the study, if it needs files beside it.

    Raises ResultError if there is no answer that could change, or not for a named use.
    """
    results = gather(folder)
    is_lab = results.snapshot.time_domain == "virtual"
    study = declared_study(results.snapshot, file=file) if is_lab else None
    found = []
    for advice in advise(results, uses, read_capabilities(folder), evidence=False):
        strategy = Sensitivity(folder, results, advice, study, **limits)
        try:
            strategy.answered  # noqa: B018  it may refuse
        except ResultError:
            if is_named:
                raise
            continue
        found.append(strategy)
    if not found:
        raise ResultError(
            "the results have no answer for any use, so nothing can change it",
            place=str(folder.path),
            remedy=f"`strata advise {folder.path} --evidence` says what is missing",
        )
    return found
