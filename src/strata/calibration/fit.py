# SPDX-License-Identifier: Apache-2.0
"""The drive of a class that explains measurements best: a search over simulated measurement runs.

What is minimised is, in squares, the difference of each measured figure from the simulated one, in units of
its error, and each parameter's deviation from its class, in standard deviations of plausible drives. So a
parameter that no measurement shows keeps the class's value and range. Single outliers on either side count
less than their square. scipy's least_squares makes the steps; the slopes come from a regression over
simulated drives around the point, because a simulation is noisy and some parameters are whole numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np
from scipy.optimize import least_squares

from strata.calibration.unknowns import FittedDrive, Floats, Unknowns
from strata.datasheet.cells import Modelling, modelled
from strata.datasheet.fio_results import PERCENTS, MeasuredCell
from strata.datasheet.kinds import sheet_of
from strata.datasheet.measure import Subject
from strata.devices.device import Device
from strata.devices.plausible import SD_OF_RANGE
from strata.errors import LabError, StudyError
from strata.units import NS_PER_US

RATE_ERROR: Final = 0.02
LATENCY_ERRORS: Final = {50.0: 0.04, 99.0: 0.1, 99.9: 0.3}
"""Relative errors of a model that describes its drive well, besides those of counting: estimates. Of the best
models means are within 1 % (DiskSim), and tails several times worse."""
_REFUSED: Final = 50.0  # a residual of a drive that the model refuses
_REPLICAS: Final = 5
_STEADY_BYTES: Final = 1 << 30  # the map of a drive in the steady state is made anew for each run
_MODEST, _PRIOR_MODEST = 3.0, 1.5  # residuals up to here count in full
_BEYOND_PERCENT: Final = 5  # requests beyond a percentile: of fewer it is not fitted
_SPREADS: Final = (0.8, 0.5, 0.3)
"""Of simulated drives around a point, in deviations: at first, then nearer; the last serves the errors."""


@dataclass(frozen=True)
class Candidate:
    """A class with a past of its drive; both are tried."""

    device: Device
    state: str = "used"

    @property
    def title(self) -> str:
        cache = "" if self.device.write_cache else ", write cache off"
        return f"{self.device.name}{f', {self.state}' if self.device.kind == 'flash' else ''}{cache}"


def simulate(
    drive: FittedDrive, cells: Sequence[MeasuredCell], state: str, how: Modelling
) -> list[MeasuredCell]:
    """The cells on a drive; raises LabError if the model refuses it."""
    sheet = sheet_of(as_measured(drive))
    reads, writes = sheet.readable(), sheet.in_state(state)
    if state == "steady" and (writes.capacity_bytes or 0) > _STEADY_BYTES:
        writes = replace(writes, capacity_bytes=_STEADY_BYTES)
    hosted = replace(how, kept_back=drive.kept_back, submit_ns=drive.submit_us * NS_PER_US)
    return modelled(reads, writes, cells, hosted)


def as_measured(drive: FittedDrive) -> Device:
    """The device with the ceiling of the host at which it was measured."""
    if not drive.host_us:
        return drive.device
    changed = {"command_time": drive.device.number("command_time") + drive.host_us}
    return Subject(drive.device).with_values(changed).device


def figures(cell: MeasuredCell, shown: MeasuredCell) -> dict[str, float]:
    """The logarithm of each figure over the measured one; ``shown`` has the simulated figures."""
    found = {"rate": float(np.log(shown.iops / cell.iops))}
    for percent in PERCENTS:
        beyond = cell.requests * (1 - percent / 100)
        if cell.latencies_ns.get(percent) and beyond >= _BEYOND_PERCENT:
            found[f"p{percent:g}"] = float(np.log(shown.latencies_ns[percent] / cell.latencies_ns[percent]))
    return found


@dataclass
class DriveSearch:
    """A search for one candidate; `best` is kept when it is interrupted.

    Misfits of candidates compare if their figures have the same errors: ``shared``, another's ``scale``.
    """

    candidate: Candidate
    cells: Sequence[MeasuredCell]
    how: Modelling = Modelling()  # noqa: RUF009 - frozen
    step: Callable[[], None] = lambda: None
    shared: Floats | None = None
    best: tuple[float, Floats] = field(init=False)
    runs: int = 0

    def __post_init__(self) -> None:
        self.unknowns = Unknowns(self.candidate.device)
        start = np.zeros(len(self.unknowns.groups))
        self._spread = 0
        self._rng = np.random.default_rng(1)
        self.scale = self._noise(start) if self.shared is None else self.shared
        self.best = (float("inf"), start)
        self.data(start)

    @property
    def has_writes(self) -> bool:
        return any(each.pattern.is_write for each in self.cells)

    def _noise(self, start: Floats) -> Floats:
        """The errors of each figure: of the model, and of counting, by runs with other seeds."""
        drive = self.unknowns.drive(start)
        seeds = range(2, 2 + _REPLICAS)
        runs = [simulate(drive, self.cells, self.candidate.state, replace(self.how, seed=s)) for s in seeds]
        rows = [
            [x for c, s in zip(self.cells, run, strict=True) for x in figures(c, s).values()] for run in runs
        ]
        names = [name for cell in self.cells for name in figures(cell, replace(cell, latencies_ns=_ONES))]
        base = [RATE_ERROR if n == "rate" else LATENCY_ERRORS[float(n[1:])] for n in names]
        return np.asarray(
            np.hypot(np.array(base), np.std(rows, axis=0) * np.sqrt(2 * _REPLICAS / (_REPLICAS - 1)))
        )

    def data(self, deviations: Floats) -> Floats:
        """The differences from the measured figures, in errors; outliers compressed."""
        self.runs += 1
        self.step()
        drive = self.unknowns.drive(deviations)
        try:
            shown = simulate(drive, self.cells, self.candidate.state, self.how)
        except (LabError, StudyError):
            return np.full(len(self.scale), _REFUSED)
        raw = [x for c, s in zip(self.cells, shown, strict=True) for x in figures(c, s).values()]
        found = _compressed(np.array(raw) / self.scale, _MODEST)
        cost = float(np.sum(found**2) + np.sum(_compressed(deviations, _PRIOR_MODEST) ** 2))
        if cost < self.best[0]:
            self.best = (cost, deviations.copy())
        return found

    @cached_property
    def moved(self) -> list[int]:
        """The unknowns that change any figure: the others keep the class's value, and cost no simulation.

        They are moved to the ends of their ranges together, and a half of them where a figure differs.
        """
        low, _ = self.unknowns.bounds()
        ends = np.where(low < -1, -SD_OF_RANGE, SD_OF_RANGE)
        for index, names in enumerate(self.unknowns.groups):
            known = self.unknowns.device.parameters.get(names[0])
            ends[index] *= -1 if known is not None and known.low == known.value else 1
        still = self.data(np.zeros(len(ends)))

        def among(indices: list[int]) -> list[int]:
            point = np.zeros(len(ends))
            point[indices] = ends[indices]
            if np.array_equal(self.data(point), still):
                return []
            half = len(indices) // 2
            return [*among(indices[:half]), *among(indices[half:])] if half else indices

        return among(list(range(len(ends))))

    def residuals(self, deviations: Floats) -> Floats:
        return np.concatenate([self.data(deviations), _compressed(deviations, _PRIOR_MODEST)])

    def slopes(self, deviations: Floats) -> Floats:
        """The slopes of the residuals, by a regression over pairs of drives around the point."""
        spread = _SPREADS[min(self._spread, len(_SPREADS) - 1)]
        self._spread += 1
        beyond = _compressed(deviations + 1e-4, _PRIOR_MODEST) - _compressed(deviations, _PRIOR_MODEST)
        return np.vstack([self._regression(deviations, spread)[0], np.diag(beyond / 1e-4)])

    def _regression(self, deviations: Floats, spread: float) -> tuple[Floats, Floats]:
        """The slopes of the figures, and by how much chance enlarges the sum of their squares."""
        count, moved, (low, high) = len(deviations), self.moved, self.unknowns.bounds()
        steps = np.zeros((max(12, round(1.5 * len(moved))), count))
        steps[:, moved] = self._rng.standard_normal((len(steps), len(moved))) * spread
        points = np.clip(np.vstack([deviations + steps, deviations - steps]), low, high)
        values = np.array([self.data(point) for point in points])
        design = np.hstack([np.ones((len(points), 1)), (points - deviations)[:, moved]])
        modelled = ~np.all(values == _REFUSED, axis=1)
        values, design = values[modelled], design[modelled]
        slopes, chance = np.zeros((values.shape[1], count)), np.zeros((count, count))
        found = np.linalg.lstsq(design, values, rcond=None)[0]
        slopes[:, moved] = found[1:].T
        left = float(np.sum((values - design @ found) ** 2)) / max(1, len(values) - design.shape[1])
        chance[np.ix_(moved, moved)] = np.linalg.pinv(design.T @ design)[1:, 1:] * left
        return slopes, chance

    def run(self, steps: int) -> None:
        """Search from the best drive so far, with this many steps."""
        low, high = self.unknowns.bounds()
        least_squares(
            self.residuals,
            np.clip(self.best[1], low + 1e-9, high - 1e-9),
            jac=self.slopes,
            bounds=(low, high),
            max_nfev=steps,
            ftol=1e-3,
        )

    def errors(self) -> tuple[Floats, Floats]:
        """The covariance of the deviations at the best drive, and each one's gain from the measurements.

        The data's errors are enlarged if the best drive fits worse than they say. A gain is the part of a
        deviation's variance that the measurements removed: 0 if they say nothing of it.
        """
        point = self.best[1]
        slopes, chance = self._regression(point, _SPREADS[-1])
        misfit = float(np.sum(self.data(point) ** 2)) / max(1, len(self.scale))
        told, axes = np.linalg.eigh((slopes.T @ slopes - chance) / max(1.0, misfit))
        covariance = np.asarray((axes / (1 + np.maximum(told, 0))) @ axes.T, np.float64)
        return covariance, np.asarray(1 - np.diag(covariance), np.float64)


_ONES: Final = dict.fromkeys(PERCENTS, 1.0)


def _compressed(values: Floats, modest: float) -> Floats:
    """Values whose squares grow only linearly far beyond ``modest`` (pseudo-Huber)."""
    inner = np.sqrt(1 + (values / modest) ** 2) - 1
    return np.asarray(np.sign(values) * modest * np.sqrt(2 * inner), np.float64)
