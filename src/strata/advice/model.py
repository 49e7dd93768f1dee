# SPDX-License-Identifier: Apache-2.0
"""What an advice says, as plain records: for a page, a terminal, Markdown and JSON alike."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from strata.advice.uses import Need, Use, Weight
from strata.results.capabilities import Verdict
from strata.results.record import TimeDomain
from strata.spec.warning import ResultWarning
from strata.statistics.comparison import Comparison, MetricKind
from strata.statistics.interval import PRACTICAL_ZONE
from strata.statistics.summary import Summary

COVERAGE_MIN: Final = 0.5
"""The share of a use's weights that must have been measured before anything is recommended. A judgement: with
less, what was not measured could outweigh what was."""

Conclusion = Literal["clear", "even", "undecided", "too few seeds", "cannot say", "nothing to compare"]
"""
- ``clear``: one stack leads, and its interval against every other lies beyond the zone of ±3 %.
- ``even``: those in front lie within the zone.
- ``undecided``: the intervals of those in front reach into the zone, or across it.
- ``cannot say``: less than ``COVERAGE_MIN`` of the weights was measured, on two stacks at least.
- ``nothing to compare``: fewer than two stacks come into question.
"""


@dataclass(frozen=True)
class Part:
    """One metric of one workload within a use's score.

    Attributes:
        weight: The name of the weight that it is for.
        share: Of the whole score; all parts add up to 1.
    """

    weight: str
    workload: str
    kind: MetricKind
    share: float


@dataclass(frozen=True)
class Coverage:
    """A weight, and what was measured for it.

    Attributes:
        share: Of the use's weights.
        workloads: Those that count for it.
        lacking: Those of the study that fit, without results on enough stacks.
    """

    weight: Weight
    share: float
    workloads: tuple[str, ...]
    lacking: tuple[str, ...]


@dataclass(frozen=True)
class Standing:
    """A stack's place.

    Attributes:
        score: The weighted geometric mean of its metrics against the leader's; None for the leader.
        best_share: In which share of the bootstrap's resamples it leads; None with too few seeds.
        evidence: Each part's metric against the leader's, in the order of the parts; empty for the leader,
            and where it was not asked for.
    """

    stack: str
    score: Comparison | None
    best_share: float | None
    evidence: tuple[Comparison, ...]


@dataclass(frozen=True)
class Excluded:
    """A stack without a place, and why: it lacks what the use requires, or results.

    Attributes:
        capability: What it lacks of what the use requires.
    """

    stack: str
    why: Literal["requirement", "results"]
    text: str
    capability: str = ""


@dataclass(frozen=True)
class MissingCapability:
    """A capability that a stack lacks.

    Attributes:
        verdict: ``no`` or ``partial``.
        need: What the use asks for, if it does.
        held_by: The study's stacks that have it.
    """

    stack: str
    capability: str
    title: str
    verdict: Verdict
    need: Need | None
    held_by: tuple[str, ...]


@dataclass(frozen=True)
class Worse:
    """A part at which a stack in front is worse than another: the comparison's baseline, the best at it."""

    part: Part
    comparison: Comparison


@dataclass(frozen=True)
class Sensitivity:
    """What the choice would be if one weight counted half, or double."""

    weight: str
    factor: float
    leader: str


@dataclass(frozen=True)
class Settling:
    """A trial, or what else would make the advice surer.

    Attributes:
        toml: What to add to the study file, if anything.
        commands: What to type then.
    """

    kind: Literal["workload", "seeds", "trials", "stacks", "capabilities"]
    text: str
    toml: str = ""
    commands: tuple[str, ...] = ()


@dataclass(frozen=True)
class Advice:
    """What is known of a use.

    Attributes:
        candidates: The stacks that come into question: all that have what the use requires, or may have it.
        leaders: The one that leads, or those that the evidence does not separate; empty when nothing can be
            said.
        standings: Best first; empty when nothing can be said.
        coverage: The use's weights, and what was measured for each.
        covered: Which share of the weights was measured.
        parts: What the score is made of.
        measured: Each part's metric in its unit, by stack, in the order of the parts.
        seeds: Those that all ranked stacks have of all that counts.
        lacks: Of the leaders.
        worse: Of the leaders.
        unprobed: The needed capabilities of which nothing is known for a ranked stack.
        reliance: Where another weighting would put another stack in front.
        warnings: The reasons to doubt the numbers of the leaders.
        durability: What was found of how the leaders survive a power failure; None: it was not measured.
    """

    use: Use
    study: str
    time_domain: TimeDomain
    conclusion: Conclusion
    candidates: tuple[str, ...]
    leaders: tuple[str, ...]
    standings: tuple[Standing, ...]
    out: tuple[Excluded, ...]
    coverage: tuple[Coverage, ...]
    covered: float
    parts: tuple[Part, ...]
    measured: tuple[Mapping[str, Summary], ...]
    seeds: tuple[int, ...]
    lacks: tuple[MissingCapability, ...]
    worse: tuple[Worse, ...]
    unprobed: tuple[Need, ...]
    reliance: tuple[Sensitivity, ...]
    warnings: tuple[ResultWarning, ...]
    settling: tuple[Settling, ...]
    durability: Mapping[str, str] | None = None

    @property
    def take_either(self) -> bool:
        """Whether the leaders' estimates lie within the zone of equality, even if their intervals do not."""
        return self.conclusion == "even" or (
            self.conclusion == "undecided"
            and all(
                each.score is None or within_zone(each.score)
                for each in self.standings
                if each.stack in self.leaders
            )
        )

    @property
    def leader(self) -> str | None:
        """The one stack to choose; None where there is none."""
        return self.leaders[0] if self.conclusion == "clear" else None


def within_zone(score: Comparison) -> bool:
    """Whether two stacks' estimates differ by less than matters."""
    return abs(math.log(score.gain)) <= math.log(1 + PRACTICAL_ZONE)
