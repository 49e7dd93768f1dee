# SPDX-License-Identifier: Apache-2.0
"""Reading a study file, and finding all its mistakes at once.

Each table is validated on its own, so that a mistake in one does not hide mistakes in others. Relations of
tables (devices named by stacks, layers on layers) are checked among tables without mistakes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from strata.devices.device import Device, find_device
from strata.devices.faults import FAULTS, FAULTS_MAX, Fault
from strata.devices.kinds import flash
from strata.devices.processor import Processor, find_processor
from strata.devices.provisioning import ProvisionedMachine, provision
from strata.diagnostics.key_paths import with_changes
from strata.diagnostics.mistakes import Diagnostics, read_toml
from strata.diagnostics.names import Diagnostic, kebab_diagnostics, nearest
from strata.diagnostics.names import Path as Keys
from strata.errors import DiagnosticsError, StrataError, StudyError
from strata.model.design import SEEDS_MAX, count_diagnostics, precision_diagnostics
from strata.model.duties import RunsPrograms
from strata.model.find import find_diagnostics
from strata.model.inputs import InputFile, input_diagnostics, read_image, read_inputs
from strata.model.kernel import find_kernel
from strata.model.matrix import Matrix
from strata.model.packages import PackageLock, asked_packages, read_lock
from strata.model.stack import Stack, room_bytes
from strata.model.step import INPUT_PREFIX, NETWORK_DEVICE_PREFIX
from strata.model.study import (
    RESERVED_NAMES,
    DeviceTable,
    HeadTable,
    StackTable,
    Study,
    StudyDevice,
)
from strata.model.survival import Survival, survival_diagnostics
from strata.model.workload import Workload
from strata.reading.entries import Catalogue, read_entry, read_workload
from strata.reading.load_stack import AMPLE_BYTES, StackReader
from strata.reading.matrix_reading import expand
from strata.rules.fit import (
    capacity_bytes,
    interval_diagnostics,
    machine_diagnostics,
    memory_diagnostics,
    name_diagnostics,
    once_diagnostics,
    room_diagnostics,
    scaled_to_fit,
    stack_diagnostics,
    tables_diagnostics,
    until_diagnostics,
)
from strata.units import SECTOR_BYTES, describe_size, format_duration

TABLES: Final = ("study", "devices", "stacks", "workloads", "matrix", "exclude", "survival")
_Found = TypeVar("_Found")
_EXAMPLES: Final = {
    "devices": '[devices.disk0] with model = "wd-re4-500gb"',
    "stacks": '[stacks.ext4] with layers = [{ layer = "ext4" }]',
    "workloads": '[workloads.oltp] with workload = "pgbench"',
}


def load_study(
    file: Path,
    catalogue: Catalogue,
    disks: Mapping[str, StudyDevice] | None = None,
    *,
    has_inputs: bool = True,
    scale: float = 1.0,
    changes: Mapping[str, Any] | None = None,
) -> Study:
    """Read and check a study file. Real ``disks`` replace the models of the devices of their names.

    With ``changes`` it is read with these values at these key paths (`strata.diagnostics.key_paths`).

    Without inputs, the files that workloads read are not looked for, and such trials cannot be compiled.
    With a ``scale`` its workloads have this share of their time and data.

    Raises StudyError if the file cannot be read or is not TOML, DiagnosticsError with all mistakes in it.
    """
    tables, found = read_toml(file)
    return read_study(
        tables, found, file, catalogue, disks, has_inputs=has_inputs, scale=scale, changes=changes
    )


def read_study(
    tables: Mapping[str, Any],
    found: Diagnostics,
    file: Path,
    catalogue: Catalogue,
    disks: Mapping[str, StudyDevice] | None = None,
    *,
    has_inputs: bool = True,
    scale: float = 1.0,
    changes: Mapping[str, Any] | None = None,
) -> Study:
    """The same of the tables of a ``file``, beside which further files are looked for."""
    try:
        changed = with_changes(dict(tables), changes or {})
    except Diagnostic as error:
        raise StudyError(error.cause, place=str(file), remedy=error.remedy) from error
    reader = _Reader(file, changed, found, catalogue, disks or {}, has_inputs)
    return scaled_to_fit(replace(reader.study(), text=found.text), scale)


@dataclass
class _Reader:
    file: Path
    tables: dict[str, Any]
    found: Diagnostics
    catalogue: Catalogue
    disks: Mapping[str, StudyDevice]
    has_inputs: bool
    devices: dict[str, StudyDevice] = field(default_factory=dict)
    stacks: dict[str, Stack] = field(default_factory=dict)
    workloads: dict[str, Workload] = field(default_factory=dict)
    inputs: dict[str, InputFile] = field(default_factory=dict)
    matrix: Matrix = field(default_factory=Matrix)
    heads: dict[str, HeadTable] = field(
        default_factory=dict
    )  # of the stacks that a factor gave one of its own

    def study(self) -> Study:
        for name in self.tables:
            if name not in TABLES:
                self.found.add((name,), f'unknown key "{name}"', nearest(name, TABLES))
        self.tables, self.matrix = expand(self.tables, self.found, self.catalogue.layers)
        head = self.found.model(HeadTable, self.tables.get("study", {}), ("study",))
        if head is not None:
            self.found.extend(("study",), precision_diagnostics(head.seeds, head.precision, head.seeds_max))
        for name, table in self.named("devices").items():
            self.read_device(name, table, head)
        if head is not None:
            self.check_machine(head)
        for name, table in self.named("stacks").items():
            self.read_stack(name, table)
        if head is not None:
            self.read_heads(head)
            self.check_tables(head)
        for name, table in self.named("workloads").items():
            self.read_workload(name, table, head)
        survival = self.survival()
        if head is not None:
            trials = len(head.seeds) * len(self.stacks) * len(self.workloads)
            self.found.extend(("study",), count_diagnostics(trials))
            self.check_reference(head.reference)
        processor = self.processor(head, ("study",)) if head is not None else None
        kernel = self.find(find_kernel, head.kernel, ("study", "kernel")) if head is not None else None
        own = {name: self.own_keys(name, each) for name, each in self.heads.items()}
        self.found.raise_all()
        assert head is not None
        assert processor is not None
        assert kernel is not None
        self.leave_out_equals()
        # The machine's limits are in the devices by now.
        separate = {"cpu", "cpus", "machine_iops", "machine_throughput_bytes_per_s", "sysctl"}
        declared = {key: value for key, value in head if key not in separate} | {
            "question": head.question.strip(),
            "kernel": kernel,
            "reference": next(iter(self.of_reference(head.reference)), None),
            "seeds": tuple(head.seeds),
            "seeds_max": head.seeds_max or max(SEEDS_MAX, len(head.seeds)),
        }
        found = {
            name: getattr(self, name)
            for name in ("devices", "stacks", "workloads", "inputs", "matrix", "file")
        }
        asks = bool(asked_packages(self.workloads.values()))
        packages = read_lock(self.file) if asks else PackageLock()
        own = {name: own[name] for name in self.stacks if name in own}
        return Study(**declared, **found, processor=processor, packages=packages, survival=survival, own=own)

    def survival(self) -> Survival | None:
        if "survival" not in self.tables:
            return None
        found = self.found.model(Survival, self.tables["survival"], ("survival",))
        if found is not None:
            declared = self.named("workloads")
            self.found.extend(("survival",), survival_diagnostics(found, self.workloads, declared))
            self.workloads = self.workloads | found.variants(self.workloads, self.stacks.values())
        return found

    def own_heads(self) -> dict[str, dict[str, Any]]:
        """The keys of [study] that stacks have of their own, by the matrix or in their tables."""
        found = {name: dict(self.matrix.heads.get(name, {})) for name in self.stacks}
        for name, own in found.items():
            if (kernel := self.tables["stacks"][name].get("kernel")) is not None:
                own["kernel"] = kernel
        return {name: own for name, own in found.items() if own}

    def read_heads(self, declared: HeadTable) -> None:
        known: dict[str, HeadTable | None] = {}
        for stack, changed in self.own_heads().items():
            text = json.dumps(changed, sort_keys=True, default=str)
            if text not in known:
                table = {**self.tables["study"], **changed}
                known[text] = self.found.model(HeadTable, table, ("study", stack))
            if (head := known[text]) is not None:
                self.heads[stack] = head
        for name, each in self.stacks.items():
            sysctl = each.sysctl.above(self.heads.get(name, declared).sysctl)
            self.stacks[name] = replace(each, sysctl=sysctl)

    def own_keys(self, stack: str, head: HeadTable) -> dict[str, Any]:
        """The fields of the study that differ for a stack."""
        names = ("time_limit_ns", "sample_interval_ns", "memory_bytes", "age", "drives", "phases", "trace")
        processor = self.processor(head, ("study", stack))
        declared = self.tables["stacks"][stack].get("kernel") is not None
        place = ("stacks", stack, "kernel") if declared else ("study", stack, "kernel")
        kernel = self.find(find_kernel, head.kernel, place)
        return {name: getattr(head, name) for name in names} | {"processor": processor, "kernel": kernel}

    def of_reference(self, name: str | None) -> list[str]:
        """The stacks that were made of the reference, which a matrix may vary; or itself."""
        return [
            each
            for each in self.stacks
            if name == each or (each in self.matrix.stacks and self.matrix.stacks[each].base == name)
        ]

    def check_reference(self, name: str | None) -> None:
        declared = self.named("stacks")
        if name is not None and name not in declared and not self.of_reference(name):
            known = [*declared, *(each.base for each in self.matrix.stacks.values())]
            self.found.add(("study", "reference"), f'there is no stack "{name}"', nearest(name, known))

    def leave_out_equals(self) -> None:
        """Of combinations that come to the same stack or workload, keep the first."""
        same: dict[str, str] = {}
        heads = self.own_heads()
        stacks = {
            name: [each.describe().model_dump(mode="json"), heads.get(name)]
            for name, each in self.stacks.items()
        }
        workloads = {name: each.model_dump(mode="json") for name, each in self.workloads.items()}
        variants = ((stacks, self.matrix.stacks), (workloads, self.matrix.workloads))
        for written, made in variants if self.matrix.factors else ():
            known: dict[str, str] = {}
            for name, each in written.items():
                first = known.setdefault(json.dumps(each, sort_keys=True), name)
                if first != name and name in made:
                    same[name] = first
        self.stacks = {name: each for name, each in self.stacks.items() if name not in same}
        self.workloads = {name: each for name, each in self.workloads.items() if name not in same}
        self.matrix = self.matrix.model_copy(update={"same": same})

    def named(self, kind: str) -> Mapping[str, Any]:
        """The tables ``[kind.NAME]``; reports missing tables and bad names."""
        tables = self.tables.get(kind, {})
        if not isinstance(tables, dict):
            self.found.add((kind,), f"this must be tables [{kind}.NAME]", f"such as {_EXAMPLES[kind]}")
            return {}
        if not tables:
            cause = f"there are no {kind}" + (", so the study has no trials" if kind != "devices" else "")
            self.found.add((kind,), cause, f"add for example {_EXAMPLES[kind]}")
        for name in tables:
            self.found.extend((kind, name), kebab_diagnostics(name))
        return tables

    def read_device(self, name: str, value: Any, head: HeadTable | None) -> None:
        path = ("devices", name)
        if name in RESERVED_NAMES or name.startswith((NETWORK_DEVICE_PREFIX, INPUT_PREFIX)):
            cause = f'a device cannot be called "{name}"'
            self.found.add(path, cause, "plans use that name: take another")
        table = self.found.model(DeviceTable, value, path)
        device = self.find_device(table.model, (*path, "model")) if table is not None else None
        if table is None or device is None:
            return
        device = self.provisioned(device, table, head, path)
        capacity_bytes = (None if device.provisioning else table.capacity_bytes) or device.capacity_bytes
        if capacity_bytes > device.capacity_bytes:
            cause = f"the device holds less: {describe_size(device.capacity_bytes)}"
            self.found.add((*path, "capacity"), cause, "leave the key out to use all of it")
        elif capacity_bytes % SECTOR_BYTES or table.capacity_bytes == 0:
            cause = "this is not a multiple of 512B above zero"
            self.found.add((*path, "capacity"), cause, "sectors have 512 bytes")
        elif capacity_bytes < device.physical_sector_bytes:
            remedy = f"a sector has {device.physical_sector_bytes} bytes on this disk"
            self.found.add((*path, "capacity"), "this is less than a sector", remedy)
        capacity_bytes -= capacity_bytes % device.physical_sector_bytes
        self.check_options(device, table, path)
        if table.precondition is not None and "precondition" in device.parameters:
            state = {"precondition": flash.precondition(table.precondition)}
            device = replace(device, parameters={**device.parameters, **state})
        faults = self.faults(table.faults, capacity_bytes // SECTOR_BYTES, (*path, "faults"))
        device = replace(device, write_cache=table.write_cache, faults=faults)
        self.check_currency(table, (*path, "price"))
        stated = StudyDevice(name, device, capacity_bytes, price=table.price, queue=table.queue)
        self.devices[name] = stated.replaced_by(self.disks.get(name))

    def check_currency(self, table: DeviceTable, path: Keys) -> None:
        others = [each.price.currency for each in self.devices.values() if each.price is not None]
        if table.price is not None and others and table.price.currency != others[0]:
            cause = f"this price is in {table.price.currency}, and another one in {others[0]}"
            self.found.add(path, cause, "state all prices of a study in one currency")

    def provisioned(self, device: Device, table: DeviceTable, head: HeadTable | None, path: Keys) -> Device:
        """A volume in the network of the study's size and rates, behind its machine's limit."""
        size_bytes = table.capacity_bytes if device.provisioning else None  # of others: the part that is used
        device, refused = provision(device, size_bytes, table.iops, table.throughput_bytes_per_s)
        self.found.extend(path, refused)
        if head is None or device.kind != "network":
            return device
        return replace(
            device, machine=ProvisionedMachine(head.machine_iops, head.machine_throughput_bytes_per_s)
        )

    def check_machine(self, head: HeadTable) -> None:
        kinds = {used.device.kind for used in self.devices.values()}
        limits = {
            "machine_iops": head.machine_iops,
            "machine_throughput": head.machine_throughput_bytes_per_s,
        }
        for key, limit in limits.items():
            if limit is not None and kinds and not kinds & {"network", "real"}:
                cause = "the study has no cloud volume that this could limit"
                self.found.add(("study", key), cause, "leave the key out")

    def processor(self, head: HeadTable, path: Keys) -> Processor | None:
        processor = self.find(find_processor, head.cpu, (*path, "cpu"))
        if processor is None:
            return None
        for name, workload in self.workloads.items():
            prices = workload.priced_programs() if isinstance(workload, RunsPrograms) else {}
            processor, refused = processor.with_programs(prices)
            self.found.extend(("workloads", name, "prices"), refused)
        return processor if head.cpus is None else processor.with_processors(head.cpus)

    def find_device(self, model: str, path: Keys) -> Device | None:
        return self.find(find_device, model, path)

    def find(self, find: Callable[[str, Path], _Found], name: str, path: Keys) -> _Found | None:
        try:
            return find(name, self.file.parent)
        except DiagnosticsError as error:
            for each in error.diagnostics:
                self.found.add(path, f"{error.place}: {each.place}: {each.cause}", each.remedy)
        except StrataError as error:
            place = f"{error.place} " if error.place else ""
            self.found.add(path, place + error.cause, error.remedy)
        return None

    def check_options(self, device: Device, table: DeviceTable, path: Keys) -> None:
        kind = f"{device.name} is of kind {device.kind}: "
        if table.precondition is not None and "precondition" not in device.parameters:
            cause = f"{kind}only a flash drive can be preconditioned"
            self.found.add((*path, "precondition"), cause, "leave the key out")
        if not table.write_cache and not device.model.has_write_cache:
            cause = f"{kind}it has no volatile write cache to switch off"
            self.found.add((*path, "write_cache"), cause, "leave the key out")

    def faults(self, declared: list[Any], capacity_sectors: int, path: Keys) -> tuple[Fault, ...]:
        if len(declared) > FAULTS_MAX:
            cause = f"a disk has at most {FAULTS_MAX} faults, not {len(declared)}"
            self.found.add(path, cause, "leave some out")
        faults = []
        for index, value in enumerate(declared):
            if (fault := read_entry(self.found, FAULTS, value, (*path, index))) is not None:
                faults.append(fault)
                self.found.extend((*path, index), fault.diagnostics(capacity_sectors))
        return tuple(faults)

    def read_stack(self, name: str, value: Any) -> None:
        table = self.found.model(StackTable, value, ("stacks", name))
        tables = self.tables.get("devices")
        declared = list(tables) if isinstance(tables, dict) else []
        loads = self.tables.get("workloads")
        loads = loads.values() if isinstance(loads, dict) else ()
        several = any(isinstance(load, dict) and load.get("beside") for load in loads)
        reader = StackReader(self.found, self.catalogue, self.devices, declared, several)
        stack = reader.stack(name, table) if table is not None else None
        if stack is None:
            return
        self.stacks[name] = stack
        for index, layer in enumerate(stack.layers if self.has_inputs else ()):
            if (source := layer.image_source()) is not None:
                try:
                    read_image(source, self.file.parent, self.inputs)
                except Diagnostic as diagnostic:
                    diagnostic.key = "image"
                    self.found.extend(("stacks", name, "layers", index), [diagnostic])

    def check_places(self, workload: Workload, path: Keys) -> None:
        """Whether some stack has the filesystems that a workload names."""
        known = dict.fromkeys(name for stack in self.stacks.values() for name in stack.filesystems)
        for key in ("place", "log_place", "doublewrite_place"):
            name = getattr(workload, key, None)
            if name is not None and name not in known:
                self.found.add((*path, key), f'no stack has a filesystem "{name}"', nearest(name, known))
        known |= dict.fromkeys(
            name for stack in self.stacks.values() if stack.is_bare for name in stack.devices
        )
        for name in workload.places_beside:
            if name not in known:
                cause = f'no stack has a filesystem, or without layers a device, "{name}"'
                self.found.add((*path, "beside"), cause, nearest(name, known))

    def check_tables(self, head: HeadTable) -> None:
        capacities = {each: used.capacity_bytes for each, used in self.devices.items()}
        for stack in self.stacks.values():
            if set(stack.device_names) <= set(stack.capacities(capacities)):
                memory_bytes = self.heads.get(stack.name, head).memory_bytes
                misfits = tables_diagnostics(stack, capacities, memory_bytes)
                for index, diagnostic in (*misfits, *machine_diagnostics(stack, memory_bytes)):
                    self.found.extend(("stacks", stack.name, "layers", index), [diagnostic])
            for where, diagnostic in once_diagnostics(stack):
                self.found.extend(where, [diagnostic])

    def read_workload(self, name: str, value: Any, declared: HeadTable | None) -> None:
        path = ("workloads", name)
        workload = read_workload(
            self.found,
            self.catalogue.workloads,
            value,
            path,
            self.file.parent if self.has_inputs else None,
        )
        if workload is None:
            return
        self.workloads[name] = workload
        if self.has_inputs:
            self.found.extend(path, read_inputs(workload, self.file.parent, self.inputs))
        capacities = {each: used.capacity_bytes for each, used in self.devices.items()}
        self.found.extend(path, interval_diagnostics(workload))
        self.found.extend(path, until_diagnostics(workload))
        self.found.extend(path, find_diagnostics(name, workload, self.tables["workloads"]))
        self.check_places(workload, path)
        least_bytes = AMPLE_BYTES
        for whole in self.stacks.values():
            stack = whole.at(workload.place)
            if not set(stack.device_names) <= set(stack.capacities(capacities)):
                continue
            held_bytes = capacity_bytes(stack, capacities, workload)
            if held_bytes is None:
                continue
            head = self.heads.get(stack.name, declared)
            left_bytes = self.left_by_age(held_bytes, stack, head)
            least_bytes = min(least_bytes, room_bytes(stack.provides, left_bytes))
            placed = list(zip(stack.layers, stack.contexts(capacities, 1), strict=True))
            self.found.extend(path, room_diagnostics(stack.name, placed, workload))
            self.found.extend(path, name_diagnostics(stack, workload))
            if head is not None:
                self.found.extend(path, memory_diagnostics(stack, workload, head.memory_bytes))
            for where, diagnostic in stack_diagnostics(stack, capacities, workload):
                self.found.extend(where, [diagnostic])
        self.found.extend(path, workload.diagnostics(least_bytes))
        self.found.extend(path, input_diagnostics(workload, self.inputs, least_bytes))
        if declared is not None and workload.duration_ns_min >= declared.time_limit_ns:
            least, most = (format_duration(t) for t in (workload.duration_ns_min, declared.time_limit_ns))
            cause = f"it takes at least {least}, but a trial may take only {most}"
            self.found.add(path, cause, "raise study.time_limit, or shorten warmup and duration")

    def left_by_age(self, held_bytes: int, stack: Stack, head: HeadTable | None) -> int:
        age = head.age if head is not None else None
        if age is None or not stack.ages:
            return held_bytes
        self.found.extend(("study", "age"), age.diagnostics(stack.name, held_bytes))
        return held_bytes - age.kept_bytes(held_bytes)
