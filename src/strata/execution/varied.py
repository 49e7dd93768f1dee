# SPDX-License-Identifier: Apache-2.0
"""Trials of a changed study beside the results of the unchanged one, within a budget of real time.

Each change has a results folder of its own, so no trial is run twice.
Trials that the change does not touch get copies of the results.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from strata.execution.agenda import PlannedTrial, fingerprint_of, plan_study, snapshot_of
from strata.execution.display import Display
from strata.execution.run import lab_bytes, run_study, worker_cpus
from strata.files import explained
from strata.model.study import Study
from strata.results.record import ResultRecord
from strata.results.store import ResultsFolder
from strata.runners.base import Runner

_KERNEL_S: Final = 600.0  # to compile one on two processors


class Ended(Exception):  # noqa: N818  not an error
    """The budget is used up, or the user interrupted; the trials that were run are kept."""


@dataclass
class VariedTrials:
    """Runs changed copies of a study.

    Attributes:
        folder: The results of the unchanged study.
        within: The folder in ``folder`` with a results folder for each change.
        trial_s: The real time of a trial, at first that of the results.
        clock: Real seconds.
        interrupted: Whether the user asked for the end.
    """

    folder: ResultsFolder
    within: str
    runner: Runner
    display: Callable[[], Display]
    budget_s: float
    jobs: int | None = None
    clock: Callable[[], float] = time.monotonic
    trial_s: float = 1.0
    interrupted: bool = False
    _begun_s: float = field(init=False)

    def __post_init__(self) -> None:
        self._begun_s = self.clock()

    def cost_s(self, study: Study, trials: int) -> float:
        """The real time that this number of trials takes, estimated by those before."""
        return trials * self.trial_s / self._at_once(study)

    def run(self, varied: Study, name: str, planned: list[PlannedTrial] | None = None) -> ResultsFolder:
        """Run the missing trials of a changed study, and return its results.

        ``planned`` are its trials, if they are known. Raises StrataError if no drive or machine can have the
        changed values, and Ended.
        """
        planned = self.planned(varied) if planned is None else planned
        place = self.folder.path / self.within / name
        missing = self._missing(planned, self._copied(varied, planned, place))
        spent_s = self.clock() - self._begun_s
        if missing and spent_s + self.cost_s(varied, len(missing)) > self.budget_s:
            raise Ended  # trials that are there already cost nothing
        begun_s = self.clock()
        done = run_study(varied, place, self.runner, self.display(), jobs=self.jobs)
        if done.valid:
            self.trial_s = (self.clock() - begun_s) / len(done.valid) * self._at_once(varied)
        if done.signal_number is not None:
            self.interrupted = True
            raise Ended
        return ResultsFolder.open(place)

    def planned(self, study: Study) -> list[PlannedTrial]:
        """The trials of a study. Raises StrataError if a drive cannot have its values."""
        return plan_study(study, self.runner)[0]

    def require_kernels(self, study: Study) -> None:
        """Raise Ended if the budget leaves no time to compile a kernel that the study needs."""
        planned = plan_study(study, self.runner, chosen=())[0]  # builds nothing
        built = all(self.runner.identity_of(each.plan).kernel_sha256 for each in planned)
        if not built and self.clock() - self._begun_s + _KERNEL_S > self.budget_s:
            raise Ended

    def _at_once(self, study: Study) -> int:
        return len(worker_cpus(self.runner, self.jobs, lab_bytes(study)))

    def _missing(self, planned: Iterable[PlannedTrial], folder: ResultsFolder) -> list[PlannedTrial]:
        def is_there(each: PlannedTrial) -> bool:
            of_now = fingerprint_of(self.runner.identity_of(each.plan))
            return folder.valid_result(each.key, each.spec_sha256, of_now) is not None

        return [each for each in planned if not is_there(each)]

    def _copied(self, varied: Study, planned: list[PlannedTrial], place: Path) -> ResultsFolder:
        """The change's folder, with the results of the trials that the change does not touch."""
        folder = ResultsFolder.create(place, snapshot_of(varied, planned, {}, self.runner, ""))
        unmeasured = {each.key for each in self._missing(planned, self.folder)}
        for each in planned:
            measured, copy = (one.trials_path / str(each.key) for one in (self.folder, folder))
            if each.key in unmeasured or copy.exists():
                continue
            # After an interruption a trial is there whole or not at all.
            with explained(copy, "copy the results"), TemporaryDirectory(dir=place) as beside:
                shutil.copytree(measured, Path(beside) / copy.name).rename(copy)
        return folder


def narrowed(study: Study, stacks: Collection[str], workloads: Iterable[str], seeds: Sequence[int]) -> Study:
    """The study with these stacks, workloads and seeds alone, and nothing beside its trials."""
    return replace(
        study,
        stacks={name: study.stacks[name] for name in stacks},
        workloads={name: study.workloads[name] for name in workloads},
        seeds=tuple(seeds),
        precision=None,
        survival=None,
        reference=study.reference if study.reference in stacks else None,
    )


def mean_trial_s(
    records: Iterable[ResultRecord], stacks: Collection[str], workloads: Collection[str]
) -> float:
    """The real time of a trial of these cells, by results; a second without any."""
    took = [
        each.real_time.duration_s
        for each in records
        if each.trial.stack in stacks and each.trial.workload in workloads
    ]
    return sum(took) / len(took) if took else 1.0
