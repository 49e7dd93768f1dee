# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from strata.statistics.comparison import compare
from strata.statistics.summary import Series, summarize

values = st.lists(st.floats(0.001, 1e9), min_size=3, max_size=8)


def series(sample: list[float]) -> Series:
    return Series(dict(enumerate(sample)))


@given(values)
@settings(max_examples=30, deadline=None)
def test_the_same_values_give_the_same_interval(sample: list[float]) -> None:
    assert summarize(series(sample)) == summarize(series(sample))


@given(values)
@settings(max_examples=30, deadline=None)
def test_the_estimate_lies_within_the_interval_and_between_the_extremes(sample: list[float]) -> None:
    summary = summarize(series(sample))
    assert (summary.interval is None) == (len(set(sample)) == 1)
    if summary.interval is None:
        return

    slack = 1e-9
    low, high = min(sample) * (1 - slack), max(sample) * (1 + slack)
    assert summary.interval.low * (1 - slack) <= summary.estimate <= summary.interval.high * (1 + slack)
    assert low <= summary.estimate <= high


@given(values, st.floats(0.01, 100))
@settings(max_examples=30, deadline=None)
def test_a_constant_factor_is_found_exactly_however_the_seeds_vary(
    sample: list[float], factor: float
) -> None:
    ratio = compare(series([factor * value for value in sample]), series(sample))
    assert ratio is not None
    assert ratio.interval is not None

    for found in (ratio.ratio, ratio.interval.low, ratio.interval.high):
        assert math.isclose(found, factor, rel_tol=1e-9)


@given(values, st.data())
@settings(max_examples=30, deadline=None)
def test_a_ratio_turned_round_is_the_inverse(sample: list[float], data: st.DataObject) -> None:
    size = len(sample)
    other = data.draw(st.lists(st.floats(0.001, 1e9), min_size=size, max_size=size))
    forth, back = compare(series(sample), series(other)), compare(series(other), series(sample))
    assert forth is not None
    assert back is not None

    assert math.isclose(forth.ratio * back.ratio, 1, rel_tol=1e-9)
    assert forth.interval is not None
    assert back.interval is not None
    for left, right in ((forth.interval.low, back.interval.high), (forth.interval.high, back.interval.low)):
        # The bounds of a very wide interval are cut off at a maximum.
        assert math.isclose(left * right, 1, rel_tol=1e-6) or max(left, right) > 1e300


@given(st.permutations([(1, 10.0), (2, 20.0), (3, 40.0), (4, 45.0)]))
@settings(deadline=None)
def test_the_order_in_which_results_are_read_does_not_matter(pairs: list[tuple[int, float]]) -> None:
    assert summarize(Series(dict(pairs))) == summarize(Series({1: 10.0, 2: 20.0, 3: 40.0, 4: 45.0}))


@given(values, st.lists(st.floats(0.001, 1e9), min_size=3, max_size=8))
@settings(max_examples=15, deadline=None)
def test_a_ratio_without_pairs_turned_round_is_the_inverse(upper: list[float], lower: list[float]) -> None:
    one, other = series(upper), Series({100 + at: value for at, value in enumerate(lower)})
    forth, back = compare(one, other), compare(other, one)
    assert forth is not None
    assert back is not None
    assert forth.interval is not None
    assert back.interval is not None

    assert not forth.paired
    assert math.isclose(forth.ratio * back.ratio, 1, rel_tol=1e-9)
    wide = max(forth.interval.high, back.interval.high) > 1e300
    assert wide or math.isclose(forth.interval.low * back.interval.high, 1, rel_tol=1e-6)
