# SPDX-License-Identifier: Apache-2.0
"""Searches of a rate, on any response that rises with it: they end, and enclose the planted rate."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import cast

from hypothesis import given
from hypothesis import strategies as st

from strata.experiment.strategies.find import next_rate
from strata.model.find import RATE_MAX, Find
from strata.results.record import ResultRecord
from strata.results.search import RateProbe, Search

BELOW_NS = 5_000_000
NO_RECORD = cast("ResultRecord", None)

RATES = st.integers(1, RATE_MAX)
WITHIN = st.sampled_from([0.01, 0.05, 0.2, 1.0])


def searched(keeps: Callable[[int], float], find: Find, begin: float, step: float) -> Search:
    """Probe until the search has ended; ``keeps`` gives the metric at a rate, in ns."""
    search = Search(find, ())
    while (rate := next_rate(search, begin, step)) is not None:
        assert 1 <= rate <= RATE_MAX
        assert rate not in [each.rate for each in search.probes], "a rate is tried once"
        value = keeps(rate)
        probe = RateProbe(rate, NO_RECORD, value, float(rate), value <= BELOW_NS)
        search = Search(find, tuple(sorted((*search.probes, probe), key=lambda each: each.rate)))
    assert search.is_ended
    return search


def find_within(within: float) -> Find:
    return Find(metric="latency_ns_p99", below_ns="5ms", within=f"{within * 100}%")


@given(planted=st.floats(0.5, 2.0 * RATE_MAX), begin=RATES, step=st.floats(0.01, 1.0), within=WITHIN)
def test_the_planted_rate_lies_between_what_kept_and_what_missed(
    planted: float, begin: int, step: float, within: float
) -> None:
    search = searched(lambda rate: BELOW_NS * (rate / planted) ** 3, find_within(within), begin, step)

    if planted < 1:
        assert search.rate_per_s is None
        return
    assert search.kept is not None
    assert search.kept.rate <= planted
    if planted >= RATE_MAX:
        assert search.rate_per_s == RATE_MAX
        return
    assert search.missed is not None
    assert planted < search.missed.rate <= max(search.kept.rate * (1 + within), search.kept.rate + 1)
    assert search.rate_per_s is not None
    assert math.isclose(search.rate_per_s, planted, rel_tol=1e-6), "a power of the rate is met exactly"


@given(planted=RATES, begin=RATES, within=WITHIN)
def test_a_cliff_is_found_in_few_probes(planted: int, begin: int, within: float) -> None:
    search = searched(lambda rate: 1.0 if rate <= planted else 1e12, find_within(within), begin, step=1.0)

    doublings = abs(math.log2(planted / begin)) + 2
    halvings = math.log2(math.log(2) / math.log(1 + within)) + 2
    assert len(search.probes) <= doublings + halvings


@given(rate=RATES, near=st.floats(0.9, 1.1), within=st.sampled_from([0.02, 0.05]))
def test_a_neighbour_s_rate_is_found_in_fewer(rate: int, near: float, within: float) -> None:
    planted = max(rate * near, 1.0)
    search = searched(lambda each: 1.0 if each <= planted else 1e12, find_within(within), rate, within)

    assert len(search.probes) <= 9
