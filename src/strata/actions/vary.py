# SPDX-License-Identifier: Apache-2.0
"""Varying a study in the lab, beside its results."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from strata.actions import run as running
from strata.actions.run import Listener
from strata.actions.sharing import shared_store
from strata.advice.advise import advise
from strata.advice.uses import Use
from strata.errors import ResultError
from strata.execution.pool import Labs
from strata.experiment.experiment import Experiment
from strata.experiment.strategies.sensitivity import Sensitivity
from strata.model.study import Study
from strata.results.declared import declared_study
from strata.results.findings import read_capabilities
from strata.results.store import ResultsFolder
from strata.runners.name import RunnerName
from strata.statistics.study import gather


def experiment_on(
    folder: ResultsFolder,
    source: Callable[..., Study],
    budget_s: float,
    jobs: Labs,
    listener: Listener,
) -> Experiment:
    """The means to vary a study; ``source`` makes the study with its ``changes``."""
    folder.store.shared = folder.store.shared or shared_store(None, listener.warn)
    return Experiment(
        folder,
        lambda changes: source(changes=changes),
        lambda: running.runner_for(RunnerName.LAB, folder.path, listener=listener),
        listener.display,
        listener.say,
        budget_s,
        jobs,
    )


def sensitivities(
    folder: ResultsFolder, uses: Sequence[Use], *, is_named: bool, file: Path | None, **limits: Any
) -> list[Sensitivity]:
    """The questions of the uses that the results answer; ``file`` is the study, if it needs files beside it.

    Raises ResultError if there is no answer that could change, or not for a named use.
    """
    results = gather(folder)
    is_lab = results.snapshot.time_domain == "virtual"
    study = declared_study(results.snapshot, file=file) if is_lab else None
    found = []
    for advice in advise(results, uses, read_capabilities(folder), evidence=False):
        strategy = Sensitivity(folder, results, advice, study, **limits)
        try:
            strategy.rivalry  # noqa: B018  it may refuse
        except ResultError:
            if is_named:
                raise
            continue
        found.append(strategy)
    if not found:
        raise ResultError(
            "the results have no answer for any use, so nothing can change it",
            place=str(folder.path),
            remedy=f"`strata advise {folder.path} --evidence` says what is missing",
        )
    return found
