# SPDX-License-Identifier: Apache-2.0
"""A study of two stacks whose responses to variations are planted, and questions about its results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from execution_factory import RecordingDisplay, study_in

from strata.advice.advise import advise
from strata.advice.uses import Use
from strata.experiment.experiment import Experiment
from strata.experiment.run import run_study
from strata.experiment.strategies.sensitivity import Sensitivity
from strata.model.step import Step
from strata.plan.model import Plan
from strata.results.findings import BreakEven, Finding
from strata.results.store import ResultsFolder
from strata.runners.base import Task
from strata.runners.fake import FakeRunner, Output
from strata.statistics.study import gather
from study_texts import EXT4_AND_XFS, pgbench_log

TEXT = f"""\
[study]
name = "tip"
question = "Which?"
seeds = [1, 2, 3]
phases = "fixed"
drives = "exact"
{EXT4_AND_XFS}
[workloads.oltp]
workload = "pgbench"
scale = 20
clients = 10
warmup = "1s"
duration = "20s"
"""
SETTLE = "wd-re4-500gb.write_settle"  # 1 ms stated, 0.4 to 2
Response = Callable[[str, dict[str, float]], float]
"""The time of a transaction on a stack, in ms, by parameters of the disk, `memory` and `clients`."""


@dataclass
class PlantedRunner(FakeRunner):
    """Stacks that respond to a disk's parameters, memory and clients as planted, with a scatter by seed."""

    response: Response = lambda stack, values: 1.0
    _task: Task | None = None

    def run(self, task: Task) -> None:
        self._task = task
        super().run(task)


def planted(response: Response, **options: Any) -> PlantedRunner:
    def output(plan: Plan, step: Step) -> Output:
        if step.id == "pgbench-begin":
            return "0\n", {}
        if step.id != "pgbench-load":
            return "", {}
        assert runner._task is not None
        [device] = runner._task.devices.values()
        values = {
            name: float(each.value)
            for name, each in device.parameters.items()
            if not isinstance(each.value, str)
        }
        values["clients"] = next(float(word[9:]) for word in step.argv if word.startswith("--client="))
        scatter = 1 + 0.002 * plan.trial.seed * (1 if plan.trial.stack == "ext4" else -1)
        took_ms = response(plan.trial.stack, values) * scatter
        return "", {"transactions": pgbench_log(round(took_ms * 1000), 1000 / took_ms, window_s=20)}

    runner = PlantedRunner(output=output, response=response, **options)
    return runner


def linear(threshold: float, name: str = "write_settle") -> Response:
    """On ext4 it counts, on xfs it does not; both are alike at the threshold."""
    return lambda stack, values: 5 + values[name] / threshold * 5 if stack == "ext4" else 10.0


def measured(folder: Path, runner: FakeRunner, text: str = TEXT) -> ResultsFolder:
    run_study(study_in(folder, text), folder / "results", runner, RecordingDisplay(), jobs=1)
    return ResultsFolder.open(folder / "results")


@dataclass
class Asked:
    """A question about the results in a folder, and the means to answer it."""

    strategy: Sensitivity
    experiment: Experiment

    def answer(self) -> Finding:
        return self.experiment.answer(self.strategy)


def asked(
    folder: Path,
    use: Use,
    response: Response,
    text: str = TEXT,
    *,
    runner: FakeRunner | None = None,
    budget_s: float = 1e6,
    **limits: Any,
) -> Asked:
    """The sensitivity of the answer by results that the same stacks gave, which are measured if need be."""
    found = measured(folder, planted(response), text)
    results, study = gather(found), study_in(folder, text)
    [advice] = advise(results, [use], None)
    experiment = Experiment(
        found,
        lambda changes: study,
        lambda: runner or planted(response),
        lambda runner, place: RecordingDisplay(),
        lambda text: None,
        budget_s,
        jobs=1,
    )
    return Asked(Sensitivity(found, results, advice, study, **{"globs": (SETTLE,), **limits}), experiment)


def point(found: Finding, quantity: str = SETTLE, *, above: bool = True) -> BreakEven:
    return next(each for each in found.points if each.quantity == quantity and each.is_above is above)
