# SPDX-License-Identifier: Apache-2.0
"""``strata capabilities``: what each stack of a study can do, found out by doing it in the lab."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from strata.cli.application import examples
from strata.cli.output import is_quiet, print_json
from strata.cli.output import results as output
from strata.console import Terminal
from strata.lab import require_lab
from strata.plan.catalogue import catalogue
from strata.printable import printable
from strata.results.store import ResultsFolder
from strata.runners.base import Cancelled
from strata.runners.lab import LabRunner
from strata.spec.load import load_study
from strata.spec.study import chosen_stacks

if TYPE_CHECKING:
    from strata.results.capabilities import Capabilities, Capability


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "capabilities",
        epilog=examples(
            "strata capabilities studies/layers.toml",
            "strata capabilities studies/layers.toml --stack zfs-mirrors --probe send --notes",
            "strata capabilities studies/capabilities.toml --markdown",
        ),
    )(capabilities)


def capabilities(  # noqa: PLR0917  typer makes options of them
    study: Annotated[Path, typer.Argument(help="A study file.", metavar="STUDY", show_default=False)],
    stack: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this stack; may be repeated.")
    ] = None,
    probe: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this probe; may be repeated.")
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="The study's results folder. Default: results/NAME."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(min=1, max=1024, metavar="N", help="Labs at once. Default: one per CPU.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Probe also what was found before.")] = False,
    notes: Annotated[
        bool, typer.Option("--notes", help="After the table: every finding's note and commands.")
    ] = False,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="The table in Markdown.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Everything as JSON.")] = False,
) -> None:
    """Probe what each stack can do: snapshots, quotas, a lost disk.

    Further probes: clones, incremental transfer, resizing, discards, copy on write, nesting, corruption. Each
    builds the stack in a lab, does it, and verifies the content. A cell says yes, no or partial, the virtual
    time of the operation and the bytes that the disks moved for it. What was found is kept among the study's
    results, where `strata report` and `strata advise` look for it; the same command goes on where it was
    interrupted.
    """
    # What boots labs and reads traces takes a moment to load, which no other command should pay.
    from strata.capabilities.survey import Survey, chosen_probes  # noqa: PLC0415
    from strata.results.capabilities import FINDINGS_NAME, refuse_other_study, write_capabilities  # noqa: PLC0415

    read = load_study(study, catalogue())
    wanted = chosen_stacks(read, stack)
    probes = chosen_probes(probe or [])
    folder = ResultsFolder(results or Path("results") / read.name)
    refuse_other_study(folder, read.name)
    survey = Survey(read, LabRunner(require_lab()), folder.path / FINDINGS_NAME)
    with _counting(len(wanted) * len(probes)) as count:
        cells = survey.run(wanted, probes, jobs=jobs, fresh=fresh, finished=count)
    everything = survey.capabilities(cells)
    write_capabilities(folder, everything)
    names = {each.name for each in probes}
    rows = tuple(each for each in everything.probes if each.name in names)
    found = everything.model_copy(update={"probes": rows})
    _print(found, wanted, "json" if as_json else "markdown" if as_markdown else "terminal", notes=notes)


def _print(found: Capabilities, stacks: list[str], form: str, *, notes: bool) -> None:
    from strata.report.capability_table import (  # noqa: PLC0415
        capability_notes,
        capability_table,
        capability_views,
    )
    from strata.report.table import markdown  # noqa: PLC0415

    if form == "json":
        print_json({"time_domain": found.time_domain, "probes": found.probes, "cells": found.cells})
    elif form == "markdown":
        table = capability_table(found, stacks, has_bytes=True, has_questions=False)
        print(printable(markdown(table)), end="")
    else:
        console = output()
        for part in capability_views(found, stacks, console.width):
            console.print(part)
        for line in capability_notes(found) if notes else ():
            console.print(line, soft_wrap=True)


@contextmanager
def _counting(total: int) -> Iterator[Callable[[Capability], None]]:
    """A progress bar over the cells; an interruption ends the program when what was found is kept."""
    console = Terminal(stderr=True, highlight=False)  # interruptions are reported even with --quiet
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=console, transient=True, disable=is_quiet()) as progress:
            task = progress.add_task("probing", total=total)
            yield lambda cell: progress.update(task, advance=1, description=f"{cell.stack}.{cell.probe}")
    except Cancelled:
        console.print("Interrupted; what was found is kept, the same command goes on.")
        sys.exit(130)
