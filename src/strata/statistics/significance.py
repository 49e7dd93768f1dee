# SPDX-License-Identifier: Apache-2.0
"""Rank tests of whether two stacks differ at all, not by how much.

The interval decides. A p-value stands beside it, because it assumes less, and because among many comparisons
some are surprising by chance, for which Holm's method accounts.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Final

import numpy as np

from strata.statistics.interval import Floats

# Beyond this many pairs the sum of ranks is practically normal.
_EXACT_PAIRS_MAX: Final = 50
_EXACT_SPLITS_MAX: Final = 10_000


def signed_rank_p_value(differences: Floats) -> float:
    """The two-sided p-value of Wilcoxon's signed-rank test, exact up to fifty pairs, ties or not.

    F. Wilcoxon, "Individual comparisons by ranking methods", Biometrics Bulletin 1, 1945. Pairs without a
    difference, or with one by rounding alone, are left out, as there; without any other pair p is 1.
    """
    rounded = _rounded(differences)
    differences = rounded[rounded != 0]
    if not len(differences):
        return 1.0
    if len(differences) > _EXACT_PAIRS_MAX:
        from scipy import stats  # noqa: PLC0415 - takes a second to load, which no other command should pay

        return float(stats.wilcoxon(differences).pvalue)
    # Ranks of ties are means: only doubled ones are whole numbers.
    doubled = np.rint(2 * _ranks(np.abs(differences))).astype(int)
    shares = shares_of_sums(tuple(sorted(doubled.tolist())))
    at = int(doubled[differences > 0].sum())
    return min(1.0, 2 * float(min(shares[: at + 1].sum(), shares[at:].sum())))


@lru_cache(maxsize=256)
def shares_of_sums(ranks: tuple[int, ...]) -> Floats:
    """The probability of each sum of ranks when each rank counts with probability one half."""
    ways = np.ones(1)
    for rank in ranks:
        ways = np.concatenate([ways, np.zeros(rank)]) + np.concatenate([np.zeros(rank), ways])
    return np.asarray(ways / ways.sum(), dtype=np.float64)


def rank_sum_p_value(upper: Floats, lower: Floats) -> float:
    """The two-sided p-value of the Mann-Whitney U test, exact for small samples.

    H. Mann, D. Whitney, "On a test of whether one of two random variables is stochastically larger than the
    other", Annals of Mathematical Statistics 18, 1947.
    """
    together = _rounded(np.concatenate([upper, lower]))
    if (together == together[0]).all():
        return 1.0
    from scipy import stats  # noqa: PLC0415 - takes a second to load, which no other command should pay

    upper, lower = together[: len(upper)], together[len(upper) :]
    ties = len(np.unique(together)) < len(together)
    few = math.comb(len(together), len(upper)) <= _EXACT_SPLITS_MAX
    if few and ties:
        every_split = stats.PermutationMethod(n_resamples=_EXACT_SPLITS_MAX)
        return min(1.0, float(stats.mannwhitneyu(upper, lower, method=every_split).pvalue))
    return min(1.0, float(stats.mannwhitneyu(upper, lower, method="exact" if few else "auto").pvalue))


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for being made together, in their order.

    S. Holm, "A simple sequentially rejective multiple test procedure", Scandinavian Journal of Statistics 6,
    1979: the smallest is multiplied by their number, the next by one less, and none becomes smaller than the
    one before it.
    """
    count, highest = len(p_values), 0.0
    adjusted = [0.0] * count
    for place, index in enumerate(sorted(range(count), key=lambda each: p_values[each])):
        highest = max(highest, min(1.0, (count - place) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def smallest_p_value(n: int) -> float:
    """The smallest p of the signed-rank test for ``n`` pairs: 0.0625 for five, 0.03125 for six."""
    return min(1.0, 2.0 ** (1 - n))


def shift(differences: Floats) -> float:
    """The Hodges-Lehmann estimate of paired differences: the median of the means of all pairs of them.

    J. Hodges, E. Lehmann, "Estimates of location based on rank tests", Annals of Mathematical Statistics 34,
    1963. An outlier hardly moves it.
    """
    first, second = np.triu_indices(len(differences))
    return float(np.median((differences[first] + differences[second]) / 2))


def shift_between(upper: Floats, lower: Floats) -> float:
    """The Hodges-Lehmann estimate of two samples: the median of all their differences."""
    return float(np.median(np.subtract.outer(upper, lower)))


def _rounded(values: Floats) -> Floats:
    """Values without the digits that depend on how they were computed."""
    scale = float(np.abs(values).max(initial=0.0))
    return np.round(values / scale, 12) if scale > 1e-13 else np.zeros_like(values)


def _ranks(values: Floats) -> Floats:
    """From 1 upwards; ties share the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[inverse], dtype=np.float64)
