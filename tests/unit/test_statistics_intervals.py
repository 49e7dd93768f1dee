# SPDX-License-Identifier: Apache-2.0
"""Intervals and the bootstrap against scipy, published examples and simulation."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
import scipy

from present import present
from strata.statistics.comparison import compare
from strata.statistics.interval import (
    Floats,
    adjusted,
    skewness_of_mean,
    standard_error,
)
from strata.statistics.level import (
    Distribution,
    MeanLevel,
    Method,
    Positions,
    interval_between,
    interval_of,
    resamples,
)
from strata.statistics.selftest import SHAPES, interval_of_means
from strata.statistics.summary import Series, summarize

# Efron and Tibshirani, "An Introduction to the Bootstrap", table 2.1: days that seven mice survived.
MICE = np.array([94.0, 197.0, 16.0, 38.0, 99.0, 141.0, 23.0])


def series(*values: float) -> Series:
    return Series(dict(enumerate(values, start=1)))


def test_all_resamples_of_few_seeds_make_the_published_ideal_bootstrap() -> None:
    # The same book, table 2.2, the column of infinitely many draws: 23.36 for the mean, 37.83 for the median.
    drawn = resamples(7)

    assert drawn.exact
    assert drawn.shares.sum() == pytest.approx(1)
    assert drawn.deviation(MICE[drawn.positions].mean(axis=1)) == pytest.approx(23.36, abs=0.005)
    assert drawn.deviation(np.median(MICE[drawn.positions], axis=1)) == pytest.approx(37.83, abs=0.005)


def test_the_interval_of_three_seeds_is_students_of_scipy() -> None:
    logs = np.log([100.0, 103.0, 98.0])
    theirs = scipy.stats.ttest_1samp(logs, 0).confidence_interval()

    found = present(summarize(series(100, 103, 98)).interval)

    assert [found.low, found.high] == pytest.approx([math.exp(theirs.low), math.exp(theirs.high)])
    assert found.method == "Student's t"


def test_a_percentile_rounds_its_place_among_the_values_as_hdrhistogram_does() -> None:
    values = Distribution(np.array([1.0, 2.0, 3.0]), np.array([[1, 1, 1]]))

    found = [values.percentile(percentile, np.array([1])) for percentile in (0, 49, 50, 83, 84, 100)]

    assert found == [1, 1, 2, 2, 3, 3]


def test_the_range_for_another_seed_is_that_of_scipys_t() -> None:
    logs = np.log([100.0, 103.0, 98.0, 101.0])
    # The difference of a new value from the mean of n has the variance of a value times 1 + 1/n.
    reach = logs.std(ddof=1) * math.sqrt(1 + 1 / 4)
    theirs = scipy.stats.t.interval(0.95, 3, loc=logs.mean(), scale=reach)

    found = present(summarize(series(100, 103, 98, 101)).prediction)

    assert [found.low, found.high] == pytest.approx(np.exp(theirs))
    assert summarize(series(100, 103)).prediction is None
    assert summarize(series(0, 3, 4)).prediction is None


def test_without_skewness_the_interval_of_many_seeds_is_students() -> None:
    values = np.exp([-0.03, -0.02, -0.01, 0.01, 0.02, 0.03])
    theirs = scipy.stats.ttest_1samp(np.log(values), 0).confidence_interval()

    found = present(interval_of(6, MeanLevel(values)))

    assert [found.low, found.high] == pytest.approx([math.exp(theirs.low), math.exp(theirs.high)], rel=1e-6)


def test_the_interval_reaches_further_to_where_the_long_tail_lies() -> None:
    found = summarize(series(100, 101, 102, 103, 104, 140))
    log = math.log(found.estimate)

    assert math.log(present(found.interval).high) - log > 1.2 * (log - math.log(present(found.interval).low))


def test_the_interval_covers_what_it_says() -> None:
    """Of 20 000 samples of one seed; by `python -m bench.coverage` the other methods cover less or more."""
    for n, shape in [(n, shape) for n in (6, 10, 20) for shape in SHAPES]:
        known = SHAPES[shape]
        low, high = interval_of_means(known.draw(np.random.default_rng(11), (20_000, n)))
        covered = float(((low <= known.mean) & (known.mean <= high)).mean())
        # A distribution without tails is covered a little too well: 97.1 % of ten.
        assert 0.93 <= covered <= (0.975 if shape == "uniform" else 0.97)


def test_many_intervals_at_once_are_what_each_is_alone() -> None:
    for n in (3, 4, 5, 9):
        logs = np.random.default_rng(5).normal(0, 0.1, (20, n))
        low, high = interval_of_means(logs)
        for row, *ends in zip(logs, low, high, strict=True):
            alone = present(interval_of(n, MeanLevel(np.exp(row))))
            assert [math.log(alone.low), math.log(alone.high)] == pytest.approx(ends, rel=1e-9, abs=1e-12)


def test_a_seed_far_off_widens_the_interval_and_is_no_error() -> None:
    values = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 1.0])

    low, high = adjusted(values.mean(), standard_error(values), skewness_of_mean(values), 5)

    assert low < 0
    assert 0.5 < high < 10


def test_equal_ratios_give_that_ratio_and_an_interval_of_no_width() -> None:
    for factor in (1.0, 2.0, 1 / 3, 1.05):
        for n in (3, 4, 6, 20):
            values = {seed: 100.0 * 1.7**seed for seed in range(n)}

            with warnings.catch_warnings():
                warnings.simplefilter("error")
                ratio = compare(
                    Series({seed: factor * value for seed, value in values.items()}), Series(values)
                )

            assert ratio is not None
            assert ratio.interval is not None
            if factor in (1.0, 2.0):
                assert (ratio.ratio, ratio.interval.low, ratio.interval.high, ratio.shift) == (factor,) * 4
            else:  # the products are rounded
                assert ratio.interval.low == ratio.interval.high == ratio.ratio
                assert ratio.ratio == pytest.approx(factor, rel=1e-12)


def distribution(factors: np.ndarray, latencies: int = 2000) -> Distribution:
    bounds = np.geomspace(1, 1e6, 2000)
    rng = np.random.default_rng(8)
    each = [
        np.bincount(np.searchsorted(bounds, 1000 * factor * rng.gamma(2, 1, latencies)), minlength=2000)
        for factor in factors
    ]
    return Distribution(bounds, np.array(each))


class Merged:
    """A mean that passes for a merged percentile."""

    method: Method = "merged histogram"

    def __init__(self, values: np.ndarray) -> None:
        self._mean = MeanLevel(values)

    def at(self, positions: Positions) -> Floats:
        return self._mean.at(positions)


def test_where_both_can_be_known_the_bootstrap_gives_the_interval_of_the_values() -> None:
    for n in (4, 6, 7):
        values = np.random.default_rng(n).lognormal(0, 0.2, n)
        plain, bootstrapped = interval_of(n, MeanLevel(values)), interval_of(n, Merged(values))
        assert [present(bootstrapped).low, present(bootstrapped).high] == pytest.approx(
            [present(plain).low, present(plain).high], rel=1e-9
        )


def test_without_pairs_the_interval_is_welchs_of_scipy_but_for_the_skewness() -> None:
    upper, lower = np.array([0.3, 0.31, 0.32, 0.29, 0.28]), np.array([0.1, 0.2, 0.0, 0.15, 0.05, 0.1, 0.1])
    theirs = scipy.stats.ttest_ind(upper, lower, equal_var=False).confidence_interval()

    found = present(interval_between((5, MeanLevel(np.exp(upper))), (7, MeanLevel(np.exp(lower)))))

    assert [math.log(found.low), math.log(found.high)] == pytest.approx([theirs.low, theirs.high], rel=1e-6)


def test_equal_values_without_pairs_have_an_interval_of_no_width() -> None:
    ratio = present(compare(Series({1: 4.0, 2: 4.0, 3: 4.0}), Series({4: 2.0, 5: 2.0, 6: 2.0, 7: 2.0})))

    assert (ratio.ratio, present(ratio.interval).low, present(ratio.interval).high, ratio.paired) == (
        2.0,
        2.0,
        2.0,
        False,
    )


def test_without_pairs_intervals_cover_about_what_they_say() -> None:
    rng = np.random.default_rng(4)
    held = 0
    for _ in range(1500):
        sides = [(8, MeanLevel(np.exp(0.1 * rng.exponential(1, 8)))) for _ in range(2)]
        found = interval_between(*sides)
        held += found is not None and found.low <= 1 <= found.high

    assert 0.93 <= held / 1500 <= 0.97
