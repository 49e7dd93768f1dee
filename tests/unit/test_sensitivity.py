# SPDX-License-Identifier: Apache-2.0
"""What would change an answer: planted responses of two stacks to a quantity, found by fake trials."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest
from execution_factory import RecordingDisplay, study_in
from varied_studies import SETTLE, TEXT, Asked, asked, linear, measured, planted, point

from command_line import refusal, shown, shown_json
from strata.advice.advise import advise
from strata.advice.rivals import rivalry
from strata.advice.uses import Use, bundled_uses
from strata.errors import ResultError, StudyError
from strata.experiment.experiment import Cells, Experiment
from strata.experiment.strategies.sensitivity import Sensitivity
from strata.plan.catalogue import catalogue
from strata.report.findings import sensitivity_sentences
from strata.report.page import page_of
from strata.results.findings import UNTRIED, Finding, Tried, Variation, findings_of
from strata.results.store import ResultsFolder
from strata.statistics.study import StudyResults, gather

PLAUSIBLE = TEXT.replace('drives = "exact"\n', "")
BOTH = (
    TEXT
    + """
[workloads.scan]
workload = "pgbench"
script = "select-only"
scale = 20
clients = 11
warmup = "1s"
duration = "60s"
"""
)


@pytest.fixture
def use() -> Use:
    return bundled_uses(catalogue())["postgresql-server"]


def two_weights(use: Use, share: float) -> Use:
    """A use whose weights are the two workloads."""
    first, *_ = use.weights
    patterns = [
        replace(first.fits[0], wanted={"script": ("tpcb-like",)}),
        replace(first.fits[0], wanted={"script": ("select-only",)}),
    ]
    weights = [
        replace(first, name=name, weight=weight, fits=(pattern,), metrics={"headline": 1.0})
        for name, weight, pattern in zip(("writes", "reads"), (share, 100 - share), patterns, strict=True)
    ]
    return replace(use, weights=tuple(weights))


def opposite(stack: str, values: dict[str, float]) -> float:
    """ext4 is quick at writes (10 clients), xfs at reads (11 clients)."""
    writes, reads = (5.0, 20.0) if stack == "ext4" else (10.0, 10.0)
    return writes if values["clients"] == 10 else reads


def twice(stack: str, values: dict[str, float]) -> float:
    return 5.0 if stack == "ext4" else 10.0


def test_where_the_drives_leave_it_undecided_the_leader_is_asked_about(tmp_path: Path, use: Use) -> None:
    question = asked(tmp_path, use, linear(1.4), PLAUSIBLE)
    assert question.strategy.advice.conclusion == "undecided"

    found = question.answer()

    assert found.leaders == ("ext4",)
    assert point(found).outcome == "flips"


@pytest.mark.parametrize("threshold", [1.15, 1.9])
def test_the_planted_value_of_a_disk_is_found_within_its_tolerance(
    tmp_path: Path, use: Use, threshold: float
) -> None:
    question = asked(tmp_path, use, linear(threshold))
    assert question.strategy.advice.leaders == ("ext4",)

    found = question.answer()

    flips = point(found)
    assert (flips.outcome, flips.rival) == ("flips", "xfs")
    assert flips.between is not None
    # The scatter of the seeds moves the point itself by about a percent.
    assert flips.between[0] * 0.97 <= threshold <= flips.between[1] * 1.03
    assert max(flips.between) <= min(flips.between) * 1.06
    assert point(found, above=False).outcome == "stays"
    assert found.whole


def test_the_answer_stays_where_nothing_is_planted(tmp_path: Path, use: Use) -> None:
    found = asked(tmp_path, use, twice, globs=()).answer()

    assert len([each for each in found.points if each.kind == "disk"]) > 10
    assert {(each.outcome, each.at) for each in found.points} == {("stays", None)}
    assert "the answer stays" in sensitivity_sentences(found)[-1]


def test_whole_numbers_are_tried_of_clients_and_the_nearest_point_comes_first(
    tmp_path: Path, use: Use
) -> None:
    def response(stack: str, values: dict[str, float]) -> float:
        return 5 * max(values["write_settle"] / 1.2, values["clients"] / 30, 1) if stack == "ext4" else 5.4

    found = asked(tmp_path, use, response, globs=(SETTLE, "oltp.clients")).answer()

    flips = [each for each in found.points if each.outcome == "flips"]
    assert [each.quantity for each in flips] == [SETTLE, "oltp.clients"]
    assert flips[0].distance < flips[1].distance
    assert flips[1].between is not None
    assert flips[1].between[0] <= 33 <= flips[1].between[1] + 1
    assert all(each.value == int(each.value) for each in flips[1].tried)


def test_trials_are_kept_and_a_second_search_runs_nothing(tmp_path: Path, use: Use) -> None:
    found = asked(tmp_path, use, linear(1.4)).answer()
    runner = planted(linear(1.4))
    again = asked(tmp_path, use, linear(1.4), runner=runner)

    assert again.answer() == found
    assert runner.begun == []
    assert findings_of(again.strategy.folder, "sensitivity") == {"postgresql-server": found}
    weights = again.strategy.finding((), whole=False)
    assert point(weights).outcome == "flips", "weights alone do not replace what trials found"


def test_trials_without_the_quantity_are_not_run_again(tmp_path: Path, use: Use) -> None:
    runner = planted(opposite)
    question = asked(tmp_path, two_weights(use, 90), opposite, BOTH, globs=("scan.clients",), runner=runner)

    found = question.answer()

    assert all(each.tried for each in found.points if each.quantity == "scan.clients")
    assert {each.split(".")[1] for each in runner.begun} == {"scan"}


def test_an_interruption_keeps_what_was_found_and_the_search_goes_on(tmp_path: Path, use: Use) -> None:
    class Interrupting(RecordingDisplay):
        count = 0

        def finished(self, trial: Any, record: Any) -> None:
            Interrupting.count += 1
            if Interrupting.count == 9:
                raise KeyboardInterrupt

    part = asked(tmp_path, use, linear(1.4))
    part.experiment.make_display = lambda runner, place: Interrupting()

    found = part.answer()

    assert part.experiment.interrupted
    assert not found.whole
    assert any(each.tried for each in found.points)
    whole = asked(tmp_path, use, linear(1.4)).answer()
    assert whole.whole
    assert point(whole).outcome == "flips"


def test_the_budget_ends_the_search(tmp_path: Path, use: Use) -> None:
    def clock() -> float:
        times.append(times[-1] + 1.0)
        return times[-1]

    times = [0.0]
    question = asked(tmp_path, use, linear(1.4), globs=(), budget_s=40.0)
    question = Asked(question.strategy, replace(question.experiment, clock=clock))

    found = question.answer()

    assert not found.whole
    assert any(each.outcome == "stays" for each in found.points)
    untried = [each for each in found.points if each.outcome == "cannot say"]
    assert {each.note for each in untried} == {UNTRIED}
    assert any("Not tried to the end" in each for each in sensitivity_sentences(found))


def test_what_cannot_be_asked_is_refused(tmp_path: Path, use: Use) -> None:
    with pytest.raises(StudyError, match="less than one variation takes"):
        asked(tmp_path, use, linear(1.4), budget_s=1e-9).answer()
    with pytest.raises(StudyError, match="no quantity") as caught:
        asked(tmp_path, use, linear(1.4), globs=("nonsense",)).answer()
    assert SETTLE in str(caught.value)


def test_a_trial_that_fails_leaves_the_answer_open_there(tmp_path: Path, use: Use) -> None:
    runner = planted(linear(1.4))
    runner.behaviours["xfs.oltp.s1"] = "fail"

    found = asked(tmp_path, use, linear(1.4), runner=runner).answer()

    assert {each.outcome for each in found.points} == {"cannot say"}
    assert all(each.note for each in found.points)


def test_a_value_that_no_drive_can_have_is_named_as_such(tmp_path: Path, use: Use) -> None:
    track = "wd-re4-500gb.seek_track_to_track"

    found = asked(tmp_path, use, twice, PLAUSIBLE, globs=(SETTLE, track)).answer()

    # The seek to the next track cannot take longer than the curve of all seeks begins with.
    assert point(found, track).outcome == "cannot say"
    assert "contradicted" in point(found, track).note


def test_without_an_answer_nothing_can_flip(tmp_path: Path, use: Use) -> None:
    one = TEXT.replace('[stacks.xfs]\nlayers = [{ layer = "xfs" }]\n', "")
    for name, text, said in (("one", one, "nothing to compare"), ("even", TEXT, "even within")):
        (tmp_path / name).mkdir()
        results = gather(measured(tmp_path / name, planted(lambda stack, values: 5.0), text))
        [advice] = advise(results, [use], None)

        with pytest.raises(ResultError, match=said):
            rivalry(results, advice)


def test_the_share_of_a_weight_is_computed_without_trials(tmp_path: Path, use: Use) -> None:
    folder = measured(tmp_path, planted(opposite), BOTH)
    results = gather(folder)
    [advice] = advise(results, [two_weights(use, 90)], None)
    assert advice.leaders == ("ext4",)

    found = Sensitivity(folder, results, advice, None).finding((), whole=True)

    # Relative to ext4, xfs takes 2.0 of the writes and 0.5 of the reads: alike at a third of writes.
    assert {each.kind for each in found.points} == {"weight"}, "of a real machine nothing else can be varied"
    writes = point(found, "weights.writes", above=False)
    assert writes.at == pytest.approx(1 / 3, abs=0.01)
    assert writes.rival == "xfs"
    assert point(found, "weights.writes").outcome == "stays"


@pytest.fixture
def found_by_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    runner = planted(linear(1.4))
    monkeypatch.setattr("strata.actions.run.runner_for", lambda *words, **options: runner)
    measured(tmp_path, planted(linear(1.4)))
    return tmp_path / "results"


def test_the_command_asks_every_use_with_an_answer_and_the_report_shows_it(found_by_command: Path) -> None:
    words = ("sensitivity", found_by_command, "--parameter", SETTLE, "--jobs", 1)

    assert "ext4 stays best unless" in " ".join(shown(*words).split())
    printed = shown_json(*words)
    [found] = printed["findings"]

    assert found["subject"] == "postgresql-server"
    [flips] = [each for each in found["points"] if each["outcome"] == "flips"]
    assert flips["quantity"] == SETTLE
    assert "estimated range 0.4 ms to 2 ms" in printed["sentences"]["postgresql-server"][0]
    assert "ext4 stays best unless" in page_of(ResultsFolder.open(found_by_command))


def test_a_use_without_an_answer_and_another_study_are_refused(found_by_command: Path) -> None:
    refused = refusal("sensitivity", found_by_command, "--use", "mail-server")
    assert refused.exit_code == 6
    assert "strata advise RESULTS --use mail-server" in str(refused)

    other = found_by_command.parent / "other.toml"
    other.write_text(TEXT.replace("clients = 10", "clients = 12"))
    refused = refusal("sensitivity", found_by_command, "--use", "postgresql-server", "--study", other)
    assert "not the study of the results" in refused.cause


@dataclass
class MoreSeeds:
    """A question of seeds alone, whose budget ends after its first answer."""

    now_s: list[float]
    cells: ClassVar = Cells(("ext4", "xfs"), ("oltp",), (1, 2, 3, 4, 5, 6))

    def next(self, tried: Sequence[Tried]) -> Sequence[Variation]:
        return [Variation(name=f"{count} seeds", seeds=count) for count in (2, 6)] if not tried else []

    def judge(self, variation: Variation, results: StudyResults) -> Tried:
        self.now_s[0] = 1e9
        return variation.tried(verdict="known")

    def finding(self, tried: Sequence[Tried], *, whole: bool) -> Finding:
        return Finding(kind="what-if", subject="seeds", whole=whole, tried=tuple(tried))


def test_a_variation_of_seeds_alone_is_an_answer_when_the_budget_ends_after_it(tmp_path: Path) -> None:
    now_s = [0.0]
    runner = planted(linear(1.4))
    folder, study = measured(tmp_path, runner), study_in(tmp_path, TEXT)
    experiment = Experiment(
        folder,
        lambda changes: study,
        lambda: runner,
        lambda runner, place: RecordingDisplay(),
        lambda text: None,
        3600.0,
        jobs=1,
        clock=lambda: now_s[0],
    )

    found = experiment.answer(MoreSeeds(now_s))

    assert [outcome.verdict for outcome in found.tried] == ["known", ""]
    assert not found.whole
