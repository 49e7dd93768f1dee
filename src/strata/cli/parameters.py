# SPDX-License-Identifier: Apache-2.0
"""Arguments and options that several commands have."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class RunnerName(StrEnum):
    """Where trials are carried out."""

    LAB = "lab"
    HOST = "host"


StudyFile = Annotated[Path, typer.Argument(help="A study file.", metavar="STUDY")]
FromResults = Annotated[Path, typer.Argument(help="Folder that `strata run` wrote.", metavar="RESULTS")]
OnlyStacks = Annotated[
    list[str] | None, typer.Option(metavar="NAME", help="Only this stack; may be repeated.")
]
OnRunner = Annotated[RunnerName, typer.Option(help="In the lab, or on this machine.")]
Scratch = Annotated[
    Path | None, typer.Option(metavar="DIR", help="Host: folder for the files behind loop devices.")
]
Jobs = Annotated[
    int | None, typer.Option(min=1, max=1024, metavar="N", help="Labs at once. Default: one per CPU.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print everything as JSON.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print everything as CSV.")]
AsMarkdown = Annotated[bool, typer.Option("--markdown", help="Print everything as Markdown.")]
OpenIt = Annotated[bool, typer.Option("--open", help="Open it in a browser.")]
