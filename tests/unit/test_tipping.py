# SPDX-License-Identifier: Apache-2.0
"""What would change an answer: planted responses of two stacks to a quantity, found by fake trials."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from execution_factory import RecordingDisplay
from tipping_studies import (
    SETTLE,
    TEXT,
    above,
    below,
    linear,
    measured,
    planted,
    tipper,
)

from strata.advice.advise import advise
from strata.advice.tipping_weights import answered, only_weights, tipping_weights
from strata.advice.uses import Use, bundled_uses
from strata.errors import ResultError, StudyError
from strata.plan.catalogue import catalogue
from strata.report.tipping_text import tipping_words
from strata.results.store import ResultsFolder
from strata.results.tipping import TRIALS_NAME, read_tipping
from strata.statistics.study import gather


@pytest.fixture
def use() -> Use:
    return bundled_uses(catalogue())["postgresql-server"]


def test_where_the_drives_leave_it_undecided_the_leader_is_asked_about(tmp_path: Path, use: Use) -> None:
    text = TEXT.replace('drives = "exact"\n', "")
    search = tipper(tmp_path, use, linear(1.4), text)
    assert search.advice.conclusion == "undecided"

    found = search.run()

    assert found.leaders == ("ext4",)
    assert above(found).outcome == "tips"


@pytest.mark.parametrize("threshold", [1.15, 1.4, 1.9])
def test_the_planted_value_of_a_disk_is_found_within_its_tolerance(
    tmp_path: Path, use: Use, threshold: float
) -> None:
    search = tipper(tmp_path, use, linear(threshold))
    assert search.advice.leaders == ("ext4",)

    found = search.run()

    point = above(found)
    assert point.outcome == "tips"
    assert point.rival == "xfs"
    assert point.between is not None
    # The scatter of the seeds moves the point itself by about a percent.
    assert point.between[0] * 0.97 <= threshold <= point.between[1] * 1.03
    assert max(point.between) <= min(point.between) * 1.06
    assert below(found).outcome == "stays"
    assert found.whole


def test_the_answer_stays_where_nothing_is_planted(tmp_path: Path, use: Use) -> None:
    search = tipper(tmp_path, use, lambda stack, values: 5.0 if stack == "ext4" else 10.0, globs=())

    found = search.run()

    disk = [each for each in found.points if each.kind == "disk"]
    assert len(disk) > 10
    assert {each.outcome for each in found.points} == {"stays"}
    assert all(each.at is None for each in found.points)
    assert "the answer stays" in tipping_words(found)[-1]
    assert "where xfs waits 1.9" in tipping_words(found)[-1] or "2.0" in tipping_words(found)[-1]


def test_a_number_of_clients_is_found(tmp_path: Path, use: Use) -> None:
    def response(stack: str, values: dict[str, float]) -> float:
        return 5 + values["clients"] / 4 if stack == "ext4" else 10.0

    found = tipper(tmp_path, use, response, globs=("oltp.clients",)).run()

    point = above(found, "oltp.clients")
    assert point.between is not None
    assert point.between[0] <= 20 <= point.between[1] + 1
    assert all(each.value == int(each.value) for each in point.tried)


def test_the_nearest_point_comes_first(tmp_path: Path, use: Use) -> None:
    def response(stack: str, values: dict[str, float]) -> float:
        near = values["write_settle"] / 1.2
        far = values["clients"] / 30
        return 5 * max(near, far, 1) if stack == "ext4" else 5.0 + 1e-9

    def apart(stack: str, values: dict[str, float]) -> float:
        return response(stack, values) if stack == "ext4" else 5.4

    found = tipper(tmp_path, use, apart, globs=(SETTLE, "oltp.clients")).run()

    tips = [each for each in found.points if each.outcome == "tips"]
    assert [each.quantity for each in tips] == [SETTLE, "oltp.clients"]
    assert tips[0].distance < tips[1].distance


def test_trials_are_kept_and_a_second_search_runs_nothing(tmp_path: Path, use: Use) -> None:
    first = tipper(tmp_path, use, linear(1.4))
    found = first.run()
    runner = planted(linear(1.4))

    again = replace(first, runner=runner, _points={}).run()

    assert runner.begun == []
    assert again == found
    kept = read_tipping(first.folder)
    assert kept is not None
    assert kept.uses["postgresql-server"] == found


def test_trials_without_the_quantity_are_not_run_again(tmp_path: Path, use: Use) -> None:
    runner = planted(opposite)
    search = tipper(tmp_path, two_weights(use, 90), opposite, BOTH, globs=("scan.clients",), runner=runner)
    runner.begun.clear()

    found = search.run()

    assert all(each.tried for each in found.points if each.quantity == "scan.clients")
    assert {each.split(".")[1] for each in runner.begun} == {"scan"}


def test_an_interruption_keeps_what_was_found_and_the_search_goes_on(tmp_path: Path, use: Use) -> None:
    class Interrupting(RecordingDisplay):
        count = 0

        def finished(self, trial: Any, record: Any) -> None:
            Interrupting.count += 1
            if Interrupting.count == 9:
                raise KeyboardInterrupt

    search = tipper(tmp_path, use, linear(1.4))
    part = replace(search, display=Interrupting, _points={})

    found = part.run()

    assert part.interrupted
    assert not found.whole
    assert any(each.tried for each in found.points)
    whole = replace(search, _points={}).run()
    assert whole.whole
    assert above(whole).outcome == "tips"


def test_the_budget_ends_the_search(tmp_path: Path, use: Use) -> None:
    def clock() -> float:
        times.append(times[-1] + 1.0)
        return times[-1]

    times = [0.0]
    search = tipper(tmp_path, use, linear(1.4), globs=(), budget_s=20.0)
    found = replace(search, clock=clock, _points={}).run()

    assert not found.whole
    untried = [each for each in found.points if each.outcome == "cannot say"]
    assert untried
    assert {each.note for each in untried} == {"not tried within the budget"}
    assert any("Not tried to the end" in each for each in tipping_words(found))


def test_a_budget_below_one_value_is_refused(tmp_path: Path, use: Use) -> None:
    search = tipper(tmp_path, use, linear(1.4), budget_s=1e-9)

    with pytest.raises(StudyError, match="less than one value takes"):
        search.run()


def test_an_unknown_quantity_is_refused_with_the_known_ones(tmp_path: Path, use: Use) -> None:
    search = tipper(tmp_path, use, linear(1.4), globs=("nonsense",))

    with pytest.raises(StudyError, match="no quantity") as caught:
        search.run()
    assert SETTLE in str(caught.value)


def test_a_trial_that_fails_leaves_the_answer_open_there(tmp_path: Path, use: Use) -> None:
    runner = planted(linear(1.4))
    runner.behaviours["xfs.oltp.s1"] = "fail"
    found = tipper(tmp_path, use, linear(1.4), runner=runner).run()

    assert {each.outcome for each in found.points} == {"cannot say"}
    assert all(each.note for each in found.points)


def test_a_value_that_no_drive_can_have_is_named_as_such(tmp_path: Path, use: Use) -> None:
    text = TEXT.replace('drives = "exact"\n', "")
    track = "wd-re4-500gb.seek_track_to_track"

    def response(stack: str, values: dict[str, float]) -> float:
        return 5.0 if stack == "ext4" else 10.0

    found = tipper(tmp_path, use, response, text, globs=(SETTLE, track)).run()

    # The seek to the next track cannot take longer than the curve of all seeks begins with.
    point = above(found, track)
    assert point.outcome == "cannot say"
    assert "contradicted" in point.note
    kept = read_tipping(ResultsFolder.open(tmp_path / "results"))
    assert kept is not None
    assert above(kept.uses["postgresql-server"], track) == point


def test_without_an_answer_nothing_can_tip(tmp_path: Path, use: Use) -> None:
    one = measured(
        tmp_path, planted(linear(1.4)), TEXT.replace('[stacks.xfs]\nlayers = [{ layer = "xfs" }]\n', "")
    )
    results = gather(one)
    [advice] = advise(results, [use], None)

    with pytest.raises(ResultError, match="nothing to compare"):
        answered(results, advice)


def test_equal_stacks_have_no_answer_that_could_tip(tmp_path: Path, use: Use) -> None:
    results = gather(measured(tmp_path, planted(lambda stack, values: 5.0)))
    [advice] = advise(results, [use], None)

    with pytest.raises(ResultError, match="even within"):
        answered(results, advice)


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


def test_the_share_of_a_weight_is_computed_without_trials(tmp_path: Path, use: Use) -> None:
    results = gather(measured(tmp_path, planted(opposite), BOTH))
    [advice] = advise(results, [two_weights(use, 90)], None)
    assert advice.leaders == ("ext4",)

    points = tipping_weights(results, advice)

    # Relative to ext4, xfs takes 2.0 of the writes and 0.5 of the reads: alike at a third of writes.
    [writes] = [each for each in points if each.quantity == "weights.writes" and not each.is_above]
    assert writes.at == pytest.approx(1 / 3, abs=0.01)
    assert writes.rival == "xfs"
    [more] = [each for each in points if each.quantity == "weights.writes" and each.is_above]
    assert more.outcome == "stays"


def test_a_copied_trial_is_there_whole_or_not_at_all(
    tmp_path: Path, use: Use, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = tipper(tmp_path, two_weights(use, 90), opposite, BOTH, globs=("oltp.clients",))

    def interrupted(_: Path, target: Path) -> None:
        target.mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr("shutil.copytree", interrupted)
    search.run()

    assert search.interrupted
    assert not [*(tmp_path / "results" / TRIALS_NAME).glob("*/trials/*")]


def test_results_of_a_host_have_only_weights(tmp_path: Path, use: Use) -> None:
    found = measured(tmp_path, planted(opposite), BOTH)
    results = gather(found)
    [advice] = advise(results, [two_weights(use, 90)], None)

    kept = only_weights(found, results, advice)

    assert {each.kind for each in kept.points} == {"weight"}
