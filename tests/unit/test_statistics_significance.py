# SPDX-License-Identifier: Apache-2.0
"""Tests by ranks against scipy and published examples."""

from __future__ import annotations

import numpy as np
import pytest
import scipy

from strata.spec.metric import Better
from strata.statistics.comparison import Comparison, MetricKind, Ratio, compare, together
from strata.statistics.significance import (
    holm,
    rank_sum_p_value,
    shift,
    shift_between,
    signed_rank_p_value,
    smallest_p_value,
)
from strata.statistics.summary import Series

# M. Hollander, D. Wolfe, "Nonparametric Statistical Methods", 1973, pages 29 and 69; the examples of R's
# wilcox.test. Depression before and after a tranquilizer, and the permeability of a membrane at two ages.
BEFORE = np.array([1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30])
AFTER = np.array([0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29])
TERM = np.array([0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46])
EARLY = np.array([1.15, 0.88, 0.90, 0.74, 1.21])


def test_the_signed_rank_test_gives_the_published_p_values() -> None:
    # R: V = 40, one-sided p = 0.01953.
    assert signed_rank_p_value(BEFORE - AFTER) == pytest.approx(2 * 0.01953, abs=1e-5)
    # Heights of Darwin's plants, in eighths of an inch (E. Cureton, 1967): T+ = 96, p = 0.04126.
    plants = np.array([6, 8, 14, 16, 23, 24, 28, 29, 41, -48, 49, 56, 60, -67, 75.0])
    assert signed_rank_p_value(plants) == pytest.approx(0.0412597656)
    # NAG's example of g08agc: W = 32 of eight pairs, p = 0.0547.
    first = np.array([82, 69, 73, 43, 58, 56, 76, 65.0])
    second = np.array([63, 42, 74, 37, 51, 43, 80, 62.0])
    assert signed_rank_p_value(first - second) == pytest.approx(0.0547, abs=5e-5)


def test_the_hodges_lehmann_estimates_are_the_published_ones() -> None:
    assert shift(BEFORE - AFTER) == pytest.approx(0.46)
    assert shift_between(TERM, EARLY) == pytest.approx(0.305)


def test_the_rank_sum_test_gives_the_published_p_values() -> None:
    # R: W = 35, one-sided p = 0.1272.
    assert rank_sum_p_value(TERM, EARLY) == pytest.approx(2 * 0.1272, abs=1e-4)
    # Blood pressures with ties, an example of StatXact in R's exactRankTests: one-sided p = 0.0542.
    treated = np.array([94, 108, 110, 90.0])
    control = np.array([80, 94, 85, 90, 90, 90, 108, 94, 78, 105, 88.0])
    assert rank_sum_p_value(treated, control) == pytest.approx(2 * 0.0542, abs=1e-4)


@pytest.mark.parametrize("n", [3, 5, 6, 13, 20, 50, 60])
def test_the_signed_rank_test_is_that_of_scipy(n: int) -> None:
    differences = np.random.default_rng(n).normal(0.3, 1, n)

    assert signed_rank_p_value(differences) == pytest.approx(float(scipy.stats.wilcoxon(differences).pvalue))


def test_ties_and_pairs_without_a_difference_are_exact_as_well() -> None:
    ties = np.array([1, 1, -1, 2, 2, 3, -3, 4.0])
    assert signed_rank_p_value(ties) == pytest.approx(float(scipy.stats.wilcoxon(ties).pvalue))
    # Pairs without a difference are left out.
    assert signed_rank_p_value(np.append(ties, [0, 0])) == signed_rank_p_value(ties)
    assert signed_rank_p_value(np.zeros(6)) == 1.0
    assert rank_sum_p_value(np.ones(4), np.ones(5)) == 1.0


def test_what_differs_by_rounding_alone_is_a_tie() -> None:
    exact = np.array([0.1, 0.1, 0.1, -0.1, 0.2])
    rounded = exact * np.array([1, 1 + 1e-15, 1 - 1e-15, 1 + 2e-15, 1])

    assert signed_rank_p_value(rounded) == signed_rank_p_value(exact)


def test_the_rank_sum_test_is_that_of_scipy() -> None:
    rng = np.random.default_rng(2)
    upper, lower = rng.normal(0.5, 1, 6), rng.normal(0, 1, 6)

    theirs = scipy.stats.mannwhitneyu(upper, lower, method="exact").pvalue
    assert rank_sum_p_value(upper, lower) == pytest.approx(float(theirs))


def test_holms_adjustment_gives_the_published_p_values() -> None:
    # The example of pingouin's multicomp.
    adjusted = holm([0.50, 0.003, 0.32, 0.054, 0.0003])

    assert adjusted == pytest.approx([0.64, 0.012, 0.64, 0.162, 0.0015])
    assert holm([]) == []
    assert holm([0.9, 0.8]) == [1.0, 1.0]


@pytest.mark.parametrize(("n", "smallest"), [(3, 0.25), (5, 0.0625), (6, 0.03125), (10, 0.001953125)])
def test_no_p_value_is_smaller_than_that_of_seeds_that_all_agree(n: int, smallest: float) -> None:
    assert smallest_p_value(n) == smallest
    assert signed_rank_p_value(np.arange(1.0, n + 1)) == smallest


def comparison(ratio: Ratio, better: Better = "higher") -> Comparison:
    return Comparison("oltp", "xfs", "ext4", MetricKind("x", "1", better, headline=True), ratio)


def test_comparisons_made_together_get_p_values_for_all_of_them() -> None:
    base = {seed: 100.0 + seed for seed in range(6)}
    ratios = [
        compare(Series({seed: value * factor**power for seed, value in base.items()}), Series(base))
        for factor, power in ((1.5, 1), (1.0, 1))
    ]
    assert all(ratios)

    few = Ratio(2, 1.2, None)
    found = together([comparison(each) for each in (*ratios, few) if each is not None])

    assert [each.p_value for each in found] == [0.03125, 1.0, None]
    assert [each.p_value_holm for each in found] == [0.0625, 1.0, None]


@pytest.mark.parametrize(
    ("values", "better", "verdict"),
    [
        ((101, 100, 99, 100, 101, 99), "higher", "equal"),
        ((110, 111, 112, 110, 111, 112), "higher", "better"),
        ((110, 111, 112, 110, 111, 112), "lower", "worse"),
        ((90, 91, 92, 90, 91, 92), "lower", "better"),
        ((100, 103, 108, 99, 104, 107), "higher", "undecided"),
        ((150, 151), "higher", "too few seeds"),
    ],
)
def test_the_verdict_regards_a_zone_of_three_percent(
    values: tuple[float, ...], better: Better, verdict: str
) -> None:
    ratio = compare(Series(dict(enumerate(values))), Series(dict.fromkeys(range(len(values)), 100.0)))

    assert ratio is not None
    assert comparison(ratio, better).verdict == verdict
