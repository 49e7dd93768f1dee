# SPDX-License-Identifier: Apache-2.0
"""How one advice follows from another; tests/golden/test_golden_advice.py has the facts of each case."""

from __future__ import annotations

import pytest

from advice_studies import advice_on, around, said_of, study, use, weight
from strata.advice.settling import seeds_wanted
from strata.model.warning import STEADY, Check
from strata.statistics.study import StudyResults

MIXED = use(weight("database", 70), weight("mail", 30))


def test_doubtful_numbers_of_a_contender_keep_the_choice_open_and_are_named() -> None:
    results = study({"a": {"database": around(100)}, "b": {"database": around(120)}})
    records = results.cells["a", "database"].records
    unsteady = Check(name=STEADY, verdict="no", detail="it falls by 20 %")
    assert isinstance(records, dict)
    records |= {seed: each.model_copy(update={"checks": (unsteady,)}) for seed, each in records.items()}

    advice = advice_on(results)

    assert (advice.conclusion, advice.leader) == ("undecided", None)
    assert "; but these numbers are in doubt (a: not steady)." in said_of(advice)
    assert "do not tell whether they differ" not in said_of(advice)
    assert "Measure again what is in doubt (a: not steady)" in advice.settling[0].text


def test_a_choice_says_how_fast_the_next_would_have_to_be_where_nothing_was_measured() -> None:
    on = use(weight("database", 60), weight("mail", 40))

    def said(rival: float) -> str:
        results = study({"a": {"database": around(100)}, "b": {"database": around(rival)}})
        return said_of(advice_on(results, on))

    # 0.6 × 100 / 80 + 0.4 / x = 0.6 + 0.4
    assert "b, the next, would have to be at least 1.60 × as fast as a in the 40 %" in said(80)
    assert "However fast b, the next, is in the 40 % that was not measured, it does not draw" in said(20)


def test_the_score_is_the_time_that_the_use_waits_relative_to_the_reference() -> None:
    results = study(
        {
            "a": {"database": around(100), "mail": around(100)},
            "b": {"database": around(200), "mail": around(90)},
        }
    )

    advice = advice_on(results, MIXED)

    assert (advice.conclusion, advice.leader, advice.baseline) == ("clear", "b", "a")
    waiting = 0.7 / 2 + 0.3 / 0.9
    assert [each.waiting for each in advice.standings] == pytest.approx([waiting, 1])
    behind = advice.standings[1]
    assert behind.score is not None
    assert behind.geometric is not None
    assert behind.score.ratio.ratio == pytest.approx(1 / waiting)
    assert behind.geometric.ratio.ratio == pytest.approx(2**0.7 * 0.9**0.3)
    assert [(each.weight, each.share) for each in advice.parts] == [("database", 0.7), ("mail", 0.3)]


def test_the_choice_holds_in_a_share_of_the_weightings_about_the_stated_one() -> None:
    def holds(database: float, mail: float) -> float:
        results = study(
            {
                "a": {"database": around(100), "mail": around(100)},
                "b": {"database": around(140), "mail": around(80)},
            }
        )
        advice = advice_on(results, use(weight("database", database), weight("mail", mail)))
        assert sum(advice.weightings.values()) == pytest.approx(1)
        return advice.weightings["b"]

    assert holds(98, 2) > 0.99
    assert 0.55 < holds(55, 45) < 0.75  # b leads above 47 % for the database
    assert holds(20, 80) < 0.05
    assert holds(55, 45) == holds(55, 45)


def test_seeds_are_drawn_together_for_all_workloads() -> None:
    # With the same seed one workload gains what the other loses: the geometric mean does not move at all.
    moves = [1.3, 0.8, 1.1, 0.9, 1.2, 0.7]
    results = study(
        {
            "a": {"database": [100.0] * 6, "mail": [100.0] * 6},
            "b": {"database": [110 * each for each in moves], "mail": [110 / each for each in moves]},
        }
    )

    behind = advice_on(results, use(weight("database", 1), weight("mail", 1))).standings[1].geometric

    assert behind is not None
    assert behind.gain_interval is not None
    assert behind.gain_interval.low == pytest.approx(1 / 1.1)
    assert behind.gain_interval.high == pytest.approx(1 / 1.1)


def test_a_workload_on_an_altered_stack_is_another_measurement() -> None:
    results = study({"a": {"database": around(100)}, "b": {"database": around(200)}})
    lost = results.snapshot.workloads["database"].model_copy(update={"loses_disk": True})
    snapshot = results.snapshot.model_copy(update={"workloads": {"database": lost}})
    altered = StudyResults(snapshot, results.readings, results.cells)

    assert advice_on(altered).conclusion == "cannot say"


def test_the_wanted_seeds_would_bring_the_interval_to_one_side_of_the_zone() -> None:
    results = study({"a": {"database": around(100, 0.1)}, "b": {"database": around(112, 0.2)}})
    score = advice_on(results).standings[1].score
    assert score is not None
    wanted = seeds_wanted(score)

    enough = study({"a": {"database": around(100, 0.1, wanted)}, "b": {"database": around(112, 0.2, wanted)}})
    fewer = study(
        {"a": {"database": around(100, 0.1, wanted // 2)}, "b": {"database": around(112, 0.2, wanted // 2)}}
    )

    assert 6 < wanted < 60
    assert advice_on(enough).conclusion == "clear"
    assert advice_on(fewer).conclusion == "undecided"
