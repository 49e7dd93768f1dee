# SPDX-License-Identifier: Apache-2.0
"""``strata capabilities``: what each stack of a study can do, found out by doing it in the lab."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from strata.actions.run import surveyed
from strata.cli.application import INTERRUPTED_EXIT
from strata.cli.output import listener, print_json, print_text, setup_progress, stdout, warnings
from strata.cli.parameters import AsJson, AsMarkdown, Jobs, OnlyStacks, StudyFile, chosen_stacks, option
from strata.experiment.survey import Survey, chosen_probes
from strata.lab import require_lab
from strata.plan.catalogue import catalogue
from strata.reading.load import load_study
from strata.report import capability_table as tables
from strata.report.table import markdown
from strata.results.capabilities import Capabilities
from strata.results.store import ResultsFolder
from strata.runners.base import Cancelled
from strata.runners.lab import LabRunner


def capabilities(  # noqa: PLR0917  typer makes options of them
    study: StudyFile,
    stack: OnlyStacks = None,
    probe: Annotated[list[str] | None, option("Only this probe; may be repeated.", "NAME")] = None,
    results: Annotated[Path | None, option("The results folder. Default: results/NAME.", "DIR")] = None,
    jobs: Jobs = None,
    fresh: Annotated[bool, option("Probe also what was found before.", "--fresh")] = False,
    notes: Annotated[bool, option("After the table: every finding's note and commands.", "--notes")] = False,
    as_markdown: AsMarkdown = False,
    as_json: AsJson = False,
) -> None:
    """Probe what each stack can do: snapshots, quotas, a lost disk.

    Further probes: clones, incremental transfer, resizing, discards, copy on write, nesting, corruption. Each
    builds the stack in a lab, does it, and verifies the content. A cell says yes, no or partial, the virtual
    time of the operation and the bytes that the disks moved for it. Findings are kept among the study's
    results, for `strata report` and `strata advise`; after an interruption the same command goes on.

    Examples:
        strata capabilities studies/layers.toml
        strata capabilities studies/layers.toml --stack zfs-mirrors --probe send --notes
        strata capabilities studies/capabilities.toml --markdown
    """
    read = load_study(study, catalogue())
    wanted = chosen_stacks(read, stack)
    probes = chosen_probes(probe or [])
    folder = ResultsFolder(results or Path("results") / read.name)
    survey = Survey(read, LabRunner(require_lab(setup_progress())), folder, wanted, probes, fresh=fresh)
    try:
        everything = surveyed(survey, "probing", listener(), jobs)
    except Cancelled:
        warnings().print("Interrupted; the findings are kept, and the same command goes on.")
        raise typer.Exit(INTERRUPTED_EXIT) from None
    names = {each.name for each in probes}
    rows = tuple(each for each in everything.probes if each.name in names)
    found = everything.model_copy(update={"probes": rows})
    _print(found, wanted, "json" if as_json else "markdown" if as_markdown else "terminal", notes=notes)


def _print(found: Capabilities, stacks: list[str], form: str, *, notes: bool) -> None:
    if form == "json":
        print_json(found)
    elif form == "markdown":
        print_text(markdown(tables.capability_table(found, stacks, has_bytes=True, has_questions=False)))
    else:
        console = stdout()
        for part in tables.capability_views(found, stacks, console.width):
            console.print(part)
        for line in tables.capability_notes(found) if notes else ():
            console.print(line, soft_wrap=True)
