# SPDX-License-Identifier: Apache-2.0
"""``strata claims``: claims about stacks, judged against results."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from strata.cli.output import print_json, print_text, refuse_both, stdout
from strata.cli.parameters import WHOLE, AsJson, AsMarkdown, AtScale, argument, asked_scale, option
from strata.errors import StudyError
from strata.printable import printable

if TYPE_CHECKING:
    from strata.results.record import StudySnapshot
    from strata.statistics.claims import Judgement

BAD_VERDICT_EXIT: Final = 1


class FailOn(StrEnum):
    REVERSED = "reversed"
    NOT_REPRODUCED = "not-reproduced"
    UNDECIDED = "undecided"


Place = Annotated[
    Path, argument("A results folder, to judge; or a study file, to check its claims.", "RESULTS|STUDY")
]
Failing = Annotated[list[FailOn] | None, option("Exit with 1 if a claim has this verdict. May be repeated.")]


def claims(  # noqa: PLR0917  typer makes options of them
    place: Place,
    claims_file: Annotated[
        Path | None, option("Default: NAME.claims.toml beside the study NAME.toml.", "--claims", "FILE")
    ] = None,
    only: Annotated[list[str] | None, option("Only this claim; may be repeated.", "--only", "ID")] = None,
    fail_on: Failing = None,
    scale: AtScale = WHOLE,
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
) -> None:
    """Judge what is claimed about stacks by results.

    A claims file states sentences with the comparisons that they come to. Results judge each: reproduced (the
    direction, and the ratio as far as intervals can say), direction only, not reproduced, reversed,
    undecided, not testable. Of a study file it says which of its claims a run could judge.

    Examples:
        strata claims studies/published/vps.toml      # before the run: mistakes, what can be tested
        strata claims studies/published/vps.toml --scale 10%      # the same of a tenth of its size
        strata claims results/vps
        strata claims results/quickstart --claims beliefs.claims.toml --fail-on reversed
        strata claims results/vps --json | jq '.claims[] | select(.verdict == "reversed")'
    """
    # NumPy takes a third of a second to load.
    from strata.report import claims as shown  # noqa: PLC0415

    refuse_both(json=as_json, markdown=as_markdown)
    is_study = place.suffix == ".toml" and not place.is_dir()
    if not is_study and scale != WHOLE:
        raise typer.BadParameter("results have a scale of their own", param_hint="--scale")
    read = _of_study(place, claims_file, asked_scale(scale)) if is_study else _of_results(place, claims_file)
    judged, name, question = read
    judged = _chosen(judged, only or [])
    if as_json:
        print_json(shown.claims_plain(judged, name))
    elif as_markdown:
        print_text(shown.claims_markdown(judged))
    else:
        stdout().print(shown.claims_view(judged, question))
    wanted = {each.value.replace("-", " ") for each in fail_on or []}
    if failed := [each for each in judged if each.verdict in wanted]:
        # Printed with --quiet, too: it is why the command fails.
        named = ", ".join(f"{each.claim.id} ({each.verdict})" for each in failed)
        print(printable(f"strata: {named}"), file=sys.stderr)
        raise typer.Exit(BAD_VERDICT_EXIT)


def _of_study(file: Path, given: Path | None, scale: float) -> tuple[list[Judgement], str, str]:
    from strata.plan.catalogue import catalogue  # noqa: PLC0415
    from strata.plan.compile import skipped  # noqa: PLC0415
    from strata.spec.claims import SUFFIX, read_claims, subject_of  # noqa: PLC0415
    from strata.spec.load import load_study  # noqa: PLC0415
    from strata.statistics.claims import testable  # noqa: PLC0415

    study = load_study(file, catalogue())
    subject = subject_of(study, skipped(study), scale)
    claims = read_claims(given or _existing(file.with_suffix(SUFFIX), str(file)), subject)
    return testable(claims, subject), study.name, study.question


def _of_results(path: Path, given: Path | None) -> tuple[list[Judgement], str, str]:
    from strata.plan.catalogue import catalogue  # noqa: PLC0415
    from strata.results.store import ResultsFolder  # noqa: PLC0415
    from strata.spec.claims import read_claims  # noqa: PLC0415
    from strata.statistics.claims import judge, results_subject  # noqa: PLC0415
    from strata.statistics.study import gather  # noqa: PLC0415

    results = gather(ResultsFolder.open(path))
    file = given or _existing(_beside(results.snapshot), str(path))
    subject = results_subject(results, catalogue().workloads)
    judged = judge(read_claims(file, subject), results, subject)
    return judged, results.snapshot.name, results.snapshot.question


def _beside(snapshot: StudySnapshot) -> Path:
    """The claims of the study, whose file the results name without its folder: here, or below studies/."""
    from strata.spec.claims import SUFFIX  # noqa: PLC0415

    here = Path(Path(snapshot.file or "study.toml").name).with_suffix(SUFFIX)
    below = sorted(Path("studies").rglob(here.name))
    return here if here.is_file() or not below else below[0]


def _existing(file: Path, place: str) -> Path:
    if not file.is_file():
        raise StudyError(
            f"there is no claims file {file}", place=place, remedy="write it, or name one with --claims FILE"
        )
    return file


def _chosen(judged: list[Judgement], ids: Sequence[str]) -> list[Judgement]:
    from strata.spec.names import nearest  # noqa: PLC0415

    known = [each.claim.id for each in judged]
    for wanted in ids:
        if wanted not in known:
            raise StudyError(f'there is no claim "{wanted}"', place="--only", remedy=nearest(wanted, known))
    return [each for each in judged if not ids or each.claim.id in ids]
