# SPDX-License-Identifier: Apache-2.0
"""``strata tipping``: what would change the answer for a use."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from strata.cli.advise import asked_uses
from strata.cli.application import INTERRUPTED_EXIT
from strata.cli.output import notes, print_json, stdout, warnings
from strata.cli.parameters import AsJson, FromResults, Jobs, RunnerName, option
from strata.errors import ResultError, StudyError
from strata.results.store import ResultsFolder
from strata.results.tipping import SEEDS
from strata.units import NS_PER_S, parse_duration

if TYPE_CHECKING:
    from strata.advice.model import Advice
    from strata.advice.tipping import Limits
    from strata.advice.uses import Use
    from strata.model.study import Study
    from strata.results.tipping import UseTipping
    from strata.statistics.study import StudyResults


def tipping(  # noqa: PLR0917  typer makes options of them
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
        strata tipping results/quickstart --use postgresql-server
        strata tipping results/quickstart --use postgresql-server --budget 2h
        strata tipping results/quickstart --use postgresql-server --parameter 'weights.*'
        strata tipping results/quickstart --use postgresql-server --parameter '*.write_settle' --seeds 6
    """
    from strata.advice.asked import posed  # noqa: PLC0415
    from strata.advice.tipping import Limits  # noqa: PLC0415  numbers take a moment to load
    from strata.report.tipping_text import tipping_plain, tipping_view  # noqa: PLC0415
    from strata.statistics.study import gather  # noqa: PLC0415

    asked, budget_s = asked_uses(uses, use or []), seconds_of(budget, "--budget")
    folder = ResultsFolder.open(results)
    asked = posed(folder.study(), asked, chosen=bool(use or uses))
    gathered = gather(folder)
    advices = _advised(folder, gathered, asked, is_named=bool(use))
    limits = Limits(budget_s, seeds, parameter or ())
    found, interrupted = _search(folder, gathered, advices, limits, file=study, jobs=jobs)
    if as_json:
        print_json([tipping_plain(advice.use.name, each) for advice, each in found])
    else:
        for advice, each in found:
            stdout().print(tipping_view(advice.use.title, each))
    if interrupted:
        warnings().print("Interrupted; the findings are kept, and the same command goes on.")
        raise typer.Exit(INTERRUPTED_EXIT)
    if not all(each.whole for _, each in found):
        notes().print("The budget ended before everything was tried; the same command goes on from here.")


def _advised(
    folder: ResultsFolder, results: StudyResults, uses: Sequence[Use], *, is_named: bool
) -> list[Advice]:
    """The answers that could change. Raises ResultError if there is none, or not for a named use."""
    from strata.advice.advise import advise  # noqa: PLC0415
    from strata.advice.tipping_weights import answered  # noqa: PLC0415
    from strata.results.capabilities import read_capabilities  # noqa: PLC0415

    found = []
    for advice in advise(results, uses, read_capabilities(folder), evidence=False):
        try:
            answered(results, advice)
        except ResultError:
            if is_named:
                raise
            continue
        found.append(advice)
    if not found:
        raise ResultError(
            "the results have no answer for any use, so nothing can change it",
            place=str(folder.path),
            remedy=f"`strata advise {folder.path} --evidence` says what is missing",
        )
    return found


def seconds_of(text: str, option: str) -> float:
    """A duration of real time that an option gives. Raises StudyError."""
    try:
        return parse_duration(text) / NS_PER_S
    except ValueError as error:
        raise StudyError(str(error), place=option, remedy='write for example "20m"') from error


def _search(
    folder: ResultsFolder,
    results: StudyResults,
    advices: Sequence[Advice],
    limits: Limits,
    *,
    file: Path | None,
    jobs: int | None,
) -> tuple[list[tuple[Advice, UseTipping]], bool]:
    """The findings for each use in turn, and whether the user interrupted.

    What one use leaves of the budget, the next may take. Raises the first refusal if every use is refused.
    """
    from strata.advice.tipping_weights import only_weights  # noqa: PLC0415
    from strata.results.declared import declared_study  # noqa: PLC0415

    if results.snapshot.time_domain == "wall":
        warnings().print(
            "These results are of a real machine, whose disks and memory cannot be varied: only the weights "
            "are tried.",
            soft_wrap=True,
        )
        return [(each, only_weights(folder, results, each)) for each in advices], False
    study = declared_study(results.snapshot, file=file)
    found: list[tuple[Advice, UseTipping]] = []
    refused: list[tuple[str, StudyError]] = []
    end_s = time.monotonic() + limits.budget_s
    for number, advice in enumerate(advices):
        share_s = max(0.0, end_s - time.monotonic()) / (len(advices) - number)
        mine = replace(limits, budget_s=share_s)
        try:
            one, interrupted = found_within(folder, results, advice, study, mine, jobs=jobs)
        except StudyError as error:  # too little time is left, or only another use has this quantity
            refused.append((advice.use.name, error))
            continue
        found.append((advice, one))
        if interrupted:
            return found, True
    if refused and not found:
        raise refused[0][1]
    for name, refusal in refused:
        warnings().print(f"{name}: {refusal.cause}", markup=False, soft_wrap=True)
    return found, False


def found_within(
    folder: ResultsFolder,
    results: StudyResults,
    advice: Advice,
    study: Study,
    limits: Limits,
    *,
    jobs: int | None,
) -> tuple[UseTipping, bool]:
    """Search one use's tipping points in the lab; also whether the user interrupted it."""
    from strata.advice.tipping import Tipper  # noqa: PLC0415
    from strata.cli.run import display_of, runner_for  # noqa: PLC0415

    runner = runner_for(RunnerName.LAB, None, folder.path)
    tipper = Tipper(
        *(study, folder, results, advice, runner),
        display=lambda: display_of(runner, folder.path),
        say=lambda text: notes().print(text, markup=False, soft_wrap=True),
        limits=limits,
        jobs=jobs,
    )
    return tipper.run(), tipper.interrupted
