# SPDX-License-Identifier: Apache-2.0
"""The verdict of ``strata lab power-cut`` on two boots, without a lab."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import pytest
from execution_factory import fake_runner, study_in
from typer.testing import CliRunner

from command_line import refusal
from strata.cli import app
from strata.errors import RunError
from strata.execution.power import CutResult, cut_and_recover
from strata.lab.boot import Power
from strata.lab.disk_image import PowerCut, PowerCutDamage
from strata.model.inputs import InputFile
from strata.model.study import Study
from strata.plan.model import Plan
from strata.runners.base import CONSOLE_NAME, Task

LOSS = PowerCutDamage("sda", 10**9, 5, 3, 1, 1, 1, 1, 0)


class Boots:
    """Stands for the lab's runner: the trial as the fake runs it, and then a console for the recovery."""

    def __init__(self, *, cut: bool, console: str = "", **behaviours: str) -> None:
        self.cut = cut
        self.console = console
        self.fake = fake_runner(**behaviours)

    def provide(self, plan: Plan, files: Iterable[InputFile]) -> None:
        assert not plan.inputs

    def boot(self, task: Task, power: Power) -> list[PowerCutDamage] | None:
        if power.cut is None:
            (task.folder / CONSOLE_NAME).write_text(self.console)
            raise RunError("the lab ended with signal 6 before its agent was done")
        self.fake.run(task)
        return [LOSS for _ in task.plan.devices] if self.cut else None


def cut_in(folder: Path, boots: Boots, study: Study) -> CutResult:
    stack, workload = next(iter(study.stacks)), next(iter(study.workloads))
    runs = folder / "runs"
    shutil.rmtree(runs, ignore_errors=True)
    runs.mkdir()
    cut = PowerCut(at_ns=1)
    return cut_and_recover(boots, study, stack, workload, cut=cut, after_step=None, folder=runs)  # type: ignore[arg-type]


def test_a_kernel_that_panics_on_what_is_left_is_a_verdict_with_its_last_words(tmp_path: Path) -> None:
    console = "mounting\nKernel panic - not syncing: Fatal exception\nCPU: 0\n"
    study = study_in(tmp_path)

    result = cut_in(tmp_path, Boots(cut=True, console=console), study)

    assert result.verdict == "kernel panicked"
    assert result.said == ("mounting", "Kernel panic - not syncing: Fatal exception")


def test_losses_have_the_studys_names_of_the_disks(tmp_path: Path) -> None:
    study = study_in(tmp_path)

    result = cut_in(tmp_path, Boots(cut=True, console="Kernel panic"), study)

    assert [loss.disk for loss in result.losses] == ["disk0"]


def test_a_recovery_that_ended_otherwise_is_no_verdict(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="signal 6"):
        cut_in(tmp_path, Boots(cut=True, console="Killed\n"), study_in(tmp_path))


def test_the_remedy_to_cut_earlier_is_given_only_for_a_trial_that_succeeded(tmp_path: Path) -> None:
    study = study_in(tmp_path)
    trial = f"{next(iter(study.stacks))}.{next(iter(study.workloads))}.s{study.seeds[0]}"

    with pytest.raises(RunError) as ended:
        cut_in(tmp_path, Boots(cut=False), study)
    with pytest.raises(RunError) as failed:
        cut_in(tmp_path, Boots(cut=False, **{trial: "fail"}), study)

    assert ended.value.remedy == "cut it earlier"
    assert "because its step" in str(failed.value)
    assert "strata run" in str(failed.value.remedy)


def test_a_study_that_does_not_exist_is_said_first(tmp_path: Path) -> None:
    assert "nope.toml" in str(refusal("lab", "power-cut", tmp_path / "nope.toml"))


def test_the_place_of_a_cut_is_said_once(tmp_path: Path) -> None:
    options: list[str]
    for options, said in (
        ([], "one of --at"),
        (["--at", "1s", "--ios", "5"], "only one of"),
        (["--at", "soon"], "--at"),
    ):
        study_in(tmp_path)
        (file,) = tmp_path.glob("*.toml")
        result = CliRunner().invoke(app, ["lab", "power-cut", str(file), *options])
        assert result.exit_code == 2
        assert said in result.output
