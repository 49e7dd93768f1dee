# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.spec.steadiness import steadiness

rates = st.floats(min_value=1.0, max_value=1e6)


@given(rounds=st.lists(rates, min_size=5, max_size=5), each=st.integers(1, 30))
def test_the_rule_is_snias(rounds: list[float], each: int) -> None:
    judged = steadiness([rate for rate in rounds for _ in range(each)])

    assert judged is not None
    mean = np.mean(rounds)
    slope = np.polyfit(range(5), rounds, 1)[0]
    assert judged.rounds == pytest.approx(rounds)
    assert judged.excursion == pytest.approx((max(rounds) - min(rounds)) / mean)
    assert judged.drift == pytest.approx(slope * 4 / mean, abs=1e-9)
    excursion, drift = (max(rounds) - min(rounds)) / mean, abs(slope * 4) / mean
    if abs(excursion - 0.2) > 1e-9 and abs(drift - 0.1) > 1e-9:
        assert judged.is_steady == (excursion <= 0.2 and drift <= 0.1)


@given(st.lists(rates, min_size=5, max_size=200))
def test_no_interval_is_lost_whatever_their_number(values: list[float]) -> None:
    judged = steadiness(values)

    assert judged is not None
    assert np.mean(judged.rounds) == pytest.approx(np.mean(values))
    assert min(values) * 0.999999 <= min(judged.rounds)
    assert max(judged.rounds) <= max(values) * 1.000001


@pytest.mark.parametrize("values", [[], [1.0] * 4, [0.0] * 20])
def test_too_few_intervals_and_an_idle_window_have_no_verdict(values: list[float]) -> None:
    assert steadiness(values) is None


def test_a_rise_of_a_tenth_over_the_window_is_the_most_that_is_steady() -> None:
    steady = steadiness([100, 102.4, 104.9, 107.3, 109.8])
    rising = steadiness([100, 103, 106, 109, 112])

    assert steady is not None
    assert steady.is_steady
    assert rising is not None
    assert not rising.is_steady
    assert rising.excursion < 0.2


def test_one_round_that_falls_out_is_not_steady() -> None:
    judged = steadiness([100, 100, 78, 100, 100])

    assert judged is not None
    assert abs(judged.drift) < 0.1
    assert not judged.is_steady
