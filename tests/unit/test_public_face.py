# SPDX-License-Identifier: Apache-2.0
"""`import strata`: what it offers, and that the sessions in its docstrings have the values that it gives."""

from __future__ import annotations

import doctest
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from results_factory import make_study

import strata
from made_results import made_results
from strata.errors import ResultError, StudyError
from strata.runners.base import Cancelled
from strata.runners.fake import FakeRunner
from study_texts import SOUND

ROOT = Path(__file__).parents[2]
SEEDS = (1, 2, 3, 4, 5, 6)


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "results").mkdir()
    shutil.copytree(ROOT / "studies", tmp_path / "studies")
    levels = {"ext4": 322.0, "xfs": 364.0, "btrfs": 118.0}
    make_study(tmp_path / "results/quickstart", levels, SEEDS)
    make_study(tmp_path / "results/later", levels | {"xfs": 300.0}, SEEDS)
    made_results(
        tmp_path / "results/showcase", stacks=("ext4", "xfs"), workloads=("postgresql",), gains={"xfs": 1.3}
    )
    return tmp_path


def test_the_sessions_of_the_docstrings_have_the_values_that_it_gives(
    ground: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = strata.Results.open("results/quickstart")
    runner = FakeRunner()
    monkeypatch.setattr("strata.actions.run.runner_for", lambda *_, **__: runner)
    monkeypatch.setattr("strata.actions.run.carry_out", lambda *_, **__: RAN)
    finder, tester = doctest.DocTestFinder(), doctest.DocTestRunner()
    for name in (None, *strata.__all__):
        described = strata if name is None else getattr(strata, name)
        for test in finder.find(described, name or "strata", globs={"strata": strata, "results": results}):
            tester.run(test)

    assert tester.summarize(verbose=False).failed == 0
    assert tester.tries >= 14


class RAN:
    """A run to its end."""

    survived = True

    class summary:  # noqa: N801  as of a run
        signal_number = None


def test_names_that_there_are_not_are_refused_with_the_nearest(ground: Path) -> None:
    results = strata.Results.open("results/quickstart")
    refused = []
    for words in (
        ("oltpp", "transactions_per_s", "xfs", "ext4"),
        ("oltp", "transactions", "xfss", "ext4"),
        ("oltp", "transactions_per_m", "xfs", "ext4"),
    ):
        with pytest.raises(StudyError) as caught:
            results.ratio(*words)
        refused.append(str(caught.value).splitlines()[1].strip())

    assert [each.split('"')[1] for each in refused] == ["oltp", "xfs", "transactions_per_s"]
    with pytest.raises(ResultError, match="there is no such folder"):
        strata.Results.open("results/nowhere")


def test_a_study_is_run_and_its_results_are_judged(ground: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (ground / "tiny.toml").write_text(SOUND)
    monkeypatch.setattr("strata.actions.run.runner_for", lambda *_, **__: FakeRunner())
    study = strata.load_study("tiny.toml")

    results = strata.run(study, "results/tiny", jobs=1, quiet=True)

    assert (results.stacks, results.workloads) == ([*study.stacks], [*study.workloads])
    again = strata.run("tiny.toml", "results/tiny", jobs=1, quiet=True)
    assert again.gathered.records == results.gathered.records, "nothing is measured twice"


def test_an_interrupted_run_is_no_result(ground: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(RAN):
        class summary:  # noqa: N801
            signal_number = 2

    monkeypatch.setattr("strata.actions.run.runner_for", lambda *_, **__: FakeRunner())
    monkeypatch.setattr("strata.actions.run.carry_out", lambda *_, **__: Interrupted)

    with pytest.raises(Cancelled):
        strata.run("studies/quickstart.toml", quiet=True)


def test_the_names_load_nothing_until_they_are_used() -> None:
    program = "import sys, strata; print([name for name in sys.modules if name.startswith('strata.')])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"
    assert {*dir(strata)} >= {"__getattr__"}
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = strata.nothing
