# SPDX-License-Identifier: Apache-2.0
"""A small study and a fake runner with plausible outputs, for the tests of what lies above runners."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from strata.execution.display import Display
from strata.execution.schedule import plan_study
from strata.experiment.run import RunSummary, run_study
from strata.model.step import Step
from strata.model.study import Study
from strata.model.trial import CellKey, TrialKey
from strata.plan.catalogue import catalogue
from strata.plan.model import Plan, Trial
from strata.reading.load import load_study
from strata.results.record import ResultRecord
from strata.runners.base import Progress
from strata.runners.fake import FakeRunner, Output

TEXT = """\
[study]
name = "tiny"
question = "Which?"
seeds = [1, 2]

[devices.disk0]
model = "wd-re4-500gb"

[stacks.ext4]
layers = [{ layer = "ext4" }]

[stacks.xfs]
layers = [{ layer = "xfs", mount = ["noatime"] }]

[workloads.mix]
workload = "fio"
preset = "random-mix-4k"
size = "1GiB"
warmup = "1s"
duration = "2s"
"""
TRIALS = {TrialKey(stack, "mix", seed) for stack in ("ext4", "xfs") for seed in (1, 2)}


def study_in(folder: Path, text: str = TEXT) -> Study:
    file = folder / "tiny.toml"
    file.write_text(text)
    return load_study(file, catalogue())


def identity_of(trial: str) -> str:
    """The identity of a trial of the tiny study."""
    with TemporaryDirectory() as folder:
        planned, _ = plan_study(study_in(Path(folder)), fake_runner())
    return {str(each.key): each.spec_sha256 for each in planned}[trial]


def fio_output(plan: Plan, step: Step) -> Output:
    """The output of fio for the measured window, faster with every seed."""
    if step.id != "fio-measure":
        return "", {}
    latency = {"N": 100, "mean": 8e6, "max": 9_000_000, "bins": {"8000000": 100}}
    part = {"total_ios": 100, "iops": 100.0 + plan.trial.seed, "bw_bytes": 409_600, "lat_ns": latency}
    return json.dumps({"jobs": [{"read": part, "write": part}]}, indent=1), {}


def fake_runner(**behaviours: str) -> FakeRunner:
    named = {name.replace("__", "."): behaviour for name, behaviour in behaviours.items()}
    return FakeRunner(output=fio_output, behaviours=named)  # type: ignore[arg-type]  # Literal from text


@dataclass
class RecordingDisplay(Display):
    """Records its calls."""

    events: list[str] = field(default_factory=list)

    def begin(self, trials: Iterable[Trial], kept: int, workers: int) -> None:
        self.events.append(f"begin {len(list(trials))} kept {kept}")

    def started(self, trial: Trial) -> None:
        self.events.append(f"started {trial.id}")

    def progress(self, trial: Trial, progress: Progress) -> None:
        self.events.append(f"progress {trial.id}")

    def finished(self, trial: Trial, record: ResultRecord) -> None:
        self.events.append(f"finished {trial.id}")

    def abandoned(self, trial: Trial) -> None:
        self.events.append(f"abandoned {trial.id}")

    def at_once(self, workers: int) -> None:
        """It changes with the machines."""

    def given_up(self, cell: CellKey, why: str) -> None:
        self.events.append(f"given up {cell}")

    def say(self, text: str) -> None:
        self.events.append(f"say {text}")

    def end(self) -> None:
        self.events.append("end")


def run_tiny(
    folder: Path,
    runner: FakeRunner,
    *,
    text: str = TEXT,
    display: Display | None = None,
    only: str | None = None,
    fresh: bool = False,
    jobs: int = 1,
) -> RunSummary:
    """Run the tiny study in ``folder``; its results are in ``folder/results``."""
    study = study_in(folder, text)
    shown = display or RecordingDisplay()
    return run_study(study, folder / "results", runner, shown, jobs=jobs, only=only, fresh=fresh)
