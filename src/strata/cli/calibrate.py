# SPDX-License-Identifier: Apache-2.0
"""``strata calibrate``: a device file of one's own drive."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

from strata.calibration.calibrate import Calibrated
from strata.calibration.calibrate import calibrate as fit
from strata.calibration.device_file import device_toml
from strata.calibration.page import blocks, render
from strata.calibration.script import fio_script
from strata.cli.output import print_json, print_text, print_wrote, refuse_both, stdout, task_bar
from strata.cli.parameters import AsJson, option
from strata.datasheet.cells import Cell, read_cells
from strata.datasheet.measure import PATTERNS
from strata.devices.device import load_device
from strata.diagnostics.names import is_kebab
from strata.errors import ResultError, StudyError
from strata.files import refuse_folder, write_page
from strata.report.document import Document


def calibrate(
    *,
    fio: Annotated[
        list[Path] | None, option("fio's JSON, a table (CSV), or a folder of them.", "PATH")
    ] = None,
    class_name: Annotated[
        str, option("The drive's class, a device. Default: guessed.", "--class", "DEVICE")
    ] = "",
    output: Annotated[Path | None, option("The device file to write.", "--output", "-o")] = None,
    only: Annotated[
        list[str] | None, option("Fit these cells, predict the others: RW:DEPTH,...", "--only", "CELLS")
    ] = None,
    no_write_cache: Annotated[bool, option("The drive's write cache was off.", "--no-write-cache")] = False,
    page: Annotated[Path | None, option("Write curves and values as a page.", "--page", "FILE")] = None,
    script: Annotated[bool, option("Print fio's jobs that tell most; they only read.", "--script")] = False,
    writes: Annotated[bool, option("With --script: also jobs that write.", "--writes")] = False,
    as_json: AsJson = False,
) -> None:
    """Fit a modelled device to measurements of a real drive.

    The disk models run outside the kernel, and a search finds the values that explain the measurements best.
    The device file has each value with its range and where it is from; what was not measured keeps the
    range of the drive's class. Ctrl-C keeps the best so far.

    Examples:
        strata calibrate --script > jobs.fio
        strata calibrate --fio results/ --output my-disk.toml --page my-disk.html
        strata calibrate --fio results/ --only randread:1,4,32
    """
    refuse_both(script=script, fio=bool(fio))
    if script:
        print_text(fio_script(writes=writes))
        return
    if not fio:
        remedy = "`strata calibrate --script` prints what to measure"
        raise StudyError("there is nothing to fit", place="--fio", remedy=remedy)
    file = output or Path(f"{_kebab(fio[0].stem)}.toml")
    if file.suffix != ".toml" or not is_kebab(file.stem):
        remedy = "such as --output my-disk.toml"
        raise ResultError(
            "a device file has a name in kebab case and ends in .toml", place=str(file), remedy=remedy
        )
    refuse_folder(file)
    measured = read_cells(fio)
    with task_bar("fitting", None) as update:
        ticks = iter(range(1 << 60))

        def step(title: str) -> None:
            if next(ticks) % 200 == 0:
                update(advance=1, description=f"simulating runs of {title}")

        chosen = _chosen(only or [])
        found = fit(
            file.stem, measured, class_name=class_name, only=chosen, write_cache=not no_write_cache, step=step
        )
    _print(found, as_json=as_json)
    write_page(file, device_toml(found, f"{len(measured.cells)} cells of {fio[0].name}"))
    load_device(file)
    print_wrote(file)
    if page is not None:
        write_page(page, render(found))
        print_wrote(page)


def _print(found: Calibrated, *, as_json: bool) -> None:
    if as_json:
        print_json(found)
    else:
        stdout().print(Document(list(blocks(found))))


def _kebab(stem: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-") or "calibrated"


def _chosen(only: list[str]) -> Callable[[Cell], bool]:
    """The cells of ``RW:DEPTH,...``; of nothing, all."""
    wanted: set[tuple[str, int]] = set()
    for each in only:
        rw, _, depths = each.partition(":")
        if rw not in PATTERNS or not all(part.isdigit() for part in depths.split(",")):
            remedy = f"write RW:DEPTH,..., where RW is one of {', '.join(PATTERNS)}"
            raise StudyError(f'"{each[:60]}" names no cells', place="--only", remedy=remedy)
        wanted |= {(rw, int(depth)) for depth in depths.split(",")}
    return lambda cell: not wanted or (cell.pattern.rw, cell.pattern.depth) in wanted
