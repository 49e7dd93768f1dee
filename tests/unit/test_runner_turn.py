# SPDX-License-Identifier: Apache-2.0
"""Trials of several runs on one machine, which wait for one another."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from execution_factory import fake_runner, study_in

from strata.errors import LabError
from strata.execution.schedule import plan_study
from strata.runners.base import Cancelled, Progress, Task
from strata.runners.host import turn


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return Task(plan_study(study_in(tmp_path), fake_runner())[0][0].plan, {}, tmp_path)


def test_a_second_trial_waits_says_so_and_goes_on_when_the_first_has_ended(
    task: Task, tmp_path: Path
) -> None:
    waits, done = threading.Event(), threading.Event()

    def report(progress: Progress) -> None:
        assert progress.step == "waiting for another run's trial on this machine"
        waits.set()

    def second() -> None:
        with turn(Task(task.plan, {}, tmp_path, report=report), tmp_path / "lock"):
            done.set()

    with turn(task, tmp_path / "lock"):
        other = threading.Thread(target=second)
        other.start()
        assert waits.wait(30)
        assert not done.is_set()
    other.join(30)

    assert done.is_set()


def test_a_trial_that_waits_can_be_cancelled(task: Task, tmp_path: Path) -> None:
    cancelled = Task(task.plan, {}, tmp_path)
    cancelled.cancel.set()

    with turn(task, tmp_path / "lock"), pytest.raises(Cancelled), turn(cancelled, tmp_path / "lock"):
        pass


def test_a_link_in_place_of_the_lock_is_not_followed(task: Task, tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(LabError), turn(task, tmp_path / "lock"):
        pass

    assert not (tmp_path / "elsewhere").exists()
