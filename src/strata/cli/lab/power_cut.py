# SPDX-License-Identifier: Apache-2.0
"""``strata lab power-cut``: the power of a trial's disks fails; the stack recovers and is checked."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.text import Text

from strata.cli.output import notes, print_json, setup_progress, stdout
from strata.cli.parameters import AsJson, StudyFile, chosen_cell, option
from strata.execution.power import CutResult, Phase, cut_and_recover
from strata.lab.disk_image import PowerCut
from strata.lab.folder import run_root
from strata.lab.lab import require_lab
from strata.plan.catalogue import catalogue
from strata.reading.load import load_study
from strata.report.table import Table, columns, terminal
from strata.runners.base import Progress
from strata.runners.lab import LabRunner
from strata.units import format_duration, parse_duration
from strata.working import working

_DAMAGED_EXIT: Final = 1
_WORDS: Final = {
    "sound": "The filesystem was recovered by its mount, and its checker finds nothing wrong. The content of "
    "its files, such as a database, was not checked.",
    "damaged": "The filesystem was mounted, but its checker finds damage:",
    "content damaged": "The filesystem was mounted, but what the load had written cannot be used:",
    "not mountable": "The filesystem cannot be mounted:",
    "kernel panicked": "The filesystem cannot be mounted: the kernel panicked:",
    "unknown": "The recovery did not end:",
}


def power_cut(  # noqa: PLR0917  each is an option of the command line
    study: StudyFile,
    stack: Annotated[str | None, option("Default: its first stack.", "NAME")] = None,
    workload: Annotated[str | None, option("Default: its first workload.", "NAME")] = None,
    at: Annotated[str | None, option("Cut at this virtual time: 12s.", "TIME")] = None,
    ios: Annotated[int | None, option("Cut when the disks have accepted this many commands.", min=1)] = None,
    step: Annotated[str | None, option("Cut when this step of the plan has ended.", "ID")] = None,
    seed: Annotated[int, option("Decides which data survive that were not durable.", min=0)] = 0,
    as_json: AsJson = False,
) -> None:
    """Cut the power of a trial's disks, recover and check them.

    The lab boots again on what the modelled disks still hold, mounts the filesystem and runs its checker.
    The content of files is not checked: a database may have lost commits. Exits with 1 if the
    filesystem is damaged or cannot be mounted.

    Examples:
        strata lab power-cut studies/quickstart.toml --at 12s
        strata lab power-cut studies/quickstart.toml --stack xfs --ios 5000 --seed 7
        strata lab power-cut studies/quickstart.toml --step ext4-mount --json
    """
    read = load_study(study, catalogue())
    cut = _cut(at, ios, step, seed)
    cell = chosen_cell(read, stack, workload)
    progress = setup_progress()
    runner = LabRunner(require_lab(progress), progress=progress)
    run_root().mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(dir=run_root().parent, prefix="power-cut-") as folder,
        _status_line() as report,
    ):
        result = cut_and_recover(
            runner, read, *cell, cut=cut, after_step=step, folder=Path(folder), report=report
        )
    if as_json:
        print_json(result)
    else:
        _print_cut(result)
    raise typer.Exit(0 if result.verdict == "sound" else _DAMAGED_EXIT)


def _cut(at: str | None, ios: int | None, step: str | None, seed: int) -> PowerCut:
    if sum(choice is not None for choice in (at, ios, step)) != 1:
        raise typer.BadParameter("say when the power is cut, by only one of --at, --ios, --step")
    try:
        at_ns = None if at is None else parse_duration(at)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--at") from None
    return PowerCut(at_ns=at_ns, after_ios=ios, seed=seed)


@contextmanager
def _status_line() -> Iterator[Callable[[Phase, Progress], None]]:
    """A line of progress; only on a terminal, where it can be erased."""
    console = notes()
    with ExitStack() as opened:
        line = opened.enter_context(console.status(Text("starting"))) if console.is_terminal else None
        opened.enter_context(working("running the lab up to the power cut, and recovering"))

        def report(phase: Phase, progress: Progress) -> None:
            if line is not None:
                at = format_duration(progress.trial_ns)
                line.update(Text(f"{phase}: {progress.step or 'boot'} ({at} virtual)"))

        yield report


def _print_cut(result: CutResult) -> None:
    console = stdout()
    when = format_duration(result.losses[0].at_ns)
    where = f"in step {result.step}" if result.step else "between two steps"
    console.print(f"{result.trial}: power cut after {when} of virtual time, {where}", markup=False)
    titles = ("writes acknowledged", "not durable yet", "of these kept", "lost", "torn")
    heads = columns("disk", *((title, "count") for title in (*titles, "lost or torn though acknowledged")))
    rows = [
        (
            *(each.disk, each.writes_acknowledged, each.volatile, each.kept, each.lost, each.torn),
            each.lost_acknowledged,
        )
        for each in result.losses
    ]
    console.print(terminal(Table(heads, rows)))
    console.print(_WORDS[result.verdict])
    for line in result.said:
        console.print(f"  {line}", markup=False)
