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
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from strata.calibration.calibrate import Calibrated, ComparedCell, calibrate
from strata.calibration.fit import simulate
from strata.calibration.script import READS, WRITES
from strata.calibration.unknowns import FittedDrive
from strata.datasheet.cells import Measurements, Modelling, read_cells
from strata.datasheet.fio_results import MeasuredCell
from strata.datasheet.kinds import sheet_of
from strata.datasheet.measure import Pattern, measure
from strata.devices.device import Device, device_folder, find_device
from strata.devices.plausible import plausible_drive
from strata.validation.measured import demerit
from strata.validation.subjects.real import real_drives

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


def real() -> None:
    """Fitted on reads at depths 1, 4 and 32, predicted on every other cell; reads and writes apart."""
    limits = {(d.name, c.pattern): c.limit for d in real_drives() for c in d.cells}
    caches = {d.name: d.device is None or d.device.write_cache for d in real_drives()}
    counts: dict[tuple[str, str], list[bool]] = {}
    for file in sorted((device_folder() / "real").glob("*.csv")):
        measured = read_cells([file])
        if file.stem.startswith("raid") or not any(is_fitted(cell) for cell in measured.cells):
            continue
        found = calibrate(file.stem, measured, only=is_fitted, write_cache=caches[file.stem])
        print(f"{file.stem}: {found.class_name}; {'; '.join(found.notes)}", flush=True)
        for each in found.cells:
            if not each.fitted:
                limit = limits.get((file.stem, each.measured.pattern), "")
                for figure, is_good in _judged(each, limit).items():
                    counts.setdefault((each.measured.pattern.rw, figure), []).append(is_good)
    _count(counts)


def _count(counts: dict[tuple[str, str], list[bool]]) -> None:
    for (what, figure), good in sorted(counts.items()):
        limit = "within 15 %" if figure == "rate" else "within a factor of 1.5"
        print(f"{what}: {figure} {limit}: {sum(good)} of {len(good)} ({np.mean(good):.0%})")
    for figure in ("rate", "p99"):
        every = [value for (_, name), values in counts.items() if name == figure for value in values]
        print(f"all: {figure}: {sum(every)} of {len(every)} ({np.mean(every):.0%})")


def _judged(cell: ComparedCell, limit: str) -> dict[str, bool]:
    """Whether a prediction's rate and tail are near; one that is not is printed."""
    pattern, ratios = cell.measured.pattern, cell.ratios
    if not (cell.is_near and cell.has_near_tail):
        shown = f"rate {ratios['rate']:.2f}, p99 {ratios.get('p99', float('nan')):.2f}"
        print(f"    {pattern.rw} {pattern.depth}: {shown} {limit}")
    return {"rate": cell.is_near, "p99": cell.has_near_tail}


def is_fitted(cell: MeasuredCell) -> bool:
    return cell.pattern.rw == "randread" and cell.pattern.depth in {1, 4, 32}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--real", action="store_true", help="the real drives alone")
    parser.add_argument("--drawn", action="store_true", help="the drawn drives alone")
    chosen = parser.parse_args()
    if not chosen.drawn:
        real()
    if not chosen.real:
        drawn()
    sys.exit(0)
