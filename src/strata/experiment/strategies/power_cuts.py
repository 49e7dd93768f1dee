# SPDX-License-Identifier: Apache-2.0
"""The power cuts of ``[survival]``: at drawn instants of the workloads' windows, on every stack."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from strata.errors import PlanError, RunError
from strata.execution.power import CutResult, cut_and_recover, cut_plan
from strata.files import make_folder
from strata.lab.disk_image import PowerCut
from strata.model.study import Study
from strata.model.survival import Survival, why_uncounted, without_instants
from strata.model.trial import CellKey
from strata.plan.compile import skipped
from strata.plan.model import Plan
from strata.results.capabilities import PowerCutFinding
from strata.runners.lab import LabRunner
from strata.seeds import derive_seed
from strata.units import NS_PER_MS


@dataclass(frozen=True)
class DrawnCut:
    """One power cut of a stack under a workload."""

    stack: str
    workload: str
    seed: int
    number: int
    at_ns: int

    def plan(self, study: Study) -> Plan:
        return cut_plan(study, self.stack, self.workload, self.seed, self.at_ns)[0]

    def made(
        self, runner: LabRunner, study: Study, folder: Path, cpu: int | None, cancel: Event | None
    ) -> PowerCutFinding:
        """Cut, recover and judge. What cannot be carried out is a finding ``failed``, with the reason."""
        if study.stacks[self.stack].filesystems:
            note = "only the stack's own filesystem could be recovered, not the further ones"
            return PowerCutFinding(**vars(self), verdict="failed", note=note)
        attempt = folder / f"{self.stack}.{self.workload}.s{self.seed}.cut{self.number}"
        shutil.rmtree(attempt, ignore_errors=True)
        make_folder(attempt)
        cut = PowerCut(seed=derive_seed(self.seed, "power-cut", str(self.number)) >> 1)
        try:
            result = cut_and_recover(
                *(runner, study, self.stack, self.workload),
                cut=cut,
                in_window_ns=self.at_ns,
                seed=self.seed,
                folder=attempt,
                cpu=cpu,
                cancel=cancel,
            )
        except (PlanError, RunError) as error:
            return PowerCutFinding(**vars(self), verdict="failed", note=str(error).partition("\n")[0])
        shutil.rmtree(attempt)
        return self._finding(result, why_uncounted(study.load(self.stack, self.workload)))

    def _finding(self, result: CutResult, uncounted: str | None) -> PowerCutFinding:
        return PowerCutFinding(
            **vars(self),
            verdict=result.verdict,
            note="\n".join(result.said),
            lost_by_disks=sum(each.lost_acknowledged for each in result.losses),
            acknowledged=None if result.kept is None else result.kept.acknowledged,
            lost=None if result.kept is None else result.kept.lost,
            recovery_ns=result.recovery_ns,
            uncounted=uncounted or "",
        )


def uncut(study: Study) -> dict[str, str]:
    """The workloads during which the power is never cut, each with the reason, where the study cuts it."""
    survival, stacks = study.survival, study.stacks.values()
    if survival is None or not survival.power_cuts:
        return {}
    added, chosen = survival.variants(study.workloads, stacks), survival.chosen(study.workloads)
    found = {
        name: without_instants(load) if name in chosen else "the study does not ask for it"
        for name, load in study.workloads.items()
        if name not in added
    }
    return {name: why for name, why in found.items() if why}


def drawn_cuts(study: Study, survival: Survival) -> Iterator[DrawnCut]:
    """The cuts of a study, workload by workload: cut N of each is the same on all stacks.

    They take the study's seeds in turn, each with the drives of that seed.
    """
    left_out = skipped(study)
    for workload, load in survival.cut(study.workloads, study.stacks.values()).items():
        for number in range(1, survival.power_cuts + 1):
            seed = study.seeds[(number - 1) % len(study.seeds)]
            drawn = derive_seed(seed, "power-cut", str(number), "at")
            # Whole milliseconds, so that people can read them.
            at_ns = (1 + drawn % (load.window_ns // NS_PER_MS - 1)) * NS_PER_MS
            for stack in study.stacks:
                if CellKey(stack, workload) not in left_out:
                    yield DrawnCut(stack, workload, seed, number, at_ns)
