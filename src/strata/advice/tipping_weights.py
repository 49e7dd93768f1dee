# SPDX-License-Identifier: Apache-2.0
"""The answer that could change, and the share of each weight at which it does, which needs no trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from strata.advice.evidence import Scorer, evidence_of
from strata.advice.model import Advice
from strata.errors import ResultError
from strata.results.store import ResultsFolder
from strata.results.tipping import (
    TippingPoint,
    Tried,
    UseTipping,
    identity_of,
    read_tipping,
    sorted_points,
    write_tipping,
)
from strata.statistics.study import StudyResults
from strata.words import listed

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
    ranked = tuple(each.stack for each in advice.standings)
    if not advice.leaders or not ranked:
        cause = f"the results choose no stack for {use} ({advice.conclusion}), so nothing can change that"
        raise ResultError(cause, place="--use", remedy=remedy)
    if not set(ranked) <= set(advice.leaders):
        return Answered(advice.leaders, ranked)
    if advice.take_either:
        cause = f"no stack is ahead of another for {use}: {listed(ranked)} are even within ±3 %"
        raise ResultError(cause, place="--use", remedy="add a stack that differs, or weigh otherwise")
    return Answered(ranked[:1], ranked)


def tipping_weights(results: StudyResults, advice: Advice) -> list[TippingPoint]:
    """The share of each weight at which another stack becomes best; the others keep their proportions."""
    answer = answered(results, advice)
    scorer = Scorer(results)
    evidence = evidence_of(results, advice.use, answer.stacks, scorer)
    names = list(dict.fromkeys(part.weight for part in evidence.parts))
    if len(names) < 2:
        return []
    baseline, seeds = scorer.baseline(evidence.stacks), evidence.common_seeds(evidence.stacks)
    points = []
    for name in names:
        mine = [part for part in evidence.parts if part.weight == name]
        rest = [part for part in evidence.parts if part.weight != name]
        stated = sum(part.share for part in mine)
        times = [
            scorer.estimates(
                evidence.stacks,
                baseline,
                [replace(part, share=part.share / sum(one.share for one in parts)) for part in parts],
                seeds,
            )
            for parts in (mine, rest)
        ]

        def tried(share: float, times: list[dict[str, float]] = times) -> Tried:
            score = {stack: share * times[0][stack] + (1 - share) * times[1][stack] for stack in times[0]}
            leader, rival = best_two(score, answer.leaders)
            return Tried(value=share, seeds=0, leader=leader, rival=rival, ratio=score[rival] / score[leader])

        for end in (0.0, 1.0):
            found = [tried(end)]
            if found[0].ratio < 1:
                stays, tips = stated, end
                while abs(tips - stays) > _WEIGHT_WITHIN:
                    found.append(tried((stays + tips) / 2))
                    stays, tips = (stays, found[-1].value) if found[-1].ratio < 1 else (found[-1].value, tips)
            points.append(
                TippingPoint(
                    quantity=f"weights.{name}",
                    kind="weight",
                    words=f"weight of {name}",
                    unit="share",
                    stated=stated,
                    low=0.0,
                    high=1.0,
                    known="chosen",
                    source="any weight",
                    end=end,
                    outcome="tips" if found[0].ratio < 1 else "stays",
                    tried=tuple(found),
                )
            )
    return points


def only_weights(folder: ResultsFolder, results: StudyResults, advice: Advice) -> UseTipping:
    """Find the tipping points of the weights alone; tipping.json keeps the other ones that are there.

    Raises ResultError as `answered`.
    """
    leaders = answered(results, advice).leaders
    found = UseTipping(
        leaders=leaders,
        conclusion=advice.conclusion,
        results_sha256=identity_of(results.snapshot),
        # Of a host's results nothing else can be varied.
        whole=results.snapshot.time_domain == "wall",
        points=sorted_points(
            [*tipping_weights(results, advice), *tried_before(folder, advice, leaders).values()]
        ),
    )
    write_tipping(folder, advice.use.name, found)
    return found


def tried_before(
    folder: ResultsFolder, advice: Advice, leaders: tuple[str, ...]
) -> dict[tuple[str, float], TippingPoint]:
    """What earlier runs found for the same answer, of other quantities or with a larger budget."""
    before = read_tipping(folder)
    found = before.uses.get(advice.use.name) if before else None
    if found is None or found.leaders != leaders:
        return {}
    kept = (each for each in found.points if each.kind != "weight" and each.tried)
    return {(each.quantity, each.end): each for each in kept}


def best_two(score: dict[str, float], leaders: Sequence[str]) -> tuple[str, str]:
    """The best of the leaders, and the best of the others."""
    leading = min((stack for stack in score if stack in leaders), key=lambda stack: score[stack])
    return leading, min((stack for stack in score if stack not in leaders), key=lambda stack: score[stack])
