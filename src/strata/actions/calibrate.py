# SPDX-License-Identifier: Apache-2.0
"""A device file from measurements of a drive."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from strata.actions.real_disks import own_folders
from strata.actions.run import Listener
from strata.calibration.calibrate import Calibrated
from strata.calibration.calibrate import calibrate as fit
from strata.calibration.device_file import device_toml
from strata.calibration.measuring import measure_disk, usable_disk
from strata.calibration.page import render
from strata.datasheet.cells import Measurements, read_cells, table_text
from strata.datasheet.fio_results import MeasuredCell
from strata.datasheet.measure import MIXES, PATTERNS
from strata.devices.device import load_device
from strata.diagnostics.names import is_kebab, to_kebab
from strata.disks.machine import Machine
from strata.errors import ResultError, StudyError, ToolError
from strata.files import refuse_folder, write_page

_RUNS_SAID: Final = 200
_JOBS: Final = (*PATTERNS, *MIXES[:2])


def calibrate(
    paths: Sequence[Path],
    listener: Listener,
    *,
    disk: str = "",
    erase: str = "",
    shorten: int = 1,
    output: Path | None = None,
    page: Path | None = None,
    class_name: str = "",
    only: Sequence[str] = (),
    write_cache: bool = True,
) -> tuple[Calibrated, list[Path]]:
    """Fit a drive to measurements; write its device file, and a page if wanted: the written files.

    A ``disk`` is measured first; its results are kept as a table beside the device file. Raises ResultError
    if nothing can be read or fitted, StudyError at a wrong name, DiagnosticsError of an unfit disk.
    """
    source = (disk and Path(disk)) or paths[0]
    file = output or Path(f"{to_kebab(source.stem) or 'calibrated'}.toml")
    if file.suffix != ".toml" or not is_kebab(file.stem):
        cause, remedy = "a device file has a name in kebab case and ends in .toml", "such as my-disk.toml"
        raise ResultError(cause, place=str(file), remedy=remedy)
    refuse_folder(file)
    chosen = chosen_cells(only)
    measured = (
        measured_disk(disk, listener, file, erase=erase, shorten=shorten) if disk else read_cells(paths)
    )
    with listener.counting("fitting", None) as count:
        ticks = iter(range(1 << 60))

        def step(title: str) -> None:
            if next(ticks) % _RUNS_SAID == 0:
                count(f"simulated runs of {title}")

        found = fit(
            file.stem, measured, class_name=class_name, only=chosen, write_cache=write_cache, step=step
        )
    write_page(file, device_toml(found, f"{len(measured.cells)} cells of {source.name}"))
    load_device(file)
    if page is not None:
        write_page(page, render(found))
    return found, [file, *([file.with_suffix(".csv")] if disk else []), *([page] if page else [])]


def measured_disk(path: str, listener: Listener, file: Path, *, erase: str, shorten: int) -> Measurements:
    """A disk's measurements, written as a table beside the device file, so that a fit can be repeated."""
    if os.geteuid() != 0:
        raise ToolError(
            "measuring a disk needs root", place=path, remedy="use sudo; or see --script and --fio"
        )
    machine = Machine()
    disk = usable_disk(path, own_folders(file.parent), erase, machine)
    with listener.counting(f"measuring {disk.name}", None) as count:
        measured = measure_disk(disk, machine, erase=bool(erase), part=1 / shorten, step=count)
    write_page(file.with_suffix(".csv"), table_text(measured.cells, f"{disk.model or disk.name}"))
    return measured


def chosen_cells(only: Sequence[str]) -> Callable[[MeasuredCell], bool]:
    """The cells of ``RW:DEPTH,...``; of nothing, all. Raises StudyError."""
    wanted: set[tuple[str, int]] = set()
    for each in only:
        rw, _, depths = each.partition(":")
        if rw not in _JOBS or not all(part.isdigit() for part in depths.split(",")):
            remedy = f"write RW:DEPTH,..., where RW is one of {', '.join(_JOBS)}"
            raise StudyError(f'"{each[:60]}" names no cells', place="--only", remedy=remedy)
        wanted |= {(rw, int(depth)) for depth in depths.split(",")}
    return lambda cell: not wanted or (cell.pattern.job, cell.pattern.depth) in wanted
