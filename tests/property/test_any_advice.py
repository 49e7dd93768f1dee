# SPDX-License-Identifier: Apache-2.0
"""Advice on any study: units, names, and a stack behind all others do not change it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from advice_studies import Values, study, use, weight
from strata.advice.advise import advise
from strata.advice.model import Advice
from strata.printable import plain

USE = use(weight("database", 3), weight("mail", 2))
LOADS = ("database", "mail")
STACKS = ("a", "b", "c")


def advice_on(values: Values, reference: str = "a") -> Advice:
    [advice] = advise(study(values, reference=reference), [USE], None)
    return advice


def order(advice: Advice) -> list[str]:
    return [each.stack for each in advice.standings]


def gains(advice: Advice) -> list[float]:
    return [each.score.gain for each in advice.standings if each.score is not None]


@st.composite
def any_values(draw: st.DrawFn) -> dict[str, dict[str, list[float]]]:
    """Stacks by workloads by seeds, no two quite alike; without any spread there is no interval."""
    seeds = draw(st.integers(min_value=3, max_value=7))
    value = st.integers(min_value=50, max_value=5000).map(lambda number: number / 10)
    drawn = st.lists(value, min_size=seeds, max_size=seeds).filter(lambda values: len({*values}) > 1)
    return {
        stack: {load: [each * (1 + index / 1e6) for each in draw(drawn)] for load in LOADS}
        for index, stack in enumerate(STACKS)
    }


@given(any_values(), st.sampled_from(LOADS), st.sampled_from([1e-3, 0.5, 3.0, 1e6]))
@settings(max_examples=25)
def test_another_unit_of_a_metric_changes_nothing(values: Values, load: str, factor: float) -> None:
    scaled = {
        stack: {
            name: [each * (factor if name == load else 1) for each in series] for name, series in by.items()
        }
        for stack, by in values.items()
    }

    before, after = advice_on(values), advice_on(scaled)

    assert order(after) == order(before)
    assert gains(after) == pytest.approx(gains(before))
    assert (after.conclusion, after.leaders) == (before.conclusion, before.leaders)


@given(any_values(), st.permutations(STACKS))
@settings(max_examples=25)
def test_other_names_of_the_stacks_are_all_that_changes(values: Values, names: Sequence[str]) -> None:
    called = dict(zip(STACKS, names, strict=True))
    renamed = {called[stack]: by for stack, by in values.items()}

    before, after = advice_on(values), advice_on(renamed, called["a"])

    assert order(after) == [called[stack] for stack in order(before)]
    assert gains(after) == gains(before)
    assert after.leaders == tuple(called[stack] for stack in before.leaders)


@given(any_values(), st.permutations(STACKS))
@settings(max_examples=25)
def test_the_order_in_which_a_study_names_its_stacks_does_not_matter(
    values: Values, names: Sequence[str]
) -> None:
    before, after = advice_on(values), advice_on({name: values[name] for name in names})

    assert order(after) == order(before)
    assert gains(after) == pytest.approx(gains(before))


@given(any_values(), st.floats(min_value=0.01, max_value=0.95))
@settings(max_examples=25)
def test_a_stack_that_is_worse_everywhere_does_not_change_who_leads(values: Values, share: float) -> None:
    worse = {
        load: [
            share * min(by[load][seed] for by in values.values()) for seed in range(len(values["a"][load]))
        ]
        for load in LOADS
    }

    before, after = advice_on(values), advice_on({"z": worse, **values})

    assert order(after)[0] == order(before)[0]
    assert order(after)[-1] == "z"
    assert [each for each in order(after) if each != "z"] == order(before)
    assert gains(after)[:-1] == pytest.approx(gains(before))


@given(any_values())
@settings(max_examples=10)
def test_the_same_results_give_the_same_advice_to_the_last_digit(values: Values) -> None:
    assert plain(advice_on(values)) == plain(advice_on(values))


@given(any_values())
@settings(max_examples=25)
def test_who_leads_in_how_many_resamples_adds_up(values: Values) -> None:
    advice = advice_on(values)

    shares = [each.best_share for each in advice.standings]
    assert sum(share for share in shares if share is not None) == pytest.approx(1)
    assert sum(part.share for part in advice.parts) == pytest.approx(1)


@given(any_values())
@settings(max_examples=25)
def test_one_stack_is_chosen_only_where_every_interval_is_beyond_the_zone(values: Values) -> None:
    advice = advice_on(values)
    intervals = [score.gain_interval for each in advice.standings for score in each.means]

    assert all(each is not None for each in intervals)
    beyond = all(each is not None and each.high < 1 / 1.03 for each in intervals)
    assert (advice.conclusion == "clear") is beyond
    assert (len(advice.leaders) == 1) is beyond


@given(any_values())
@settings(max_examples=25)
def test_the_waiting_is_relative_to_the_baseline_and_the_leader_has_the_least(values: Values) -> None:
    advice = advice_on(values)
    waiting = {each.stack: each.waiting for each in advice.standings}

    assert waiting["a"] == pytest.approx(1)
    assert waiting[advice.standings[0].stack] == min(waiting.values())
    assert sum(advice.weightings.values()) == pytest.approx(1)
