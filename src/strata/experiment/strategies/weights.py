# SPDX-License-Identifier: Apache-2.0
"""The answer that could change, and the share of each weight at which it does, which needs no trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from strata.advice.evidence import Scorer, evidence_of
from strata.advice.model import Advice
from strata.errors import ResultError
from strata.results.findings import Compared, Tried, Uncertain
from strata.statistics.study import StudyResults
from strata.words import listed

_WITHIN: Final = 1e-4


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
    weights, found = [], []
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
        weight = Uncertain(
            quantity=f"weights.{name}",
            kind="weight",
            words=f"weight of {name}",
            unit="share",
            stated=sum(part.share for part in mine),
            low=0.0,
            high=1.0,
            known="chosen",
            source="any weight",
        )

        def tried(share: float, weight: Uncertain = weight, times: list[dict[str, float]] = times) -> Tried:
            score = {stack: share * times[0][stack] + (1 - share) * times[1][stack] for stack in times[0]}
            leader, rival = best_two(score, answer.leaders)
            level = score[rival] / score[leader]
            compared = Compared(workload=advice.use.name, stack=rival, against=leader, level=level)
            return weight.varied(share).tried("flips" if level < 1 else "stays", compared=[compared])

        weights.append(weight)
        for end in weight.ends:
            found.append(tried(end))
            does_flip, stays, flips = found[-1].ratio < 1, weight.stated, end
            while does_flip and abs(flips - stays) > _WITHIN:
                found.append(at := tried((stays + flips) / 2))
                stays, flips = (stays, at.value) if at.ratio < 1 else (at.value, flips)
    return weights, found


def best_two(score: dict[str, float], leaders: Sequence[str]) -> tuple[str, str]:
    """The best of the leaders, and the best of the others."""
    leading = min((stack for stack in score if stack in leaders), key=lambda stack: score[stack])
    return leading, min((stack for stack in score if stack not in leaders), key=lambda stack: score[stack])
