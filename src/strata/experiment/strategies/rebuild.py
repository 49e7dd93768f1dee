# SPDX-License-Identifier: Apache-2.0
"""The time to rebuild a lost disk at its full size, from rebuilds of two small parts of it.

Of each disk a part is used, and then twice as much, at the same fill and as long used. The ratio of the
growth to that of the drive's transfers, zone by zone, is taken to hold for the rest of the disk. The interval
is over plausible drives; it reaches down to transfers alone (of data at the rim, where a layer copies what is
used), and up where heads seek, which move further on a full disk.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from strata.datasheet import formulas
from strata.devices.device import Device
from strata.devices.kinds.mechanism import mechanism
from strata.experiment.experiment import Cells
from strata.model.study import Study
from strata.model.survival import REBUILT
from strata.model.trial import CellKey
from strata.results.findings import Compared, Finding, Tried, Variation
from strata.results.record import ResultRecord
from strata.statistics.interval import confidence_of, standard_error, student
from strata.statistics.study import StudyResults
from strata.units import format_share, format_size
from strata.words import listed

CAPACITY: Final = "capacity"  # the change of a variation: the bytes of each disk that are used
_PARTS: Final = 2


@dataclass(frozen=True)
class Rebuild:
    """The time from the loss of a disk to the end of the rebuild, on some stacks and under some loads.

    Attributes:
        chosen: The study as it is, with the stacks that are rebuilt; ``study``: with a part of each disk.
        fill: The share of each disk that files take; ``whole``: whether the lab rebuilds all of it, too.
        found: By variation and cell, the time in ns and the seeks of each seed.
    """

    chosen: Study
    study: Study
    part_bytes: int
    full_bytes: int
    fill: float
    whole: bool = False
    found: dict[str, dict[CellKey, dict[int, tuple[float, float]]]] = field(default_factory=dict)

    @property
    def cells(self) -> Cells:
        return Cells([*self.study.stacks], [*self.study.workloads], self.study.seeds)

    def next(self, tried: Sequence[Tried]) -> list[Variation]:
        """Both parts, and the whole if it is asked for."""
        sizes = () if tried else self._sizes if self.whole else self._sizes[:_PARTS]
        changes = [{CAPACITY: each} if each > self.part_bytes else {} for each in sizes]
        return [
            Variation(name=f"{format_size(each)} of each disk", changes=of)
            for each, of in zip(sizes, changes, strict=True)
        ]

    @property
    def _sizes(self) -> tuple[int, int, int]:
        return self.part_bytes, _PARTS * self.part_bytes, self.full_bytes

    def judge(self, variation: Variation, results: StudyResults) -> Tried:
        times = self.found[variation.name] = {
            CellKey(*key): {
                seed: each for seed, record in cell.records.items() if (each := _measured(record))
            }
            for key, cell in results.cells.items()
        }
        lacking = [str(key) for key in self.cells.keys if not times.get(key)]
        note = f"not rebuilt within the window: {listed(lacking)}" if lacking else ""
        compared = [_compared(key, [ns for ns, _ in each.values()]) for key, each in times.items() if each]
        return variation.tried("measured" if compared else "", note, compared, len(self.study.seeds))

    def finding(self, tried: Sequence[Tried], *, whole: bool) -> Finding:
        found, parts = [*tried], [each.name for each in self.next(())[:_PARTS]]
        if all(name in self.found for name in parts):
            compared = [each for key in self.cells.keys if (each := self._estimated(key, *parts))]
            of_whole = f"{format_size(self.full_bytes)} of each disk"
            estimate = Variation(name=of_whole, why=f"{format_share(self.fill)} full")
            verdict, seeds = "estimated" if compared else "", len(self.study.seeds)
            found.insert(_PARTS, estimate.tried(verdict, self._doubt(), compared, seeds))
        names = [*self.study.stacks]
        return Finding(kind="rebuild", subject=", ".join(names), whole=whole, tried=tuple(found))

    def _doubt(self) -> str:
        """The media caches of shingled disks that the parts do not fill."""
        disks = [used for stack in self.study.stacks for used in self.study.stack_devices(stack)]
        caches = [
            f"the {each.name} of {device.name} ({format_size(each.covered_bytes)})"
            for device in {used.device.name: used.device for used in disks}.values()
            for each in device.model.structures(device)
            if each.is_log and each.covered_bytes > _PARTS * self.part_bytes * self.fill
        ]
        return f"{listed(caches)} was not filled: a full rebuild may take longer" if caches else ""

    def _estimated(self, key: CellKey, small: str, large: str) -> Compared | None:
        """The time for the whole disk, and how far it may lie from that."""
        first, second = self.found[small].get(key, {}), self.found[large].get(key, {})
        layers, (one, two, full) = self.study.stacks[key.stack].layers, self._sizes
        share = self.fill if any(layer.rebuilds_used_only for layer in layers) else 1.0
        levels, least, further = [], [], []
        for seed in sorted(first.keys() & second.keys()):
            device = [*self.study.drawn_devices(key.stack, seed).values()][-1]
            (small_ns, small_seeks), (large_ns, large_seeks) = first[seed], second[seed]
            ratio = (large_ns - small_ns) / _transfers_ns(device, one, two)
            levels.append(large_ns + ratio * _transfers_ns(device, two, full))
            rim_ns = large_ns + _transfers_ns(device, round(two * share), round(full * share))
            least.append(min(1.0, rim_ns / levels[-1]))
            seeks = max(0.0, large_seeks - small_seeks) / (two - one) * (full - two)
            further.append(1 + seeks * (seek_ns(device, full) - seek_ns(device, two)) / max(levels[-1], 1.0))
        widened = (float(np.mean(each)) for each in (least, further))
        return _compared(key, levels, *widened) if levels and min(levels) > 0 else None


def _measured(record: ResultRecord) -> tuple[float, float] | None:
    took, seeks = record.metric(REBUILT), record.trace.window.get("seeks", 0) if record.trace else 0
    return None if took is None else (took.value, float(seeks))


def _compared(key: CellKey, values: Sequence[float], least: float = 1, further: float = 1) -> Compared:
    """The geometric mean over seeds, and from three on its interval, widened by two factors."""
    logs, count = np.log(np.asarray(values)), len(values)
    of: dict[str, Any] = {"workload": key.workload, "metric": REBUILT, "stack": key.stack, "unit": "ns"}
    if count > 2:
        low, high = student(logs.mean(), standard_error(logs), count - 1, confidence_of(count))
        of |= {"low": math.exp(low) * least, "high": math.exp(high) * further}
    return Compared(level=math.exp(logs.mean()), **of)


def _transfers_ns(device: Device, begin: int, end: int) -> float:
    """The time to transfer these bytes of a drive in sequence; without zones, their number."""
    if device.kind != "rotating":
        return end - begin
    return formulas.transfer_ns(mechanism(device), end) - formulas.transfer_ns(mechanism(device), begin)


def seek_ns(device: Device, size_bytes: int) -> float:
    """The seek between random places of its first bytes; 0 without a head."""
    return formulas.third_stroke_ns(mechanism(device), size_bytes) if device.kind == "rotating" else 0.0
