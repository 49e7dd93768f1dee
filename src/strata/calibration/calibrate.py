# SPDX-License-Identifier: Apache-2.0
"""From measurements to a calibrated drive: the class, the search, the errors and the worst prediction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Final

import numpy as np
from scipy.stats import norm

from strata.calibration.fit import Candidate, DriveSearch, as_measured, figures, simulate
from strata.calibration.host import host_notes, without_sleep
from strata.calibration.unknowns import OF_HOST, FittedDrive, Floats, rounded
from strata.datasheet.cells import Measurements, Modelling
from strata.datasheet.fio_results import MeasuredCell
from strata.datasheet.measure import Pattern, Subject
from strata.devices.device import Device, bundled_devices, find_device
from strata.devices.plausible import SD_OF_RANGE
from strata.errors import LabError, ResultError, StudyError
from strata.printable import in_json
from strata.units import NS_PER_S

GENERIC: Final = "generic-"
STATES: Final = ("used", "steady", "fresh", "filled")
_FITTED_MAX: Final = 4  # of the candidates that are nearest as they are
_RIVAL: Final = 1.5  # of the least misfit: a class below it is searched to the end, too
_FIRST_STEPS, _STEPS = 2, 6
_COARSE: Final = Modelling(requests=700, before=1_000)
_RATE_NEAR, _TAIL_NEAR = 0.15, 1.5
_MEASURED_GAIN: Final = 0.5
"""A value counts as measured if the measurements removed half of its class's variance."""
_Z_90: Final = 1.645
_DRAWS: Final = 20
_CACHE_OFF_EVERY: Final = (
    5  # of the drawn drives: of seven single ones of devices/real it was off in one or two
)
_MODEL_SD, _UNSEEN_WRITE_SD = 0.06, 0.1
"""What the model lacks, of the logarithm of a rate: reads, and cached writes that only reads predict
(devices/real)."""
_NINE_OF_TEN: Final = (5, 95)
_SPEEDS_RPM: Final = (5400, 7200, 10000, 15000)
_SPEED_NEAR: Final = 1.4
_KINDS_NS: Final = {"rotating": (2e6, 1e9), "network": (2e5, 2e7), "flash": (0, 1e6)}
"""Latencies of one random read, between which a drive may be of the kind."""
LOADS: Final = (
    *(Pattern(rw, 4096, depth) for rw in ("randread", "randwrite") for depth in (1, 8, 32)),
    *(Pattern(rw, 1 << 18, 8) for rw in ("read", "write")),
    Pattern("randwrite", 4096, 1, flush_every=1),
)
"""Loads of which a calibrated drive says how surely it predicts them."""


@dataclass(frozen=True)
class FoundValue:
    """A parameter of a calibrated drive.

    Attributes:
        low: The lower end of its range; so is ``high``. The ends of values that vary plausibly.
        gain: The part of its class's variance that the measurements removed.
        interval: In which its true value lies in nine of ten cases.
    """

    name: str
    value: float
    low: float
    high: float
    gain: float
    interval: tuple[float, float]
    unit: str

    @property
    @in_json
    def is_measured(self) -> bool:
        return self.gain >= _MEASURED_GAIN


@dataclass(frozen=True)
class ComparedCell:
    """A measured cell beside the calibrated model's; ``fitted`` says whether the fit saw it.

    Attributes:
        interval: In which its rate lies in nine of ten cases, as predicted from the fitted cells.
    """

    measured: MeasuredCell
    modelled: MeasuredCell
    fitted: bool
    interval: tuple[float, float] | None = None

    @property
    @in_json
    def ratios(self) -> dict[str, float]:
        """The model's figures over the measured ones."""
        return {name: float(np.exp(each)) for name, each in figures(self.measured, self.modelled).items()}

    @property
    def is_near(self) -> bool:
        """Whether the model's rate is within 15 % of the measured one."""
        return abs(self.ratios["rate"] - 1) <= _RATE_NEAR

    @property
    def has_near_tail(self) -> bool:
        """Whether its 99th percentile, if that was measured, is within a factor of 1.5."""
        return 1 / _TAIL_NEAR <= self.ratios.get("p99", 1.0) <= _TAIL_NEAR


@dataclass(frozen=True)
class Calibrated:
    """A drive that explains measurements, and how surely.

    Attributes:
        unsure: Of each of `LOADS` the ends of its rate in nine of ten cases, the widest first.
    """

    name: str
    class_name: str
    state: str
    device: Device = field(repr=False)
    values: tuple[FoundValue, ...]
    cells: tuple[ComparedCell, ...]
    notes: tuple[str, ...]
    unsure: tuple[tuple[str, float, float], ...]
    tried: tuple[tuple[str, float], ...]
    interrupted: bool = False

    @property
    @in_json
    def within(self) -> dict[str, tuple[int, int]]:
        """Of fitted and of predicted cells: rates within 15 %, and all of them."""
        found = {}
        for name, wanted in (("fitted", True), ("predicted", False)):
            some = [each for each in self.cells if each.fitted is wanted]
            found[name] = sum(each.is_near for each in some), len(some)
        return found


def candidates(
    cells: Sequence[MeasuredCell], class_name: str, *, write_cache: bool = True, rotates: bool | None = None
) -> list[Candidate]:
    """Devices that may be of the drive's class, with the pasts and the cache that writes may show."""
    named = [find_device(class_name)] if class_name else _as_it_says(_near(cells), rotates)
    size_bytes = max(each.capacity_bytes for each in cells)
    devices = [_sized(each, size_bytes) for each in named]
    if devices and devices[0].kind not in _KINDS_NS:
        remedy = f"kinds: {', '.join(_KINDS_NS)}; calibrate a member of it"
        raise ResultError(f"a {devices[0].kind} is not calibrated", place=devices[0].name, remedy=remedy)
    has_writes = any(each.pattern.is_write for each in cells)
    caches = (True, False)[: 2 if has_writes else 1] if write_cache else (False,)
    return [
        Candidate(replace(device, write_cache=cache), state)
        for device in devices
        for cache in (caches if Subject(device).is_volatile else (True,))
        for state in STATES[: None if has_writes and device.kind == "flash" else 1]
    ]


def _as_it_says(devices: list[Device], rotates: bool | None) -> list[Device]:
    """The devices that rotate, or do not, as the disk says; all if none does."""
    return [each for each in devices if rotates in {None, each.kind == "rotating"}] or devices


def _sized(device: Device, size_bytes: int) -> Device:
    """The device with the measured disk's capacity, if that is known: a part of it is a part of its seeks."""
    if not size_bytes:
        return device
    measured = {"value": size_bytes, "source": "the measured disk", "estimate": False}
    changed = {"capacity": device.parameters["capacity"].model_copy(update=measured)}
    return replace(device, parameters={**device.parameters, **changed})


def _near(cells: Sequence[MeasuredCell]) -> list[Device]:
    """The generic devices of the kinds that are about as fast."""
    # A rotating disk reads in order as fast as flash reads at random.
    at_random = [each for each in cells if each.pattern.job == "randread"]
    reads = at_random or [each for each in cells if not each.pattern.is_write] or cells
    one_ns = min(each.pattern.depth * NS_PER_S / each.iops for each in reads)
    generic = [find_device(name) for name in bundled_devices() if name.startswith(GENERIC)]
    near = [each for each in generic for low, high in [_KINDS_NS[each.kind]] if low < one_ns < high]
    return [variant for each in near for variant in _with_speeds(each)]


def _with_speeds(device: Device) -> Iterator[Device]:
    """A class of rotating disks at each usual speed that is near to its own."""
    yield device
    if device.kind == "rotating":
        stated = device.parameters["rotation_speed"]
        for rpm in _SPEEDS_RPM:
            if rpm != stated.value and 1 / _SPEED_NEAR < rpm / float(stated.value) < _SPEED_NEAR:
                changed = {"rotation_speed": stated.model_copy(update={"value": rpm})}
                yield replace(device, parameters={**device.parameters, **changed})


def calibrate(
    name: str,
    measured: Measurements,
    *,
    class_name: str = "",
    only: Callable[[MeasuredCell], bool] = lambda _: True,
    write_cache: bool = True,
    step: Callable[[str], None] = lambda _: None,
) -> Calibrated:
    """Fit a drive to measurements, to cells of which ``only`` is true; interrupted, the best so far.

    Raises ResultError if nothing can be fitted.
    """
    chosen = [each for each in without_sleep([c for c in measured.cells if only(c)]) if not each.limit]
    if not chosen:
        raise ResultError("no measured cell is chosen", place=name, remedy="choose others with --only")
    possible = candidates(chosen, class_name, write_cache=write_cache, rotates=measured.rotates)
    if not possible:
        raise ResultError("it is of no class's speed", place=name, remedy="name its class with --class")
    search, tried, interrupted = _searched(possible, chosen, step)
    search.step = lambda: step(f"errors of {search.candidate.title}")
    count = len(search.unknowns.groups)
    covariance, gains = np.eye(count), np.zeros(count)
    if not interrupted:
        try:
            covariance, gains = search.errors()
        except KeyboardInterrupt:
            interrupted = True
    drive, state = search.unknowns.drive(search.best[1]), search.candidate.state
    ends = _predicted(search, covariance, measured.cells, known_cache=not write_cache)
    cells, loads = ends[: len(measured.cells)], ends[len(measured.cells) :]
    return Calibrated(
        name,
        search.candidate.device.name,
        state,
        as_measured(drive),
        tuple(_values(search, drive, covariance, gains)),
        tuple(_compared(measured.cells, simulate(drive, measured.cells, state, Modelling()), chosen, cells)),
        (*measured.notes, *_notes(measured.cells, chosen, search, drive), *_outside(search, gains)),
        tuple(_widest_first(search.unknowns.device, loads)),
        tuple(sorted(tried, key=lambda each: each[1])),
        interrupted,
    )


def _searched(
    possible: Sequence[Candidate], cells: Sequence[MeasuredCell], step: Callable[[str], None]
) -> tuple[DriveSearch, list[tuple[str, float]], bool]:
    """The best candidate, searched to the end; each tried one with its cost; whether it was interrupted."""
    searches: list[DriveSearch] = []
    with suppress(KeyboardInterrupt):
        scales: dict[str, Floats] = {}
        for each in possible:
            shared = scales.get(each.device.kind)
            how = _COARSE if len(possible) > 1 else Modelling()
            search = DriveSearch(each, cells, how, lambda each=each: step(each.title), shared)  # type: ignore[misc]
            scales.setdefault(each.device.kind, search.scale)
            searches.append(search)
        if len(searches) > 1:
            # Pasts that the cells cannot tell apart have the same misfit.
            distinct = {each.best[0]: each for each in reversed(searches)}
            for cost in sorted(distinct)[:_FITTED_MAX]:
                distinct[cost].run(_FIRST_STEPS)
        ordered = sorted(searches, key=lambda each: each.best[0])
        rivals = [e for e in ordered if e.best[0] < _RIVAL * ordered[0].best[0]]
        of_class = {each.candidate.device.name: each for each in reversed(rivals)}
        finals = [_in_full(each, cells) if len(searches) > 1 else each for each in of_class.values()]
        for one in finals:
            one.run(_STEPS)
        searches[:0] = finals
        final = min(finals, key=lambda each: each.best[0])
        return final, [(each.candidate.title, each.best[0]) for each in searches[len(finals) :]], False
    if not searches:
        raise KeyboardInterrupt
    best = min(searches, key=lambda each: each.best[0])
    return best, [(each.candidate.title, each.best[0]) for each in searches], True


def _in_full(begun: DriveSearch, cells: Sequence[MeasuredCell]) -> DriveSearch:
    """A coarse search's candidate in full runs, from its best drive on."""
    final = DriveSearch(begun.candidate, cells)
    final.step, final.best = begun.step, (float("inf"), begun.best[1])
    final.data(begun.best[1])
    return final


def _values(
    search: DriveSearch, drive: FittedDrive, covariance: Floats, gains: Floats
) -> Iterator[FoundValue]:
    """Each parameter with a range; the reach of its deviation becomes the range's ends."""
    low, high = search.unknowns.bounds()
    for index, names in enumerate(search.unknowns.groups):
        if names[0] in OF_HOST:
            continue
        at, sd = search.best[1][index], float(np.sqrt(covariance[index, index]))
        for name in names:
            spec = search.unknowns.device.model.parameters[name]
            ends = [
                search.unknowns.value(name, float(np.clip(at + times * sd, low[index], high[index])))
                for times in (-SD_OF_RANGE, SD_OF_RANGE, -_Z_90, _Z_90)
            ]
            low_end, high_end, first, last = (rounded(end, spec) for end in ends)
            value = rounded(drive.device.number(name), spec)
            interval = min(first, last), max(first, last)
            ends_of_range = min(low_end, high_end, value), max(low_end, high_end, value)
            yield FoundValue(name, value, *ends_of_range, float(gains[index]), interval, spec.unit)


def _notes(
    cells: Sequence[MeasuredCell], chosen: Sequence[MeasuredCell], search: DriveSearch, drive: FittedDrive
) -> Iterator[str]:
    yield from host_notes(cells, is_flash=drive.device.kind == "flash")
    for each in without_sleep(cells):
        if each.limit:
            yield f"{each.pattern.rw}, depth {each.pattern.depth}: {each.limit}; the fit leaves it out"
    if drive.kept_back:
        yield f"the host's scheduler kept {drive.kept_back} requests from the disk, which the file leaves out"
    if drive.host_us > 1:
        yield f"{drive.host_us:.3g} us of command_time are the link or controller of the host that measured"
    if not drive.device.write_cache:
        yield "its write cache was off: a study says so by write_cache = false beside the model"
    if not any(each.pattern.is_write for each in chosen):
        yield "no write was fitted: the values of writes, flushes and the drive's past are the class's"


def _outside(search: DriveSearch, gains: Floats) -> Iterator[str]:
    """The measured values that no drive of the class would have."""
    rows = zip(search.unknowns.groups, search.best[1], gains, strict=True)
    found = [
        names[0]
        for names, at, gain in rows
        if names[0] not in OF_HOST and abs(at) > SD_OF_RANGE and gain >= _MEASURED_GAIN
    ]
    if found:
        yield f"beyond the range of {search.candidate.device.name}: {', '.join(found)}"


def _alike(
    search: DriveSearch, covariance: Floats, *, known_cache: bool
) -> Iterator[tuple[FittedDrive, str]]:
    """Drives that explain the fitted cells as well, and their pasts.

    Where no write was fitted, nothing told a drive's past and whether its cache is on: both are drawn, too.
    """
    low, high = search.unknowns.bounds()
    device, is_blind = search.unknowns.device, not search.has_writes
    states = STATES if is_blind and device.kind == "flash" else (search.candidate.state,)
    may_be_off = is_blind and not known_cache and Subject(device).is_volatile
    points = np.random.default_rng(1).multivariate_normal(search.best[1], covariance, _DRAWS)
    for number, point in enumerate(np.clip(points, low, high)):
        with suppress(StudyError):
            drive = search.unknowns.drive(point)
            if may_be_off and number % _CACHE_OFF_EVERY == 0:
                drive = replace(drive, device=replace(drive.device, write_cache=False))
            yield drive, states[number % len(states)]


def _predicted(
    search: DriveSearch, covariance: Floats, measured: Sequence[MeasuredCell], *, known_cache: bool
) -> list[tuple[float, float]]:
    """The ends of the rate of each cell and of `LOADS` in nine of ten cases; none if most are refused."""
    blank = (MeasuredCell(load, 1e3, {}) for load in _loads(search.unknowns.device))
    cells = [*measured, *blank]
    rows = []
    for drive, state in _alike(search, covariance, known_cache=known_cache):
        with suppress(LabError, StudyError):  # the model refuses the drive
            rows.append([each.iops for each in simulate(drive, cells, state, _COARSE)])
    if len(rows) < _DRAWS / 2:
        return []
    unseen = [each.pattern.is_write and not search.has_writes for each in cells]
    lacks = norm.ppf((np.arange(_DRAWS) + 0.5) / _DRAWS)[:, None] * np.where(
        unseen, _UNSEEN_WRITE_SD, _MODEL_SD
    )
    rates = (np.array(rows)[:, None] * np.exp(lacks)).reshape(-1, len(cells))
    return [(float(least), float(most)) for least, most in np.percentile(rates, _NINE_OF_TEN, axis=0).T]


def _compared(
    cells: Sequence[MeasuredCell],
    shown: Sequence[MeasuredCell],
    chosen: Sequence[MeasuredCell],
    ends: Sequence[tuple[float, float]],
) -> Iterator[ComparedCell]:
    fitted = {each.pattern for each in chosen}
    for cell, own, interval in zip_longest(cells, shown, ends):
        is_fitted = cell.pattern in fitted
        yield ComparedCell(cell, own, is_fitted, None if is_fitted else interval)


def _loads(device: Device) -> list[Pattern]:
    return [load for load in LOADS if load.depth <= device.queue_depth]


def _widest_first(device: Device, ends: Sequence[tuple[float, float]]) -> list[tuple[str, float, float]]:
    """The titles of `LOADS` that the drive's queue holds, with the rates' ends."""
    titled = [(load_title(load), *each) for load, each in zip(_loads(device), ends, strict=False)]
    return sorted(titled, key=lambda each: each[1] / each[2])


def load_title(pattern: Pattern) -> str:
    size = f"{pattern.block_bytes >> 10} KiB"
    flush = f", a flush after every {pattern.flush_every}" * bool(pattern.flush_every)
    job = f" in {pattern.job}" * (not pattern.is_pure)
    return f"{pattern.rw} {size}{job}, depth {pattern.depth}{flush}"
