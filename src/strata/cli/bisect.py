# SPDX-License-Identifier: Apache-2.0
"""``strata bisect``: the commit of a kernel's tree at which a metric changed."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Annotated

from strata.actions.vary import experiment_on
from strata.cli.explain import explain
from strata.cli.output import listener, print_json, stdout
from strata.cli.parameters import WHOLE, AsJson, AtScale, Jobs, StudyFile, asked_scale, option
from strata.cli.sensitivity import conclude
from strata.experiment.strategies.bisect import Bisect
from strata.model.consent import give_consent
from strata.model.kernel import find_kernel
from strata.plan.catalogue import catalogue
from strata.plan.compile import find_trial, runnable_trials
from strata.reading.load import load_study
from strata.results.store import ResultsFolder


def bisect(  # noqa: PLR0917  typer makes options of them
    study: StudyFile,
    good: Annotated[str, option("The older revision.", "REVISION")],
    bad: Annotated[str, option("The newer revision, whose value differs.", "REVISION")],
    tree: Annotated[Path, option("A git tree of Linux.", "PATH")],
    trial: Annotated[str | None, option("The trial. Default: the study's first.", "TRIAL")] = None,
    metric: Annotated[str | None, option("The metric. Default: the first headline.", "NAME")] = None,
    results: Annotated[Path | None, option("Default: results/NAME.bisect.", "DIR")] = None,
    jobs: Jobs = None,
    scale: AtScale = WHOLE,
    as_json: AsJson = False,
) -> None:
    """Find the commit of a kernel at which a metric changed.

    One trial runs with the kernels of both revisions, and then with those of commits between them, until one
    commit is left. Then the trials before it and at it are compared. The tree is only read, and kernels and
    results are kept: after an interruption the same command continues.

    Examples:
        strata bisect studies/quickstart.toml --tree ../linux --good v7.2 --bad HEAD
        strata bisect study.toml --tree ../linux --good v7.2 --bad HEAD --trial ext4.oltp.s1 --scale 10%
    """
    give_consent(kernel_source=True)  # of --tree
    source = partial(load_study, study, catalogue(), scale=asked_scale(scale))
    read = source()
    chosen = find_trial(read, trial) if trial else runnable_trials(read)[0]
    find_kernel(f"{tree.absolute()}@{bad}")  # refuses a path without a git tree
    strategy = Bisect(tree, good, bad, chosen.key, metric)
    folder = ResultsFolder(results or Path("results") / f"{read.name}.bisect")
    experiment = experiment_on(folder, source, math.inf, jobs or 1, listener())
    found = experiment.answer(strategy)
    conclude(experiment, whole=True)
    before, first = strategy.around(found.tried)
    unsure = strategy.unsure(found.tried)
    if as_json:
        print_json(found, before=before, first=first, unsure=unsure)
        return
    or_one = f", or one of {len(unsure)} before it that cannot be tried" if unsure else ""
    changed = f"{first.name[:12]} changed it from {before.ratio:.12g} to {first.ratio:.12g}"
    stdout().print(f"{changed}{or_one}: {first.why}", markup=False, soft_wrap=True)
    explain([f"{each.note}/{chosen.id}" for each in (before, first)])
