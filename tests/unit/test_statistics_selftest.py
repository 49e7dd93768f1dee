# SPDX-License-Identifier: Apache-2.0
"""The method tried out on a stack against itself, and the rule that stops on precision."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from made_results import made_results
from strata.statistics.interval import half_width
from strata.statistics.selftest import (
    SHAPES,
    Rate,
    best_of,
    synthetic_best_of,
)
from strata.statistics.study import gather
from strata.statistics.summary import outliers


def values(count: int, spread: float = 0.02) -> dict[int, float]:
    return dict(enumerate(np.exp(spread * np.random.default_rng(9).standard_normal(count)).tolist()))


def test_the_best_of_stacks_that_are_alike_is_better_by_chance_in_one_of_twenty_studies_at_most() -> None:
    for shape in SHAPES:
        for stacks in (2, 8):
            found = synthetic_best_of(shape, 6, stacks, studies=200, spread=0.05)
            assert found.by_interval.interval[0] <= 0.05
            assert found.by_verdict.interval[0] <= 0.01


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [3, 6])
@pytest.mark.parametrize("spread", [0.05, 0.1])
def test_of_44_alike_stacks_under_six_workloads_hardly_a_study_has_a_false_verdict(
    seeds: int, spread: float
) -> None:
    found = synthetic_best_of("normal", seeds, 44, 6, spread=spread)

    assert found.by_verdict.share <= 0.05
    assert found.by_interval.interval[0] <= 0.05


def test_intervals_of_unequal_stacks_hold_together() -> None:
    """One stack scatters five times as much as the seven others, or half of them four times as much."""
    for spreads in ([0.25, *[0.05] * 7], [0.2] * 4 + [0.05] * 4):
        found = synthetic_best_of("normal", 6, 8, studies=400, spreads=spreads)
        assert found.by_interval.interval[0] <= 0.05


def test_values_of_one_stack_make_studies_of_many() -> None:
    found = best_of(values(40), n=6, studies=300)

    assert found.by_interval.interval[0] <= 0.05
    assert found.by_verdict.share < 0.01, "2 % of noise is hardly ever taken for more than 3 %"
    assert found == best_of(values(40), n=6, studies=300)
    assert best_of(values(40), n=6, stacks=20, studies=50).by_verdict.share <= 0.05


def test_what_cannot_be_split_is_refused() -> None:
    bad: dict[int, float]
    for bad in (values(11), {**values(12), 3: 0.0}):
        with pytest.raises(ValueError, match=r"cannot be split|not positive"):
            best_of(bad, n=6)


def test_a_rate_knows_how_sure_it_is() -> None:
    # Wilson's interval of 81 of 263 is 0.2553 to 0.3662 (R. Newcombe, Statistics in Medicine 17, 1998).
    assert Rate(81, 263).interval == pytest.approx((0.2553, 0.3662), abs=5e-5)


def test_cells_that_are_not_precise_enough_are_named_with_the_best_of_their_workload(tmp_path: Path) -> None:
    sure = gather(made_results(tmp_path / "sure", stacks=3, workloads=1, seeds=6, spread=0.001))
    unsure = gather(made_results(tmp_path / "unsure", stacks=3, workloads=1, seeds=6, spread=0.2))
    few = gather(made_results(tmp_path / "few", stacks=3, workloads=1, seeds=5, spread=0.001))

    assert sure.unconverged() == {}
    assert len(unsure.unconverged()) == 3
    assert all(0.015 < width < math.inf for width in unsure.unconverged().values())
    assert set(few.unconverged().values()) == {math.inf}
    assert unsure.unconverged(target=10.0) == {}
    cell, *others = unsure.unconverged()
    snapshot = unsure.snapshot.model_copy(update={"skipped": {cell: "it does not fit"}})
    assert [*replace(unsure, snapshot=snapshot).unconverged()] == others


def test_a_study_of_one_stack_is_judged_by_its_own_mean(tmp_path: Path) -> None:
    results = gather(made_results(tmp_path / "one", stacks=1, workloads=1, seeds=6, spread=0.2))
    (workload,) = results.workloads
    own = results.summaries(workload, results.metrics(workload)[0].name)[results.stacks[0]]

    assert results.unconverged() == {(results.stacks[0], workload): half_width(own.interval)}


def test_what_is_far_off_by_less_than_matters_is_no_outlier() -> None:
    assert outliers({1: 100.0, 2: 100.0, 3: 100.0, 4: 100.0, 5: 100.0, 6: 102.9}) == ()
    (found,) = outliers({1: 100.0, 2: 100.0, 3: 100.0, 4: 100.0, 5: 100.0, 6: 104.0})
    assert found.seed == 6
    # The one that is far does not make the other one an outlier.
    (found,) = outliers({1: 100.0, 2: 100.0, 3: 100.0, 4: 100.0, 5: 100.0, 6: 102.9, 7: 150.0})
    assert found.seed == 7


def test_normal_values_are_rarely_labelled() -> None:
    rng = np.random.default_rng(6)
    labelled = sum(bool(outliers(dict(enumerate(row)))) for row in np.exp(rng.normal(0, 0.1, (2000, 6))))

    assert labelled < 0.02 * 2000
