# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from present import present
from strata.model.steadiness import Steadiness, steadiness, transient_intervals

rates = st.floats(min_value=1.0, max_value=1e6)


@given(rounds=st.lists(rates, min_size=5, max_size=5), each=st.integers(1, 30))
def test_the_rule_is_snias(rounds: list[float], each: int) -> None:
    judged = present(steadiness([rate for rate in rounds for _ in range(each)]))

    mean = np.mean(rounds)
    slope = np.polyfit(range(5), rounds, 1)[0]
    assert judged.rounds == pytest.approx(rounds)
    assert judged.excursion == pytest.approx((max(rounds) - min(rounds)) / mean)
    assert judged.drift == pytest.approx(slope * 4 / mean, abs=1e-9)
    excursion, drift = (max(rounds) - min(rounds)) / mean, abs(slope * 4) / mean
    if abs(excursion - 0.2) > 1e-9 and abs(drift - 0.1) > 1e-9:
        assert judged.is_steady == (excursion <= 0.2 and drift <= 0.1)


@given(st.lists(rates, min_size=5, max_size=200))
def test_no_interval_is_lost_at_any_number_of_them(values: list[float]) -> None:
    judged = present(steadiness(values))

    assert np.mean(judged.rounds) == pytest.approx(np.mean(values))
    assert min(values) * 0.999999 <= min(judged.rounds)
    assert max(judged.rounds) <= max(values) * 1.000001


@pytest.mark.parametrize("values", [[], [1.0] * 4, [0.0] * 20])
def test_too_few_intervals_and_an_idle_window_have_no_verdict(values: list[float]) -> None:
    assert steadiness(values) is None


def windows(count: int, seconds: int, *, scatter: float, correlation: float = 0.0) -> Iterator[Steadiness]:
    """Stationary windows of noise, by seeded draws."""
    rng = np.random.default_rng(20_260_101)
    noise = rng.standard_normal((count, seconds + 50))
    for at in range(1, seconds + 50):
        noise[:, at] += correlation * noise[:, at - 1]
    for row in noise[:, 50:] * scatter * np.sqrt(1 - correlation**2):
        found = present(steadiness((1 + row).tolist()))
        yield found


@pytest.mark.parametrize("seconds", [5, 10, 60])
@pytest.mark.parametrize("correlation", [0.0, 0.7])
@pytest.mark.parametrize("scatter", [0.02, 0.1])
def test_stationary_noise_is_hardly_ever_called_not_steady(
    seconds: int, correlation: float, scatter: float
) -> None:
    found = [each.verdict for each in windows(600, seconds, scatter=scatter, correlation=correlation)]

    assert found.count("no") <= 0.07 * len(found), "5 %, and three standard errors"


def test_a_fall_of_a_tenth_is_found_where_the_noise_allows_and_never_passes() -> None:
    rng = np.random.default_rng(4)
    fall = 1.05 - 0.1 * np.arange(60) / 59
    by_noise = {
        scatter: [steadiness((fall * (1 + scatter * rng.standard_normal(60))).tolist()) for _ in range(200)]
        for scatter in (0.02, 0.1)
    }
    found = {scatter: [each and each.verdict for each in every] for scatter, every in by_noise.items()}

    assert found[0.02].count("no") >= 195
    assert found[0.1].count("unknown") > 100, "it says that it cannot know"
    assert "yes" not in (*found[0.02], *found[0.1])


def test_a_slow_beginning_is_not_steady() -> None:
    rng = np.random.default_rng(5)
    found = present(
        steadiness((np.repeat([0.5, 1, 1, 1, 1], 12) * (1 + 0.02 * rng.standard_normal(60))).tolist())
    )

    assert found.verdict == "no"


def test_a_quiet_window_is_steady_and_says_what_its_scatter_could_hide() -> None:
    found = list(windows(200, 60, scatter=0.005))

    assert all(each.verdict == "yes" for each in found)
    assert all(each.hidden <= 0.03 for each in found)


def by_definition(means: list[float]) -> int:
    """The truncation point of the rule as it is published, over every tail of five values at least."""
    count = len(means)
    statistics = [
        sum((each - float(np.mean(means[at:]))) ** 2 for each in means[at:]) / (count - at) ** 2
        for at in range(count - 4)
    ]
    return statistics.index(min(statistics))


@given(values=st.lists(st.integers(1, 1000), min_size=10, max_size=49))
def test_the_transient_ends_where_the_mean_of_the_rest_is_most_sure(values: list[int]) -> None:
    means = [float(each) for each in values]
    at = by_definition(means)

    found = transient_intervals(means)

    assert found == (at if at <= len(means) // 2 else None)


@given(
    transient=st.integers(0, 8),
    level=st.floats(0.1, 0.5),
    ripple=st.floats(0.001, 0.01),
    steady=st.integers(20, 40),
    scale=st.floats(1, 1e6),
)
def test_a_slow_beginning_is_found_to_its_batch_in_any_unit(
    transient: int, level: float, ripple: float, steady: int, scale: float
) -> None:
    batches = [level] * transient + [1 + ripple * (-1) ** each for each in range(steady)]

    rates = [scale * each for each in batches for _ in range(5)]

    assert transient_intervals(rates) == 5 * transient


def test_a_window_that_climbs_to_its_end_is_too_short_to_tell() -> None:
    assert transient_intervals([float(each) for each in range(1, 41)]) is None
    assert transient_intervals([1.0] * 9) is None
