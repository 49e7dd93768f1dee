# SPDX-License-Identifier: Apache-2.0
"""``strata disks serve``: a modelled disk for this machine's kernel, in real time."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Annotated, Final

import typer

from strata.cli.output import notes, print_json, stdout, warnings
from strata.cli.parameters import AsJson, argument, option
from strata.datasheet.measure import Subject
from strata.devices.device import Device, find_device
from strata.devices.provisioning import provision
from strata.errors import StudyError, ToolError
from strata.lab.model import READ
from strata.report.table import Table, columns, terminal
from strata.runners.served import ServedCounts, ServedDisk, served_disk
from strata.units import format_size, format_value, parse_size

_READS: Final = 100
_MARGIN: Final = 1.2  # most requests take longer than the lower quartile
_VARIABLE: Final = "STRATA_DISK"


def serve(
    model: Annotated[str, argument("A modelled device, or a device file, *.toml.", "DEVICE")],
    command: Annotated[
        list[str] | None, argument("Serve it while this runs; $STRATA_DISK is the disk.", "COMMAND")
    ] = None,
    *,
    size: Annotated[str | None, option("Use only this size of it, from its first sector on.", "SIZE")] = None,
    seed: Annotated[int, option("Of the model's random draws.", "N", min=0)] = 1,
    content: Annotated[
        Path | None, option("Keep its content in this folder. Default: in memory.", "FOLDER")
    ] = None,
    seconds: Annotated[
        float | None, option("End after this time. Default: at Ctrl-C.", "SECONDS", min=0.1)
    ] = None,
    as_file: Annotated[bool, option("Serve a file, also as root, not a loop device.", "--file")] = False,
    as_json: AsJson = False,
) -> None:
    """Serve a modelled disk to this machine's kernel, in real time.

    A slow disk for anybody's test of anything: the same model as in the lab answers each request when its own
    clock says so. As root it is a loop device, otherwise a file. Its content is lost at the end. At the end
    it says how late answers were, so whether the timing was true: a machine with too few processors, or a
    disk faster than the way to the server, makes them late.

    With --json a command's own output goes to the standard error.

    Examples:
        sudo strata disks serve wd-re4-500gb
        sudo strata disks serve samsung-860-evo-500gb --size 20GiB -- sh -c 'mkfs.ext4 -q $STRATA_DISK'
        strata disks serve ./my-disk.toml --size 4GiB --seconds 60
    """
    device, size_bytes = _sized(find_device(model, Path()), size)
    code = 0
    with served_disk(device, seed=seed, size_bytes=size_bytes, content=content, as_file=as_file) as disk:
        _announce(device, disk)
        try:
            if command:
                code = _run(command, disk.path, seconds, sys.stderr if as_json else None)
            else:
                print(disk.path, file=sys.stderr if as_json else sys.stdout, flush=True)
                time.sleep(seconds or 1e9)
        except KeyboardInterrupt:
            code = code or (130 if command else 0)
        counts = disk.counts()
    if as_json:
        print_json(counts, device=device.name, path=disk.path, size_bytes=disk.size_bytes, way_ns=disk.way_ns)
    else:
        stdout().print(terminal(_table(counts)))
        stdout().print(_lateness(counts), soft_wrap=True)
    if code:
        raise typer.Exit(code if 0 < code < 256 else 1)


def _sized(device: Device, size: str | None) -> tuple[Device, int | None]:
    """The device and its used part; a volume of a cloud is one of this size. Raises StudyError."""
    if size is None:
        return device, None
    try:
        size_bytes = parse_size(size)
    except ValueError as error:
        raise StudyError(str(error), place="--size") from error
    if device.provisioning:
        device, refused = provision(device, size_bytes)
        for each in refused:
            raise StudyError(each.cause, place="--size", remedy=each.remedy)
    return device, size_bytes


def _announce(device: Device, disk: ServedDisk) -> None:
    """Say what is served, and whether answers can be in time."""
    latency_ns = float(Subject(device, disk.size_bytes).random(READ, depth=1, count=_READS).latency_ns.mean())
    way, alone = format_value(disk.way_ns, "ns"), format_value(latency_ns, "ns")
    is_file = "" if os.geteuid() == 0 else ", a file, because only root has loop devices"
    what = f"{device.name}, {format_size(disk.size_bytes)}: {disk.path}{is_file}"
    notes().print(f"{what}; room for {format_size(disk.room_bytes)} of content", soft_wrap=True)
    text = f"a request's way to the model and back takes {way} here, a read of 4 KiB {alone} on the model"
    if latency_ns > _MARGIN * disk.way_ns:
        notes().print(f"{text}: answers are in time", soft_wrap=True)
    else:
        late = f"{text}: answers will be late, so take a slower disk"
        warnings().print(late, style="yellow", soft_wrap=True)


def _run(command: Sequence[str], disk: Path, seconds: float | None, output: IO[str] | None) -> int:
    """The exit code of the command, which is ended after this many seconds."""
    try:
        process = subprocess.Popen(command, env={**os.environ, _VARIABLE: str(disk)}, stdout=output)
    except OSError as error:
        raise ToolError(
            f"cannot be run: {error.strerror}", place=command[0], remedy="check its name"
        ) from error
    with process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.terminate()
            return 0


def _table(counts: ServedCounts) -> Table:
    rows = [
        (name, count, counts.bytes[name], counts.model_ns[name], counts.kernel_ns.get(name))
        for name, count in counts.requests.items()
        if count
    ]
    titles = columns("request", ("answered", "count"), ("data", "B"), ("mean, model", "ns"), ("kernel", "ns"))
    return Table(titles, rows)


def _lateness(counts: ServedCounts) -> str:
    late = ", ".join(f"{name} {format_value(ns, 'ns')}" for name, ns in counts.late_ns.items())
    failed = f"; {counts.failed} failed" if counts.failed else ""
    return f"answers were late by {late}, {format_value(counts.late_ns_max, 'ns')} at most{failed}"
