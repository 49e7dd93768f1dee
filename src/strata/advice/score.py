# SPDX-License-Identifier: Apache-2.0
"""A stack's score for a use: the weighted geometric mean of what was measured, and how sure it is.

Every metric's level is a function of the seeds drawn, and so is their weighted mean: one draw of seeds serves
all workloads, so that effects of a seed on several workloads stay together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from strata.advice.model import Part
from strata.statistics.comparison import Comparison, MetricKind
from strata.statistics.interval import Floats
from strata.statistics.level import Level, Method, interval_of, once
from strata.statistics.ratio import Ratio
from strata.statistics.resampling import Positions, resamples
from strata.statistics.study import StudyResults

SCORE = MetricKind("score", "1", "higher", headline=True)


@dataclass(frozen=True)
class Remembered:
    """A level with its computed values: uses and pairs of stacks draw the same seeds."""

    level: Level
    _known: dict[tuple[tuple[int, ...], bytes], Floats] = field(default_factory=dict, repr=False)

    def log_at(self, positions: Positions) -> Floats:
        """The logarithms of the level."""
        asked = (positions.shape, positions.tobytes())
        if asked not in self._known:
            self._known[asked] = np.log(self.level.at(positions))
        return self._known[asked]


@dataclass(frozen=True)
class Score:
    """A stack's score as a level: above another's is better."""

    parts: Sequence[tuple[float, Remembered]]

    @property
    def method(self) -> Method:
        """Merged histograms, if any part has them: they decide how the interval is made."""
        merged = any(level.level.method == "merged histogram" for _, level in self.parts)
        return "merged histogram" if merged else "geometric mean"

    def log_at(self, positions: Positions) -> Floats:
        """The logarithms of the scores."""
        return np.asarray(sum(share * level.log_at(positions) for share, level in self.parts))

    def at(self, positions: Positions) -> Floats:
        """The scores, one per row of seeds."""
        return np.asarray(np.exp(self.log_at(positions)), dtype=np.float64)


class Scorer:
    """Scores of a study's stacks, kept for several uses."""

    def __init__(self, results: StudyResults) -> None:
        self._results = results
        self._levels: dict[tuple[str, str, str, tuple[int, ...]], Remembered] = {}
        self._comparisons: dict[tuple[str, str, str, str], Comparison | None] = {}

    def seeds(self, stack: str, part: Part) -> frozenset[int]:
        """The seeds with a part's metric on a stack, above zero as a ratio needs."""
        values = self._results.cells[stack, part.workload].series(part.kind.name).values
        return frozenset(seed for seed, value in values.items() if value > 0)

    def score(self, stack: str, parts: Iterable[Part], seeds: Sequence[int]) -> Score:
        """A stack's score over these seeds, all of which it must have."""
        signs = {"higher": 1.0, "lower": -1.0}
        its = tuple(seeds)
        return Score(
            [(signs[each.kind.better] * each.share, self._level(stack, each, its)) for each in parts]
        )

    def _level(self, stack: str, part: Part, seeds: tuple[int, ...]) -> Remembered:
        place = (stack, part.workload, part.kind.name, seeds)
        if place not in self._levels:
            series = self._results.cells[stack, part.workload].series(part.kind.name)
            self._levels[place] = Remembered(series.level(list(seeds)))
        return self._levels[place]

    def estimates(
        self, stacks: Sequence[str], parts: Sequence[Part], seeds: Sequence[int]
    ) -> dict[str, float]:
        """The logarithm of each stack's score, each seed taken once."""
        all_once = once(len(seeds))
        return {stack: float(self.score(stack, parts, seeds).log_at(all_once)[0]) for stack in stacks}

    def best_shares(
        self, stacks: Sequence[str], parts: Sequence[Part], seeds: Sequence[int]
    ) -> dict[str, float]:
        """The share of the resamples in which each stack leads; equal stacks share the lead."""
        drawn = resamples(len(seeds))
        scores = np.stack([self.score(stack, parts, seeds).log_at(drawn.positions) for stack in stacks])
        # Differences by rounding alone are none.
        leads = scores >= scores.max(axis=0) - 1e-12
        shares = (leads / leads.sum(axis=0)) @ drawn.shares
        return {stack: float(share) for stack, share in zip(stacks, shares, strict=True)}

    def against(
        self, use: str, stack: str, baseline: str, parts: Sequence[Part], seeds: Sequence[int]
    ) -> Comparison:
        """A stack's score against another's."""
        upper, lower = (self.score(each, parts, seeds) for each in (stack, baseline))
        n, all_once = len(seeds), once(len(seeds))
        ratio = float(np.exp(upper.log_at(all_once)[0] - lower.log_at(all_once)[0]))
        return Comparison(use, stack, baseline, SCORE, Ratio(n, ratio, interval_of(n, upper, lower)))

    def compared(self, part: Part, stack: str, baseline: str) -> Comparison | None:
        """A part's metric on a stack against another."""
        place = (part.workload, part.kind.name, stack, baseline)
        if place not in self._comparisons:
            ratio = self._results.ratio(part.workload, part.kind.name, stack, baseline)
            self._comparisons[place] = (
                Comparison(part.workload, stack, baseline, part.kind, ratio) if ratio is not None else None
            )
        return self._comparisons[place]


def shares_of(weights: Mapping[str, float]) -> dict[str, float]:
    """Weights as shares that add up to 1."""
    total = sum(weights.values())
    return {name: weight / total for name, weight in weights.items()}
