# SPDX-License-Identifier: Apache-2.0
"""The search for the commit that changed a metric; tests/lab/test_bisect_in_lab.py measures real kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from made_results import made_record
from planted_tree import git
from strata.errors import LabError, StudyError
from strata.execution.bisection import Bisection, Found, TrialOfCommits
from strata.model.trial import TrialKey
from strata.plan.model import Trial
from strata.results.counts import count_of, every_metric


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Sixteen commits, numbered in their messages from 0 on."""
    tree = tmp_path / "linux"
    tree.mkdir()
    git(tree, "init", "--quiet", "--initial-branch=main")
    for number in range(16):
        git(tree, "commit", "--quiet", "--allow-empty", "--message", str(number))
        git(tree, "tag", f"c{number}")
    return tree


def search(tree: Path, value: Callable[[int], float], good: str = "c0", bad: str = "c15") -> Found:
    def measure(commit: str) -> tuple[float, Path]:
        return value(int(git(tree, "log", "-1", "--format=%s", commit))), tree

    return Bisection(tree, measure, lambda text: None).search(good, bad)


@pytest.mark.parametrize("changed", [1, 2, 7, 14, 15])
def test_the_first_commit_with_the_other_value_is_found(tree: Path, changed: int) -> None:
    found = search(tree, lambda number: 250.0 if number < changed else 181.5)

    assert (found.before.subject, found.first.subject) == (str(changed - 1), str(changed))
    assert len(found.steps) <= 6


def test_a_commit_between_counts_to_the_nearer_end(tree: Path) -> None:
    found = search(tree, lambda number: (250.0 if number < 9 else 181.5) + number / 100)

    assert found.first.subject == "9"


def test_a_branch_that_was_merged_is_searched_too(tree: Path) -> None:
    git(tree, "checkout", "--quiet", "-b", "side", "c3")
    git(tree, "commit", "--quiet", "--allow-empty", "--message", "99")
    git(tree, "checkout", "--quiet", "main")
    git(tree, "merge", "--quiet", "--no-ff", "--message", "100", "side")

    found = search(tree, lambda number: 1.0 if number < 99 else 2.0, bad="main")

    assert found.first.subject == "99"


def test_commits_that_cannot_be_built_are_left_out_and_named(tree: Path) -> None:
    def value(number: int) -> float:
        if number in {6, 7, 8}:
            raise LabError("compiling the kernel failed")
        return 1.0 if number < 8 else 2.0

    found = search(tree, value)

    assert (found.before.subject, found.first.subject) == ("5", "9")
    assert {git(tree, "log", "-1", "--format=%s", each) for each in found.unsure} == {"6", "7", "8"}


def test_ends_that_do_not_differ_are_refused_with_their_value(tree: Path) -> None:
    with pytest.raises(StudyError, match=r"do not differ: both measure 181\.5") as caught:
        search(tree, lambda number: 181.5)

    assert "--metric" in (caught.value.remedy or "")


def test_ends_in_the_wrong_order_are_refused(tree: Path) -> None:
    with pytest.raises(StudyError, match="c9 is no ancestor of c3"):
        search(tree, float, good="c9", bad="c3")
    git(tree, "checkout", "--quiet", "--orphan", "other")
    git(tree, "commit", "--quiet", "--allow-empty", "--message", "100")
    with pytest.raises(StudyError, match="c0 is no ancestor of other"):
        search(tree, float, bad="other")
    with pytest.raises(LabError, match="git rev-parse failed"):
        search(tree, float, good="v5.0")


def test_a_trial_is_measured_by_a_count_per_operation_too() -> None:
    key = TrialKey("ext4", "postgresql", 1)
    record = made_record(Trial.of("made", key))
    trial = TrialOfCommits(None, key, "flushes_per_operation", *[None] * 4)  # type: ignore[arg-type]

    assert trial.chosen(every_metric(record)) == count_of(record, "flushes_per_operation")
    with pytest.raises(StudyError, match='no metric "flushes_per_op"') as caught:
        replace(trial, metric="flushes_per_op").chosen(every_metric(record))
    assert "flushes_per_operation" in (caught.value.remedy or "")
