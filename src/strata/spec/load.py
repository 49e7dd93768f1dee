# SPDX-License-Identifier: Apache-2.0
"""Reading a study file, and finding everything that is wrong in it at once.

Each table is validated for itself, so that a mistake in one does not hide those in the others; what
joins tables (devices named by stacks, layers on layers) is checked among those that are sound.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from strata.errors import DiagnosticsError, StrataError
from strata.spec.design import SEEDS_MAX, count_diagnostics, precision_diagnostics
from strata.spec.device import Device, find_device
from strata.spec.device_kinds import flash
from strata.spec.diagnostics import Diagnostics, read_toml
from strata.spec.entries import read_entry, read_workload
from strata.spec.faults import FAULTS, FAULTS_MAX, Fault
from strata.spec.inputs import InputFile, input_diagnostics, read_inputs
from strata.spec.interface import LowerInterface, Provided
from strata.spec.layer import Layer
from strata.spec.names import is_kebab, kebab_remedy, nearest
from strata.spec.registry import Catalogue
from strata.spec.snapshots import interval_diagnostics, room_diagnostics
from strata.spec.stack import Stack, names_of
from strata.spec.step import INPUT_PREFIX, NETWORK_DEVICE_PREFIX
from strata.spec.study import (
    RESERVED_NAMES,
    DeviceTable,
    HeadTable,
    StackTable,
    Study,
    StudyDevice,
    sectors_of,
)
from strata.spec.tenancy import capacity_bytes, memory_refusal, name_diagnostics, stack_diagnostics
from strata.spec.workload import Workload
from strata.units import SECTOR_BYTES, describe_size, format_duration

# What lies below a mistake is taken to be large enough for anything.
_AMPLE_BYTES: Final = 1 << 60
_AMPLE_COUNT: Final = 16

TABLES: Final = ("study", "devices", "stacks", "workloads")
_EXAMPLES: Final = {
    "devices": '[devices.disk0] with model = "wd-re4-500gb"',
    "stacks": '[stacks.ext4] with layers = [{ layer = "ext4" }]',
    "workloads": '[workloads.oltp] with workload = "pgbench"',
}


def load_study(file: Path, catalogue: Catalogue, disks: Mapping[str, StudyDevice] | None = None) -> Study:
    """Read and check a study file.

    Args:
        file: A TOML file; docs/reference/study-file.md describes it.
        catalogue: The layers and workloads it may name: `strata.plan.catalogue.catalogue()`.
        disks: Real disks that take the place of the models of devices, by these devices' names.

    Raises:
        StudyError: If the file cannot be read or is not TOML.
        Mistakes: Everything that is wrong in it; each is a `StudyError` with its key and line.
    """
    tables, diagnostics = read_toml(file)
    return _Reader(file, tables, diagnostics, catalogue, disks or {}).study()


@dataclass
class _Reader:
    file: Path
    tables: dict[str, Any]
    diagnostics: Diagnostics
    catalogue: Catalogue
    disks: Mapping[str, StudyDevice] = field(default_factory=dict)
    devices: dict[str, StudyDevice] = field(default_factory=dict)
    stacks: dict[str, Stack] = field(default_factory=dict)
    workloads: dict[str, Workload] = field(default_factory=dict)
    inputs: dict[str, InputFile] = field(default_factory=dict)

    def study(self) -> Study:
        for name in self.tables:
            if name not in TABLES:
                self.diagnostics.add((name,), f'unknown key "{name}"', remedy=nearest(name, TABLES))
        head = self.diagnostics.model(HeadTable, self.tables.get("study", {}), ("study",))
        if head is not None:
            for diagnostic in precision_diagnostics(head.seeds, head.precision, head.seeds_max):
                self.diagnostics.refuse(("study",), diagnostic)
        for name, table in self.named("devices").items():
            self.read_device(name, table)
        for name, table in self.named("stacks").items():
            self.read_stack(name, table)
        for name, table in self.named("workloads").items():
            self.read_workload(name, table, head)
        if head is not None:
            for diagnostic in count_diagnostics(len(head.seeds) * len(self.stacks) * len(self.workloads)):
                self.diagnostics.refuse(("study",), diagnostic)
        self.diagnostics.raise_all()
        assert head is not None
        return Study(
            name=head.name,
            question=head.question.strip(),
            seeds=tuple(head.seeds),
            time_limit_ns=head.time_limit_ns,
            sample_interval_ns=head.sample_interval_ns,
            trace=head.trace,
            memory_bytes=head.memory_bytes,
            devices=self.devices,
            stacks=self.stacks,
            workloads=self.workloads,
            inputs=self.inputs,
            file=self.file,
            order=head.order,
            order_seed=head.order_seed,
            precision=head.precision,
            seeds_max=head.seeds_max or max(SEEDS_MAX, len(head.seeds)),
            age=head.age,
        )

    def named(self, kind: str) -> Mapping[str, Any]:
        """The tables ``[kind.NAME]``; their absence and bad names are reported."""
        tables = self.tables.get(kind, {})
        if not isinstance(tables, dict):
            self.diagnostics.add(
                (kind,), f"this must be tables [{kind}.NAME]", remedy=f"such as {_EXAMPLES[kind]}"
            )
            return {}
        if not tables:
            cause = f"there are no {kind}" + (", so the study has no trials" if kind != "devices" else "")
            self.diagnostics.add((kind,), cause, remedy=f"add for example {_EXAMPLES[kind]}")
        for name in tables:
            if not is_kebab(name):
                cause = f'the name "{name[:60]}" is not in kebab case'
                self.diagnostics.add((kind, name), cause, remedy=kebab_remedy(name))
        return tables

    def read_device(self, name: str, value: Any) -> None:
        path = ("devices", name)
        if name in RESERVED_NAMES or name.startswith((NETWORK_DEVICE_PREFIX, INPUT_PREFIX)):
            self.diagnostics.add(
                path, f'a device cannot be called "{name}"', remedy="plans use that name: take another"
            )
        table = self.diagnostics.model(DeviceTable, value, path)
        if table is None:
            return
        try:
            device = find_device(table.model, self.file.parent)
        except DiagnosticsError as error:
            for mistake in error.mistakes:
                self.diagnostics.add(
                    (*path, "model"),
                    f"{error.place}: {mistake.place}: {mistake.cause}",
                    remedy=mistake.remedy,
                )
            return
        except StrataError as error:
            place = f"{error.place} " if error.place else ""
            self.diagnostics.add((*path, "model"), place + error.cause, remedy=error.remedy)
            return
        capacity_bytes = table.capacity_bytes or device.capacity_bytes
        if capacity_bytes > device.capacity_bytes:
            self.diagnostics.add(
                (*path, "capacity"),
                f"the device holds less: {describe_size(device.capacity_bytes)}",
                remedy="leave the key out to use all of it",
            )
        elif capacity_bytes % SECTOR_BYTES or table.capacity_bytes == 0:
            self.diagnostics.add(
                (*path, "capacity"),
                "this is not a multiple of 512B above zero",
                remedy="sectors have 512 bytes",
            )
        device = self.with_options(device, table, capacity_bytes // SECTOR_BYTES, path)
        self.devices[name] = StudyDevice(name, device, capacity_bytes).replaced_by(self.disks.get(name))

    def with_options(
        self, device: Device, table: DeviceTable, capacity_sectors: int, path: tuple[str, ...]
    ) -> Device:
        """The device in the state, and with the faults, that the study asks for."""
        if table.precondition is not None:
            device = self.precondition(device, table.precondition, (*path, "precondition"))
        if not table.write_cache:
            device = self.without_write_cache(device, (*path, "write_cache"))
        if table.faults:
            faults = self.faults(table.faults, capacity_sectors, (*path, "faults"))
            device = replace(device, faults=faults)
        return device

    def precondition(self, device: Device, state: str, path: tuple[str, ...]) -> Device:
        """The drive in another state: a parameter like the others, and so part of a trial's identity."""
        if "precondition" not in device.parameters:
            self.diagnostics.add(
                path,
                f"{device.name} is of kind {device.kind}: only a flash drive can be preconditioned",
                remedy="leave the key out",
            )
            return device
        return replace(device, parameters={**device.parameters, "precondition": flash.precondition(state)})

    def without_write_cache(self, device: Device, path: tuple[str, ...]) -> Device:
        """The same drive with its volatile write cache switched off."""
        if not device.model.has_write_cache:
            self.diagnostics.add(
                path,
                f"{device.name} is of kind {device.kind}: it has no volatile write cache to switch off",
                remedy="leave the key out",
            )
        return replace(device, write_cache=False)

    def faults(self, declared: list[Any], capacity_sectors: int, path: tuple[str, ...]) -> tuple[Fault, ...]:
        """What goes wrong with a disk."""
        if len(declared) > FAULTS_MAX:
            self.diagnostics.add(
                path, f"a disk has at most {FAULTS_MAX} faults, not {len(declared)}", remedy="leave some out"
            )
        found = []
        for index, value in enumerate(declared):
            fault = read_entry(self.diagnostics, FAULTS, value, (*path, index))
            if fault is not None:
                found.append(fault)
                for diagnostic in fault.diagnostics(capacity_sectors):
                    self.diagnostics.refuse((*path, index), diagnostic)
        return tuple(found)

    def read_stack(self, name: str, value: Any) -> None:
        path = ("stacks", name)
        table = self.diagnostics.model(StackTable, value, path)
        if table is None:
            return
        declared = [(key, index) for key in ("layers", "each") for index in range(len(getattr(table, key)))]
        paths: list[tuple[str | int, ...]] = [(*path, *where) for where in declared]
        read = [
            read_entry(
                self.diagnostics, self.catalogue.layers, getattr(table, key)[index], (*path, key, index)
            )
            for key, index in declared
        ]
        layers = tuple(layer for layer in read if layer is not None)
        devices = self.devices_of(table, layers, path)
        self.check_named(devices, read, paths)
        if self.joins(name, devices, read, paths):
            shared = len(table.layers) if table.each else None
            self.stacks[name] = Stack(name, tuple(devices), layers, shared, sectors_of(devices, self.devices))

    @property
    def declared_devices(self) -> list[str]:
        """The names of the study's devices, sound or not."""
        tables = self.tables.get("devices")
        return list(tables) if isinstance(tables, dict) else []

    def devices_of(
        self, table: StackTable, layers: tuple[Layer, ...], path: tuple[str | int, ...]
    ) -> list[str]:
        """What the lowest layer stands on: as declared, or all that no layer names and that it can take."""
        if table.devices is None:
            if layers and layers[0].requires.maximum == 0:
                return []
            named = {name for layer in layers for name in names_of(layer)}
            return [name for name in self.declared_devices if name not in named]
        for index, device in enumerate(table.devices):
            if device not in self.declared_devices:
                self.diagnostics.add(
                    (*path, "devices", index),
                    f'there is no device "{device}"',
                    remedy=nearest(device, self.declared_devices),
                )
            elif device in table.devices[:index]:
                self.diagnostics.add(
                    (*path, "devices", index), f'"{device}" is named twice', remedy="name each device once"
                )
        if table.devices == [] and not (layers and layers[0].requires.maximum == 0):
            self.diagnostics.add(
                (*path, "devices"), "a stack needs a device", remedy="leave the key out to use all of them"
            )
        return table.devices

    def check_named(
        self, devices: list[str], layers: list[Layer | None], paths: list[tuple[str | int, ...]]
    ) -> None:
        """The devices that layers name by their keys: each is the study's, and is used once in a stack."""
        used = set(devices)
        for layer, path in zip(layers, paths, strict=True):
            for key, names in layer.named_devices().items() if layer is not None else ():
                for name in names:
                    where = (*path, key)
                    if name not in self.declared_devices:
                        remedy = nearest(name, self.declared_devices)
                        self.diagnostics.add(where, f'there is no device "{name}"', remedy=remedy)
                    elif name in used:
                        self.diagnostics.add(
                            where,
                            f'"{name}" is used elsewhere in this stack',
                            remedy="name another device, or leave it out of the stack's `devices`",
                        )
                    used.add(name)

    def joins(
        self,
        name: str,
        devices: list[str],
        layers: list[Layer | None],
        paths: list[tuple[str | int, ...]],
    ) -> bool:
        """Whether each layer gets what it takes from what is below it, and a workload one thing to run on.

        What stands on a mistake is looked at as if that were mended, so that all mistakes are told at once.
        """
        capacities = {name: used.capacity_bytes for name, used in self.devices.items()}
        sizes = tuple(capacities.get(each, _AMPLE_BYTES) for each in devices)
        offered: Provided | None = Provided("block", sizes, sector_bytes=sectors_of(devices, self.devices))
        below, sound = ", ".join(devices), True
        for layer, path in zip(layers, paths, strict=True):
            if layer is None:
                offered, sound = None, False
                continue
            requires = layer.requires
            if offered is not None and not (requires.kind == offered.kind and requires.fits(offered.count)):
                shown = f"{offered} ({below})" if below else str(offered)
                remedy = _join_remedy(requires, offered, self.catalogue)
                self.diagnostics.add(
                    path, f"{layer.layer} takes {requires}, but stands on {shown}", remedy=remedy
                )
                offered, sound = None, False
            offered = offered or Provided(requires.kind, (_AMPLE_BYTES,) * _ample_count(requires))
            named = {each: capacities.get(each, _AMPLE_BYTES) for each in names_of(layer)}
            refused = list(layer.diagnostics(offered, named))
            for diagnostic in refused:
                self.diagnostics.refuse(path, diagnostic)
            sound = sound and not refused
            offered, below = None if refused else layer.provided(offered), layer.layer
        if sound and offered is not None and (offered.kind == "pool" or offered.count != 1):
            self.diagnostics.add(
                ("stacks", name, "layers"),
                f"the stack ends in {offered}, but workloads run on a mounted filesystem or one block device",
                remedy=_top_remedy(offered, self.catalogue),
            )
            return False
        return sound

    def read_workload(self, name: str, value: Any, head: HeadTable | None) -> None:
        path = ("workloads", name)
        workload = read_workload(self.diagnostics, self.catalogue.workloads, value, path)
        if workload is None:
            return
        self.workloads[name] = workload
        for diagnostic in read_inputs(workload, self.file.parent, self.inputs):
            self.diagnostics.refuse(path, diagnostic)
        capacities = {each: used.capacity_bytes for each, used in self.devices.items()}
        diagnostics, fitting = [*interval_diagnostics(workload)], [_AMPLE_BYTES]
        for stack in self.stacks.values():
            if not set(stack.all_devices) <= set(self.devices):
                continue
            held_bytes = capacity_bytes(stack, capacities, workload)
            if held_bytes is None:
                continue
            fitting.append(self.left_by_age(held_bytes, stack, head))
            placed = list(zip(stack.layers, stack.contexts(capacities, 1), strict=True))
            diagnostics += room_diagnostics(stack.name, placed, workload)
            diagnostics += name_diagnostics(stack, workload)
            if head is not None and (short := memory_refusal(stack, workload, head.memory_bytes)):
                diagnostics.append(short)
            for where, diagnostic in stack_diagnostics(stack, capacities, workload):
                self.diagnostics.refuse(where, diagnostic)
        diagnostics += workload.diagnostics(min(fitting))
        for diagnostic in [*diagnostics, *input_diagnostics(workload, self.inputs, min(fitting))]:
            self.diagnostics.refuse(path, diagnostic)
        if head is not None and workload.duration_ns_min >= head.time_limit_ns:
            self.diagnostics.add(
                path,
                f"it takes at least {format_duration(workload.duration_ns_min)}, but a trial may take only "
                f"{format_duration(head.time_limit_ns)}",
                remedy="raise study.time_limit, or shorten warmup and duration",
            )

    def left_by_age(self, held_bytes: int, stack: Stack, head: HeadTable | None) -> int:
        """What ageing leaves to a workload of what it would have of a new stack."""
        age = head.age if head is not None else None
        if age is None or not stack.ages:
            return held_bytes
        for diagnostic in age.diagnostics(stack.name, held_bytes):
            self.diagnostics.refuse(("study", "age"), diagnostic)
        return held_bytes - age.filled_bytes(held_bytes)


def _ample_count(requires: LowerInterface) -> int:
    if requires.maximum is None:
        return _AMPLE_COUNT
    return requires.maximum


def _join_remedy(requires: LowerInterface, offered: Provided, catalogue: Catalogue) -> str:
    if requires.kind != offered.kind:
        return "remove one of the two layers, or put a layer between them that joins them"
    if requires.maximum == 0:
        return "leave `devices` out: it stands on nothing"
    if offered.count > 1:
        return f"name one disk in `devices`, or use a layer that takes several: {_joining(catalogue)}"
    return "name more disks in `devices`"


def _top_remedy(offered: Provided, catalogue: Catalogue) -> str:
    if offered.kind == "pool":
        taking = [name for name, layer in catalogue.layers.items() if layer.requires.kind == "pool"]
        return f"add a layer on top that takes a pool: {', '.join(taking)}"
    return f"name one disk in `devices`, or add a layer that takes several: {_joining(catalogue)}"


def _joining(catalogue: Catalogue) -> str:
    return ", ".join(name for name, layer in catalogue.layers.items() if layer.requires.maximum is None)
