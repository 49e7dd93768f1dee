# SPDX-License-Identifier: Apache-2.0
"""``strata tipping``: what would change the answer for a use."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from strata.cli.advise import asked_uses
from strata.cli.application import INTERRUPTED_EXIT
from strata.cli.output import notes, print_json, stdout, warnings
from strata.cli.parameters import AsJson, FromResults, Jobs, RunnerName, option
from strata.errors import ResultError, StudyError
from strata.plan.catalogue import catalogue
from strata.results.store import ResultsFolder
from strata.units import NS_PER_S, parse_duration

if TYPE_CHECKING:
    from strata.advice.model import Advice
    from strata.advice.tipping import Limits
    from strata.advice.uses import Use
    from strata.results.record import StudySnapshot
    from strata.results.tipping import UseTipping
    from strata.spec.study import Study
    from strata.statistics.study import StudyResults

_SEEDS: Final = 3


def tipping(  # noqa: PLR0917  typer makes options of them
    results: FromResults,
    use: Annotated[
        list[str] | None, option("Only this use; may be repeated. Default: all with an answer.", "NAME")
    ] = None,
    budget: Annotated[str, option("Real time for the trials of all uses.", "TIME")] = "20m",
    parameter: Annotated[
        list[str] | None, option("Only quantities of such a name; may be repeated.", "GLOB")
    ] = None,
    seeds: Annotated[int, option("Seeds for each value near the point.", "N", min=1, max=1000)] = _SEEDS,
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
    from strata.report.tipping_text import tipping_plain, tipping_view  # noqa: PLC0415
    from strata.statistics.study import gather  # noqa: PLC0415  numbers take a moment to load

    asked, budget_s = asked_uses(uses, use or []), _budget_s(budget)
    folder = ResultsFolder.open(results)
    gathered = gather(folder)
    advices = _advised(folder, gathered, asked, is_named=bool(use))
    search = _Search(folder, gathered, parameter or (), seeds, study, jobs)
    found = search.run(advices, budget_s)
    if as_json:
        print_json([tipping_plain(advice.use.name, each) for advice, each in found])
    else:
        for advice, each in found:
            stdout().print(tipping_view(advice.use.title, each))
    if search.interrupted:
        warnings().print("Interrupted; the findings are kept, and the same command goes on.")
        raise typer.Exit(INTERRUPTED_EXIT)
    if not all(each.whole for _, each in found):
        notes().print("The budget ended before everything was tried; the same command goes on from here.")


def _advised(
    folder: ResultsFolder, results: StudyResults, uses: Sequence[Use], *, is_named: bool
) -> list[Advice]:
    """The answers that could change. Raises ResultError if there is none, or not for a named use."""
    from strata.advice.advise import advise  # noqa: PLC0415
    from strata.advice.tipping import answered  # noqa: PLC0415
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


def _budget_s(text: str) -> float:
    try:
        return parse_duration(text) / NS_PER_S
    except ValueError as error:
        raise StudyError(str(error), place="--budget", remedy='write for example "20m"') from error


class _Search:
    """The search for each use in turn; what one leaves of the budget, the next may take."""

    def __init__(  # noqa: PLR0917
        self,
        folder: ResultsFolder,
        results: StudyResults,
        globs: Sequence[str],
        seeds: int,
        file: Path | None,
        jobs: int | None,
    ) -> None:
        self._folder, self._results, self._globs, self._seeds = folder, results, globs, seeds
        self._file, self._jobs = file, jobs
        self.interrupted = False

    def run(self, advices: Sequence[Advice], budget_s: float) -> list[tuple[Advice, UseTipping]]:
        from strata.advice.tipping import Limits, only_weights  # noqa: PLC0415

        if self._results.snapshot.time_domain == "wall":
            warnings().print(
                "These results are of a real machine, whose disks and memory cannot be varied: only the "
                "weights are tried.",
                soft_wrap=True,
            )
            return [(each, only_weights(self._folder, self._results, each)) for each in advices]
        study = _read(self._results.snapshot, self._file)
        found: list[tuple[Advice, UseTipping]] = []
        end_s = time.monotonic() + budget_s
        for number, advice in enumerate(advices):
            share_s = (end_s - time.monotonic()) / (len(advices) - number)
            found.append((advice, self._one(study, advice, Limits(share_s, self._seeds, self._globs))))
            if self.interrupted:
                break
        return found

    def _one(self, study: Study, advice: Advice, limits: Limits) -> UseTipping:
        from strata.advice.tipping import Tipper  # noqa: PLC0415
        from strata.cli.run import display_of, runner_for  # noqa: PLC0415

        place = self._folder.path
        runner = runner_for(RunnerName.LAB, None, place)
        tipper = Tipper(
            *(study, self._folder, self._results, advice, runner),
            display=lambda: display_of(runner, place),
            say=lambda text: notes().print(text, markup=False, soft_wrap=True),
            limits=limits,
            jobs=self._jobs,
        )
        found = tipper.run()
        self.interrupted = tipper.interrupted
        return found


def _read(snapshot: StudySnapshot, file: Path | None) -> Study:
    """The study of the results. Raises ResultError if it cannot be read, StudyError if another is given."""
    from strata.results.declared import declared_study  # noqa: PLC0415
    from strata.spec.load import load_study  # noqa: PLC0415

    if file is None:
        return declared_study(snapshot)
    study = load_study(file, catalogue())
    if file.read_text() != snapshot.text:
        cause, remedy = "this is not the study of the results", "run it again with `strata run`"
        raise StudyError(cause, place=str(file), remedy=remedy)
    return study
