# SPDX-License-Identifier: Apache-2.0
"""The leaders of an answer against their rivals, and the weights at which a rival leads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from strata.advice.evidence import Evidence, Scorer, evidence_of
from strata.advice.model import Advice
from strata.advice.uses import Use
from strata.errors import ResultError
from strata.results.findings import Compared, Tried, Uncertain
from strata.statistics.comparison import Comparison
from strata.statistics.study import StudyResults
from strata.words import listed

_WEIGHT_WITHIN: Final = 1e-4


@dataclass(frozen=True)
class Rivalry:
    """The answer for a use that could change: ``leaders`` against the other ``stacks``."""

    use: Use
    leaders: tuple[str, ...]
    stacks: tuple[str, ...]

    def evidence(self, results: StudyResults) -> Evidence:
        return evidence_of(results, self.use, self.stacks, Scorer(results))

    def best_two(self, score: Mapping[str, float]) -> tuple[str, str]:
        """The best of the leaders, and the best of the others."""
        leading = min((stack for stack in score if stack in self.leaders), key=lambda stack: score[stack])
        others = (stack for stack in score if stack not in self.leaders)
        return leading, min(others, key=lambda stack: score[stack])

    def compared(self, results: StudyResults) -> Comparison | None:
        """The time of the best other stack against that of the best leader; None: one has no numbers."""
        evidence = self.evidence(results)
        common = evidence.common_seeds(evidence.stacks)
        if not common or len({stack in self.leaders for stack in evidence.stacks}) < 2:
            return None
        leader, rival = self.best_two(evidence.estimates(evidence.stacks, common))
        alike = replace(evidence, seeds=dict.fromkeys(evidence.stacks, frozenset(common)))
        return alike.against(rival, leader, family=alike.family())

    def by_weights(self, results: StudyResults) -> tuple[list[Uncertain], list[Tried]]:
        """Each weight as a quantity, and the shares tried; the other weights keep their proportions."""
        evidence = self.evidence(results)
        seeds = evidence.common_seeds(evidence.stacks)

        def tried(weight: Uncertain, share: float) -> Tried:
            factors = share / weight.stated, (1 - share) / (1 - weight.stated)
            parts = tuple(
                replace(part, share=part.share * factors[_quantity(part.weight) != weight.quantity])
                for part in evidence.parts
            )
            score = replace(evidence, parts=parts).estimates(evidence.stacks, seeds)
            leader, rival = self.best_two(score)
            level = score[rival] / score[leader]
            compared = Compared(workload=self.use.name, stack=rival, against=leader, level=level)
            return weight.varied(share).tried("flips" if level < 1 else "stays", compared=[compared])

        stated = dict.fromkeys((part.weight for part in evidence.parts), 0.0)
        for part in evidence.parts:
            stated[part.weight] += part.share
        weights = [_weight(name, share) for name, share in stated.items()] if len(stated) > 1 else []
        found: list[Tried] = []
        for weight in weights:
            for end in weight.ends:
                found.append(tried(weight, end))
                while ends := weight.towards(end, found).between:
                    if abs(ends[1] - ends[0]) <= _WEIGHT_WITHIN:
                        break
                    found.append(tried(weight, sum(ends) / 2))
        return weights, found


def rivalry(results: StudyResults, advice: Advice) -> Rivalry:
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
        return Rivalry(advice.use, advice.leaders, ranked)
    if advice.take_either:
        cause = f"no stack is ahead of another for {use}: {listed(ranked)} are even within ±3 %"
        raise ResultError(cause, place="--use", remedy="add a stack that differs, or weigh otherwise")
    return Rivalry(advice.use, ranked[:1], ranked)


def _quantity(weight: str) -> str:
    return f"weights.{weight}"


def _weight(name: str, stated: float) -> Uncertain:
    return Uncertain(
        quantity=_quantity(name),
        kind="weight",
        words=f"weight of {name}",
        unit="share",
        stated=stated,
        low=0.0,
        high=1.0,
        known="chosen",
        source="any weight",
    )
