# SPDX-License-Identifier: Apache-2.0
"""Measurements of real drives that others published, in ``devices/real``, against the nearest models."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr

from strata.datasheet.cells import REQUESTS_MIN, as_fio_measures, read_table
from strata.datasheet.kinds import sheet_of
from strata.datasheet.measure import PATTERNS, Pattern, measure
from strata.devices.device import Device, device_folder, find_device
from strata.devices.kinds.flash import PRECONDITIONS
from strata.devices.plausible import plausible_drive
from strata.diagnostics.mistakes import read_toml
from strata.diagnostics.names import Diagnostic, nearest
from strata.files import read_plain
from strata.lab.model import READ
from strata.units import format_value, times
from strata.validation.subject import Found, ModelCheck, subject, within

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
    text = read_plain(file, _BYTES_MAX, follow=True).decode()
    cells = tuple(
        DriveCell(
            each.pattern,
            Figures(each.iops, each.latencies_ns.get(50.0), each.latencies_ns.get(99.0)),
            limits.get((each.pattern.rw, each.pattern.depth), ""),
        )
        for each in read_table(file, text)
    )
    return text.partition("\n")[0].removeprefix(_SOURCE), cells


_DRAWN: Final = 20
_REQUESTS_MAX: Final = 8_000
_QUICK_MAX: Final = 1_000
_BEFORE: Final = 5_000
"""Requests that are not counted: the drive, and above all its write cache, had been in use."""
_NAMES: Final = ("rate", "p50", "p99")
_RATE_NEAR, _TAIL_NEAR = 0.25, 1.5


@subject(
    "real-drives",
    "Real drives",
    """Measurements that others published (<code>devices/real</code>), and the same load on the nearest model:
a named one, or that of the class. The ranges of some parameters were chosen with these drives in sight; no
model was fitted to one of them. A row has the model's rate, median and 99th percentile over the real ones,
and says which of the real values lie within the range of 20 drives that are drawn from the model, as a study
draws them. The machine's part of a request, which fio measures, is taken for 7 µs and added to the model's.
A row passes within 25 % in the rate and a factor of 1.5 in the 99th percentile. Where the host was the limit,
neither side is judged. The first rows count the others against the aims.""",
)
def real(quick: bool) -> Found:
    drives = real_drives()
    compared = [each for drive in drives if drive.device for each in _run(drive, drive.device, quick=quick)]
    arrays = (each for each in drives if each.device is None)
    return [
        *aims(compared),
        *(each.check() for each in compared),
        *(ModelCheck(each.title, "", each.array, "noted", each.source) for each in arrays),
    ], ()


@dataclass(frozen=True, eq=False)
class DriveCompared:
    """One measurement of a real drive, the model's figures, and those of drawn drives."""

    drive: RealDrive
    cell: DriveCell
    model: Figures
    drawn: tuple[Figures, ...]

    @property
    def kind(self) -> str:
        assert self.drive.device is not None, "an array is not compared"
        return self.drive.device.kind

    @property
    def series(self) -> tuple[str, str]:
        """The measurements of one drive that differ in their depth only."""
        return self.drive.name, self.cell.pattern.rw

    @property
    def rate(self) -> float:
        """The model's over the real one."""
        return self.model.iops / self.cell.real.iops

    def ratios(self) -> dict[str, float]:
        pairs = zip(_NAMES, astuple(self.model), astuple(self.cell.real), strict=True)
        return {name: model / real for name, model, real in pairs if real}

    def is_near(self) -> bool:
        return abs(self.rate - 1) <= _RATE_NEAR and self.has_near_tail()

    def has_near_tail(self) -> bool:
        return 1 / _TAIL_NEAR <= self.ratios().get("p99", 1.0) <= _TAIL_NEAR

    def within_drawn(self) -> dict[str, bool]:
        """Whether each real value lies within the range of the drawn drives."""
        columns = zip(*map(astuple, self.drawn), strict=True)
        every = zip(_NAMES, astuple(self.cell.real), columns, strict=True)
        return {name: min(drawn) <= real <= max(drawn) for name, real, drawn in every if real}

    def check(self) -> ModelCheck:
        load, real = self.cell.pattern, self.cell.real
        found = ", ".join(f"{name} {times(ratio)}" for name, ratio in self.ratios().items())
        units = zip(_NAMES, astuple(real), ("/s", "ns", "ns"), strict=True)
        expected = ", ".join(format_value(value, unit) for _, value, unit in units if value)
        inside = self.within_drawn()
        drawn = f"of the real values, {', '.join(n for n in inside if inside[n]) or 'none'} within the drawn"
        model = self.drive.device.name if self.drive.device else ""
        note = f"{self.cell.limit or drawn}; against {model}; {self.drive.source}"
        title = f"{self.drive.name}: {load.rw}, depth {load.depth}"
        verdict = self.is_near() and not self.cell.limit
        return ModelCheck(title, found, expected, "passed" if verdict else "noted", note)


def _run(drive: RealDrive, device: Device, *, quick: bool) -> Iterator[DriveCompared]:
    model = _figures(drive, device, quick=quick)
    others = (plausible_drive(device, seed) for seed in range(1, _DRAWN + 1))
    drawn = zip(*(_figures(drive, each, quick=quick) for each in others), strict=True)
    for cell, own, of_others in zip(drive.cells, model, drawn, strict=True):
        yield DriveCompared(drive, cell, own, of_others)


def _figures(drive: RealDrive, device: Device, *, quick: bool) -> list[Figures]:
    """The figures of each cell: the depths of one pattern follow one another on one disk, as they did.

    Reads are of data: a sector that nobody wrote is answered without its cells.
    """
    sheet, found = sheet_of(device), []
    for rw, cells in groupby(drive.cells, lambda cell: cell.pattern.rw):
        subject = sheet.readable() if PATTERNS[rw][0] == READ else sheet.in_state(drive.state)
        if drive.link:
            subject = subject.with_values({"link_rate": drive.link, "link_rate_write": drive.link})
        disk = subject.open()
        for first, cell in enumerate(cells):
            most = max(REQUESTS_MIN, min(cell.requests, _QUICK_MAX if quick else _REQUESTS_MAX))
            if not first:
                measure(subject, disk, cell.pattern, _BEFORE)
            trace = measure(subject, disk, cell.pattern, most)
            rate, latencies_ns = as_fio_measures(trace, cell.pattern)
            found.append(Figures(rate, latencies_ns[50.0], latencies_ns[99.0]))
    return found


def aims(compared: Sequence[DriveCompared]) -> Iterator[ModelCheck]:
    """The shares of the measurements that meet each aim, by kind of device; the notes name the others."""
    judged = [each for each in compared if not each.cell.limit]
    first = {each.series: each.rate for each in judged if each.cell.pattern.depth == 1}
    deeper = [each for each in judged if each.cell.pattern.depth > 1 and each.series in first]
    tails = [each for each in judged if each.cell.real.p99_ns]
    yield from _aim("rates within 25 %", 80, [(e, "", abs(e.rate - 1) <= _RATE_NEAR) for e in judged])
    yield from _aim(
        "99th percentiles within a factor of 1.5", 80, [(e, "", e.has_near_tail()) for e in tails]
    )
    gains = [(each, "", abs(each.rate / first[each.series] - 1) <= _RATE_NEAR) for each in deeper]
    yield from _aim("gains over depth 1 within 25 %", 90, gains)
    inside = [(each, *value) for each in judged for value in each.within_drawn().items()]
    yield from _aim("real values within the range of 20 drawn drives", 80, inside)


_Judged = tuple[DriveCompared, str, bool]
"""A measurement, one of its values or none in particular, and whether it meets the aim."""


def _aim(title: str, aim: float, judged: Sequence[_Judged]) -> Iterator[ModelCheck]:
    """One aim, for all devices and for each kind."""
    kinds = dict.fromkeys(each[0].kind for each in judged)
    for kind in ("all", *kinds):
        some = [each for each in judged if kind in {"all", each[0].kind}]
        good = sum(each[2] for each in some)
        missed = _listed(some)
        note = f"{good} of {len(some)}" + (f"; missed: {missed}" if missed else "")
        yield within(f"{kind}: {title}", 100 * good / len(some), aim, 100, "%", note=note, soft=True)


def _listed(judged: Iterable[_Judged]) -> str:
    """The missed ones by drive, value and pattern, with their depths."""
    places: dict[str, list[str]] = {}
    for each, value, good in judged:
        if not good:
            place = " ".join(filter(None, (each.drive.name, value, each.cell.pattern.rw)))
            places.setdefault(place, []).append(str(each.cell.pattern.depth))
    return "; ".join(f"{place} {', '.join(depths)}" for place, depths in places.items())
