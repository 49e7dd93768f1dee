# SPDX-License-Identifier: Apache-2.0
"""``strata sensitivity``: what would change the answer for a use."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from strata.actions.vary import experiment_on, sensitivities
from strata.advice.asked import posed
from strata.cli.advise import asked_uses
from strata.cli.application import INTERRUPTED_EXIT
from strata.cli.output import listener, notes, print_json, stdout, warnings
from strata.cli.parameters import AsJson, FromResults, Jobs, option
from strata.errors import StudyError
from strata.experiment.experiment import Experiment
from strata.report import findings as shown
from strata.report.document import Document
from strata.results.declared import declared_study
from strata.results.findings import SEEDS
from strata.results.store import ResultsFolder
from strata.units import NS_PER_S, parse_duration


def sensitivity(  # noqa: PLR0917  typer makes options of them
    results: FromResults,
    use: Annotated[
        list[str] | None, option("Only this use; may be repeated. Default: all with an answer.", "NAME")
    ] = None,
    budget: Annotated[str, option("Real time for the trials of all uses.", "TIME")] = "20m",
    parameter: Annotated[
        list[str] | None, option("Only quantities of such a name; may be repeated.", "GLOB")
    ] = None,
    seeds: Annotated[int, option("Seeds for each value near the point.", "N", min=1, max=1000)] = SEEDS,
    uses: Annotated[Path | None, option("Your uses: these, or with --use also Strata's.", "FILE")] = None,
    study: Annotated[Path | None, option("The study, if it needs files beside it.", "FILE")] = None,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Find what would change the answer, and how near that is.

    An answer rests on quantities that nobody knows exactly: parameters of the disks (their files state the
    ranges), memory, clients, data, and the use's weights. Each is varied by itself over its range, in the
    lab, with paired seeds; where another stack becomes best, bisection finds the value. Weights need no
    trials. The findings are kept beside the results: the report shows them, and the same command goes on.

    Examples:
        strata sensitivity results/quickstart --use postgresql-server
        strata sensitivity results/quickstart --use postgresql-server --budget 2h
        strata sensitivity results/quickstart --use postgresql-server --parameter 'weights.*'
        strata sensitivity results/quickstart --use postgresql-server --parameter '*.write_settle' --seeds 6
    """
    asked, budget_s = asked_uses(uses, use or []), seconds_of(budget, "--budget")
    folder = ResultsFolder.open(results)
    snapshot = folder.study()
    asked = posed(snapshot, asked, chosen=bool(use or uses))
    strategies = sensitivities(
        folder, asked, is_named=bool(use), file=study, seeds_max=seeds, globs=parameter or ()
    )
    if snapshot.time_domain == "wall":
        warnings().print(
            "These results are of a real machine, whose disks and memory cannot be varied: only the weights "
            "are tried.",
            soft_wrap=True,
        )
    experiment = experiment_on(
        folder, partial(declared_study, snapshot, file=study), budget_s, jobs, listener()
    )
    found, refused = experiment.answer_each(strategies)
    titles = {strategy.advice.use.name: strategy.advice.use.title for strategy in strategies}
    if as_json:
        sentences = {finding.subject: shown.sensitivity_sentences(finding) for finding in found}
        print_json(findings=found, sentences=sentences)
    else:
        for finding in found:
            stdout().print(Document([*shown.sensitivity(titles[finding.subject], finding)]))
    for refusal in refused:
        warnings().print(refusal.cause, markup=False, soft_wrap=True)
    conclude(experiment, whole=all(finding.whole for finding in found))


def seconds_of(text: str, option: str) -> float:
    """A duration of real time that an option gives. Raises StudyError."""
    try:
        return parse_duration(text) / NS_PER_S
    except ValueError as error:
        raise StudyError(str(error), place=option, remedy='write for example "20m"') from error


def conclude(experiment: Experiment, *, whole: bool) -> None:
    """Say whether the user or the budget ended the search."""
    if experiment.interrupted:
        warnings().print("Interrupted; the findings are kept, and the same command goes on.")
        raise typer.Exit(INTERRUPTED_EXIT)
    if not whole:
        notes().print("The budget ended before everything was tried; the same command goes on from here.")
