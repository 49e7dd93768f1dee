# SPDX-License-Identifier: Apache-2.0
"""Verdicts, and the intervals of several stacks together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy

from present import present
from strata.model.metric import Better
from strata.statistics.comparison import (
    CellSeries,
    Comparison,
    MetricKind,
    compare,
    family_over,
    judge,
    shift,
    shift_between,
)
from strata.statistics.family import range_quantile
from strata.statistics.selftest import against_best
from strata.statistics.summary import Series

# M. Hollander, D. Wolfe, "Nonparametric Statistical Methods", 1973, pages 29 and 69; the examples of R's
# wilcox.test. Depression before and after a tranquilizer, and the permeability of a membrane at two ages.
BEFORE = np.array([1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30])
AFTER = np.array([0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29])
TERM = np.array([0.80, 0.83, 1.89, 1.04, 1.45, 1.38, 1.91, 1.64, 0.73, 1.46])
EARLY = np.array([1.15, 0.88, 0.90, 0.74, 1.21])


def test_the_hodges_lehmann_estimates_are_the_published_ones() -> None:
    assert shift(BEFORE - AFTER) == pytest.approx(0.46)
    assert shift_between(TERM, EARLY) == pytest.approx(0.305)


def judged(
    upper: Series, lower: Series, better: Better = "higher", *, unranked: str = "", doubt: str = ""
) -> Comparison:
    kind = MetricKind("x", "1", better, headline=True)
    of_xfs = CellSeries("oltp", "xfs", upper, unranked=unranked, doubt=doubt)
    return present(judge(kind, of_xfs, CellSeries("oltp", "ext4", lower)))


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
    level = Series(dict.fromkeys(range(len(values)), 100.0))

    assert judged(Series(dict(enumerate(values))), level, better).verdict == verdict


def series(logs: np.ndarray) -> list[Series]:
    return [Series(dict(enumerate(row))) for row in np.exp(logs).tolist()]


def test_the_quantile_of_many_stacks_is_tukeys() -> None:
    # E. Pearson, H. Hartley, "Biometrika Tables for Statisticians" 1, table 29.
    assert range_quantile(3, 10, 0.95) * np.sqrt(2) == pytest.approx(3.88, abs=0.005)
    assert range_quantile(10, 20, 0.95) * np.sqrt(2) == pytest.approx(5.01, abs=0.005)
    assert range_quantile(2, 5, 0.95) == pytest.approx(scipy.stats.t.ppf(0.975, 5))


def test_stacks_that_scatter_alike_share_their_variance() -> None:
    logs = np.random.default_rng(5).normal(0, 0.05, (8, 6))
    found = present(family_over(series(logs)))

    assert found.freedom == np.inf
    residuals = logs - logs.mean(axis=1, keepdims=True) - logs.mean(axis=0) + logs.mean()
    assert found.variance == pytest.approx(2 * (residuals**2).sum() / 35), (
        "the residuals of the two-way layout"
    )
    # R's TukeyHSD(aov(log ~ stack + seed)): of 35 degrees of freedom, q is 4.52 (here rounded down to 35).
    assert found.reach(1.0, 6, 0.95) == pytest.approx(
        range_quantile(8, 35, 0.95) * np.sqrt(found.variance / 6)
    )


def test_one_stack_that_scatters_much_is_not_taken_for_as_sure_as_the_others() -> None:
    logs = np.random.default_rng(4).normal(0, 0.01, (8, 6))
    logs[0] *= 30
    found, each = family_over(series(logs)), series(logs)

    assert present(found).freedom < 10
    wide, narrow = (compare(each[at], each[1], present(found)) for at in (0, 2))
    assert wide is not None
    assert narrow is not None
    assert (
        present(wide.interval).high / present(wide.interval).low
        > 2 * present(narrow.interval).high / present(narrow.interval).low
    )


def test_two_stacks_with_the_same_numbers_are_exactly_equal_among_others() -> None:
    logs = np.random.default_rng(5).normal(0, 0.05, (3, 6))
    each = series(np.vstack([logs, logs[:1]]))
    found = family_over(each)
    ratio = present(compare(each[0], each[3], found))

    assert present(found).stacks == 3
    assert (ratio.ratio, present(ratio.interval).low, present(ratio.interval).high) == (1.0, 1.0, 1.0)


@pytest.mark.parametrize(("stacks", "seeds"), [(2, 3), (2, 6), (3, 3), (5, 6)])
def test_the_selftest_judges_as_reports_do(stacks: int, seeds: int) -> None:
    logs = np.random.default_rng(stacks).normal(0, 0.05, (stacks, seeds))
    each = series(logs)
    best, low, high = against_best(logs)

    for at in range(stacks):
        ratio = present(compare(each[at], each[best], family_over(each)))
        assert np.log([present(ratio.interval).low, present(ratio.interval).high]) == pytest.approx(
            [low[at], high[at]]
        )


def test_seeds_that_are_all_alike_give_no_interval_and_no_verdict() -> None:
    slow, fast = Series(dict.fromkeys(range(6), 100.0)), Series(dict.fromkeys(range(6), 104.0))

    assert judged(fast, slow).ratio.interval is None
    assert judged(fast, slow).verdict == "too few seeds"
    assert judged(slow, slow).verdict == "equal"


def test_what_is_precise_and_lies_on_the_zones_edge_is_marginal() -> None:
    edge = Series({seed: 103 + 0.4 * (-1) ** seed for seed in range(6)})

    assert judged(edge, Series(dict.fromkeys(range(6), 100.0))).verdict == "marginal"


def test_what_is_said_of_doubtful_numbers_is_doubtful() -> None:
    values, level = Series({seed: 150.0 + seed for seed in range(6)}), Series(dict.fromkeys(range(6), 100.0))

    assert judged(values, level).verdict == "better"
    assert judged(values, level, doubt="xfs: not steady").verdict == "doubtful"
    assert judged(values, level, unranked="idle").verdict == "not ranked"
    assert judged(level, level, doubt="xfs: not steady").verdict == "equal"


def test_the_zone_reaches_as_far_down_as_up_so_that_a_verdict_turned_round_is_the_opposite() -> None:
    lower = Series({seed: 100.0 + seed for seed in range(6)})
    for ratio, verdict, turned in ((0.9705, "worse", "better"), (0.972, "equal", "equal")):
        upper = Series({seed: ratio * value for seed, value in lower.values.items()})

        assert (judged(upper, lower).verdict, judged(lower, upper).verdict) == (verdict, turned)


def test_the_reasons_and_the_precision_of_either_side_count() -> None:
    kind = MetricKind("x", "1", "higher", headline=True)
    values, level = Series({seed: 150.0 + seed for seed in range(6)}), Series(dict.fromkeys(range(6), 100.0))
    sound = CellSeries("oltp", "ext4", level), CellSeries("oltp", "xfs", values)
    for at in (0, 1):
        sides = [*sound]
        sides[at] = replace(sides[at], unranked="idle", doubt="not steady", precision=0.001)
        found = present(judge(kind, *sides))

        assert (found.unranked, found.doubt, found.precision) == ("idle", "not steady", 0.001), at
