# SPDX-License-Identifier: Apache-2.0
"""How true a calibration is: drawn drives recovered, and real ones predicted from three cells of reads.

    nice .venv/bin/python -m bench.calibration            # both, about ten minutes
    nice .venv/bin/python -m bench.calibration --real     # the real drives of devices/real alone

Drawn: four rotating drives, four of flash on SATA, four on NVMe or in the network. Each is measured in
simulation with the jobs of `strata calibrate --script --writes`, with other random draws than the fit has;
its class is guessed. Judged on loads that were not fitted: means, the demerit figure of Ruemmler and Wilkes,
and whether the values' intervals hold the true ones. Real: fitted on reads at depths 1, 4 and 32.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from strata.calibration.calibrate import Calibrated, ComparedCell, calibrate, candidates
from strata.calibration.fit import DriveSearch, simulate
from strata.calibration.host import without_sleep
from strata.calibration.script import READS, WRITES
from strata.calibration.unknowns import FittedDrive, Unknowns
from strata.datasheet.cells import Measurements, Modelling, read_cells
from strata.datasheet.fio_results import MeasuredCell
from strata.datasheet.kinds import sheet_of
from strata.datasheet.measure import Pattern, measure
from strata.devices.device import Device, device_folder, find_device
from strata.devices.plausible import plausible_drive
from strata.validation.measured import demerit
from strata.validation.subjects.real import RealDrive, real_drives

DRAWN = {
    "rotating": ("generic-desktop-hdd", "generic-laptop-hdd", "generic-nearline-hdd", "generic-10k-hdd"),
    "SATA flash": ("generic-sata-ssd",) * 4,
    "NVMe and network": (
        *("generic-nvme-consumer", "generic-nvme-data-centre", "generic-nvme-consumer"),
        "generic-cloud-general-purpose",
    ),
}
JUDGED = (
    *(Pattern("randread", 4096, depth) for depth in (3, 24)),
    Pattern("randread", 16384, 4),
    *(Pattern("randwrite", 4096, depth) for depth in (2, 16)),
    Pattern("randread", 4096, 2, span_bytes=32 << 30),
)
SEED_MEASURED, SEED_JUDGED = 99, 77
REQUESTS = 6_000


@dataclass(frozen=True)
class Recovered:
    """A load that was not fitted: the mean of the calibrated drive over the true one, and the demerit."""

    load: Pattern
    mean: float
    demerit: float


def recovered(truth: Device, found: Calibrated) -> Iterator[Recovered]:
    for load in JUDGED:
        if load.depth > truth.queue_depth:
            continue
        true_ns, own_ns = (latencies(each, load, found.state) for each in (truth, found.device))
        yield Recovered(load, own_ns.mean() / true_ns.mean(), demerit(own_ns, true_ns))


def latencies(device: Device, load: Pattern, state: str) -> np.ndarray:
    """Of an unfitted load; both drives have the same places, so that only they differ."""
    sheet = sheet_of(device)
    subject = sheet.in_state(state if load.is_write else "used") if load.is_write else sheet.readable()
    disk = subject.open(SEED_JUDGED)
    measure(subject, disk, load, 2_000, seed=SEED_JUDGED + 1)
    return measure(subject, disk, load, REQUESTS, seed=SEED_JUDGED).latency_ns.astype(np.float64)


def drawn() -> None:
    seed, means, demerits, covered = 100, [], [], []
    for kind, names in DRAWN.items():
        for name in names:
            seed += 1
            truth = plausible_drive(find_device(name), seed)
            loads = [load for load, _ in (*READS, *WRITES) if load.depth <= truth.queue_depth]
            blank = [MeasuredCell(load, 1e3, {}) for load in loads]
            cells = simulate(
                FittedDrive(truth), blank, "used", Modelling(seed=SEED_MEASURED, requests=REQUESTS)
            )
            found = calibrate(f"drawn-{seed}", Measurements(tuple(cells), ()))
            rows = list(recovered(truth, found))
            inside = [
                value.interval[0] <= truth.number(value.name) <= value.interval[1]
                for value in found.values
                if value.is_measured and value.name in truth.parameters
            ]
            means += [abs(row.mean - 1) for row in rows]
            demerits += [row.demerit for row in rows]
            covered += inside
            worst = max(rows, key=lambda row: row.demerit)
            print(
                f"{kind}: {name} seed {seed}: taken for {found.class_name}, {found.state}; means within "
                f"{max(abs(row.mean - 1) for row in rows):.1%}; demerit {worst.demerit:.1%} at most "
                f"({worst.load.rw} {worst.load.block_bytes >> 10}k depth {worst.load.depth}); "
                f"{sum(inside)} of {len(inside)} intervals hold the value",
                flush=True,
            )
            for row in rows:
                load = f"{row.load.rw} {row.load.block_bytes >> 10}k {row.load.depth}"
                print(f"    {load}: {row.mean:.3f} {row.demerit:.3f}")
    print(
        f"all: means within 5 %: {share(means, 0.05)}; demerit within 10 %: {share(demerits, 0.1)}; "
        f"intervals that hold: {sum(covered)} of {len(covered)} ({np.mean(covered):.0%})"
    )


def share(values: list[float], limit: float) -> str:
    good = sum(value <= limit for value in values)
    return f"{good} of {len(values)} ({good / len(values):.0%})"


Whole = tuple[Device, list[list[str]], np.ndarray, np.ndarray]
"""A class, its unknowns, and where a real drive lies among them: deviations, and what all its cells gain."""
Counts = dict[tuple[str, str], list[bool]]
"""By direction and figure: whether each prediction is near."""


def real(*, also_writes: bool) -> None:
    """Fitted on depths 1, 4 and 32, predicted on every other cell; reads and writes apart.

    What the fitted cells do not show is the class's. Some of its values were chosen with these drives in
    sight, so each drive is also predicted from a class whose values are those of the other drives.
    """
    wanted = {"randread", "randwrite"} if also_writes else {"randread"}

    def is_fitted(cell: MeasuredCell) -> bool:
        return cell.pattern.rw in wanted and cell.pattern.depth in {1, 4, 32}

    drives = [each for each in real_drives() if not each.array]
    tables = {each.name: read_cells([device_folder() / "real" / f"{each.name}.csv"]) for each in drives}
    drives = [each for each in drives if any(map(is_fitted, tables[each.name].cells))]
    own = {each.name: fitted_whole(each, tables[each.name]) for each in drives}
    counts: dict[str, Counts] = {"class": {}, "class without this drive": {}}
    for drive in drives:
        found = calibrate(drive.name, tables[drive.name], only=is_fitted, write_cache=write_cache(drive))
        print(f"{drive.name}: {found.class_name}; {'; '.join(found.notes)}", flush=True)
        others = [own[each.name] for each in drives if each is not drive]
        unseen = from_others(drive, tables[drive.name], found, others, is_fitted)
        for title, each in zip(counts, (found, unseen), strict=True):
            print(f"  {title}", flush=True)
            _take(counts[title], drive, [cell for cell in each.cells if not is_fitted(cell.measured)])
    for title, figures in counts.items():
        print(title)
        _count(figures)


def from_others(
    drive: RealDrive,
    measured: Measurements,
    found: Calibrated,
    others: list[Whole],
    only: Callable[[MeasuredCell], bool],
) -> Calibrated:
    """The same calibration, from the class whose values are those of the other drives of the kind."""
    alike = [each for each in others if each[0].kind == found.device.kind]
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"{found.class_name}.toml"
        file.write_text(class_text(find_device(found.class_name), found.device, alike))
        return calibrate(
            drive.name, measured, only=only, write_cache=write_cache(drive), class_name=str(file)
        )


def _take(counts: Counts, drive: RealDrive, cells: list[ComparedCell]) -> None:
    limits = {each.pattern: each.limit for each in drive.cells}
    for cell in cells:
        found = _judged(cell, limits.get(cell.measured.pattern, ""))
        if cell.interval is not None:
            found["interval"] = cell.interval[0] <= cell.measured.iops <= cell.interval[1]
        for figure, is_good in found.items():
            counts.setdefault((cell.measured.pattern.rw, figure), []).append(is_good)


def write_cache(drive: RealDrive) -> bool:
    return drive.device is None or drive.device.write_cache


def fitted_whole(drive: RealDrive, measured: Measurements) -> Whole:
    """The drive fitted to all of its cells, in the class that explains them best."""
    cells = [each for each in without_sleep(measured.cells) if not each.limit]
    coarse = Modelling(requests=700, before=1_000)
    possible = candidates(cells, "", write_cache=write_cache(drive))
    first = min((DriveSearch(each, cells, coarse) for each in possible), key=lambda one: one.best[0])
    best = DriveSearch(first.candidate, cells)
    best.run(6)
    _, gains = best.errors()
    near = zip(best.unknowns.groups, best.best[1], gains, strict=True)
    said = ", ".join(f"{names[0]} {at:+.1f} ({gain:.0%})" for names, at, gain in near if gain > 0.3)
    print(f"{drive.name} as {best.candidate.title}, on all cells ({best.best[0]:.0f}): {said}", flush=True)
    return best.unknowns.device, best.unknowns.groups, best.best[1], gains


def class_text(device: Device, speed_of: Device, others: list[Whole]) -> str:
    """The class's file with each value where the other drives have it, in a mean with the file's."""
    text = (device_folder() / f"{device.name}.toml").read_text()
    unknowns = Unknowns(device)
    values = {name: each.value for name, each in speed_of.parameters.items() if name == "rotation_speed"}
    for names in unknowns.groups:
        places = [
            (at, gain)
            for _, groups, found, gains in others
            for own, at, gain in zip(groups, found, gains, strict=True)
            if own[0] == names[0]
        ]
        mean = sum(at * gain for at, gain in places) / (0.5 + sum(gain for _, gain in places))
        values |= {name: unknowns.value(name, mean) for name in names if name in device.parameters}
    for name, value in values.items():
        whole = device.model.parameters[name].whole
        shown = f"{round(float(value))}" if whole else f"{float(value):.6g}"
        text = re.sub(rf"(?m)^({name} = {{ value = )[^,]+", rf"\g<1>{shown}", text)
    return text


_LIMITS = {
    "rate": "within 15 %",
    "p99": "within a factor of 1.5",
    "interval": "of nine cases in ten holds the rate",
}


def _count(counts: Counts) -> None:
    for (what, figure), good in sorted(counts.items()):
        limit = _LIMITS[figure]
        print(f"{what}: {figure} {limit}: {sum(good)} of {len(good)} ({np.mean(good):.0%})")
    for figure in _LIMITS:
        every = [value for (_, name), values in counts.items() if name == figure for value in values]
        print(f"all: {figure}: {sum(every)} of {len(every)} ({np.mean(every):.0%})")


def _judged(cell: ComparedCell, limit: str) -> dict[str, bool]:
    """Whether a prediction's rate and tail are near; one that is not is printed."""
    pattern, ratios = cell.measured.pattern, cell.ratios
    if not (cell.is_near and cell.has_near_tail):
        shown = f"rate {ratios['rate']:.2f}, p99 {ratios.get('p99', float('nan')):.2f}"
        print(f"    {pattern.rw} {pattern.depth}: {shown} {limit}")
    return {"rate": cell.is_near, "p99": cell.has_near_tail}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--real", action="store_true", help="the real drives alone")
    parser.add_argument("--drawn", action="store_true", help="the drawn drives alone")
    parser.add_argument("--writes", action="store_true", help="of the real drives, fit writes, too")
    chosen = parser.parse_args()
    if not chosen.drawn:
        real(also_writes=chosen.writes)
    if not chosen.real:
        drawn()
    sys.exit(0)
