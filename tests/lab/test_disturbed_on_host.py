# SPDX-License-Identifier: Apache-2.0
"""A busy neighbour of a trial on this machine: it is noticed, and the trial is measured again."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from lab_factory import head, host_ground, mix, stacks
from rich.console import Console

from strata.errors import LabError
from strata.execution.display import LineDisplay
from strata.experiment.run import run_study
from strata.lab import Lab
from strata.machine.disturbance import DisturbanceLimits
from strata.machine.reading import MachineReading, Sampler
from strata.model.trial import TrialKey
from strata.model.warning import UNDISTURBED
from strata.plan.catalogue import catalogue
from strata.plan.model import Trial
from strata.reading.load import load_study
from strata.results.record import ResultRecord
from strata.results.store import ResultsFolder
from strata.runners.host import HostRunner
from strata.runners.watching import Surroundings

pytestmark = pytest.mark.root

KEY = TrialKey("ext4", "mix", 1)
TRIAL = str(KEY)
# The least share that a busy neighbour gets on a machine on which a dozen others run, too.
LIMITS = DisturbanceLimits(
    others_cpus=0.05,
    others_share=0.0,
    steal_share=1.0,
    io_bytes_per_s=float(1 << 50),
    swapped_bytes=1 << 50,
    clock_s=1e9,
)
_BURN = "import os\nwhile os.getppid() == {parent}: pass"


@dataclass(frozen=True)
class OwnPart(Sampler):
    """This machine as if nothing ran on it but this test: so it can be quiet while other tests run."""

    def reading(self) -> MachineReading:
        whole = super().reading()
        line = {os.getpid()}
        for pid, process in whole.processes.items():  # upwards: from the older to the younger, as a rule
            if process.parent in line:
                line.add(pid)
        return replace(whole, processes={pid: whole.processes[pid] for pid in line})


class Neighbourhood(LineDisplay):
    """Has a neighbour that computes while the first attempt runs."""

    def __init__(self) -> None:
        self.text = io.StringIO()
        super().__init__(Console(file=self.text, width=1000), virtual=False)
        self.attempts = 0
        self.neighbour: subprocess.Popen[bytes] | None = None

    def started(self, trial: Trial) -> None:
        super().started(trial)
        self.attempts += 1
        if self.attempts == 1:
            words = [sys.executable, "-c", _BURN.format(parent=os.getpid())]
            self.neighbour = subprocess.Popen(words)

    def abandoned(self, trial: Trial) -> None:
        super().abandoned(trial)
        self.go()

    def finished(self, trial: Trial, record: ResultRecord) -> None:
        super().finished(trial, record)
        self.go()

    def go(self) -> None:
        if self.neighbour is not None:
            self.neighbour.kill()
            self.neighbour.wait()
            self.neighbour = None


@pytest.fixture
def ground(lab: Lab) -> Iterator[Path]:
    with host_ground(head("quiet", [1], "256MiB") + stacks("ext4") + mix()) as path:
        yield path


@pytest.mark.slow
def test_a_trial_with_a_busy_neighbour_is_measured_again_when_it_has_gone(lab: Lab, ground: Path) -> None:
    study = load_study(ground / "study.toml", catalogue())
    runner = HostRunner(
        lab.agent,
        scratch=ground / "scratch",
        journal=ground / "results",
        surroundings=Surroundings(None, OwnPart(), LIMITS),
    )
    display = Neighbourhood()

    try:
        run_study(study, ground / "results", runner, display, retries=1)
    except LabError as error:
        pytest.skip(str(error))
    finally:
        display.go()

    first, second = ResultsFolder.open(ground / "results").attempts(KEY)
    verdicts = [
        check.verdict
        for attempt in (first, second)
        for check in attempt.read_result().checks
        if check.name == UNDISTURBED
    ]
    assert verdicts == ["no", "yes"]
    seen = json.loads((first.path / "machine.json").read_text())
    name = Path(sys.executable).resolve().name[:15]
    assert any(each.startswith("python") or each == name for each in seen["window"]["others"])
    assert len(seen["disturbances"]) == 1
    reading = ResultsFolder.open(ground / "results").read_trial(KEY)
    assert reading.attempt == second
    assert f"{TRIAL} was disturbed: other processes used" in display.text.getvalue()
