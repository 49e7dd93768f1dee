# SPDX-License-Identifier: Apache-2.0
"""Simultaneous intervals of the differences between several stacks.

The best of many stacks is chosen by their numbers, and so by chance, too. So the intervals of all pairs hold
together: Tukey's method, which gives the unconstrained intervals of multiple comparisons with the best
(J. Hsu, "Multiple Comparisons: Theory and Methods", 1996, chapters 4 and 5), whichever stack that is.

Few seeds tell little of the variance of a pair's difference. It is moderated by the variances of the other
pairs, as G. Smyth does ("Linear models and empirical Bayes methods for assessing differential expression in
microarray experiments", Statistical Applications in Genetics and Molecular Biology 3, 2004): the less they
differ, the more they count. Where they differ by more than chance, none is lowered, because a stack that
scatters much would then seem sure. That rule is ours, by the simulation in docs/explanation/statistics.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from strata.statistics.interval import Floats, student_quantile


@dataclass(frozen=True)
class Family:
    """The common part of the differences between stacks.

    Attributes:
        stacks: The number of stacks that scatter differently, three at least.
        variance: The mean variance of a pair's difference in one seed.
        freedom: How many degrees of freedom ``variance`` counts for in a pair's own one; infinite if the
            pairs' variances differ by no more than chance.
        freedom_max: The degrees of freedom of all seeds of all stacks together.
    """

    stacks: int
    variance: float
    freedom: float
    freedom_max: float

    def reach(self, error: float, seeds: int, confidence: float) -> float:
        """The half-width of a pair's interval, given the standard error over its own seeds."""
        own, freedom = error**2 * seeds, seeds - 1
        variance = self.variance
        if math.isfinite(self.freedom):
            shrunk = (self.freedom * variance + freedom * own) / (self.freedom + freedom)
            variance = max(own, shrunk)
        known = max(freedom, min(self.freedom + freedom, self.freedom_max))
        return range_quantile(self.stacks, _rounded_down(known), confidence) * math.sqrt(variance / seeds)


def family_of(deviations: Floats, weights: Floats, seeds: int) -> Family | None:
    """The family of stacks whose logarithms deviate by seed, or by resample, a stack per row.

    The squares of a difference's deviations, times ``weights``, add up to its squared standard error. None
    with fewer than three stacks that scatter differently: identical ones are one, and two are a pair.
    """
    distinct = _distinct(deviations)
    stacks = len(distinct)
    if stacks < 3:
        return None
    first, second = np.triu_indices(stacks, 1)
    pairs = ((distinct[first] - distinct[second]) ** 2 @ weights) * seeds
    residuals = distinct - distinct.mean(axis=0)
    own = (residuals**2 @ weights) * seeds * stacks / (stacks - 1)
    freedom = min(_prior_freedom(pairs, seeds - 1), _prior_freedom(own, (seeds - 1) * (stacks - 1) / stacks))
    return Family(stacks, float(pairs.mean()), freedom, (seeds - 1) * (stacks - 1))


def _distinct(deviations: Floats) -> Floats:
    scale = float(np.abs(deviations).max(initial=0.0))
    rounded = np.round(deviations / scale, 12) if scale > 0 else deviations
    _, places = np.unique(rounded, axis=0, return_index=True)
    return deviations[np.sort(places)]


def _prior_freedom(variances: Floats, freedom: float) -> float:
    """The likeness of variances of ``freedom`` degrees each: Smyth's estimate, by their logarithms."""
    from scipy import optimize, special  # noqa: PLC0415 - takes a while to load

    logs = np.log(np.maximum(variances, 1e-300))
    beyond = float(logs.var(ddof=1)) - float(special.polygamma(1, freedom / 2))
    if beyond <= 1e-4:
        return math.inf
    half = optimize.brentq(lambda log: special.polygamma(1, math.exp(log)) - beyond, -12, 12, xtol=1e-3)
    return 2 * math.exp(half)


def _rounded_down(freedom: float) -> float:
    """Few different numbers, since a quantile takes a tenth of a second; fewer degrees are the safe side."""
    step = 0.5 if freedom < 6 else 1.0 if freedom < 20 else 5.0 if freedom < 60 else 20.0
    return math.floor(freedom / step) * step


@lru_cache(maxsize=512)
def range_quantile(stacks: int, freedom: float, confidence: float) -> float:
    """By how many standard errors any of these stacks' differences is off in 1 - ``confidence`` of cases."""
    if stacks == 2:
        return student_quantile(freedom, confidence)
    from scipy import stats  # noqa: PLC0415 - takes a second to load, which no other command should pay

    return float(stats.studentized_range.ppf(confidence, stacks, freedom)) / math.sqrt(2)
