# SPDX-License-Identifier: Apache-2.0
"""``strata claims --anchor``: test beds are kept by published levels, never by ratios."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from varied_studies import TEXT, measured, planted

from command_line import refusal, shown_json
from strata.experiment.experiment import Experiment
from strata.experiment.quantities import with_values
from strata.experiment.strategies.anchor import Anchor, drawn_beds
from strata.reading.claims import Claim, Expectation, UnknownPart
from strata.results.findings import DROPPED, KEPT, UNTRIED, Compared, Finding, Tried, findings_of
from strata.results.store import ResultsFolder
from strata.runners.fake import FakeRunner
from strata.statistics.anchored import anchored
from strata.statistics.claims import ClaimFinding, Judgement
from study_texts import read

SUBJECT = "xfs.oltp.transactions_per_s"


def claims(ratio: str = "[1.9, 2.1]", level: float = 50) -> str:
    return f"""
[[claims]]
id = "oltp.ext4"
claim = "ext4 commits twice as many transactions as XFS"
source = "a test"
expect = [
    {{ workload = "oltp", metric = "transactions_per_s", stack = "ext4", against = "xfs", ratio = {ratio} }},
]

[[levels]]
workload = "oltp"
metric = "transactions_per_s"
stack = "xfs"
value = {level}
unit = "1/s"
source = "a test"

[[unknowns]]
quantity = "wd-re4-500gb.write_settle"
range = [0.4, 2.0]
why = "a test"

[[unknowns]]
quantity = "processor"
range = [0.5, 2.0]
why = "a test"
"""


def response(stack: str, values: dict[str, float]) -> float:
    """XFS makes 100 transactions a second at 1 ms of settling; slow settling halves ext4's time."""
    xfs_ms = 10.0 * values["write_settle"]
    return xfs_ms if stack == "xfs" else xfs_ms * (0.5 if values["write_settle"] > 1.2 else 1.5)


def anchor(folder: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> tuple[dict[str, Any], FakeRunner]:
    if not (folder / "results").exists():
        folder.mkdir(exist_ok=True)
        measured(folder, planted(response), TEXT)
    (folder / "my.claims.toml").write_text(text)
    runner = planted(response)
    monkeypatch.setattr("strata.actions.run.runner_for", lambda *words, **options: runner)
    words = ("claims", folder / "results", "--claims", folder / "my.claims.toml")
    [found] = shown_json(*words, "--anchor", "--beds", 8, "--jobs", 1)["claims"]
    return found, runner


def drawn(folder: Path) -> Finding:
    return findings_of(ResultsFolder.open(folder / "results"), "anchor")[SUBJECT]


def test_a_claim_is_judged_on_the_beds_that_meet_the_level_and_nothing_is_run_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, runner = anchor(tmp_path, monkeypatch, claims())

    beds = drawn(tmp_path).tried
    assert {bed.verdict for bed in beds} == {KEPT, DROPPED}
    for bed in beds:
        [level] = bed.compared
        assert level.level is not None
        assert (bed.verdict == KEPT) == (50 / 1.5 <= level.level <= 50 * 1.5), bed
    assert (found["unanchored"], found["verdict"]) == ("in another regime", "reproduced")
    assert "of 8 test beds meet the published level" in found["why"]
    assert runner.begun
    assert anchor(tmp_path, monkeypatch, claims())[1].begun == []


def test_only_the_reference_stacks_trials_decide_which_beds_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = {}
    for ratio in ("[1.9, 2.1]", "[0.1, 0.2]"):
        _, runner = anchor(tmp_path / ratio[1:4], monkeypatch, claims(ratio))
        found[ratio] = drawn(tmp_path / ratio[1:4])
        first = {*runner.begun[: len(found[ratio].tried)]}
        assert first == {"xfs.oltp.s1"}, "the first trials are one of each bed, of the reference stack"
        kept = [bed for bed in found[ratio].tried if bed.verdict == KEPT]
        assert runner.begun.count("xfs.oltp.s2") == len(kept), "a bed that is not kept has one seed"
    assert len({each.model_dump_json() for each in found.values()}) == 1, "the claim's ratio is no input"
    names = " ".join(f"{each.type}" for each in fields(Anchor))
    for kind in (Claim, Expectation, Judgement, ClaimFinding):
        assert kind.__name__ not in names.replace("ClaimSubject", "")


def test_at_most_four_of_the_beds_that_meet_every_level_are_judged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judged(text: str) -> list[str]:
        anchor(tmp_path, monkeypatch, text)
        found = findings_of(ResultsFolder.open(tmp_path / "results"), "anchor")["oltp.ext4"]
        assert len({bed.name for bed in found.tried[:8]}) == 8
        return [bed.name for bed in found.tried[8:]]

    assert judged(claims()) == [bed.name for bed in drawn(tmp_path).tried if bed.verdict == KEPT]
    alike = claims().replace("value = 50", "value = 50\nfactor = 9")
    assert judged(alike) == [bed.name for bed in drawn(tmp_path).tried[:4]]
    back = alike.replace(
        "]\n\n[[levels",
        '{ workload = "oltp", metric = "transactions_per_s", stack = "xfs", '
        'against = "ext4", is = "worse" }]\n\n[[levels',
        1,
    )
    unmet = alike.split("[[levels]]")[1].split("[[unknowns]]")[0].replace("xfs", "ext4").replace("50", "5")
    assert judged(f"{back}\n[[levels]]{unmet}") == []


def test_where_no_bed_meets_the_level_the_nearest_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = anchor(tmp_path, monkeypatch, claims(level=5))

    assert found["verdict"] == "in another regime"
    assert (
        "0 of 8 test beds meet the published level; the nearest, wd-re4-500gb.write_settle = " in found["why"]
    )


def test_beds_that_were_all_refused_say_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found, _ = anchor(tmp_path, monkeypatch, claims().replace("write_settle", "no_such_part"))

    assert (found["verdict"], found["anchored"]) == (found["unanchored"], None)
    assert "xfs has 100" in found["why"]


def test_a_processor_is_a_factor_of_all_its_prices_and_no_other(tmp_path: Path) -> None:
    study = read(tmp_path, TEXT)
    doubled = with_values(study, [], {"processor": 2.0}).processor.parameters

    for name, each in study.processor.parameters.items():
        factor = 1 if name == "processors" else 2
        ends = [(getattr(each, end), getattr(doubled[name], end)) for end in ("value", "low", "high")]
        assert all(after == factor * before for before, after in ends), name


def test_a_part_of_several_keys_has_one_value_in_each_bed() -> None:
    parts = {"key": ["devices.disk0.model", "devices.disk1.model"], "values": ["a", "b"], "why": "a test"}
    beds = drawn_beds([UnknownPart.model_validate(parts)], 6)

    assert {tuple(bed.changes.items()) for bed in beds} == {
        tuple((f"devices.disk{number}.model", model) for number in (0, 1)) for model in ("a", "b")
    }


def test_drawing_leaves_half_of_each_claims_share_of_the_budget_for_judging(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = claims().partition("[[levels]]")[0].replace("oltp.ext4", "oltp.again")
    asked, answer = [], Experiment.answer

    def answering(self: Experiment, strategy: Any, share: float = 1.0) -> Finding:
        found = answer(self, strategy, share)
        asked.append((type(strategy).__name__, share, self.left_s))
        return found

    measured(tmp_path, planted(response), TEXT)
    (tmp_path / "my.claims.toml").write_text(second + claims())
    monkeypatch.setattr("strata.actions.run.runner_for", lambda *words, **options: planted(response))
    monkeypatch.setattr(Experiment, "answer", answering)
    words = ("claims", tmp_path / "results", "--claims", tmp_path / "my.claims.toml")
    shown_json(*words, "--anchor", "--beds", 4, "--jobs", 1, "--budget", "1000h")

    assert [each[:2] for each in asked] == [
        ("Anchor", 1 / 4), ("Anchored", 1 / 3), ("Anchor", 1 / 2), ("Anchored", 1)
    ]  # fmt: skip
    assert [left / 3_600_000 for *_, left in asked] == pytest.approx([1 / 4, 1 / 3, 1 / 2, 1], rel=0.01)


def test_whole_numbers_are_drawn_with_both_ends() -> None:
    part = UnknownPart.model_validate({"quantity": "ssd.dies", "range": [1, 4], "why": "a test"})

    assert [part.at(place) for place in (0, 0.3, 0.5, 0.8, 0.9, 1)] == [1, 1, 2, 3, 4, 4]


def bed(verdict: str, settle: float, seek: float, ratio: float = 1.0) -> Tried:
    values = {"seek": seek, "settle": settle}
    compared = Compared(workload="oltp", stack="a", against="b", level=ratio)
    return Tried(name="bed", values=values, verdict=verdict, compared=(compared,))


def test_a_claim_is_open_where_beds_disagree_and_says_on_what_it_turns() -> None:
    drawn = [bed(KEPT, settle, 1) for settle in (1, 2, 3, 4)]
    judged = [bed("reversed", 1, 8), bed("reproduced", 3, 9), bed("reversed", 2, 9), bed("reproduced", 4, 8)]
    verdict, why = anchored(Finding(kind="anchor", subject="it", tried=(*drawn, *judged)))

    assert verdict == "open"
    assert "it turns on settle (1.0: reversed, 2.0: reversed, 3.0: reproduced, 4.0: reproduced)" in why


def test_the_judging_of_a_kept_bed_is_no_bed_that_was_not_drawn() -> None:
    kept, dropped = (bed(verdict, 1, 1).model_copy(update={"name": verdict}) for verdict in (KEPT, DROPPED))
    beds = (kept, dropped, Tried(name="c", note=UNTRIED), Tried(name="d", note="no such part"))
    for judging, said in (
        (Tried(name=kept.name, note=UNTRIED), "none was judged yet"),
        (kept.model_copy(update={"verdict": "undecided"}), "none decides"),
    ):
        found = anchored(Finding(kind="anchor", subject="it", tried=(*beds, judging)))
        assert found == (
            "undecided",
            f"1 of 2 test beds meet the published level (1 not drawn, 1 refused), and {said}",
        )


def test_a_bed_on_which_nothing_was_done_is_the_farthest() -> None:
    def drawn(level: float) -> Tried:
        compared = Compared(workload="oltp", stack="a", level=level, low=40, high=50)
        return Tried(name=f"bed of {level:g}", verdict=DROPPED, compared=(compared,))

    beds = tuple(map(drawn, (0, 100, 10)))
    verdict, why = anchored(Finding(kind="anchor", subject="it", tried=beds))

    assert verdict == "in another regime"
    assert "0 of 3 test beds meet the published level; the nearest, bed of 100: a has 100 (2.0 ×)" in why
    assert (
        "bed of 0: a has 0 (< 0.01 ×)" in anchored(Finding(kind="anchor", subject="it", tried=beds[:1])).why
    )


def test_an_anchor_needs_levels_and_unknowns(tmp_path: Path) -> None:
    measured(tmp_path, planted(response), TEXT)
    (tmp_path / "my.claims.toml").write_text(claims().partition("[[levels]]")[0])
    words = ("claims", tmp_path / "results", "--claims", tmp_path / "my.claims.toml", "--anchor")

    assert "states no [[unknowns]] or no [[levels]]" in refusal(*words).cause
