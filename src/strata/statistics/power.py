# SPDX-License-Identifier: Apache-2.0
"""The smallest difference that a comparison with a set of results can find, from that set alone."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np

from strata.model.trial import CellKey
from strata.statistics.comparison import CellSeries, MetricKind
from strata.statistics.interval import SEEDS_MIN, confidence_of
from strata.statistics.pair import ComparisonOptions, kinds_asked
from strata.statistics.selftest import STUDIES_SEED, interval_of_means
from strata.statistics.study import StudyResults
from strata.words import counted, matching

POWER: Final = 0.9
"""The share of comparisons that find a difference of the size that counts as visible."""
SEEDS_MAX: Final = 200
_DRAWS: Final = 8_000


@dataclass(frozen=True)
class Sight:
    """The smallest difference of a cell's metric that another set of the same seeds would show.

    Attributes:
        n: The number of seeds.
        spread: The standard deviation of the logarithm of the ratio by seed, as far as one set tells it.
        smallest: The difference that nine of ten comparisons find: 0.05 for 5 %; None if none does.
        blind: Why none does; empty: some do.
    """

    cell: CellKey
    kind: MetricKind
    n: int
    spread: float
    smallest: float | None
    blind: str = ""

    @property
    def title(self) -> str:
        return f"{self.cell.stack} under {self.cell.workload} ({self.kind.name})"

    def seeds_to_see(self, difference: float, zone: float) -> int | None:
        """The fewest seeds that make it visible; None: more than 200, or none, however many."""
        numbers = range(SEEDS_MIN, SEEDS_MAX + 1)
        at = bisect_left(numbers, True, key=lambda n: visible(n, self.spread, zone) <= difference)
        return numbers[at] if at < len(numbers) else None


def visible(n: int, spread: float, zone: float) -> float:
    """The difference that ``n`` seeds show to be beyond ``zone`` in nine of ten comparisons.

    Of six seeds whose ratios spread by 1 %:

    >>> round(visible(6, 0.01, 0.03), 2)
    0.05
    """
    return math.expm1(math.log1p(zone) + _reach(n) * spread)


@lru_cache(maxsize=256)
def _reach(n: int) -> float:
    """How far nine of ten intervals reach above the truth, of ``n`` normal values with a spread of 1.

    By draws, since the power of Student's test promises too much: skewness widens intervals of few seeds.
    """
    drawn = np.random.default_rng(STUDIES_SEED).standard_normal((_DRAWS, n))
    return float(np.quantile(interval_of_means(drawn, confidence_of(n))[1], POWER))


def sights(results: StudyResults, options: ComparisonOptions) -> Iterator[Sight]:
    """Of each chosen cell and metric that has a value, in the study's order."""
    stacks = matching(results.stacks, options.stacks)
    workloads = matching(results.workloads, options.workloads)
    for workload, kinds in kinds_asked(results, workloads, options).items():
        for kind in kinds:
            every = [results.series(CellKey(stack, workload), kind) for stack in results.stacks]
            for each in every:
                if each.stack in stacks and min(each.series.values.values(), default=0) > 0:
                    yield _sight(each, every, kind, options.zone)


def _sight(own: CellSeries, every: Sequence[CellSeries], kind: MetricKind, zone: float) -> Sight:
    cell, n = CellKey(own.stack, own.workload), len(own.series.values)
    blind = own.unranked or own.doubt
    if n < SEEDS_MIN:
        blind = f"{counted(n, 'seed')}, where {SEEDS_MIN} are the fewest that show any"
    elif own.series.alike:
        blind = blind or "all seeds have one value, which says nothing of any other"
    spread = math.inf if n < SEEDS_MIN else _spread(own, every)
    return Sight(cell, kind, n, spread, None if blind else visible(n, spread, zone), blind)


def _spread(own: CellSeries, every: Sequence[CellSeries]) -> float:
    """The deviation of ratios by seed to another set like this one.

    At most it is that of two independent sets. A seed's drives and its load are the same in both sets, as
    they are for all stacks of one: a seed's effect on all stacks cancels, and the rest of a layout in blocks
    (R. Fisher, "The Design of Experiments", 1935) is what a ratio spreads by.
    """
    alone = float(np.std(np.log([*own.series.values.values()]), ddof=1))
    sides = [
        each.series.values for each in every if each.series.values and min(each.series.values.values()) > 0
    ]
    seeds = sorted(set.intersection(*map(set, sides)))
    if len(sides) > 1 and len(seeds) >= SEEDS_MIN:
        logs = np.log([[side[seed] for seed in seeds] for side in sides])
        rest = logs - logs.mean(axis=0) - logs.mean(axis=1, keepdims=True) + logs.mean()
        squares = (rest[[each is own.series.values for each in sides].index(True)] ** 2).sum()
        alone = min(alone, math.sqrt(squares / (len(seeds) - 1) / (1 - 1 / len(sides))))
    return math.sqrt(2) * alone
