# SPDX-License-Identifier: Apache-2.0
"""The search for the commit that changed a metric; tests/lab/test_bisect_in_lab.py measures real kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from execution_factory import TEXT, fio_output
from typer.testing import CliRunner

from command_line import shown, shown_json
from made_results import made_record
from planted_tree import git
from strata.cli import app
from strata.errors import LabError, RunError, StudyError
from strata.experiment.strategies.bisect import Bisect
from strata.model.consent import withdraw_consent
from strata.model.step import Step
from strata.model.trial import TrialKey
from strata.plan.model import Plan, Trial
from strata.results.counts import count_of, every_metric
from strata.results.findings import Compared, Tried
from strata.runners.fake import FakeRunner, Output

KEY = TrialKey("ext4", "postgresql", 1)


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Path]:
    """Sixteen commits, numbered in their messages from 0 on."""
    tree = tmp_path / "linux"
    tree.mkdir()
    git(tree, "init", "--quiet", "--initial-branch=main")
    for number in range(16):
        git(tree, "commit", "--quiet", "--allow-empty", "--message", str(number))
        git(tree, "tag", f"c{number}")
    yield tree
    withdraw_consent()  # the command permits the kernel's source


class Search(Bisect):
    """A bisection whose values are planted by the number of the commit; None: it cannot be measured."""

    def found(self, value: Callable[[int], float | None]) -> tuple[str, str, list[str], int]:
        """The commit before the change, the first with it, those left out, and the number of steps."""
        tried: list[Tried] = []
        while wanted := self.next(tried):
            for each in wanted:
                level = value(int(each.why))
                compared = Compared(workload="", stack="", level=level)
                tried.append(
                    each.tried(note="broken") if level is None else each.tried("measured", "", [compared])
                )
        before, first = self.around(tried)
        return before.why, first.why, [self._variation(each).why for each in self.unsure(tried)], len(tried)


def search(
    tree: Path, value: Callable[[int], float | None], good: str = "c0", bad: str = "c15"
) -> tuple[str, str, list[str], int]:
    return Search(tree, good, bad, KEY).found(value)


def test_the_first_commit_with_the_other_value_is_found(tree: Path) -> None:
    def planted(changed: int) -> Callable[[int], float]:
        return lambda number: 250.0 if number < changed else 181.5

    for changed in (1, 2, 7, 14, 15):
        before, first, unsure, steps = search(tree, planted(changed))

        assert (before, first, unsure) == (str(changed - 1), str(changed), [])
        assert steps <= 6


def test_a_commit_between_counts_to_the_nearer_end(tree: Path) -> None:
    assert search(tree, lambda number: (250.0 if number < 9 else 181.5) + number / 100)[1] == "9"


def test_a_branch_that_was_merged_is_searched_too(tree: Path) -> None:
    git(tree, "checkout", "--quiet", "-b", "side", "c3")
    git(tree, "commit", "--quiet", "--allow-empty", "--message", "99")
    git(tree, "checkout", "--quiet", "main")
    git(tree, "merge", "--quiet", "--no-ff", "--message", "100", "side")

    assert search(tree, lambda number: 1.0 if number < 99 else 2.0, bad="main")[1] == "99"


def test_commits_that_cannot_be_built_are_left_out_and_named(tree: Path) -> None:
    def value(number: int) -> float | None:
        return None if number in {6, 7, 8} else 1.0 if number < 8 else 2.0

    before, first, unsure, _ = search(tree, value)

    assert (before, first, set(unsure)) == ("5", "9", {"6", "7", "8"})


def test_ends_that_say_nothing_are_refused(tree: Path) -> None:
    with pytest.raises(StudyError, match=r"do not differ: both measure 181\.5") as caught:
        search(tree, lambda number: 181.5)
    assert "--metric" in (caught.value.remedy or "")
    with pytest.raises(RunError, match="cannot be measured: broken"):
        search(tree, lambda number: None if number == 15 else 1.0)
    with pytest.raises(StudyError, match="c9 is no ancestor of c3"):
        search(tree, float, good="c9", bad="c3")
    git(tree, "checkout", "--quiet", "--orphan", "other")
    git(tree, "commit", "--quiet", "--allow-empty", "--message", "100")
    with pytest.raises(StudyError, match="c0 is no ancestor of other"):
        search(tree, float, bad="other")
    with pytest.raises(LabError, match="git rev-parse failed"):
        search(tree, float, good="v5.0")


def test_a_trial_is_measured_by_a_count_per_operation_too(tree: Path) -> None:
    record = made_record(Trial.of("made", KEY))
    strategy = Bisect(tree, "c0", "c15", KEY, "flushes_per_operation")

    assert strategy.chosen(every_metric(record)) == count_of(record, "flushes_per_operation")
    with pytest.raises(StudyError, match='no metric "flushes_per_op"') as caught:
        replace(strategy, metric="flushes_per_op").chosen(every_metric(record))
    assert "flushes_per_operation" in (caught.value.remedy or "")


def test_the_command_measures_each_kernel_once_and_goes_on(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def output(plan: Plan, step: Step) -> Output:
        text, files = fio_output(plan, step)
        number = int(git(tree, "log", "-1", "--format=%s", plan.kernel.revision or "c0"))
        return text.replace("101.0", "101.0" if number < 11 else "81.0"), files

    def runner_of(*words: object, **options: object) -> FakeRunner:
        runners.append(FakeRunner(output=output))
        return runners[-1]

    runners: list[FakeRunner] = []
    monkeypatch.setattr("strata.actions.run.runner_for", runner_of)
    monkeypatch.setattr("strata.cli.bisect.explain", lambda trials: print(len(trials), "explained"))
    (tmp_path / "tiny.toml").write_text(TEXT)
    words = ["bisect", tmp_path / "tiny.toml", "--tree", tree, "--good", "c0", "--bad", "c15"]
    words += ["--results", tmp_path / "found"]

    found = shown_json(*words)

    assert [git(tree, "log", "-1", "--format=%s", found[end]["name"]) for end in ("before", "first")] == [
        "10",
        "11",
    ]
    assert runners[0].begun == ["ext4.mix.s1"] * len(found["tried"])
    assert shown_json(*words) == found
    assert "11" in shown(*words)
    assert "2 explained" in shown(*words)
    assert runners[1].begun == []
    done = CliRunner().invoke(app, [str(each) for each in [*words, "--metric", "nonsense"]])
    assert "no metric" in str(done.exception)
