# SPDX-License-Identifier: Apache-2.0
"""``strata lab validate``: the disk models against theory, published figures, and measurements."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from strata.cli.output import print_json, print_wrote, stdout, task_bar
from strata.cli.parameters import AsJson, argument, option
from strata.devices.device import find_device
from strata.errors import ResultError
from strata.files import write_page
from strata.report.table import terminal
from strata.validation import SUBJECT_NAMES
from strata.validation.measured import compare, read_measured
from strata.validation.page import check_table, render
from strata.validation.subject import ExaminedSubject, totals
from strata.validation.subjects import SUBJECTS, examine
from strata.words import listed


def validate(
    subjects: Annotated[
        list[str] | None, argument(f"{', '.join(SUBJECT_NAMES)}. Default: all.", "SUBJECT")
    ] = None,
    *,
    output: Annotated[Path, option("The page to write.", "--output", "-o")] = Path("build/validation.html"),
    quick: Annotated[bool, option("Fewer I/Os: figures are some per cent off.", "--quick")] = False,
    as_json: AsJson = False,
    measured: Annotated[
        Path | None, option("Compare --device with fio's json+ instead.", "--measured")
    ] = None,
    device: Annotated[str | None, option("The device of --measured.", "--device", "DEVICE")] = None,
) -> None:
    """Check the disk models against theory, figures and real drives.

    It writes one page of curves and prints a table of verdicts; the exit code is 1 if a check fails.

    Examples:
        strata lab validate
        strata lab validate flush queue-depth --quick -o flush.html
        fio --output-format=json+ --output=fio.json mine.fio
        strata lab validate --measured fio.json --device wd-re4-500gb
    """
    sections = _sections(subjects or [], quick=quick, measured=measured, device=device)
    if as_json:
        print_json(subjects=sections)
    else:
        _print(sections)

    write_page(output, render(sections, quick=quick))
    print_wrote(output)
    if any(section.failures for section in sections):
        raise typer.Exit(1)


def _sections(
    subjects: Sequence[str], *, quick: bool, measured: Path | None, device: str | None
) -> list[ExaminedSubject]:
    if (measured is None) != (device is None):
        raise ResultError("--measured and --device belong together", remedy="give both")
    ignored = [*subjects, *(["--quick"] if quick else [])]
    if measured is not None and ignored:
        raise ResultError(
            f"with --measured, {listed(ignored)} would be ignored",
            remedy="leave out either --measured and --device, or the rest",
        )

    if measured is not None and device is not None:
        found = find_device(device, Path())
        return [compare(found, each) for each in read_measured(measured)]
    with task_bar("", len(subjects) or len(SUBJECTS)) as update:
        return list(examine(subjects, quick=quick, step=lambda name: update(advance=1, description=name)))


def _print(sections: Sequence[ExaminedSubject]) -> None:
    console = stdout()
    for section in sections:
        console.print(Text(f"\n{section.title}", "bold"))
        console.print(terminal(check_table(section.checks)))
    console.print(f"\n{totals(sections)}")
