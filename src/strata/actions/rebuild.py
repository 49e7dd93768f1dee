# SPDX-License-Identifier: Apache-2.0
"""The study whose variations tell how long the rebuild of a lost disk takes at full size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from strata.diagnostics.names import require_known
from strata.errors import StudyError
from strata.experiment.strategies.rebuild import CAPACITY, Rebuild
from strata.model.design import FILL_MAX, FILL_MIN, Age
from strata.model.stack import Stack
from strata.model.study import Study, StudyDevice
from strata.plan.aspects.interventions import lost_disk
from strata.plan.catalogue import catalogue
from strata.rules.redundancy import losses_survived
from strata.units import GIB, MIB, NS_PER_S, describe_size, format_share, format_size
from strata.words import listed

_SPARE: Final = "spare-disk"
_LOSS: Final = ["lose-disk", "rebuild"]
# Of two disks in the lab, none was rebuilt at less than 40 MB/s beside a load of some requests a second.
_BYTES_PER_S_MIN: Final = 15_000_000
_WINDOW_S_MIN: Final = 60
_PART_BYTES_MIN: Final = GIB  # with less, starting and ending take as long as copying


@dataclass(frozen=True)
class RebuildAsked:
    """A question of a rebuild.

    Attributes:
        stacks: Their names; empty: all that survive the loss of a disk.
        fill: The share of each filesystem that files take; ``overwrites``: how often they were replaced.
        rate_per_s: The requests of a load beside it; besides it is measured without.
        full_bytes: Of each disk; None: all of the smallest.
        whole: Whether the lab rebuilds that, too.
    """

    stacks: tuple[str, ...] = ()
    fill: float = 0.6
    overwrites: float = 1.0
    rate_per_s: int = 20
    part_bytes: int = 2 * GIB
    full_bytes: int | None = None
    seeds: int = 3
    whole: bool = False

    def strategy(self, study: Study) -> Rebuild:
        """Raises StudyError where nothing can be rebuilt, or the disks are too small to take a part of."""
        if not FILL_MIN <= self.fill <= FILL_MAX:
            cause = f"{format_share(self.fill)} is no share that ageing can fill"
            raise StudyError(cause, place="--fill", remedy="from 1 % to 95 %")
        names = self._chosen(study)
        members = {disk for name in names for disk in study.stacks[name].devices}
        smallest_bytes = min(study.devices[disk].device.capacity_bytes for disk in members)
        full_bytes = min(self.full_bytes or smallest_bytes, smallest_bytes)
        if not _PART_BYTES_MIN <= self.part_bytes <= full_bytes // 4:
            cause = f"{describe_size(self.part_bytes)} is no part to tell {format_size(full_bytes)} by"
            remedy = f"from {describe_size(_PART_BYTES_MIN)} to a fourth of the disk"
            raise StudyError(cause, place="--part", remedy=remedy)
        part = replace(study, stacks={name: study.stacks[name] for name in names})
        return Rebuild(part, self.study(part), self.part_bytes, full_bytes, self.fill, self.whole)

    def _chosen(self, study: Study) -> Sequence[str]:
        capacities = study.capacities_bytes
        survive = [name for name, each in study.stacks.items() if losses_survived(each, capacities)]
        require_known("stack", self.stacks, study.stacks, "--stack")
        names = self.stacks or survive or [*study.stacks]
        if lost := [f'"{name}"' for name in names if name not in survive]:
            cause = f"{listed(lost)} {'does' if len(lost) == 1 else 'do'} not survive a lost disk"
            remedy = f"name some of {listed(survive)}" if survive else "give a stack a mirror, or parity"
            raise StudyError(cause, place="--stack", remedy=remedy)
        return names

    def study(self, study: Study, changes: Mapping[str, Any] | None = None) -> Study:
        """The study of a part of each disk, idle and under a load, with a spare disk for every stack."""
        size_bytes = int((changes or {}).get(CAPACITY, self.part_bytes))
        devices = dict(study.devices)
        roomy = {name: _with_spare(stack, devices, size_bytes) for name, stack in study.stacks.items()}
        # As long for both parts, so that the load's own seeks are no difference.
        window_s = max(_WINDOW_S_MIN, max(2 * self.part_bytes, size_bytes) // _BYTES_PER_S_MIN)
        loads = {"idle": ("random-read-4k", 1), "loaded": ("random-mix-4k", self.rate_per_s)}
        alike = {"workload": "fio", "size": "64MiB", "duration": f"{window_s}s", "before_measure": _LOSS}
        fio = catalogue().workloads["fio"]
        return replace(
            study,
            name=f"{study.name}-rebuild",
            devices=devices,
            stacks={name: stack for name, (stack, _) in roomy.items()},
            own={
                name: {**study.own.get(name, {}), "age": self._age(room)} for name, (_, room) in roomy.items()
            },
            workloads={
                name: fio.model_validate({**alike, "preset": preset, "rate": rate})
                for name, (preset, rate) in loads.items()
            },
            seeds=tuple(range(1, self.seeds + 1)),
            age=self._age(1.0),
            time_limit_ns=max(study.time_limit_ns, 2 * window_s * NS_PER_S),
            prepare="each",
            precision=None,
            survival=None,
            reference=None,
        )

    def _age(self, room: float) -> Age:
        return Age(fill=f"{max(self.fill / room, FILL_MIN):.2%}", overwrites=self.overwrites)


def _with_spare(stack: Stack, devices: dict[str, StudyDevice], size_bytes: int) -> tuple[Stack, float]:
    """The stack with a spare disk, and how many times this size its disks, in ``devices``, are."""
    lowest = next(index for index, layer in enumerate(stack.layers) if not layer.beside)
    layers = list(stack.layers)
    if "spares" not in layers[lowest].device_keys:
        cause = f"{stack.name}: Strata cannot rebuild its layer {layers[lowest].layer}"
        raise StudyError(cause, place="--stack", remedy="name other stacks")
    members = {name: devices[name] for name in (*stack.devices, lost_disk(stack))}
    whole_bytes = min(each.device.capacity_bytes for each in members.values())
    room = min(layers[lowest].rebuild_room, whole_bytes / size_bytes)
    names = {name: f"{name}-{stack.name}" if room > 1 else name for name in members}
    lost = members[lost_disk(stack)]
    spare = f"{_SPARE}-{lost.device.name}" + (f"-{stack.name}" if room > 1 else "")
    for name, each in {**{names[name]: each for name, each in members.items()}, spare: lost}.items():
        devices[name] = replace(each, name=name, capacity_bytes=round(size_bytes * room) // MIB * MIB)
    layers[lowest] = layers[lowest].model_copy(update={"spares": [spare]})
    return replace(stack, devices=tuple(names[name] for name in stack.devices), layers=tuple(layers)), room
