# SPDX-License-Identifier: Apache-2.0
"""Measurements of real drives that others published, in ``devices/real``: a table and a declaration each."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from strata.datasheet.measure import PATTERNS, Pattern
from strata.devices.device import Device, device_folder, find_device
from strata.devices.kinds.flash import PRECONDITIONS
from strata.diagnostics.mistakes import read_toml
from strata.diagnostics.names import Diagnostic, nearest
from strata.errors import ResultError
from strata.files import read_plain
from strata.units import NS_PER_US
from strata.validation.measured import parse_block_bytes

_BYTES_MAX: Final = 1 << 20
_SOURCE: Final = "# source: "
_SECONDS: Final = 60  # of each measurement


@dataclass(frozen=True)
class Figures:
    """A rate, and percentiles of latency where they are known."""

    iops: float
    p50_ns: float | None
    p99_ns: float | None


@dataclass(frozen=True)
class DriveCell:
    """One measurement; ``limit`` says why it shows the host instead of the drive, or is empty."""

    pattern: Pattern
    real: Figures
    limit: str

    @property
    def requests(self) -> int:
        return int(self.real.iops * _SECONDS)


@dataclass(frozen=True)
class RealDrive:
    """A real drive, and the model that is nearest to it: a named one, or that of its class.

    Attributes:
        device: None for an array, which only a study can model; ``array`` says so.
        state: The past of a flash drive, a name of `PRECONDITIONS`.
        link: In MB/s, where the machine's link is slower than the drive's; 0: it is not.
    """

    name: str
    title: str
    source: str
    cells: tuple[DriveCell, ...]
    device: Device | None
    state: str
    array: str
    link: float = 0


def _one_of(names: Mapping[str, object]) -> AfterValidator:
    def check(name: str) -> str:
        if name not in names:
            raise Diagnostic(f'"{name[:60]}" is not valid here', remedy=nearest(name, names))
        return name

    return AfterValidator(check)


class _Limited(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    rw: Annotated[StrictStr, _one_of(PATTERNS)]
    depths: tuple[StrictInt, ...]
    why: StrictStr


class _Declaration(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    title: StrictStr
    model: StrictStr = ""
    array: StrictStr = ""
    state: Annotated[StrictStr, _one_of(PRECONDITIONS)] = "used"
    write_cache: StrictBool = True
    link_rate: StrictInt = Field(0, ge=0)
    limited: tuple[_Limited, ...] = Field(default=())


def real_drives() -> list[RealDrive]:
    """All that are bundled; raises StudyError, DiagnosticsError or ResultError at a mistake in a file."""
    return [_read(file) for file in sorted((device_folder() / "real").glob("*.toml"))]


def _read(file: Path) -> RealDrive:
    tables, diagnostics = read_toml(file)
    stated = diagnostics.model(_Declaration, tables, ())
    if stated is not None and bool(stated.model) == bool(stated.array):
        diagnostics.add((), "a real drive has a model, or is an array", remedy="write either model or array")
    diagnostics.raise_all()
    assert stated is not None
    device = replace(find_device(stated.model), write_cache=stated.write_cache) if stated.model else None
    limits = {(each.rw, depth): each.why for each in stated.limited for depth in each.depths}
    source, cells = _read_table(file.with_suffix(".csv"), limits)
    ends = stated.state, stated.array, stated.link_rate
    return RealDrive(file.stem, stated.title, source, cells, device, *ends)


def _read_table(file: Path, limits: Mapping[tuple[str, int], str]) -> tuple[str, tuple[DriveCell, ...]]:
    """The source in the first line, and fio's figures by ``rw`` and depth."""
    try:
        head, *lines = read_plain(file, _BYTES_MAX, follow=True).decode().splitlines()
        cells = tuple(_cell(row, limits) for row in csv.DictReader(lines))
    except (OSError, ValueError, KeyError) as error:
        cause, remedy = f"this is no table of measurements: {error}", "its second line names the columns"
        raise ResultError(cause, place=str(file), remedy=remedy) from error
    return head.removeprefix(_SOURCE), cells


def _cell(row: Mapping[str, str], limits: Mapping[tuple[str, int], str]) -> DriveCell:
    depth = int(row["iodepth"]) * int(row["numjobs"])
    pattern = Pattern(row["rw"], parse_block_bytes(row["bs"]), depth)
    p50, p99 = (float(row[name]) * NS_PER_US if row[name] else None for name in ("p50_us", "p99_us"))
    return DriveCell(pattern, Figures(float(row["iops"]), p50, p99), limits.get((pattern.rw, depth), ""))
