# SPDX-License-Identifier: Apache-2.0
"""``strata claims --why``: which change of the study turns a claim's verdict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from strata.cli.application import INTERRUPTED_EXIT
from strata.cli.output import notes, print_json, stdout, warnings
from strata.cli.parameters import RunnerName
from strata.cli.tipping import seconds_of
from strata.errors import ResultError, StrataError

if TYPE_CHECKING:
    from strata.model.study import Study
    from strata.reading.claims import Claim, Subject
    from strata.statistics.claims import Judgement
    from strata.statistics.study import StudyResults


@dataclass(frozen=True)
class Asked:
    budget: str
    seeds: int
    study: Path | None
    jobs: int | None
    as_json: bool


def of_results(path: Path, results: StudyResults, subject: Subject, judged: Judgement, asked: Asked) -> None:
    """Search the reason for a claim's verdict in the lab, and print it. Raises ResultError for a host."""
    from strata.advice.why import WhySearch  # noqa: PLC0415  numbers take a moment to load
    from strata.cli.run import display_of, runner_for  # noqa: PLC0415
    from strata.execution.varied import VariedTrials  # noqa: PLC0415
    from strata.report.why_text import why_plain, why_view  # noqa: PLC0415
    from strata.results.store import ResultsFolder  # noqa: PLC0415
    from strata.results.why import WHY_TRIALS_NAME  # noqa: PLC0415

    budget_s = seconds_of(asked.budget, "--budget")
    if results.snapshot.time_domain == "wall":
        raise ResultError(
            "these results are of a real machine, whose processor, memory and disks cannot be varied",
            place="--why",
            remedy="run the study in the lab, and use --why on those results",
        )
    runner = runner_for(RunnerName.LAB, None, path)
    folder = ResultsFolder.open(path)
    search = WhySearch(
        judgement=judged,
        results=results,
        subject=subject,
        trials=VariedTrials(
            *(folder, WHY_TRIALS_NAME, runner, lambda: display_of(runner, path)),
            budget_s=budget_s,
            jobs=asked.jobs,
        ),
        file=asked.study,
        seeds=asked.seeds,
        say=lambda text: notes().print(text, markup=False, soft_wrap=True),
    )
    found = search.run()
    if asked.as_json:
        print_json(why_plain(judged.claim, found))
    else:
        stdout().print(why_view(judged.claim, found))
    if search.trials.interrupted:
        warnings().print("Interrupted; the findings are kept, and the same command continues.")
        raise typer.Exit(INTERRUPTED_EXIT)
    if not found.whole:
        notes().print("The budget ended before everything was tried; the same command continues from here.")


def of_study(study: Study, scale: float, judged: Judgement, *, as_json: bool) -> None:
    """Print the variations that a search would try. The study may refuse some; print the reason."""
    from strata.advice.variations import variations  # noqa: PLC0415
    from strata.report.why_text import proposed_view  # noqa: PLC0415
    from strata.statistics.claims import cells_of  # noqa: PLC0415

    cells = [cell for each in judged.findings for cell in cells_of(each)]
    names = [list(dict.fromkeys(each)) for each in zip(*cells, strict=True)] or [[], []]
    wanted = [
        (each, _refusal(study, scale, each.changes)) for each in variations(study, judged.claim, *names)
    ]
    if as_json:
        print_json([{**each.model_dump(mode="json"), "refused": why} for each, why in wanted])
    else:
        stdout().print(proposed_view(judged.claim, wanted))


def _refusal(study: Study, scale: float, changes: dict[str, object]) -> str:
    from strata.plan.catalogue import catalogue  # noqa: PLC0415
    from strata.reading.load import load_study  # noqa: PLC0415

    try:
        load_study(study.file, catalogue(), scale=scale, changes=changes)
    except StrataError as error:
        return str(getattr(error, "diagnostics", [error])[0].cause)
    return ""


def untestable(claim: Claim) -> None:
    """Refuse a claim that nothing can test. Raises ResultError."""
    if claim.untestable:
        cause = f"{claim.id} is not testable, so nothing can change it: {claim.untestable}"
        raise ResultError(cause, place="--why", remedy="name another claim")
