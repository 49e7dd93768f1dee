# SPDX-License-Identifier: Apache-2.0
"""``strata calibrate``: a device file of one's own drive."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from strata.actions.calibrate import calibrate as act
from strata.calibration.page import blocks
from strata.calibration.script import fio_script, measuring_study
from strata.cli.output import listener, print_json, print_text, print_wrote, refuse_both, stdout
from strata.cli.parameters import AsJson, argument, option
from strata.errors import StudyError
from strata.report.document import Document


def calibrate(
    disk: Annotated[str | None, argument("A disk to measure, as /dev/disk/by-id/….", "DISK")] = None,
    *,
    fio: Annotated[
        list[Path] | None,
        option("fio's JSON or latency logs, tables (CSV), their folder, or a study's results.", "PATH"),
    ] = None,
    class_name: Annotated[str | None, option("Its class. Default: guessed.", "--class", "DEVICE")] = None,
    output: Annotated[Path | None, option("The device file to write.", "--output", "-o")] = None,
    only: Annotated[
        list[str] | None, option("Fit these cells, predict the others: RW:DEPTH,...", "--only", "CELLS")
    ] = None,
    no_write_cache: Annotated[bool, option("The drive's write cache was off.", "--no-write-cache")] = False,
    page: Annotated[Path | None, option("Write curves and values as a page.", "--page", "FILE")] = None,
    erase: Annotated[str | None, option("With DISK of this serial: also write.", "--erase", "SERIAL")] = None,
    shorten: Annotated[int, option("With DISK: measure this many times less.", "N", min=1, max=100)] = 1,
    script: Annotated[bool, option("Print fio's jobs that tell most; they only read.", "--script")] = False,
    study: Annotated[str | None, option("The same, as a study of DEVICE.", "--study", "DEVICE")] = None,
    writes: Annotated[bool, option("With --script or --study: also jobs that write.", "--writes")] = False,
    as_json: AsJson = False,
) -> None:
    """Fit a modelled device to measurements of a real drive.

    DISK is measured with fio in about four minutes, and only read; nothing else may use it. Or --fio reads
    results from elsewhere. The disk models run outside the kernel, and a search finds the values that explain
    the measurements best. The device file has each value with its range and where it is from; what was not
    measured keeps the range of the drive's class. Ctrl-C keeps the best so far.

    Examples:
        strata calibrate /dev/disk/by-id/ata-MODEL_SERIAL --output my-disk.toml
        strata calibrate --script > jobs.fio
        strata calibrate --study generic-desktop-hdd > measure.toml
        strata calibrate --fio results/ --output my-disk.toml --page my-disk.html
        strata calibrate --fio results/ --only randread:1,4,32
    """
    refuse_both(script=script or bool(study), fio=bool(fio), disk=bool(disk))
    if script or study:
        print_text(measuring_study(study, writes=writes) if study else fio_script(writes=writes))
        return
    if not fio and not disk:
        remedy = "`strata calibrate --script` prints what to measure"
        raise StudyError("there is nothing to fit", place="--fio", remedy=remedy)
    found, files = act(
        fio or (),
        listener(),
        disk=disk or "",
        erase=erase or "",
        shorten=shorten,
        output=output,
        page=page,
        class_name=class_name or "",
        only=only or (),
        write_cache=not no_write_cache,
    )
    if as_json:
        print_json(found)
    else:
        stdout().print(Document(list(blocks(found))))
    for file in files:
        print_wrote(file)
