# SPDX-License-Identifier: Apache-2.0
"""Advice: the leader and its certainty, when none is chosen, the price of a choice, how to settle it."""

from __future__ import annotations

import math

import pytest

from advice_studies import advice_on, around, kinds, said_of, study, use, weight
from strata.advice.settling import seeds_wanted
from strata.model.warning import STEADY, Check
from strata.statistics.study import StudyResults

MIXED = use(weight("database", 70), weight("mail", 30))


def test_the_stack_that_is_better_by_more_than_the_zone_and_the_doubt_is_chosen() -> None:
    advice = advice_on(study({"a": {"database": around(100)}, "b": {"database": around(120)}}))

    assert (advice.conclusion, advice.leader) == ("clear", "b")
    behind = advice.standings[1]
    assert behind.score is not None
    assert behind.score.gain == pytest.approx(100 / 120)
    assert behind.score.verdict == "worse"
    assert [each.best_share for each in advice.standings] == pytest.approx([1.0, 0.0])


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


def test_of_a_metric_that_is_better_when_lower_the_lower_is_chosen() -> None:
    results = study(
        {"a": {"database": around(100)}, "b": {"database": around(120)}}, better="lower", unit="ns"
    )

    assert advice_on(results).leader == "a"


def test_stacks_within_three_percent_are_even_and_all_of_them_are_named() -> None:
    results = study(
        {
            "a": {"database": around(100, 0.002)},
            "b": {"database": around(101, 0.002)},
            "c": {"database": around(50, 0.002)},
        }
    )

    advice = advice_on(results)

    assert (advice.conclusion, advice.leader) == ("even", None)
    assert advice.leaders == ("b", "a")
    assert "seeds" not in kinds(advice)  # more of them could not make a difference matter


def test_stacks_are_not_even_with_one_that_scatters() -> None:
    even, scattered = around(100, 0.002), around(99, 0.2)
    results = study({"a": {"database": even}, "b": {"database": even}, "c": {"database": scattered}})

    advice = advice_on(results)

    assert {each.score.verdict for each in advice.standings if each.score} == {"equal", "undecided"}
    assert (advice.conclusion, advice.leader) == ("undecided", None)


def test_a_choice_says_how_fast_the_next_would_have_to_be_where_nothing_was_measured() -> None:
    on = use(weight("database", 60), weight("mail", 40))

    def said(rival: float) -> str:
        results = study({"a": {"database": around(100)}, "b": {"database": around(rival)}})
        return said_of(advice_on(results, on))

    # 0.6 × 100 / 80 + 0.4 / x = 0.6 + 0.4
    assert "b, the next, would have to be at least 1.60 × as fast as a in the 40 %" in said(80)
    assert "However fast b, the next, is in the 40 % that was not measured, it does not draw" in said(20)


def test_either_is_advised_where_a_large_difference_is_excluded_and_not_where_it_may_hide() -> None:
    said = {
        spread: advice_on(study({"a": {"database": around(100, spread)}, "b": {"database": around(101)}}))
        for spread in (0.04, 0.2)
    }

    assert {each.conclusion for each in said.values()} == {"undecided"}
    assert [each.take_either for each in said.values()] == [True, False]
    assert "less than 3 % apart, and 6 seeds exclude 10 %, though not 3 %" in said_of(said[0.04])
    assert "undecided between b and a" in said_of(said[0.2])


def test_where_the_intervals_reach_across_the_zone_none_is_chosen_and_seeds_are_asked_for() -> None:
    advice = advice_on(
        study(
            {
                "a": {"database": around(100, 0.1)},
                "b": {"database": around(106, 0.2)},
                "c": {"database": [20] * 6},
            }
        )
    )

    assert (advice.conclusion, advice.leader) == ("undecided", None)
    assert set(advice.leaders) == {"a", "b"}
    [seeds] = [each for each in advice.settling if each.kind == "seeds"]
    assert seeds.toml == "[study]\nseeds = 74\n"
    assert seeds.commands == (
        "strata run decided.toml --trial 'a.database.*'",
        "strata run decided.toml --trial 'b.database.*'",
    )


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


def test_a_stack_that_is_fast_mostly_and_slow_for_the_rest_is_not_chosen_by_its_geometric_mean() -> None:
    results = study(
        {
            "ext4": {"database": around(100), "mail": around(100)},
            "zfs": {"database": around(530), "mail": around(24)},
        }
    )

    advice = advice_on(results, use(weight("database", 75), weight("mail", 25)))

    assert (advice.conclusion, advice.leader) == ("the means disagree", None)
    assert advice.leaders == ("ext4", "zfs")
    behind = advice.standings[1]
    assert behind.waiting == pytest.approx(0.75 / 5.3 + 0.25 / 0.24)  # 18 % longer
    assert behind.geometric is not None
    assert behind.geometric.gain == pytest.approx(5.3**0.75 * 0.24**0.25)  # 2.4 times as good
    assert "seeds" not in kinds(advice)
    assert kinds(advice) == ["weights"]


def test_the_reference_of_the_study_is_the_baseline_unless_it_has_no_place() -> None:
    values = {
        "a": {"database": around(100), "mail": around(100)},
        "b": {"database": around(300), "mail": around(80)},
    }

    named = advice_on(study(values, reference="b"), MIXED)
    without_place = advice_on(study({**values, "c": {"database": []}}, reference="c"), MIXED)

    assert named.baseline == "b"
    assert {each.stack: each.waiting for each in named.standings}["b"] == pytest.approx(1)
    assert without_place.baseline == "a"


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


def test_with_too_few_seeds_for_an_interval_none_is_chosen() -> None:
    for n in (1, 2):
        advice = advice_on(study({"a": {"database": [100.0] * n}, "b": {"database": [300.0] * n}}))
        assert (advice.conclusion, advice.leaders) == ("too few seeds", ())
        [seeds] = [each for each in advice.settling if each.kind == "seeds"]
        assert seeds.toml == "[study]\nseeds = 6\n"
        assert seeds.commands == ("strata run decided.toml",)


def test_where_less_than_half_of_the_weights_was_measured_nothing_is_said_and_the_workload_is_given() -> None:
    results = study({"a": {"mail": around(100)}, "b": {"mail": around(200)}})

    advice = advice_on(results, MIXED)

    assert (advice.conclusion, advice.leaders, advice.standings) == ("cannot say", (), ())
    assert advice.covered == pytest.approx(0.3)
    [missing] = [each for each in advice.settling if each.kind == "workload"]
    assert missing.toml.startswith('[workloads.database]\nworkload = "pgbench"\n')
    assert missing.commands == ("strata run decided.toml",)


def test_one_stack_is_no_choice() -> None:
    advice = advice_on(study({"a": {"database": around(100)}}))

    assert (advice.conclusion, advice.leaders) == ("nothing to compare", ())
    assert kinds(advice)[0] == "stacks"


def test_where_the_choice_is_worse_at_a_workload_the_best_one_there_is_named() -> None:
    results = study(
        {
            "a": {"database": around(300), "mail": around(100)},
            "b": {"database": around(100), "mail": around(120)},
            "c": {"database": around(100), "mail": around(150)},
        }
    )

    advice = advice_on(results, MIXED)

    [worse] = advice.worse
    assert (advice.leader, worse.part.workload, worse.comparison.baseline) == ("a", "mail", "c")
    assert worse.comparison.gain == pytest.approx(100 / 150)


def test_the_metrics_at_which_the_choice_is_worse_are_named_from_the_heaviest_on() -> None:
    results = study(
        {
            "a": {"database": around(900), "files": around(100), "mail": around(100)},
            "b": {"database": around(100), "files": around(150), "mail": around(150)},
        }
    )

    advice = advice_on(results, use(weight("database", 70), weight("files", 10), weight("mail", 20)))

    said = said_of(advice)
    assert advice.leader == "a"
    assert said.index("a is worse in mail: ") < said.index("; in files: ")


def test_a_stack_without_results_of_a_counted_workload_has_no_rank_and_a_reason() -> None:
    results = study(
        {
            "a": {"database": around(100), "mail": around(100)},
            "b": {"database": around(200), "mail": around(100)},
            "c": {"database": around(900), "mail": []},
        }
    )

    advice = advice_on(results, MIXED)

    assert advice.leader == "b"
    assert [(each.stack, each.text) for each in advice.out] == [("c", "it has no results of mail")]


def test_a_stack_with_too_few_seeds_does_not_take_the_others_intervals_from_them() -> None:
    results = study(
        {
            "a": {"database": around(100)},
            "b": {"database": around(200)},
            "c": {"database": around(900)[:1]},
        }
    )

    advice = advice_on(results)

    assert (advice.conclusion, advice.leader) == ("clear", "b")
    assert [(each.stack, each.text) for each in advice.out] == [
        ("c", "it has all that counts of only 1 seed")
    ]


def test_further_seeds_of_the_leading_stacks_decide_between_them() -> None:
    a, b = around(100, 0.08), around(104, 0.16)
    results = study({"a": {"database": a}, "b": {"database": b}, "c": {"database": [30.0] * 6}})
    more = study(
        {
            "a": {"database": [*a, *around(100, 0.01, 34)]},
            "b": {"database": [*b, *around(108, 0.01, 34)]},
            "c": {"database": [30.0] * 6},
        }
    )

    assert advice_on(results).conclusion == "undecided"
    assert advice_on(more).leader == "b"


def test_all_seeds_that_the_leading_stacks_share_outweigh_a_lead_by_few_seeds() -> None:
    lucky, unlucky = [112.0, 95, 110, 101, 113, 99], [100.0, 104, 95, 108, 97, 106]
    results = study(
        {
            "a": {"database": [*lucky, *around(80, 0.01, 34)]},
            "b": {"database": [*unlucky, *around(104, 0.01, 34)]},
            "c": {"database": [30.0] * 6},
        }
    )

    assert advice_on(results).leader == "b"


def test_a_workload_that_hardly_any_stack_has_results_of_puts_none_out() -> None:
    results = study(
        {
            "a": {"database": around(100), "mail": around(100)},
            "b": {"database": around(200), "mail": []},
            "c": {"database": around(50), "mail": []},
            "d": {"database": around(40), "mail": []},
        }
    )

    advice = advice_on(results, MIXED)

    assert (advice.leader, advice.out) == ("b", ())
    assert advice.coverage[1].lacking == ("mail",)


def test_the_workloads_of_a_weight_share_it_and_each_counts_once() -> None:
    three = {"one": around(100), "two": around(100), "mail": around(100)}  # one and two are pgbench
    results = study({"a": three, "b": three})

    advice = advice_on(results, use(weight("database", 60), weight("mail", 20), weight("pgbench-again", 20)))

    assert {part.workload: part.share for part in advice.parts} == pytest.approx(
        {"one": 0.375, "two": 0.375, "mail": 0.25}
    )
    assert [each.workloads for each in advice.coverage] == [("one", "two"), ("mail",), ()]


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


def test_a_difference_at_the_edge_of_the_zone_is_not_worth_any_number_of_seeds() -> None:
    results = study({"a": {"database": around(100, 0.05)}, "b": {"database": around(103.2, 0.1)}})

    advice = advice_on(results)

    [seeds] = [each for each in advice.settling if each.kind == "seeds"]
    assert (seeds.toml, seeds.commands) == ("", ())
    assert "More than 100 seeds" in seeds.text


def test_a_metric_of_zero_has_no_ratio_and_does_not_count() -> None:
    advice = advice_on(study({"a": {"database": [0.0] * 6}, "b": {"database": around(100)}}))

    assert advice.conclusion == "cannot say"
    assert not any(math.isnan(each.share) for each in advice.parts)
