# SPDX-License-Identifier: Apache-2.0
"""What a use needs: stacks that lack it are out, with the reason and the price, or it is named."""

from __future__ import annotations

import pytest

from advice_studies import advice_on, around, capabilities, kinds, said_of, study, use, weight
from strata.advice.uses import Need

DISK_LOSS = Need(capability="disk-loss", level="preferred", why="it should go on")
DURABLE = Need(capability="durable", level="required", why="what was acknowledged must be there")
SNAPSHOT = Need(capability="snapshot", level="wished", why="a way back")


def test_a_stack_without_what_the_use_prefers_is_out_where_another_has_it() -> None:
    results = study(
        {
            "fast": {"database": around(300)},
            "safe": {"database": around(100)},
            "slow": {"database": around(50)},
        }
    )
    can = capabilities(fast="disk-loss:no", safe="disk-loss", slow="disk-loss:partial")

    advice = advice_on(results, use(weight("database", 1), needs=[DISK_LOSS]), can)

    assert advice.leader == "safe"
    assert [(each.stack, each.why) for each in advice.out] == [("fast", "requirement")]
    assert advice.standings[1].stack == "slow"


def test_a_price_that_the_seeds_do_not_show_is_not_stated_as_one() -> None:
    fast = [90.0, 140.0, 80.0, 150.0, 100.0, 110.0]
    results = study({"fast": {"database": fast}, "safe": {"database": around(105)}})

    advice = advice_on(
        results,
        use(weight("database", 1), needs=[DISK_LOSS]),
        capabilities(fast="disk-loss:no", safe="disk-loss"),
    )

    price = advice.out[0].price
    assert price is not None
    assert price.verdict == "undecided"
    assert "6 seeds do not tell whether it is more than 3 % faster" in said_of(advice)


def test_a_preference_that_no_stack_meets_excludes_none_but_is_reported() -> None:
    results = study({"a": {"database": around(300)}, "b": {"database": around(100)}})
    needing = use(weight("database", 1), needs=[DISK_LOSS])

    advice = advice_on(results, needing, capabilities(a="disk-loss:no", b="disk-loss:no"))

    assert advice.leader == "a"
    assert [(each.capability, each.held_by) for each in advice.missing] == [("disk-loss", ())]


ASYNC = "zfs: sync = disabled: it acknowledges what is only in memory"


def test_a_stack_that_loses_what_it_acknowledged_cannot_be_chosen_however_fast_and_its_price_is_named() -> (
    None
):
    results = study(
        {"async": {"database": around(210)}, "a": {"database": around(100)}, "b": {"database": around(80)}},
        risks={"async": ASYNC},
    )

    advice = advice_on(results, use(weight("database", 1), needs=[DURABLE]))

    assert (advice.conclusion, advice.leader) == ("clear", "a")
    [out] = advice.out
    assert (out.stack, out.why, out.text, out.capability) == ("async", "requirement", ASYNC, "durable")
    assert out.price is not None
    assert out.price.gain == pytest.approx(2.1)
    assert ASYNC in said_of(advice)
    assert "as fast as a, but is not power-fail safe." in said_of(advice)


def test_a_stack_that_loses_what_it_acknowledged_may_be_chosen_for_a_use_that_only_wishes_it() -> None:
    results = study(
        {"async": {"database": around(210)}, "a": {"database": around(100)}}, risks={"async": ASYNC}
    )
    wishing = DURABLE.model_copy(update={"level": "wished"})

    advice = advice_on(results, use(weight("database", 1), needs=[wishing]))

    assert advice.leader == "async"
    assert f"async is not power-fail safe ({ASYNC})." in said_of(advice)


def test_the_price_is_told_also_where_one_stack_meets_the_requirement() -> None:
    results = study(
        {"async": {"database": around(210)}, "a": {"database": around(100)}}, risks={"async": ASYNC}
    )

    advice = advice_on(results, use(weight("database", 1), needs=[DURABLE]))

    assert (advice.conclusion, advice.candidates) == ("nothing to compare", ("a",))
    assert advice.out[0].price is not None
    assert advice.out[0].price.gain == pytest.approx(2.1)


def test_where_no_stack_meets_a_requirement_none_is_chosen() -> None:
    results = study(
        {"a": {"database": around(210)}, "b": {"database": around(100)}}, risks={"a": ASYNC, "b": ASYNC}
    )

    advice = advice_on(results, use(weight("database", 1), needs=[DURABLE]))

    assert (advice.conclusion, advice.leaders, advice.candidates) == ("no stack left", (), ())
    assert "None of the study's stacks has all that this use requires" in said_of(advice)


def test_results_that_say_nothing_of_durability_exclude_no_stack_and_it_is_said() -> None:
    advice = advice_on(
        study({"a": {"database": around(210)}, "b": {"database": around(100)}}),
        use(weight("database", 1), needs=[DURABLE]),
    )

    assert advice.leader == "a"
    assert advice.durability == {}
    assert "capabilities" not in kinds(advice)


def test_what_was_not_probed_is_no_reason_to_be_out_and_is_asked_for() -> None:
    results = study({"a": {"database": around(300)}, "b": {"database": around(100)}})
    needing = use(weight("database", 1), needs=[DISK_LOSS, SNAPSHOT])

    advice = advice_on(results, needing, capabilities(a="disk-loss:failed snapshot", b="disk-loss snapshot"))

    assert advice.leader == "a"
    assert [each.capability for each in advice.unprobed] == ["disk-loss"]
    [probe] = [each for each in advice.settling if each.kind == "capabilities"]
    assert probe.commands == ("strata capabilities decided.toml --probe disk-loss",)


def test_the_choice_gives_up_what_others_have_asked_for_or_not() -> None:
    results = study({"a": {"database": around(300)}, "b": {"database": around(100)}})
    can = capabilities(a="snapshot:no send:no quota:no", b="snapshot send quota:no")

    advice = advice_on(results, use(weight("database", 1), needs=[SNAPSHOT]), can)

    assert {each.capability: each.need for each in advice.missing} == {"snapshot": SNAPSHOT, "send": None}
    assert all(each.held_by == ("b",) for each in advice.missing)
