# SPDX-License-Identifier: Apache-2.0
"""``strata report``: a study's results as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from strata.cli.output import print_json, print_wrote
from strata.cli.parameters import AsJson, FromResults, OpenIt, option
from strata.files import refuse_folder, write_page
from strata.report.page import page_of
from strata.results.store import ResultsFolder


def report(
    results: FromResults,
    output: Annotated[
        Path | None, option("The file. Default: RESULTS/report.html.", "--output", "-o")
    ] = None,
    reference: Annotated[
        str | None, option("Compare all cells with it. Default: the study's.", "STACK")
    ] = None,
    open_it: OpenIt = False,
    as_json: AsJson = False,
) -> None:
    """Write the results as one page that works offline.

    It has the answer, charts, tables and how to reproduce them. The file needs no network and no other file;
    results in virtual time give the same bytes everywhere.

    Examples:
        strata report results/quickstart
        strata report results/quickstart -o quickstart.html --open
        strata report results/quickstart --reference xfs
        strata export results/quickstart  # the same for articles and other programs
    """
    folder = ResultsFolder.open(results)
    target = output if output is not None else folder.safe_path("report.html")
    refuse_folder(target)
    page = page_of(folder, reference)
    write_page(target, page)
    if as_json:
        print_json(file=target, bytes=len(page.encode()))
    else:
        print_wrote(target)
    if open_it:
        typer.launch(target.resolve().as_uri())
