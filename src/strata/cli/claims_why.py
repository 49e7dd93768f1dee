# SPDX-License-Identifier: Apache-2.0
"""``strata claims --what-if``: which change of the study flips a claim's verdict."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from strata.actions.claims import ReadClaims, anchor, claims_of_results
from strata.actions.vary import experiment_on
from strata.cli.output import listener, print_json, stdout
from strata.cli.sensitivity import conclude, seconds_of
from strata.errors import ResultError, StrataError
from strata.execution.pool import Labs
from strata.experiment.candidates import candidates
from strata.experiment.experiment import Experiment
from strata.experiment.strategies.what_if import WhatIf
from strata.model.study import Study
from strata.plan.catalogue import catalogue
from strata.reading.claims import Claim
from strata.reading.load import load_study
from strata.report.document import Document
from strata.report.findings import proposed, what_if, what_if_sentence
from strata.results.declared import declared_study
from strata.results.store import ResultsFolder
from strata.statistics.claims import Judgement, cells_of
from strata.statistics.study import StudyResults


@dataclass(frozen=True)
class WhatIfOptions:
    budget: str
    seeds: int
    study: Path | None
    jobs: Labs
    as_json: bool
    beds: int


def of_results(
    path: Path, results: StudyResults, read: ReadClaims, judged: Judgement, asked: WhatIfOptions
) -> None:
    """Search the reason for a claim's verdict in the lab, and print it. Raises ResultError for a host."""
    experiment = _experiment(path, results, asked, "--what-if")
    found = experiment.answer(
        WhatIf(judged, results, read.subject, asked.study, asked.seeds, read.stated.levels)
    )
    if asked.as_json:
        print_json(found, claim=judged.claim, sentence=what_if_sentence(found))
    else:
        stdout().print(Document([*what_if(judged.claim, found)]))
    conclude(experiment, whole=found.whole)


def anchored(
    read: ReadClaims,
    path: Path,
    claims: Path | None,
    judged: list[Judgement],
    asked: WhatIfOptions,
) -> ReadClaims:
    """Judge claims on drawn test beds in the lab, and read them again. Raises ResultError for a host."""
    if not isinstance(read.source, StudyResults):
        raise ResultError("a study without results has no levels", place="--anchor", remedy="run the study")
    experiment = _experiment(path, read.source, asked, "--anchor")
    whole = anchor(read, experiment, judged, asked.beds, asked.seeds)
    conclude(experiment, whole=whole)
    return claims_of_results(path, claims)


def _experiment(path: Path, results: StudyResults, asked: WhatIfOptions, place: str) -> Experiment:
    budget_s = seconds_of(asked.budget, "--budget")
    if results.snapshot.time_domain == "wall":
        raise ResultError(
            "these results are of a real machine, whose processor, memory and disks cannot be varied",
            place=place,
            remedy=f"run the study in the lab, and use {place} on those results",
        )
    source = partial(declared_study, results.snapshot, file=asked.study)
    return experiment_on(ResultsFolder.open(path), source, budget_s, asked.jobs, listener())


def of_study(study: Study, scale: float, judged: Judgement, *, as_json: bool) -> None:
    """Print the variations that a search would try. The study may refuse some; print the reason."""
    cells = [cell for each in judged.findings for cell in cells_of(each)]
    names = [list(dict.fromkeys(each)) for each in zip(*cells, strict=True)] or [[], []]
    wanted = [
        (each, _refusal(study, scale, each.changes)) for each in candidates(study, judged.claim, *names)
    ]
    if as_json:
        print_json(variations=[{**each.model_dump(), "refused": why} for each, why in wanted])
    else:
        stdout().print(Document([*proposed(judged.claim, wanted)]))


def _refusal(study: Study, scale: float, changes: dict[str, object]) -> str:
    try:
        load_study(study.file, catalogue(), scale=scale, changes=changes)
    except StrataError as error:
        return str(getattr(error, "diagnostics", [error])[0].cause)
    return ""


def untestable(claim: Claim) -> None:
    """Refuse a claim that nothing can test. Raises ResultError."""
    if claim.untestable:
        cause = f"{claim.id} is not testable, so nothing can change it: {claim.untestable}"
        raise ResultError(cause, place="--what-if", remedy="name another claim")
