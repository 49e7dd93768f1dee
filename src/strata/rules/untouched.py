# SPDX-License-Identifier: Apache-2.0
"""Structures of layers and devices whose cost a study meets only if its data, or its writes, touch enough.

Random writes on 18 regions of a bitmap keep all of them marked, so that the bitmap costs nothing; on a whole
array they take 5.6 times as long. One rule serves all such structures, which layers (`Abilities.structures`)
and kinds of device (`DeviceKind.structures`) declare.

A study is warned only of what it compares: a structure that another stack with the same layers has not, or
has in another size, or a cache beside the same stack without it. Elsewhere a structure is one of many
differences, and a warning of it would make every small study a doubtful one. Two studies that are compared
later are not held against each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pydantic import BaseModel, ConfigDict

from strata.devices.kinds import KINDS
from strata.devices.structure import Structure
from strata.diagnostics.names import disk_of
from strata.model.stack import Stack, names_of
from strata.model.study import Study
from strata.model.trial import CellKey
from strata.model.warning import WARNINGS, ResultWarning
from strata.model.workload import Workload, loads_of
from strata.units import format_size
from strata.words import counted, grouped, listed

# vm.dirty_ratio of Linux: above this share of the available memory a program that writes has to wait.
DIRTY_TENTHS: Final = 2
_ALIKE: Final = 0.25  # in logarithms: capacities are whole GiB
CODE: Final = "too-small-study"

_Layers = tuple[str, ...]
"""The layers of a stack by their kinds."""


class Untouched(BaseModel):
    """A structure of a stack that a workload touches too little.

    Attributes:
        text: A sentence with figures, by the declared data.
        written_bytes_min: If above 0, the writes of the window decide: this many are no reason to doubt.
        counter: The counter of the disks' accounts that shows that the structure was met after all.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    written_bytes_min: int = 0
    counter: str = ""


def untouched(study: Study) -> dict[CellKey, tuple[Untouched, ...]]:
    """The structures that a study compares and whose cost its workloads do not meet, by cell."""
    found = {}
    built = {name: each for name, each in study.stacks.items() if not each.unavailable()}
    for workload in study.workloads:
        loads = {name: study.load(name, workload) for name in built}
        of_stack = {name: dict(_structures(study, stack, loads[name])) for name, stack in built.items()}
        for name, structures in of_stack.items():
            data_bytes = _data_bytes(loads[name])
            others = [(_kinds(built[other]), each) for other, each in of_stack.items() if other != name]
            small = [
                _untouched(each, data_bytes)
                for each, without in structures.items()
                if data_bytes < each.least_bytes and _is_compared(each, _kinds(built[name]), without, others)
            ]
            if small and data_bytes:
                found[CellKey(name, workload)] = tuple(small)
    return found


def untouched_warnings(study: Study) -> list[ResultWarning]:
    """The warnings of a study before it runs: each once, with the cells that it holds for."""
    cells = grouped((each.text, str(cell)) for cell, found in untouched(study).items() for each in found)
    return [WARNINGS[CODE].warning(f"{listed(names)}: {text}") for text, names in cells.items()]


def exhausted_warnings(study: Study) -> list[ResultWarning]:
    """Layers with too little room for what they keep of the data, each with the cells that it holds for."""
    cells: dict[str, list[str]] = {}
    for workload in study.workloads:
        for name, whole in study.stacks.items():
            load = study.load(name, workload)
            stack, data_bytes = whole.at(load.place), _data_bytes(load)
            for layer, context in zip(stack.layers, stack.contexts(study.capacities_bytes, 1), strict=True):
                if data_bytes and (why := layer.exhausted_by(context.provided, data_bytes)) is not None:
                    cells.setdefault(why, []).append(str(CellKey(name, workload)))
    return [WARNINGS["layer-exhausted"].warning(f"{listed(names)}: {why}") for why, names in cells.items()]


def _is_compared(
    structure: Structure,
    layers: _Layers,
    without: _Layers | None,
    others: list[tuple[_Layers, dict[Structure, _Layers | None]]],
) -> bool:
    """Whether another stack differs in the structure alone, as far as its kinds of layers say."""
    return any(
        (kinds == layers and structure not in theirs) or (structure.is_purpose and kinds == without)
        for kinds, theirs in others
    )


def _untouched(structure: Structure, data_bytes: int) -> Untouched:
    data, unit = format_size(data_bytes), format_size(structure.covered_bytes)
    if structure.units_min > 1:
        units = counted(-(-data_bytes // structure.covered_bytes), structure.name, structure.names)
        text = f"{data} of data lie in {units} of {unit} each: {structure.why}"
    else:
        text = f"{data} of data fit into the {structure.name} of {unit}: {structure.why}"
    written_bytes = structure.unit_bytes if structure.is_log else 0
    return Untouched(text=text, written_bytes_min=written_bytes, counter=structure.counter)


def _data_bytes(load: Workload) -> int:
    """The data of a load and all its tenants, as far as their sizes are known."""
    return sum(each.data_bytes or 0 for each in loads_of(load))


def _kinds(stack: Stack) -> _Layers:
    return tuple(layer.layer for layer in stack.layers)


def _structures(study: Study, whole: Stack, load: Workload) -> Iterator[tuple[Structure, _Layers | None]]:
    """The structures below a load, each with the stack's kinds of layers without the one that has it."""
    stack, capacities = whole.at(load.place), study.capacities_bytes
    named: Mapping[str, int] = stack.capacities(capacities)
    kinds = _kinds(stack)
    for index, (layer, context) in enumerate(zip(stack.layers, stack.contexts(capacities, 1), strict=True)):
        without = (*kinds[:index], *kinds[index + 1 :])
        for each in layer.structures(context.provided, {name: named[name] for name in names_of(layer)}):
            if not (each.is_purpose and _as_on_machine(study, names_of(layer))):
                yield each, without
    modelled = (used.device for used in study.stack_devices(whole.name) if used.device.kind in KINDS)
    yield from ((each, None) for disk in modelled for each in disk.model.structures(disk))
    if not load.bypasses_page_cache:
        given = (layer.memory_limit_bytes() for layer in stack.layers)
        memory_bytes = min(filter(None, given), default=study.of(whole.name).memory_bytes)
        why = "no program waits for the disks because too much is dirty"
        yield Structure("limit of dirty pages", memory_bytes * DIRTY_TENTHS // 10, why), None


def _as_on_machine(study: Study, names: Iterable[str]) -> bool:
    """Whether caches are as large beside the data as on the machine that the study is for."""
    if study.machine_memory_bytes is None:
        return False
    disks = [study.devices[disk_of(name)] for name in names]
    return all(
        abs(math.log(each.capacity_bytes * study.data_ratio / each.device.capacity_bytes)) < _ALIKE
        for each in disks
    )
