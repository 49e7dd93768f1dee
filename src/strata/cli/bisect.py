# SPDX-License-Identifier: Apache-2.0
"""``strata bisect``: the commit of a kernel's tree at which a metric changed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from strata.cli.application import INTERRUPTED_EXIT
from strata.cli.output import notes, print_json, stdout
from strata.cli.parameters import WHOLE, AsJson, AtScale, RunnerName, StudyFile, asked_scale, option

if TYPE_CHECKING:
    from strata.execution.bisection import Found


def bisect(  # noqa: PLR0917  typer makes options of them
    study: StudyFile,
    good: Annotated[str, option("The older revision.", "REVISION")],
    bad: Annotated[str, option("The newer revision, whose value differs.", "REVISION")],
    tree: Annotated[Path, option("A git tree of Linux.", "PATH")],
    trial: Annotated[str | None, option("The trial. Default: the study's first.", "TRIAL")] = None,
    metric: Annotated[str | None, option("The metric. Default: the first headline.", "NAME")] = None,
    results: Annotated[Path | None, option("Default: results/NAME.bisect.", "DIR")] = None,
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
    # NumPy and DuckDB take a second to load, which no other command should pay.
    from strata.cli.explain import explain  # noqa: PLC0415
    from strata.cli.run import display_of, runner_for  # noqa: PLC0415
    from strata.execution.bisection import Bisection, TrialOfCommits  # noqa: PLC0415
    from strata.model.consent import give_consent  # noqa: PLC0415
    from strata.model.kernel import find_kernel  # noqa: PLC0415
    from strata.plan.catalogue import catalogue  # noqa: PLC0415
    from strata.plan.compile import find_trial, runnable_trials  # noqa: PLC0415
    from strata.reading.load import load_study  # noqa: PLC0415
    from strata.runners.base import Cancelled  # noqa: PLC0415

    give_consent(kernel_source=True)  # of --tree
    read = load_study(study, catalogue(), scale=asked_scale(scale))
    chosen = find_trial(read, trial) if trial else runnable_trials(read)[0]
    find_kernel(f"{tree.absolute()}@{bad}")  # refuses a path without a git tree
    place = results or Path("results") / f"{read.name}.bisect"
    runner = runner_for(RunnerName.LAB, None, place)
    of_commits = TrialOfCommits(
        read, chosen.key, metric, tree, place, runner, lambda folder: display_of(runner, folder)
    )
    said = lambda text: notes().print(text, markup=False, soft_wrap=True)  # noqa: E731
    try:
        found = Bisection(tree, of_commits.measure, said).search(good, bad)
    except Cancelled:
        raise typer.Exit(INTERRUPTED_EXIT) from None
    if as_json:
        print_json(found, trial=chosen.id)
        return
    stdout().print(_sentence(found), markup=False, soft_wrap=True)
    explain([f"{each.folder}/{chosen.id}" for each in (found.before, found.first)])


def _sentence(found: Found) -> str:
    before, first = found.before, found.first
    unsure = f", or one of {len(found.unsure)} before it that cannot be tried" if found.unsure else ""
    changed = f"{first.commit[:12]} changed it from {before.value:.12g} to {first.value:.12g}"
    return f"{changed}{unsure}: {first.subject}"
