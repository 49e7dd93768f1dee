# SPDX-License-Identifier: Apache-2.0
"""An estimate of a study in the lab, before anything runs: real time of each cell, and memory.

The virtual time of a trial, and the real seconds for each second of it, come from the most similar trials of
results folders; without any, from a rule of thumb.
"""

from __future__ import annotations

import heapq
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from strata.errors import StrataError
from strata.execution.forecast import TrialDuration
from strata.execution.pool import lab_bytes, lab_jobs, memory_available_bytes
from strata.model.duties import FILLED_BYTES_PER_REAL_S, CostsRealTime, EndsWhenKnown
from strata.model.study import Study
from strata.model.study_record import StackRecord, StudyRecord, WorkloadRecord
from strata.model.trial import CellKey
from strata.model.workload import Workload, loads_of
from strata.plan.model import Trial
from strata.plan.placement import is_read_alike
from strata.printable import in_json
from strata.results.store import ResultsFolder
from strata.rules.fit import capacity_bytes
from strata.units import NS_PER_S

Basis = Literal["same cell", "same workload and devices", "rule of thumb"]

# Real seconds for a virtual one, where no trial tells. PostgreSQL took 0.2 on a rotating disk, 1.8 on a cloud
# volume; faster devices make the processor wait less. A slow processor gives the lab less to do.
_REAL_PER_VIRTUAL: Final[Mapping[str, float]] = {"rotating": 0.2, "controller": 0.5, "network": 1.8}
_REAL_PER_VIRTUAL_ELSE: Final = 3.0
# For each busy processor: blogbench and the web server (docs/explanation/what-the-lab-can-tell.md).
_REAL_PER_VIRTUAL_BUSY: Final = 8.0
_UNIT_PS: Final = 450  # of generic-server-2024, with which these were measured
# Of a load with a rate: the lab has the more to do the more operations there are, and waiting takes no real
# time. Estimates, from PostgreSQL and file servers on rotating disks, with and without an SSD beside them.
_REAL_PER_VIRTUAL_IDLE: Final = 0.1
_REAL_PER_OPERATION_S: Final = 0.0006
_PAUSE_NS: Final = 15 * NS_PER_S  # the mean of the drawn pauses
_AROUND_NS: Final = 20 * NS_PER_S  # building, preparing and taking down, by the same rule
_BOOT_S: Final = 2.0
# Building, making a server's cluster or small files, and taking down: computing, whatever the disks are. The
# rest of `_AROUND_NS` is waiting. Measured with eight loads on a rotating disk and a fast flash drive.
_AROUND_REAL_S: Final = 3.0
# Ageing: files are written by several threads, and replaced. Measured with ext4, btrfs and ZFS, and 256 KiB.
_AGED_BYTES_PER_REAL_S: Final = 1 << 30
_AGED_FILE_REAL_S: Final = 0.25e-3
_AGED_BYTES_PER_S: Final[Mapping[str, float]] = {"rotating": 25e6}
_AGED_BYTES_PER_S_ELSE: Final = 200e6
# A power cut ends a trial in the middle of its window, and boots recover, check and look for what was
# acknowledged. Measured with pgbench on a rotating disk. Of a probe: an estimate.
_CUT_SHARE: Final = 0.75
_RECOVERY_REAL_S: Final = 3.0
_PROBE_REAL_S: Final = 10.0
# Of a window that ends when its result is known: 0.72 at 10 % and 0.87 at 5 %, the mean of 14 cells of 300 s.
_KNOWN_SHARE: Final = 0.8
# An estimate, in virtual time, of a data set that is written in sequence.
_FILLED_BYTES_PER_S: Final = 150_000_000


@dataclass(frozen=True)
class CellEstimate:
    """The real and the virtual time of one trial of a cell, and the number of its trials."""

    cell: CellKey
    trials: int
    trial_ns: float
    trial_real_s: float
    basis: Basis

    @property
    @in_json
    def real_s(self) -> float:
        return self.trials * self.trial_real_s


@dataclass(frozen=True)
class Estimate:
    """The real time of a study with ``jobs`` labs at once, and the memory of each; longest cells first.

    ``failures_real_s`` are the real seconds of the power cuts and probes of ``[survival]``.
    """

    cells: tuple[CellEstimate, ...]
    jobs: int
    lab_bytes: int
    available_bytes: int
    failures_real_s: float = 0.0

    @property
    @in_json
    def real_s(self) -> float:
        return (sum(each.real_s for each in self.cells) + self.failures_real_s) / self.jobs

    def real_s_with(self, labs: int) -> float:
        """The same with this number of labs on machines like this one: a trial runs on one of them."""
        free = [self.failures_real_s / labs] * labs
        for each in sorted(self.cells, key=lambda cell: -cell.trial_real_s):
            for _ in range(each.trials):
                heapq.heapreplace(free, free[0] + each.trial_real_s)
        return max(free)

    @property
    @in_json
    def fits(self) -> bool:
        return self.jobs * self.lab_bytes <= self.available_bytes


@dataclass(frozen=True)
class Past:
    """A trial of an earlier run, with what its study said of stack, workload, devices and ageing."""

    workload: WorkloadRecord
    stack: StackRecord
    models: tuple[str, ...]
    processor: str
    took: TrialDuration
    age: object = None


_FIRST_PROBES: Final = 7
_FURTHER_PROBES: Final = 4
"""Probes of a search: the first seed doubles twice and halves the octave; the others begin nearby."""


def past_trials(folders: Iterable[Path]) -> list[Past]:
    """One valid trial of each cell of these results folders in virtual time; a bad folder has none."""
    found: list[Past] = []
    for path in folders:
        with suppress(StrataError, KeyError, TypeError):
            found += _past_of(ResultsFolder.open(path))
    return found


def _past_of(folder: ResultsFolder) -> Iterator[Past]:
    snapshot = folder.study()
    for reading in folder.one_of_each_cell() if snapshot.time_domain == "virtual" else ():
        trial, record = reading.trial, reading.record
        if record is None or not reading.usable:
            continue
        stack = snapshot.stacks[trial.stack]
        models = tuple(snapshot.devices[name].model for name in stack.devices)
        workload = snapshot.workloads[trial.workload]
        age = _age(snapshot, stack)
        yield Past(workload, stack, models, snapshot.processor.model, TrialDuration.of(record), age)


def _age(study: StudyRecord, stack: StackRecord) -> object:
    """What decides how long ageing takes; None where nothing is aged."""
    return study.age and (study.age, [study.devices[name].capacity_bytes for name in stack.devices])


def expected_trials(study: Study, trials: Iterable[Trial]) -> Counter[CellKey]:
    """The number of trials to expect of each cell. A search counts with its probable number of probes."""
    found: Counter[CellKey] = Counter()
    for trial in trials:
        if trial.rate is None:
            found[trial.key.cell] += 1
        else:
            seeds = len(study.seeds_of(trial.workload))
            found[trial.key.cell] = _FIRST_PROBES + (seeds - 1) * _FURTHER_PROBES
    return found


def estimate_of(
    study: Study, cells: Mapping[CellKey, int], past: Sequence[Past], shared_by: Mapping[CellKey, int] = {}
) -> Estimate:
    """The estimate for the ``cells`` of a study, with the number of trials of each.

    ``shared_by`` has the number of cells that share what is prepared for a cell, where that is done once.
    """
    described = study.describe()
    found = [_cell(study, described, cell, count, past, shared_by.get(cell)) for cell, count in cells.items()]
    each_bytes = lab_bytes(study)
    jobs = min(lab_jobs(each_bytes, len(os.sched_getaffinity(0))), max(1, sum(cells.values())))
    return Estimate(
        cells=tuple(sorted(found, key=lambda each: -each.real_s)),
        jobs=jobs,
        lab_bytes=each_bytes,
        available_bytes=memory_available_bytes(),
        failures_real_s=_failures_real_s(study, found),
    )


def _failures_real_s(study: Study, cells: Iterable[CellEstimate]) -> float:
    """The real seconds of the failures of ``[survival]`` under these cells and on their stacks."""
    wanted = study.survival
    if wanted is None:
        return 0.0
    workloads = wanted.cut(study.workloads, study.stacks.values())
    cut = [each for each in cells if each.cell.workload in workloads]
    cuts_s = wanted.power_cuts * sum(_CUT_SHARE * each.trial_real_s + _RECOVERY_REAL_S for each in cut)
    return cuts_s + len(wanted.probes()) * len(study.stacks) * _PROBE_REAL_S


def _real_per_virtual(study: Study, load: Workload, kinds: Iterable[str], cached_readers: int) -> float:
    """The real seconds of a virtual one under a load, on disks of these kinds."""
    speed = _UNIT_PS / (study.processor.number("unit_time") or _UNIT_PS)
    ratio = max((_REAL_PER_VIRTUAL.get(kind, _REAL_PER_VIRTUAL_ELSE * speed) for kind in kinds), default=1.0)
    busy = min(cached_readers, study.processor.number("processors"))
    ratio = max(ratio, _REAL_PER_VIRTUAL_BUSY * speed * busy)
    if (rate_per_s := _rate_per_s(load)) is not None:
        ratio = min(ratio, _REAL_PER_VIRTUAL_IDLE + rate_per_s * _REAL_PER_OPERATION_S)
    return ratio


def _cell(  # noqa: PLR0917
    study: Study,
    described: StudyRecord,
    cell: CellKey,
    count: int,
    past: Sequence[Past],
    shared_by: int | None,
) -> CellEstimate:
    study = study.of(cell.stack)
    workload, stack = described.workloads[cell.workload], described.stacks[cell.stack]
    models = tuple(used.device.name for used in study.stack_devices(cell.stack))
    alike = [
        each
        for each in past
        if each.workload.workload == workload.workload
        and (each.models, each.processor, each.age) == (models, study.processor.name, _age(described, stack))
    ]
    same = [each for each in alike if (each.workload, each.stack) == (workload, stack)]
    if same:
        trial_ns = sum(each.took.trial_ns for each in same) / len(same)
        real_s = sum(each.took.real_s for each in same) / len(same)
        return CellEstimate(cell, count, trial_ns, real_s, "same cell")
    load = study.workloads[cell.workload]
    streaming = [] if is_read_alike(study, cell.stack) else loads_of(load)
    data_bytes = sum(each.streamed_bytes for each in streaming) / (shared_by or 1)
    load_ns = _expected_ns(load)
    busy_ns = load_ns + _AROUND_NS // (shared_by or 1)
    # A pause takes no real time.
    trial_ns = (
        busy_ns + (_PAUSE_NS if study.phases == "drawn" else 0) + data_bytes / _FILLED_BYTES_PER_S * NS_PER_S
    )
    aged_bytes = _aged_bytes(study, cell) / (shared_by or 1)
    kinds = [used.device.kind for used in study.stack_devices(cell.stack)]
    aged_per_s = min((_AGED_BYTES_PER_S.get(each, _AGED_BYTES_PER_S_ELSE) for each in kinds), default=1.0)
    trial_ns += aged_bytes / aged_per_s * NS_PER_S
    if alike:
        ratio = sum(each.took.real_s for each in alike) / sum(each.took.trial_ns for each in alike)
        return CellEstimate(cell, count, trial_ns, trial_ns * ratio, "same workload and devices")
    costly = [each for each in loads_of(load) if isinstance(each, CostsRealTime)]
    ratio = _real_per_virtual(study, load, kinds, sum(each.cached_readers for each in costly))
    boots = 1 if shared_by is None else 1 + 1 / shared_by
    layers = [layer.real_time() for layer in study.stacks[cell.stack].every_layer]
    boot_s = _BOOT_S + sum(each.start_s for each in layers)
    per_virtual = sum(each.per_virtual for each in layers)
    work_s = sum(each.work_real_s for each in costly) + _aged_real_s(study, aged_bytes)
    work_s *= max((each.slowness for each in layers), default=1)
    around_s = (_AROUND_REAL_S + _AROUND_NS / NS_PER_S * per_virtual) / (shared_by or 1)
    filled_s = sum(map(_fill_real_s, streaming)) / (shared_by or 1)
    window_s = load_ns / NS_PER_S * (ratio + per_virtual)
    real_s = boot_s * boots + around_s + window_s + work_s + filled_s
    return CellEstimate(cell, count, trial_ns, real_s, "rule of thumb")


def _expected_ns(load: Workload) -> float:
    """The time that a load's warm-up and window take, if a window that may end early does so as usual."""
    may_end = any(isinstance(each, EndsWhenKnown) and each.until for each in loads_of(load))
    return load.duration_ns_min - (load.window_ns * (1 - _KNOWN_SHARE) if may_end else 0)


def _fill_real_s(load: Workload) -> float:
    """The real seconds in a lab to write a load's data in sequence."""
    per_s = load.fill_bytes_per_real_s if isinstance(load, CostsRealTime) else FILLED_BYTES_PER_REAL_S
    return load.streamed_bytes / per_s


def _aged_bytes(study: Study, cell: CellKey) -> float:
    """What ageing writes for a trial: files, and again as much as it replaces."""
    if study.age is None:
        return 0.0
    load = study.workloads[cell.workload]
    stack = study.stacks[cell.stack].at(load.place)
    held_bytes = capacity_bytes(stack, study.capacities_bytes, load) if stack.ages else None
    return study.age.filled_bytes(held_bytes or 0) * (1 + study.age.overwrites)


def _aged_real_s(study: Study, aged_bytes: float) -> float:
    files = 0.0 if study.age is None else aged_bytes / study.age.file_bytes
    return aged_bytes / _AGED_BYTES_PER_REAL_S + files * _AGED_FILE_REAL_S


def _rate_per_s(load: Workload) -> float | None:
    """The rate of a load, or of all its tenants; None if one of them goes as fast as it can."""
    several = loads_of(load)[1:]
    rates = [getattr(each, "rate_per_s", None) for each in several or [load]]
    known = [float(each) for each in rates if each is not None]
    return sum(known) if len(known) == len(rates) else None
