# SPDX-License-Identifier: Apache-2.0
"""Verdicts on claims about any values: they say no more than the intervals, and no less."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from advice_studies import study
from strata.model.metric import Better
from strata.reading.claims import Claim
from strata.statistics.claims import ClaimFinding, judge, results_subject
from strata.statistics.interval import PRACTICAL_ZONE
from strata.statistics.study import StudyResults

VALUE = st.integers(min_value=50, max_value=300).map(float)
RATIO = st.floats(min_value=0.2, max_value=5)


@st.composite
def any_results(draw: st.DrawFn) -> StudyResults:
    seeds = draw(st.integers(min_value=1, max_value=7))
    values = st.lists(VALUE, min_size=seeds, max_size=seeds)
    stacks = draw(st.sampled_from(["ab", "abc"]))
    better: Better = draw(st.sampled_from(("higher", "lower")))
    return study({stack: {"mail": draw(values)} for stack in stacks}, better=better)


def finding(results: StudyResults, **expect: object) -> ClaimFinding:
    tested = {"workload": "mail", "metric": "operations_per_s", **expect}
    claim = Claim.model_validate({"id": "it", "claim": "It is so.", "source": "a test", "expect": [tested]})
    [judged] = judge([claim], results, results_subject(results, {}))
    [found] = judged.findings
    assert judged.verdict == found.verdict
    return found


@given(any_results(), RATIO, RATIO)
def test_a_verdict_on_a_ratio_is_what_the_interval_allows(
    results: StudyResults, one: float, other: float
) -> None:
    low, high = sorted((one, other))

    found = finding(results, stack="a", against="b", ratio=[low, high])

    interval, verdict = found.interval, found.verdict
    assert (verdict == "undecided") == bool(found.why)
    if interval is None:
        assert verdict == "undecided"
        return
    within = interval.low <= high and low <= interval.high
    above, below = low > 1 + PRACTICAL_ZONE, high < 1 / (1 + PRACTICAL_ZONE)
    if verdict == "reproduced":
        assert within
        assert not above or interval.low > 1
        assert not below or interval.high < 1
    if verdict == "direction only":
        assert not within
        assert (above and interval.low > 1) or (below and interval.high < 1)
    if verdict == "reversed":
        assert (above and interval.high < 1) or (below and interval.low > 1)
    if verdict == "not reproduced":
        assert not within


@given(any_results())
def test_of_opposite_claims_one_at_most_is_reproduced(results: StudyResults) -> None:
    verdicts = {
        direction: finding(results, stack="a", against="b", **{"is": direction}).verdict
        for direction in ("better", "equal", "worse")
    }

    assert [*verdicts.values()].count("reproduced") <= 1
    assert (verdicts["better"] == "reproduced") == (verdicts["worse"] == "reversed")
    assert (verdicts["better"] == "undecided") == (verdicts["worse"] == "undecided")
    if verdicts["equal"] == "reproduced":
        assert {verdicts["better"], verdicts["worse"]} == {"not reproduced"}


@given(any_results(), VALUE, VALUE)
def test_a_value_is_reproduced_only_if_its_whole_interval_is(
    results: StudyResults, one: float, other: float
) -> None:
    low, high = sorted((one, other))

    found = finding(results, stack="a", value=[low, high])

    ends = found.interval
    if found.verdict == "reproduced":
        assert ends is not None
        assert low <= ends.low <= ends.high <= high
    if found.verdict == "not reproduced":
        assert ends is not None
        assert ends.high < low or ends.low > high
