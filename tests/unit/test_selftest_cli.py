# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from execution_factory import TEXT, fio_output
from typer.testing import CliRunner, Result

from strata.cli import app
from strata.model.step import Step
from strata.plan.model import Plan
from strata.runners.fake import FakeRunner, Output
from strata.seeds import derive_seed
from strata.statistics.selftest import BestOf, Rate


def scattered(plan: Plan, step: Step) -> Output:
    """Independent rates that scatter by a few per cent."""
    if step.id != "fio-measure":
        return fio_output(plan, step)
    draw = random.Random(derive_seed(plan.trial.seed, plan.trial.stack))
    latency = {"N": 100, "mean": 8e6, "max": 9_000_000, "bins": {"8000000": 100}}
    part = {"total_ios": 100, "iops": draw.gauss(160, 4), "bw_bytes": 409_600, "lat_ns": latency}
    return json.dumps({"jobs": [{"read": part, "write": part}]}), {}


@pytest.fixture
def runner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeRunner:
    fake = FakeRunner(output=scattered)
    monkeypatch.setattr("strata.actions.run.runner_for", lambda *words, **more: fake)
    monkeypatch.chdir(tmp_path)
    return fake


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, ["lab", "selftest", *words])


def test_one_stack_against_itself_differs_about_as_often_as_the_interval_says(runner: FakeRunner) -> None:
    done = invoke()

    assert done.exit_code == 0, done.stdout
    assert "48 seeds: 2000 studies of 2 stacks with 6 seeds" in done.stdout
    assert "studies with any false better or worse" in done.stdout
    assert {each.split(".")[0] for each in runner.begun} == {"ext4"}


def test_what_differs_too_often_ends_with_an_error_and_a_remedy(
    runner: FakeRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    often = BestOf(6, 44, 6, Rate(120, 1200), Rate(60, 200))
    monkeypatch.setattr("strata.experiment.strategies.selftest.best_of", lambda *words: often)

    done = invoke("--seeds", "12", "--stacks", "44", "--workloads", "6")

    assert done.exit_code == 1
    assert "200 studies of 44 stacks with 6 seeds under 6 workloads" in done.stdout
    assert "too often: either the trials are not independent" in done.stdout


def test_a_stack_and_a_workload_of_ones_own_study_can_be_taken(runner: FakeRunner, tmp_path: Path) -> None:
    file = tmp_path / "tiny.toml"
    file.write_text(TEXT.replace("seeds = [1, 2]", 'seeds = [5]\nprecision = "2.5%"'))

    done = invoke(str(file), "--stack", "xfs", "--workload", "mix", "--seeds", "12", "--json")

    assert json.loads(done.stdout)["tests"][0]["of"].endswith("of xfs under mix")
    assert sorted(runner.begun) == sorted(f"xfs.mix.s{seed}" for seed in range(5, 17))
    assert Path("results/selftest-tiny/study.json").is_file()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--seeds", "11"), "too few for two groups of 6"),
        (("--stack", "ext5"), 'did you mean "ext4"'),
        (("--workload", "oltp"), "random-read"),
    ],
)
def test_what_cannot_be_tested_is_refused_before_anything_runs(
    runner: FakeRunner, words: tuple[str, ...], said: str
) -> None:
    done = invoke(*words)

    assert done.exit_code
    assert said in str(done.exception)
    assert runner.begun == []


def test_trials_that_fail_are_not_enough(runner: FakeRunner) -> None:
    runner.behaviours["ext4.random-read.s1"] = "fail"  # a second failure like it would stop the cell

    done = invoke("--seeds", "12")

    assert "only 11 trials of ext4.random-read are valid" in str(done.exception)


def test_known_distributions_need_no_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    done = invoke("--synthetic", "--json")

    found: list[dict[str, Any]] = json.loads(done.stdout)["tests"]
    assert done.exit_code == 0
    normal = next(each for each in found if each["of"].startswith("normal"))
    assert normal["verdict"] == "at most 5 %"
    assert len(found) > 3
    assert list(tmp_path.iterdir()) == []
