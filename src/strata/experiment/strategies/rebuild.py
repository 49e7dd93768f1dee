# SPDX-License-Identifier: Apache-2.0
"""The time to rebuild a lost disk at its full size, from rebuilds of two small parts of it.

Of each disk a part is used, and then twice as much, at the same fill and as long used. The time grows with
that of the drive's transfers, zone by zone; their ratio is taken to hold for the rest of the disk. The
remaining time is the same for every size. Seeds draw the drives, so that an interval is over plausible ones.
It reaches down to transfers alone, of data at the outer rim where a layer copies what is used alone; and up
where heads seek, since they move further on a full disk.
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

CAPACITY: Final = "capacity"
"""The change of a variation: the bytes of each disk that are used."""
MEASURED: Final = "measured"
ESTIMATED: Final = "estimated"
_PARTS: Final = 2


@dataclass(frozen=True)
class Rebuild:
    """The time from the loss of a disk to the end of the rebuild, on some stacks and under some loads.

    Attributes:
        chosen: The study as it is, with the stacks that are rebuilt.
        study: With the smaller part of each disk.
        part_bytes: That part; ``full_bytes`` is the whole.
        fill: The share of it that files take.
        whole: Whether the whole is rebuilt in the lab, too, to hold the estimate against it.
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
        sizes = self._sizes if self.whole else self._sizes[:_PARTS]
        return [] if tried else [self._variation(each) for each in sizes]

    @property
    def _sizes(self) -> tuple[int, int, int]:
        return self.part_bytes, _PARTS * self.part_bytes, self.full_bytes

    def _variation(self, size_bytes: int) -> Variation:
        changes: dict[str, Any] = {} if size_bytes == self.part_bytes else {CAPACITY: size_bytes}
        return Variation(name=f"{format_size(size_bytes)} of each disk", changes=changes)

    def judge(self, variation: Variation, results: StudyResults) -> Tried:
        times = self.found[variation.name] = {
            CellKey(*key): {
                seed: each for seed, record in cell.records.items() if (each := _measured(record))
            }
            for key, cell in results.cells.items()
        }
        lacking = [str(key) for key in self.cells.keys if not times.get(key)]
        note = f"not rebuilt within the window: {', '.join(lacking)}" if lacking else ""
        compared = [_compared(key, [ns for ns, _ in each.values()]) for key, each in times.items() if each]
        return variation.tried(MEASURED if compared else "", note, compared, len(self.study.seeds))

    def finding(self, tried: Sequence[Tried], *, whole: bool) -> Finding:
        found = [*tried]
        names = [each.name for each in self.next(())[:_PARTS]]
        if all(name in self.found for name in names):
            compared = [each for key in self.cells.keys if (each := self._estimated(key, *names))]
            title = f"{format_size(self.full_bytes)} of each disk"
            estimate = Variation(name=title, why=f"{format_share(self.fill)} full")
            verdict = ESTIMATED if compared else ""
            found.insert(_PARTS, estimate.tried(verdict, self._doubt(), compared, len(self.study.seeds)))
        subject = ", ".join(self.study.stacks)
        return Finding(kind="rebuild", subject=subject, whole=whole, tried=tuple(found))

    def _doubt(self) -> str:
        """The media caches of shingled disks that the parts do not fill."""
        models = {used.device.name: used.device for used in self.study.devices.values()}
        caches = [
            f"the {each.name} of {name} ({format_size(each.covered_bytes)})"
            for name, device in models.items()
            for each in device.model.structures(device)
            if each.is_log and each.covered_bytes > _PARTS * self.part_bytes * self.fill
        ]
        return f"{listed(caches)} was not filled: a full rebuild may take longer" if caches else ""

    def _estimated(self, key: CellKey, small: str, large: str) -> Compared | None:
        """The time for the whole disk, and how far it may lie from that."""
        first, second = self.found[small].get(key, {}), self.found[large].get(key, {})
        used_only = any(layer.rebuilds_used_only for layer in self.study.stacks[key.stack].layers)
        share, (one, two, full) = (self.fill if used_only else 1.0), self._sizes
        levels, least, further = [], [], []
        for seed in sorted(first.keys() & second.keys()):
            device = [*self.study.drawn_devices(key.stack, seed).values()][-1]
            (small_ns, small_seeks), (large_ns, large_seeks) = first[seed], second[seed]
            growth_ns, rest_ns = (
                transfer_ns(device, to) - transfer_ns(device, of) for of, to in ((one, two), (two, full))
            )
            levels.append(large_ns + (large_ns - small_ns) / growth_ns * rest_ns)
            rim_ns = transfer_ns(device, round(full * share)) - transfer_ns(device, round(two * share))
            least.append(min(1.0, (large_ns + rim_ns) / levels[-1]))
            seeks = max(0.0, large_seeks - small_seeks) / (two - one) * (full - two)
            longer_ns = seek_ns(device, full) - seek_ns(device, two)
            further.append(1 + seeks * longer_ns / max(levels[-1], 1.0))
        if not levels or min(levels) <= 0:
            return None
        found = _compared(key, levels)
        if found.low is None or found.high is None:
            return found
        low, high = found.low, found.high
        return found.model_copy(
            update={"low": low * float(np.mean(least)), "high": high * float(np.mean(further))}
        )


def _measured(record: ResultRecord) -> tuple[float, float] | None:
    metric = record.metric(REBUILT)
    seeks = record.trace.window.get("seeks", 0) if record.trace is not None else 0
    return None if metric is None else (metric.value, float(seeks))


def _compared(key: CellKey, values: Sequence[float]) -> Compared:
    """The geometric mean over seeds, and its interval from three on."""
    logs, count = np.log(np.asarray(values)), len(values)
    of: dict[str, Any] = {"workload": key.workload, "metric": REBUILT, "stack": key.stack, "unit": "ns"}
    if count > 2:
        ends = student(logs.mean(), standard_error(logs), count - 1, confidence_of(count))
        of |= {name: math.exp(end) for name, end in zip(("low", "high"), ends, strict=True)}
    return Compared(level=math.exp(logs.mean()), **of)


def transfer_ns(device: Device, size_bytes: int) -> float:
    """The time to transfer the first bytes of a drive in sequence; of one without zones, their number."""
    return formulas.transfer_ns(mechanism(device), size_bytes) if device.kind == "rotating" else size_bytes


def seek_ns(device: Device, size_bytes: int) -> float:
    """The seek between random places of its first bytes; 0 without a head."""
    return formulas.third_stroke_ns(mechanism(device), size_bytes) if device.kind == "rotating" else 0.0
