# SPDX-License-Identifier: Apache-2.0
"""``strata claims``: claims about stacks, judged against results."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from strata.actions.claims import ReadClaims, chosen_claims, claims_of_results, claims_of_study
from strata.cli import claims_why
from strata.cli.claims_why import WhatIfOptions
from strata.cli.output import print_json, print_text, print_wrote, refuse_both, stdout
from strata.cli.parameters import WHOLE, AsJson, AsMarkdown, AtScale, Jobs, argument, asked_scale, option
from strata.errors import StudyError
from strata.experiment.strategies.anchor import BEDS
from strata.files import write_page
from strata.printable import printable
from strata.reading.claims import SUFFIX
from strata.report import claims as shown
from strata.report.claims_chart import ratio_chart
from strata.report.claims_page import claims_page
from strata.report.document import Document, markdown_of
from strata.results.findings import SEEDS
from strata.statistics.claims import Judgement
from strata.statistics.study import StudyResults
from strata.words import listed

BAD_VERDICT_EXIT: Final = 1
_REMARK: Final = ".remark.md"
"""The end of a file's name beside NAME.claims.toml: the user's paragraph for the page."""


class FailOnVerdict(StrEnum):
    REVERSED = "reversed"
    NOT_REPRODUCED = "not-reproduced"
    OTHER_REGIME = "in-another-regime"
    OPEN = "open"
    UNDECIDED = "undecided"


Place = Annotated[
    Path, argument("A results folder, to judge; or a study file, to check its claims.", "RESULTS|STUDY")
]
ClaimsFile = Annotated[
    Path | None, option("Default: NAME.claims.toml beside the study NAME.toml.", "--claims", "FILE")
]
WhatIf = Annotated[
    str | None, option("Find which change of the study flips this claim's verdict.", "--what-if", "ID")
]
Budget = Annotated[str, option("With --what-if or --anchor: real time for its trials.", "--budget", "TIME")]
Seeds = Annotated[
    int, option("With --what-if or --anchor: the seeds of each variation.", "--seeds", "N", min=1, max=1000)
]
Beside = Annotated[
    Path | None, option("With --what-if: the study, if it needs files beside it.", "--study", "FILE")
]
OnAnchor = Annotated[bool, option("Judge claims on test beds that meet the published level.", "--anchor")]
Beds = Annotated[int, option("With --anchor: test beds to draw.", "--beds", "N", min=2, max=1000)]
Page = Annotated[
    Path | None, option("Write a page of Markdown, and a chart beside it as SVG.", "--page", "FILE")
]
Failing = Annotated[
    list[FailOnVerdict] | None,
    option(
        f"Exit with 1 if a claim is {listed([each.value for each in FailOnVerdict], 'or')}. May be repeated.",
        "VERDICT",
    ),
]


def claims(  # noqa: PLR0917  typer makes options of them
    place: Place,
    claims_file: ClaimsFile = None,
    only: Annotated[list[str] | None, option("Only this claim; may be repeated.", "--only", "ID")] = None,
    fail_on: Failing = None,
    what_if: WhatIf = None,
    budget: Budget = "20m",
    seeds: Seeds = SEEDS,
    study: Beside = None,
    jobs: Jobs = None,
    page: Page = None,
    scale: AtScale = WHOLE,
    anchor: OnAnchor = False,
    beds: Beds = BEDS,
    as_json: AsJson = False,
    as_markdown: AsMarkdown = False,
) -> None:
    """Judge what is claimed about stacks by results.

    A claims file states sentences with the comparisons that they come to. Results judge each: reproduced (the
    direction, and the ratio as far as intervals can say), direction only, not reproduced, reversed, in
    another regime (the stack that is compared with is far from its published level), undecided, not
    testable. For a study file it says which of its claims a run could judge.

    --what-if varies the study one thing at a time in the lab, on the claim's stacks and workloads: the
    claim's suspects, kernels, states of flash drives, processors, nominal drives, memory, data. Trials and
    findings are kept beside the results, and the same command continues. For a study file it lists the
    variations.

    --anchor draws the unknown parts of the test bed that the claims file states, keeps the draws on which
    the stacks that are compared with meet their published levels, and judges the claims on these.

    Examples:
        strata claims studies/published/vps.toml      # before the run: mistakes, what can be tested
        strata claims studies/published/vps.toml --scale 10%      # the same of a tenth of its size
        strata claims results/vps
        strata claims results/quickstart --claims beliefs.claims.toml --fail-on reversed
        strata claims results/vps --what-if vps.vps.btrfs --budget 1h
        strata claims results/vps --anchor --only vps.vps.btrfs --budget 1h
        strata claims results/vps --page docs/published/vps.md
    """
    refuse_both(json=as_json, markdown=as_markdown)
    beside = {"--only": only, "--fail-on": fail_on, "--page": page, "--markdown": as_markdown}
    _refuse_beside_what_if(what_if, {**beside, "--anchor": anchor})
    asked = WhatIfOptions(budget, seeds, study, jobs, as_json, beds)
    share = asked_scale(scale)
    read = _read(place, claims_file, share, is_scaled=scale != WHOLE)
    if what_if is not None:
        _explain(read, place, chosen_claims(read.judged, [what_if], "--what-if")[0], share, asked)
        return
    if anchor:
        chosen = chosen_claims(read.judged, only or [], "--only")
        read = claims_why.anchored(read, place, claims_file, chosen, asked)
    judged = chosen_claims(read.judged, only or [], "--only")
    if page is not None:
        _write_page(read, judged, page)
    else:
        _print(read, judged, as_json=as_json, as_markdown=as_markdown)
    _conclude(judged, fail_on or [])


def _read(place: Path, claims_file: Path | None, share: float, *, is_scaled: bool) -> ReadClaims:
    if place.suffix == ".toml" and not place.is_dir():
        return claims_of_study(place, claims_file, share)
    if is_scaled:
        raise typer.BadParameter("results have a scale of their own", param_hint="--scale")
    return claims_of_results(place, claims_file)


def _refuse_beside_what_if(what_if: str | None, beside: Mapping[str, object]) -> None:
    if what_if is not None and (unused := [name for name, given in beside.items() if given]):
        place_of = ", ".join(unused)
        raise typer.BadParameter("--what-if explains one claim, and does not judge", param_hint=place_of)


def _conclude(judged: list[Judgement], fail_on: list[FailOnVerdict]) -> None:
    wanted = {each.value.replace("-", " ") for each in fail_on}
    if failed := [each for each in judged if each.verdict in wanted]:
        # Printed with --quiet, too: it is why the command fails.
        named = ", ".join(f"{each.claim.id} ({each.verdict})" for each in failed)
        print(printable(f"strata: {named}"), file=sys.stderr)
        raise typer.Exit(BAD_VERDICT_EXIT)


def _print(read: ReadClaims, judged: list[Judgement], *, as_json: bool, as_markdown: bool) -> None:
    if as_json:
        print_json(study=read.name, claims=judged, levels=read.levels, reasons=read.reasons)
    elif as_markdown:
        print_text(markdown_of(shown.claims(judged, levels=read.levels)))
    else:
        stdout().print(Document(shown.claims(judged, read.question, read.reasons, read.levels)))


def _explain(read: ReadClaims, place: Path, judged: Judgement, scale: float, asked: WhatIfOptions) -> None:
    claims_why.untestable(judged.claim)
    if isinstance(read.source, StudyResults):
        claims_why.of_results(place, read.source, read, judged, asked)
    else:
        claims_why.of_study(read.source, scale, judged, as_json=asked.as_json)


def _write_page(read: ReadClaims, judged: list[Judgement], page: Path) -> None:
    """Write the page and its chart. Raises StudyError of a study without results, and of a wrong suffix."""
    if not isinstance(read.source, StudyResults):
        cause = "a study without results has no verdicts for a page"
        raise StudyError(cause, place="--page", remedy="name the folder that `strata run` wrote")
    if page.suffix != ".md":
        raise StudyError("the page is Markdown", place="--page", remedy=f"write {page.with_suffix('.md')}")
    remark = read.file.with_name(read.file.name.removesuffix(SUFFIX) + _REMARK)
    chart = ratio_chart(judged)
    drawn = page.with_suffix(".svg")
    text = claims_page(
        read.source,
        judged,
        read.reasons,
        read.levels,
        image=drawn.name if chart else "",
        alternative=chart.alternative if chart else "",
        remark=remark.read_text() if remark.is_file() else "",
    )
    if chart is not None:
        write_page(drawn, chart.svg)
        print_wrote(drawn)
    write_page(page, text)
    print_wrote(page)
