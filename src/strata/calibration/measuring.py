# SPDX-License-Identifier: Apache-2.0
"""The measuring plan on a real disk: fio's jobs one by one, read-only unless the disk may be erased."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from strata.calibration.script import READS, WRITES, fio_job
from strata.datasheet.cells import Measurements
from strata.datasheet.fio_results import MeasuredCell, read_fio
from strata.datasheet.measure import Pattern
from strata.disks.inventory import Disk, disk_at
from strata.disks.judgement import judged, named
from strata.disks.machine import Machine
from strata.disks.signatures import signatures
from strata.disks.usage import Usage
from strata.errors import DiagnosticsError, StrataError, ToolError

_WAKE_JOB: Final = (Pattern("randread", 4096, 1), 2)
# The others may say the kernel's default: disks of a virtual machine, behind USB, a controller or a network.
_SAY_WHETHER_THEY_ROTATE: Final = ("sata", "sas", "nvme", "loop")
_OVER_S: Final = 60.0  # a job that takes this much longer than its time hangs


def usable_disk(path: str, holding: Mapping[str, Path], erase: str, machine: Machine) -> Disk:
    """The disk of a path, if it may be measured; raises DiagnosticsError with every reason against it.

    Reading needs a disk that nothing uses, since other requests would be measured, too. Writing needs its
    serial number, which says that its content may be lost.
    """
    disk, reasons = named(machine, path)
    if disk is not None:
        reasons += judged(machine, disk, Usage(machine), holding)
    mistakes: list[StrataError] = [ToolError(r.cause, place=path, remedy=r.remedy) for r in reasons]
    if disk is not None and erase and erase != disk.erase_name:
        lost = ", ".join(map(str, signatures(machine, disk))) or "nothing"
        remedy = f"if none of its content is needed any more ({lost}), give --erase {disk.erase_name}"
        mistakes.append(
            ToolError("this is not the disk's serial number", place=f"--erase {erase}", remedy=remedy)
        )
    if mistakes:
        raise DiagnosticsError(mistakes, place=path)
    assert disk is not None
    return disk


def measure_disk(
    disk: Disk, machine: Machine, *, erase: bool, part: float, step: Callable[[str], None]
) -> Measurements:
    """The cells of the plan; ``part`` shortens each job. Interrupted, those so far.

    Raises ToolError if fio is missing, or if the disk vanishes or fails while it is measured.
    """
    if shutil.which("fio") is None:
        raise ToolError("fio is not installed", remedy="apt-get install --no-install-recommends fio")
    cells: list[MeasuredCell] = []
    notes: list[str] = []
    loads = [load for load in (*READS, *(WRITES if erase else ())) if load[0].span_bytes < disk.size_bytes]
    with TemporaryDirectory(prefix="strata-calibrate-") as folder:
        try:
            # A disk that sleeps is woken first, so that no job has the time of its start in it.
            for pattern, seconds in (_WAKE_JOB, *loads):
                step(f"{pattern.rw}, depth {pattern.depth}")
                found, said = _run(disk, machine, pattern, max(1, round(seconds * part)), Path(folder))
                cells += found
                notes += said
        except KeyboardInterrupt:
            notes.append("the measurement was interrupted: later loads are missing")
    rotates = disk.rotational if disk.transport in _SAY_WHETHER_THEY_ROTATE else None
    sized = (replace(each, capacity_bytes=disk.size_bytes) for each in cells[1:])
    return Measurements(tuple(sized), tuple(dict.fromkeys(notes)), rotates)


def _run(
    disk: Disk, machine: Machine, pattern: Pattern, seconds: int, folder: Path
) -> tuple[list[MeasuredCell], list[str]]:
    """One job of fio on the disk, which must still be the same one."""
    now = disk_at(machine, disk.number)
    if now is None or now.identity() != disk.identity():
        remedy = "see the kernel's log (dmesg), and plug it in again"
        raise ToolError("the disk vanished while it was measured", place=str(disk.node), remedy=remedy)
    job, output = folder / "job.fio", folder / "fio.json"
    output.unlink(missing_ok=True)
    head = f"[global]\nfilename={disk.node}\nioengine=libaio\ndirect=1\ntime_based=1\n"
    job.write_text(head + fio_job(pattern, seconds))
    argv = [
        "fio",
        "--output-format=json",
        f"--output={output}",
        *([] if pattern.is_write else ["--readonly"]),
    ]
    try:
        done = subprocess.run(
            [*argv, str(job)], capture_output=True, text=True, check=False, timeout=seconds + _OVER_S
        )
    except subprocess.TimeoutExpired as error:
        remedy = "see the kernel's log (dmesg): the disk or its link fails"
        raise ToolError("the disk does not answer", place=str(disk.node), remedy=remedy) from error
    cells, notes = read_fio(output.read_text() if output.exists() else "", "fio")
    if done.returncode or not cells:
        why = (done.stderr.strip().splitlines() or notes or ["fio gave no result"])[0]
        remedy = "see the kernel's log (dmesg); a disk with errors cannot be calibrated"
        raise ToolError(f"fio failed: {why}", place=str(disk.node), remedy=remedy)
    return cells, [note for note in notes if "cut off" not in note]
