# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from advice_studies import around, study
from command_line import refusal, shown, shown_json
from made_results import made_results
from present import present
from strata.errors import DiagnosticsError
from strata.model.warning import Check
from strata.plan.catalogue import catalogue
from strata.reading.claims import Claim, PublishedLevel, read_claims
from strata.report.claims import claims_table
from strata.results.store import ResultsFolder
from strata.statistics.claims import Judgement, judge, results_subject
from strata.statistics.levels import beside
from strata.statistics.study import StudyResults, gather
from study_texts import EXT4_AND_XFS

VALUES = {
    "a": [98.0, 102.0, 98.0, 102.0, 98.0, 102.0],
    "b": [53.0, 51.0, 53.0, 51.0, 53.0, 51.0],
    "c": [101.0, 102.0, 104.0, 105.0, 101.0, 106.0],
}
MAIL = {"workload": "mail", "metric": "operations_per_s"}


def results(n: int = 6, **more: Any) -> StudyResults:
    return study({stack: {"mail": each[:n]} for stack, each in VALUES.items()}, **more)


def claim(**expect: Any) -> Claim:
    tested = {**MAIL, **expect}
    return Claim.model_validate({"id": "it", "claim": "It is so.", "source": "a test", "expect": [tested]})


def judged(found: StudyResults, **expect: Any) -> Judgement:
    [one] = judge([claim(**expect)], found, results_subject(found, {}))
    return one


def verdict(found: StudyResults, **expect: Any) -> str:
    return judged(found, **expect).verdict


def test_a_stack_that_a_claim_does_not_name_does_not_widen_its_interval() -> None:
    restless = VALUES | {"d": [10.0, 90.0, 30.0, 300.0, 20.0, 80.0]}
    more = study({stack: {"mail": values} for stack, values in restless.items()})
    expect = {"stack": "b", "against": "a", "ratio": [0.5, 0.54]}

    assert judged(more, **expect).findings == judged(results(), **expect).findings


def test_all_comparisons_of_a_claim_by_one_metric_hold_together() -> None:
    found = results()
    one = {**MAIL, "stack": "b", "against": "a", "ratio": [0.5, 0.54]}
    words = {"id": "it", "claim": "It is so.", "source": "a test", "expect": [one, {**one, "stack": "c"}]}
    [together] = judge([Claim.model_validate(words)], found, results_subject(found, {}))
    alone = judged(found, stack="b", against="a", ratio=[0.5, 0.54])

    wide, narrow = (present(each.findings[0].interval) for each in (together, alone))
    assert wide.low < narrow.low < narrow.high < wide.high


def test_a_claim_is_judged_by_the_interval() -> None:
    expect: Mapping[str, Any]
    for expect, expected in (
        ({"stack": "b", "against": "a", "is": "worse"}, "reproduced"),
        ({"stack": "b", "against": "a", "is": "better"}, "reversed"),
        ({"stack": "b", "against": "a", "is": "equal"}, "not reproduced"),
        ({"stack": "c", "against": "a", "is": "equal", "within": "10%"}, "reproduced"),
        ({"stack": "c", "against": "a", "is": "better"}, "undecided"),
        ({"stack": "c", "against": "a", "is": "worse"}, "not reproduced"),
        ({"stack": "a", "against": "c", "is": "better"}, "not reproduced"),
        ({"stack": "b", "against": "a", "ratio": [0.5, 0.54]}, "reproduced"),
        ({"stack": "b", "against": "a", "ratio": [0.1, 0.2]}, "direction only"),
        ({"stack": "b", "against": "a", "ratio": [1.8, 2.0]}, "reversed"),
        ({"stack": "a", "against": "b", "ratio": [1.5, float("inf")]}, "reproduced"),
        ({"stack": "a", "against": "b", "ratio": [3, float("inf")]}, "direction only"),
        ({"stack": "b", "against": "a", "ratio": [0.95, 1.02]}, "not reproduced"),
        ({"stack": "c", "against": "a", "ratio": [0.95, 1.2]}, "reproduced"),
        ({"stack": "c", "against": "a", "ratio": [0.95, 1.03]}, "undecided"),
        ({"stack": "c", "against": "a", "ratio": [1.04, 1.2]}, "undecided"),
        ({"stack": "c", "against": "a", "ratio": [1.5, 2.0]}, "not reproduced"),
        ({"stack": "c", "against": "a", "ratio": [0.5, 0.6]}, "not reproduced"),
        ({"stack": "[ac]", "against": "*", "is": "better"}, "reproduced"),
        ({"stack": ["a", "c"], "against": ["b"], "is": "better"}, "reproduced"),
        ({"stack": "*", "value": [40, 120]}, "reproduced"),
        ({"stack": "*", "value": [60, 120]}, "not reproduced"),
        ({"stack": "a", "value": [100, 200]}, "undecided"),
    ):
        assert verdict(results(), **expect) == expected


def test_a_narrow_interval_need_only_reach_a_range_around_1() -> None:
    narrow = study({"a": {"mail": [100.0, 100.2] * 3}, "b": {"mail": [101.2, 101.0] * 3}})
    one = judged(narrow, stack="b", against="a", ratio=[0.95, 1.009])

    interval = present(one.findings[0].interval)
    assert interval.low < 1.009 < interval.high
    assert one.verdict == "reproduced"


def test_better_is_better_by_the_metrics_own_direction() -> None:
    times = results(better="lower", unit="ns")

    assert verdict(times, stack="b", against="a", **{"is": "better"}) == "reproduced"
    assert verdict(times, stack="b", against="a", ratio=[0.5, 0.54]) == "reproduced"


def test_a_claim_needs_all_its_comparisons() -> None:
    one = judged(results(), stack="c", against="*", **{"is": "better"})

    assert {each.against: each.verdict for each in one.findings} == {"a": "undecided", "b": "reproduced"}
    assert one.verdict == "undecided"
    assert "add seeds" in one.why


def test_a_workload_is_compared_with_another_one_on_the_same_stack() -> None:
    values = {"a": {"mail": around(100), "files": around(50)[::-1]}}
    found = study(values)
    expected = {"stack": "a", "against_workload": "files", "ratio": [1.9, 2.1]}

    assert verdict(found, **expected) == "reproduced"
    assert verdict(found, **{**expected, "ratio": [0.4, 0.6]}) == "reversed"


def test_few_seeds_and_no_results_decide_nothing() -> None:
    few = results(n=2)
    none = study({"a": {"mail": []}, "b": {"mail": around(50)}})

    for found in (few, none):
        assert verdict(found, stack="b", against="a", **{"is": "worse"}) == "undecided"


def test_values_that_no_seed_changes_are_known_exactly() -> None:
    found = study({"a": {"mail": [1.0] * 3}, "b": {"mail": [1.0] * 2}})

    assert verdict(found, stack="a", value=[1, 1]) == "reproduced"
    assert verdict(found, stack="b", value=[1, 1]) == "undecided"


def test_doubtful_numbers_decide_nothing_unless_the_claim_is_about_cached_data() -> None:
    slower = {"stack": "b", "is": "worse"}
    for check, expect, verdict, why in (
        ("steady", {"stack": "c", "is": "worse"}, "undecided", "c: not steady"),  # nor does it miss the claim
        ("steady", {"stack": "c", "ratio": [1.5, 2.0]}, "undecided", "c: not steady"),
        ("limited", slower, "undecided", "not ranked: "),
        ("did-io-in-window", slower, "undecided", ""),
        ("did-io-in-window", {**slower, "cached": True}, "reproduced", ""),
    ):
        found = results()
        for record in found.cells[str(expect["stack"]), "mail"].records.values():
            record.__dict__["checks"] = (Check(name=check, verdict="no", detail="it drifts"),)
        one = judged(found, against="a", **expect)
        assert (one.verdict, one.why.startswith(why)) == (verdict, True)


_OLTP = 'workload = "postgresql", metric = "transactions_per_s"'
SOUND = """
[[claims]]
id = "mail.btrfs"
claim = "btrfs is slower than ext4"
source = "a belief"
expect = [{ OLTP, stack = "btrfs", against = "ext4", is = "worse" }]

[[claims]]
id = "bsd"
claim = "ZFS on FreeBSD is slower"
source = "a belief"
untestable = "the lab has no FreeBSD"
""".replace("OLTP", _OLTP)


@pytest.fixture
def made(tmp_path: Path) -> Path:
    return made_results(tmp_path / "results", stacks=["ext4", "btrfs"], workloads=["postgresql"]).path


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "my.claims.toml"
    path.write_text(SOUND)
    return path


def test_results_are_judged_in_a_terminal_and_as_data(made: Path, file: Path) -> None:
    said = shown("claims", made, "--claims", file)
    found = shown_json("claims", made, "--claims", file)

    assert "Of 2 claims: 1 reproduced and 1 not testable." in said
    assert "the lab has no FreeBSD" in said
    first, second = found["claims"]
    assert (first["claim"]["id"], first["verdict"], second["verdict"]) == (
        "mail.btrfs",
        "reproduced",
        "not testable",
    )
    [compared] = first["findings"]
    assert compared["interval"]["low"] <= compared["level"] <= compared["interval"]["high"] < 1
    assert "| **mail.btrfs** (btrfs is slower than ext4) |" in shown(
        "claims", made, "--claims", file, "--markdown"
    )


def test_the_ratio_is_the_one_that_strata_compare_prints(made: Path, file: Path) -> None:
    [row] = shown_json("compare", f"{made}:ext4", f"{made}:btrfs")["rows"]
    [compared] = shown_json("claims", made, "--claims", file)["claims"][0]["findings"]

    ratio = row["comparison"]["ratio"]
    assert (compared["level"], compared["interval"]) == (ratio["ratio"], ratio["interval"])


def test_a_metric_of_a_stack_without_results_yet_is_no_mistake(made: Path, file: Path) -> None:
    metric = "fragmentation_ext4_extents_per_file_mean"
    file.write_text(SOUND.replace("transactions_per_s", metric))

    [pair] = shown_json("claims", made, "--claims", file)["claims"][0]["findings"]

    assert (pair["verdict"], pair["why"]) == ("undecided", "btrfs.postgresql: no such metric")


def test_one_claim_can_be_chosen(made: Path, file: Path) -> None:
    found = shown_json("claims", made, "--claims", file, "--only", "bsd")

    assert [each["claim"]["id"] for each in found["claims"]] == ["bsd"]
    assert "mail.btrfs" in (refusal("claims", made, "--claims", file, "--only", "mail.btfs").remedy or "")


def test_of_a_study_it_says_what_can_be_tested(tmp_path: Path) -> None:
    shutil.copy("studies/quickstart.toml", tmp_path / "mine.toml")
    claims = SOUND.replace('"postgresql"', '"oltp"')
    (tmp_path / "mine.claims.toml").write_text(claims)

    found = shown_json("claims", tmp_path / "mine.toml")

    assert [each["verdict"] for each in found["claims"]] == ["testable", "not testable"]
    assert "1 testable" in shown("claims", tmp_path / "mine.toml")
    assert len(shown("check", tmp_path).splitlines()) == 1  # the folder has one study


def test_claims_lie_beside_the_study_whose_file_the_results_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, made: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = ResultsFolder.open(made)
    snapshot = folder.study().model_copy(update={"file": "disk.toml"})
    (made / "study.json").write_text(snapshot.model_dump_json())

    assert "there is no claims file disk.claims.toml" in str(refusal("claims", made))
    for place in ("studies/mine", "."):
        (tmp_path / place).mkdir(parents=True, exist_ok=True)
        (tmp_path / place / "disk.claims.toml").write_text(SOUND)
        assert "1 reproduced" in shown("claims", made)


def test_of_a_part_of_a_study_values_are_not_judged_nor_data_that_the_least_memory_holds(
    tmp_path: Path, file: Path
) -> None:
    study = tmp_path / "my.toml"
    study.write_text(SMALL)
    file.write_text(SMALL_CLAIMS)

    full, half, fifth = (
        shown_json("claims", study, *words)["claims"]
        for words in ((), ("--scale", "50%"), ("--scale", "20%"))
    )

    assert [each["verdict"] for each in full] == ["testable"] * 4
    # At half, memory is halved with the data; a tree is as large as before.
    assert [each["verdict"] for each in half] == ["testable", "not testable", "testable", "not testable"]
    assert [each["verdict"] for each in fifth] == ["not testable"] * 2 + ["testable", "not testable"]
    assert fifth[0]["why"] == "large: at a scale of 20 % its data fit into memory"
    assert half[1]["why"] == "a value is claimed of the full size, and this is 50 % of it"
    assert "95.4 MiB/s at least" in shown("claims", study, "--scale", "50%", "--markdown")


SMALL = f"""
[study]
name = "small"
question = "Which?"
seeds = [1]
memory = "1GiB"
{EXT4_AND_XFS}[workloads.large]
workload = "dd"
content = "random"
size = "2GiB"
[workloads.small]
workload = "dd"
content = "random"
size = "512MiB"
[workloads.tree]
workload = "tree"
"""
_READ = 'metric = "read_bytes_per_s", stack = "xfs"'
SMALL_CLAIMS = "".join(
    f"""
[[claims]]
id = "{name}"
claim = "XFS reads fast."
source = "a test"
expect = [{{ {_READ}, {expected} }}]
"""
    for name, expected in {
        "large": 'workload = "large", against = "ext4", is = "better"',
        "value": 'workload = "small", value = [1e8, inf]',
        "small": 'workload = "small", against = "ext4", is = "better"',
        "whole": 'workload = "tree", value = [1e8, inf]',
    }.items()
)
BAD = """
bogus = 1

[[claims]]
id = "it is"
claim = " "
expect = [
    { workload = "male", metric = "transactions_per_s", stack = "brtfs", against = "ext4", is = "faster" },
    { workload = "postgresql", metric = "rate", stack = "btrfs", against = "ext4", ratio = [2, 1] },
    { OLTP, stack = "ext4", against = "ext4", is = "better" },
    { OLTP, stack = "ext4", value = [1, 2], against = "btrfs" },
    { OLTP, stack = "ext4", is = "better", ratio = [1, 2] },
    { OLTP, stack = "ext4", against = "btrfs", ratio = [0, inf] },
    { OLTP, stack = "ext4", is = "better", within = "x" },
    { OLTP, stack = ["ext4", "jfs"], against = [], is = "better" },
]

[[claims]]
id = "twice"
claim = "b"
source = "c"

[[claims]]
id = "twice"
claim = "b"
source = "c"
expect = [{ OLTP, stack = "ext4", against = "ext4", is = "better" }]
""".replace("OLTP", _OLTP)


def test_claims_are_no_study(tmp_path: Path) -> None:
    refused = refusal("check", str(tmp_path / "x.claims.toml"))

    assert "strata claims STUDY --claims" in str(refused.remedy)


def test_all_mistakes_of_a_claims_file_are_reported_at_once(made: Path, file: Path) -> None:
    file.write_text(BAD)

    with pytest.raises(DiagnosticsError) as raised:
        read_claims(file, results_subject(gather(ResultsFolder.open(made)), catalogue().workloads))

    said = str(raised.value)
    for place, cause in {
        "line 2, bogus": 'unknown key "bogus"',
        "claims[0].id": "has other characters",
        "claims[0].claim": "is empty",
        "claims[0].source": "is missing",
        "claims[0].expect[0].workload": 'no workload "male"',
        "claims[0].expect[0].stack": 'no stack is called "brtfs"',
        "claims[0].expect[0].is": '"faster" is not valid',
        "claims[0].expect[1].metric": 'no metric "rate"',
        "claims[0].expect[1].ratio": "not the two ends of a range",
        "claims[0].expect[3]": "compared with nothing",
        "claims[0].expect[4]": "exclude each other",
        "claims[0].expect[5].ratio": "not the two ends of a range",
        "claims[0].expect[6].within": "is not a share",
        "claims[0].expect[7].stack": 'no stack is called "jfs"',
        "claims[0].expect[7].against": "",
        "claims[1]": "nothing is expected",
        "claims[2].id": "the id of several claims",
        "claims[2].expect[0].against": "no stack is left to compare",
    }.items():
        assert any(f"{place}: " in line and cause in line for line in said.splitlines()), (place, said)


def test_a_ratio_to_a_stack_far_from_its_published_level_is_in_another_regime() -> None:
    def level(value: Any, **more: Any) -> PublishedLevel:
        return PublishedLevel.model_validate(
            {**MAIL, "stack": "a", "value": value, "unit": "1/s", "source": "t", **more}
        )

    found = results()  # a makes 100, b 52
    subject = results_subject(found, {})
    reversing = claim(stack="b", against="a", **{"is": "better"})
    for levels, expected in (
        ([level([148, 160])], "reversed"),  # 1.48 times slower
        ([level([152, 160])], "in another regime"),
        ([level(60)], "in another regime"),
        ([level(60, factor=2)], "reversed"),
        ([level(60, stack="b")], "reversed"),  # only the stack that it is compared with counts
        ([level(60, metric="transactions_per_s")], "reversed"),
    ):
        [one] = judge([reversing], found, subject, levels)
        assert one.verdict == expected, levels
    [one] = judge([reversing], found, subject, [level(60)])
    assert "a has 100 /s, published 60.0 /s (1.67 ×" in one.why
    [right] = judge([claim(stack="b", against="a", **{"is": "worse"})], found, subject, [level(60)])
    assert right.verdict == "in another regime", "neither reversed nor reproduced"
    [value] = judge([claim(stack="a", value=[90, 110])], found, subject, [level(60)])
    assert value.verdict == "reproduced", "a value is a level of its own"
    doubted = results()
    for record in doubted.cells["b", "mail"].records.values():
        record.__dict__["checks"] = (Check(name="did-io-in-window", verdict="no", detail=""),)
    [one] = judge([reversing], doubted, subject, [level(60)])
    assert one.verdict == "undecided", "nor is its level known"
    [both] = judge([claim(stack=["b", "c"], against="a", **{"is": "better"})], found, subject, [level(60)])
    for judged, count in ((both, "2 of 2"), (replace(both, anchored=("open", "beds disagree")), "")):
        [row] = claims_table([judged]).rows
        assert row[1].remark == count, "test beds judge the claim as a whole"


def test_a_level_says_what_the_window_waited_for_and_is_no_level_of_another_size() -> None:
    found = results()
    level = PublishedLevel.model_validate({**MAIL, "stack": "*", "value": 60, "unit": "1/s", "source": "t"})

    for record in found.cells["a", "mail"].records.values():
        record.__dict__["disks"] = {"disk0": {"busy_ns": 10}, "disk1": {"busy_ns": 30}, "disk2": {}}
        record.__dict__.update(phases_ns={"measure": 100}, processor=None)

    [first, *_] = beside([level], found, results_subject(found, {}))
    assert (first.stack, first.is_met) == ("a", False)
    assert first.waited == "the busiest disk 30 % busy"
    assert present(first.off_by) == pytest.approx(100 / 60, rel=0.001)
    assert replace(first, processors=0.99, disk=0.31).waited == "processors 99 %, the busiest disk 31 % busy"
    times_ns = level.model_copy(update={"unit": "ns"})
    tenth = replace(results_subject(found, {}), reduced={"mail": 0.1})
    assert [each.is_met for each in beside([times_ns], found, tenth)] == [None] * 3
    assert beside([level], found, tenth)[0].is_met is False, "a rate is"
    score = level.model_copy(update={"unit": "1", "counted": True, "value": [1000, 1000]})
    assert [each.is_met for each in beside([score], found, tenth)] == [True, False, True], "a tenth of it is"
    assert beside([score], found, results_subject(found, {}))[0].is_met is False


def test_mistakes_of_levels_are_reported_with_their_keys(tmp_path: Path) -> None:
    file = tmp_path / "it.claims.toml"
    words = '[[levels]]\nworkload = "mail"\nmetric = "operations_per_s"\nsource = "t"\n'
    claims = '[[claims]]\nid = "a"\nclaim = "c"\nsource = "s"\nuntestable = "u"\n'
    file.write_text(
        f'{claims}{words}stack = "a"\nvalue = 60\nunit = "B/s"\n'
        f'{words}stack = "*"\nvalue = [3, 2]\nunit = "1/s"\n'
        f'{words}stack = "q"\nvalue = 60\nunit = "1/s"\n'
        f'{words}stack = "[ab]"\nvalue = 60\nunit = "1/s"\n'
        f'{words}stack = "b"\nvalue = [0, 60]\nunit = "1/s"\n'
    )
    with pytest.raises(DiagnosticsError) as caught:
        read_claims(file, results_subject(results(), {}))

    assert [(f"{each.place}".rpartition(" ")[2], each.cause) for each in caught.value.diagnostics] == [
        ("levels[0].unit", "operations_per_s has another unit"),
        ("levels[1].value", "these are not the two ends of a range"),
        ("levels[2].stack", 'no stack is called "q"'),
        ("levels[3].stack", "a has a level of this metric already"),
        ("levels[4].value", "nothing is times 0"),
    ]
