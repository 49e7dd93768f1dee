# SPDX-License-Identifier: Apache-2.0
"""All mistakes of study files; of a sound one what a run will do, leave out and take."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from strata.actions.run import RESULTS
from strata.errors import StrataError, StudyError
from strata.execution.estimate import Estimate, Past, estimate_of, expected_trials, past_trials
from strata.experiment.strategies.power_cuts import uncut
from strata.lab.machine import lacking_in_lab
from strata.model.study import Study
from strata.model.trial import CellKey
from strata.model.warning import ResultWarning
from strata.plan.aspects.restart import sharing
from strata.plan.catalogue import catalogue
from strata.plan.compile import compile_trial, skipped, trials
from strata.plan.model import Plan
from strata.plan.unpriced import unpriced_warnings
from strata.printable import in_json
from strata.reading.claims import SUFFIX
from strata.reading.load import load_study
from strata.rules.direct_io import direct_io_warnings
from strata.rules.full_size import smaller
from strata.rules.redundancy import stack_warnings
from strata.rules.untouched import exhausted_warnings, untouched_warnings
from strata.runners.kernel import lab_only


@dataclass(frozen=True)
class CheckedStudy:
    """A study file without a mistake."""

    study: Study = field(repr=False)
    trials: int  # that can be run
    skipped: dict[CellKey, str]
    warnings: list[ResultWarning]
    estimate: Estimate
    shared: list[list[CellKey]]  # the cells that share what is prepared once
    lab_only: dict[str, list[str]]  # the stacks that no host can run, by the reason
    host_only: dict[str, list[str]]  # the stacks that the lab cannot run

    @property
    @in_json
    def declared(self) -> dict[str, Any]:
        return self.study.describe().options()

    @property
    @in_json
    def remarks(self) -> dict[str, list[str]]:
        """What workloads and tenants say of themselves, with their names."""
        found: dict[str, dict[str, None]] = {}
        for name, workload in self.study.workloads.items():
            loads = {f"{name}.{tenant}": each.load for tenant, each in workload.tenants().items()}
            for stack in self.study.stacks.values():
                on = stack.at(workload.place).provides
                for whose, load in (loads or {name: workload}).items():
                    for text in load.remarks(on):
                        found.setdefault(text, {})[whose] = None
        return {text: [*names] for text, names in found.items()}

    @property
    @in_json
    def smaller(self) -> list[str]:
        """What is smaller than on the machine that the study is for, and what that changes."""
        return list(smaller(self.study))

    @property
    @in_json
    def uncut(self) -> dict[str, str]:
        """The workloads under which the power is not cut, with the reason."""
        return dict(uncut(self.study))


def check_files(place: Path, scale: float = 1) -> dict[Path, CheckedStudy | StrataError]:
    """Check a study file, or each study file of a folder. Raises StudyError if it is neither."""
    if place.name.endswith(SUFFIX):
        remedy = f"check them with their study: strata claims STUDY --claims {place}"
        raise StudyError("these are claims about a study, not a study", place=str(place), remedy=remedy)
    beside = (each for each in sorted(place.glob("*.toml")) if not each.name.endswith(SUFFIX))
    files = list(beside) if place.is_dir() else [place]
    if not files:
        raise StudyError("a folder without a .toml file", place=str(place), remedy="name a study file")
    past = cache(lambda: past_trials(sorted(RESULTS.glob("*"))))  # read once, and only for a sound study
    return {file: check_study(file, past, scale) for file in files}


def check_study(file: Path, past: Callable[[], list[Past]], scale: float) -> CheckedStudy | StrataError:
    """A study file, or all its mistakes; of a sound one, a trial of each cell is compiled.

    Another seed changes values within a cell's steps, and none of the rules that steps are checked by.
    """
    try:
        read = load_study(file, catalogue(), scale=scale)
        left_out, runnable = skipped(read), trials(read)
        for stack, seed in {(trial.stack, trial.seed) for trial in runnable}:
            read.drawn_devices(stack, seed)
        firsts = list({trial.key.cell: trial for trial in reversed(runnable)}.values())
        plans = [compile_trial(read, *trial.key) for trial in firsts]
    except StrataError as error:
        return error
    cells = expected_trials(read, runnable)
    shared = sharing(plans)
    estimate = estimate_of(read, cells, past(), {cell: len(group) for group in shared for cell in group})
    warnings = [
        *stack_warnings(read),
        *untouched_warnings(read),
        *exhausted_warnings(read),
        *direct_io_warnings(read),
        *unpriced_warnings([plan for plan in plans if not lacking_in_lab(plan)], read.processor),
    ]
    host = read.on_host()
    there = [
        plan if host.stacks[each.stack] == read.stacks[each.stack] else compile_trial(host, *each.key)
        for plan, each in zip(plans, firsts, strict=True)
    ]
    only = _by_reason(there, lambda plan: lab_only(plan.prerequisites))
    apart = _by_reason(plans, lambda plan: filter(None, [lacking_in_lab(plan)]))
    return CheckedStudy(read, len(runnable), dict(left_out), warnings, estimate, shared, only, apart)


def _by_reason(plans: Iterable[Plan], unmet: Callable[[Plan], Iterable[str]]) -> dict[str, list[str]]:
    """The stacks that cannot be run somewhere, by the reason, in the order of the plans."""
    found: dict[str, dict[str, None]] = {}
    for plan in plans:
        for why in unmet(plan):
            found.setdefault(why, {})[plan.trial.stack] = None
    return {why: [*stacks] for why, stacks in found.items()}
