# SPDX-License-Identifier: Apache-2.0
"""Varying a study in the lab, beside its results."""

from __future__ import annotations

from collections.abc import Callable

from strata.actions import run as running
from strata.actions.run import Listener
from strata.experiment.experiment import Experiment
from strata.model.study import Study
from strata.results.store import ResultsFolder
from strata.runners.name import RunnerName


def experiment_on(
    folder: ResultsFolder,
    source: Callable[..., Study],
    budget_s: float,
    jobs: int | None,
    listener: Listener,
) -> Experiment:
    """The means to vary a study; ``source`` makes the study with its ``changes``."""
    return Experiment(
        folder,
        lambda changes: source(changes=changes),
        lambda: running.runner_for(RunnerName.LAB, folder.path, listener=listener),
        listener.display,
        listener.say,
        budget_s,
        jobs,
    )
