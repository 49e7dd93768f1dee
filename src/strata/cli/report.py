# SPDX-License-Identifier: Apache-2.0
"""``strata report``: a study's results as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from strata.results.store import ResultsFolder


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report")(report)


def report(
    results: Annotated[Path, typer.Argument(help="Folder that `strata run` wrote.", metavar="RESULTS")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="The file to write; RESULTS/report.html without it.")
    ] = None,
    open_it: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
) -> None:
    """Write a report: one HTML file with the answer, charts, tables and how to reproduce them.

    The file needs no network and no other file; results in virtual time give the same bytes everywhere.

    [dim]Examples[/dim]

        strata report results/quickstart

        strata report results/quickstart -o quickstart.html --open
    """
    # Altair and its renderer take a second to load, which no other command should pay.
    from strata.report.file import refuse_folder, write_page  # noqa: PLC0415
    from strata.report.page import render  # noqa: PLC0415
    from strata.statistics.study import gather  # noqa: PLC0415

    folder = ResultsFolder.open(results)
    target = output if output is not None else folder.path / "report.html"
    refuse_folder(target)
    write_page(target, render(gather(folder)))
    typer.echo(f"wrote {target}")
    if open_it:
        typer.launch(target.resolve().as_uri())
