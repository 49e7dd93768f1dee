# SPDX-License-Identifier: Apache-2.0
"""An advice as plain records, for a page, a terminal, Markdown and JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from strata.advice.uses import Need, Use, Weight
from strata.model.warning import ResultWarning
from strata.printable import in_json
from strata.results.capabilities import Verdict
from strata.results.record import TimeDomain
from strata.statistics.comparison import Comparison, MetricKind
from strata.statistics.interval import PRACTICAL_ZONE
from strata.statistics.summary import MetricSummary

EITHER_ZONE: Final = 0.1
"""To advise *take either*, the evidence must exclude a larger difference. A judgement."""
COVERAGE_MIN: Final = 0.5
"""The share of a use's weights that must have been measured before anything is recommended. A judgement: with
less, the unmeasured weights could outweigh the measured ones."""

Conclusion = Literal[
    "clear",
    "even",
    "undecided",
    "the means disagree",
    "too few seeds",
    "cannot say",
    "no stack left",
    "nothing to compare",
]
"""
- ``clear``: on one stack the use waits least, and by the geometric mean, too, it leads; its intervals against
  every other by both means lie beyond the zone of ±3 %.
- ``even``: the stacks in front lie within the zone by both means.
- ``undecided``: the intervals of the stacks in front reach into the zone, or across it.
- ``the means disagree``: by the geometric mean another stack is better than the one on which the use waits
  least.
- ``cannot say``: less than ``COVERAGE_MIN`` of the weights was measured, on two stacks at least.
- ``no stack left``: none has all that the use requires.
- ``nothing to compare``: one stack comes into question.
"""


@dataclass(frozen=True)
class Part:
    """One metric of one workload within a use's score; the shares of all parts add up to 1."""

    weight: str
    workload: str
    kind: MetricKind
    share: float


@dataclass(frozen=True)
class Coverage:
    """A weight with its measurements.

    Attributes:
        share: Of the use's weights.
        workloads: The workloads that count for it.
        lacking: The study's workloads that fit, but lack results on enough stacks.
    """

    weight: Weight
    share: float
    workloads: tuple[str, ...]
    lacking: tuple[str, ...]


@dataclass(frozen=True)
class Standing:
    """A stack's place.

    Attributes:
        waiting: The time that the use waits on it, relative to the baseline.
        score: That time against the leader's; None for the leader.
        geometric: The weighted geometric mean of the same times against the leader's.
        best_share: The share of the bootstrap's resamples in which it leads; None with too few seeds.
        evidence: Each part's metric against the leader's, in the order of the parts; empty for the leader,
            and where no evidence was requested.
    """

    stack: str
    waiting: float
    score: Comparison | None
    geometric: Comparison | None
    best_share: float | None
    evidence: tuple[Comparison, ...]

    @property
    def means(self) -> tuple[Comparison, ...]:
        """Both comparisons with the leader."""
        return tuple(each for each in (self.score, self.geometric) if each is not None)

    @property
    def in_front(self) -> bool:
        """Whether it leads, or one of the means does not separate it from the leader."""
        return any(each.verdict != "worse" for each in self.means) or not self.means


@dataclass(frozen=True)
class Excluded:
    """A stack without a place, because it lacks results or a required ``capability``.

    Attributes:
        price: Its waiting against the leader's, if it lacks a capability and is faster.
    """

    stack: str
    why: Literal["requirement", "results"]
    text: str
    capability: str = ""
    price: Comparison | None = None


@dataclass(frozen=True)
class MissingCapability:
    """A capability that a stack lacks.

    Attributes:
        verdict: ``no`` or ``partial``.
        need: Of the use, if it names the capability.
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
    """A part at which a stack in front is worse than another: the comparison's baseline."""

    part: Part
    comparison: Comparison


@dataclass(frozen=True)
class Settling:
    """A step that would make the advice surer, with its addition to the study file and its commands.

    Attributes:
        seeds: The number of seeds to measure; 0: it is another step.
    """

    kind: Literal["workload", "seeds", "weights", "trials", "stacks", "capabilities"]
    text: str
    toml: str = ""
    commands: tuple[str, ...] = ()
    seeds: int = 0


@dataclass(frozen=True)
class Advice:
    """The advice on a use; ``missing``, ``worse`` and ``warnings`` are of the leaders.

    Attributes:
        candidates: The stacks that meet the use's requirements, or may meet them.
        leaders: The leader, or the stacks that the evidence does not separate; empty without a conclusion.
        standings: Best first; empty without a conclusion.
        covered: The measured share of the weights.
        measured: Each part's metric in its unit, by stack, in the order of the parts.
        apart: Of several leaders, the parts at which some are worse than the best of them.
        seeds: The seeds with all parts on all ranked stacks.
        unprobed: The needed capabilities that are unknown for a ranked stack.
        baseline: The stack whose waiting the weights divide; None without a conclusion.
        weightings: By stack, the share of plausible weightings in which the use waits least on it.
        durability: By candidate, the settings by which a power failure takes what was acknowledged; empty:
            there are none. A stack of which no result says it is left out.
        power_cuts: By candidate, the power cuts that lost nothing acknowledged, in words.
        failures: By candidate, what lost disks and wrong data did, in words.
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
    measured: tuple[Mapping[str, MetricSummary], ...]
    seeds: tuple[int, ...]
    missing: tuple[MissingCapability, ...]
    worse: tuple[Worse, ...]
    apart: tuple[Worse, ...]
    unprobed: tuple[Need, ...]
    baseline: str | None
    weightings: Mapping[str, float]
    warnings: tuple[ResultWarning, ...]
    settling: tuple[Settling, ...]
    durability: Mapping[str, str]
    power_cuts: Mapping[str, str]
    failures: Mapping[str, str]

    @property
    @in_json
    def take_either(self) -> bool:
        """Whether it does not matter which of the leaders is taken, even where the zone's edge is open."""
        return self.conclusion == "even" or (
            self.conclusion == "undecided" and all(map(hardly_matters, self.tied))
        )

    @property
    def tied(self) -> list[Comparison]:
        """The comparisons with the leader, by both means, of the other stacks in front."""
        return [score for each in self.standings if each.stack in self.leaders for score in each.means]

    @property
    def ruled_out(self) -> dict[str, Excluded]:
        """The stacks without a required capability, or without a preferred one that another stack has."""
        return {each.stack: each for each in self.out if each.why == "requirement"}

    @property
    @in_json
    def leader(self) -> str | None:
        return self.leaders[0] if self.conclusion == "clear" else None


def hardly_matters(score: Comparison) -> bool:
    """Whether two stacks' estimates lie within the zone, and the interval within ``EITHER_ZONE``."""
    found, edge = score.gain_interval, math.log1p(EITHER_ZONE)
    ends = (math.inf,) if found is None else (abs(math.log(found.low)), abs(math.log(found.high)))
    return abs(math.log(score.gain)) <= math.log1p(PRACTICAL_ZONE) and max(ends) <= edge
