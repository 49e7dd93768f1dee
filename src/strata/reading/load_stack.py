# SPDX-License-Identifier: Apache-2.0
"""Reading the stacks of a study file: which devices they name, and whether their layers fit together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any, Final

from strata.diagnostics.mistakes import Diagnostics
from strata.diagnostics.names import Path as Keys
from strata.diagnostics.names import nearest
from strata.model.layer import Layer, LowerInterface, Provided
from strata.model.stack import PLACE, Stack, names_of, with_parts
from strata.model.study import FilesystemTable, StackTable, StudyDevice, sectors_of
from strata.reading.entries import Catalogue, read_entry

AMPLE_BYTES: Final = 1 << 60
"""The assumed capacity above an invalid layer: enough for any layer."""
_AMPLE_COUNT: Final = 16

_Placed = tuple[Keys, Layer | None]
"""A layer, or None if it is invalid, and its path in the file."""


@dataclass(frozen=True)
class StackReader:
    """Reads stacks on ``devices``; ``declared`` are the names of all in the file, sound or not.

    ``several``: a workload runs on several devices of a stack without layers.
    """

    found: Diagnostics
    catalogue: Catalogue
    devices: Mapping[str, StudyDevice]
    declared: list[str]
    several: bool

    def stack(self, name: str, table: StackTable) -> Stack | None:
        path: Keys = ("stacks", name)
        self.check_settings(table.settings, (*path, "settings"))
        placed = _joined(
            [*self.layers(table.layers, (*path, "layers")), *self.layers(table.each, (*path, "each"))]
        )
        layers = tuple(layer for _, layer in placed if layer is not None)
        disks = {each: used.capacity_bytes for each, used in self.devices.items()}
        capacities = with_parts(layers, disks, AMPLE_BYTES)
        devices = self.devices_of(table, layers, capacities, path)
        self.check_named(devices, placed, capacities)
        self.check_order(placed)
        fits = self.fits_together(name, devices, placed, capacities)
        shared = len(table.layers) if table.each else None
        sector_bytes = sectors_of(devices, self.devices)
        stack = Stack(name, tuple(devices), layers, shared, sector_bytes, table.settings, sysctl=table.sysctl)
        used = {*stack.device_names}
        further = {
            each: self.filesystem(stack, each, inner, capacities, used)
            for each, inner in table.filesystems.items()
            if fits or inner.devices is not None
        }
        sound = {each: part for each, part in further.items() if part is not None}
        self.check_mounts(sound, (*path, "filesystems"))
        return replace(stack, filesystems=sound) if fits and len(sound) == len(table.filesystems) else None

    def layers(self, tables: list[Any], path: Keys) -> list[_Placed]:
        found = ((*path, index) for index in range(len(tables)))
        return [
            (where, read_entry(self.found, self.catalogue.layers, each, where))
            for where, each in zip(found, tables, strict=True)
        ]

    def filesystem(
        self, stack: Stack, name: str, table: FilesystemTable, capacities: Mapping[str, int], used: set[str]
    ) -> Stack | None:
        """A further filesystem of a stack, on its disks or partitions; ``used`` are those in use."""
        path: Keys = ("stacks", stack.name, "filesystems", name)
        placed = _joined(self.layers(table.layers, (*path, "layers")))
        if stack.each:
            cause = "a stack whose tenants have layers of their own has no further filesystems"
            self.found.add(path, cause, "leave it out, or `each`")
        pool = next((at for at, layer in enumerate(stack.layers, 1) if layer.provides == "pool"), None)
        if table.devices is None and pool is None:
            cause = "the stack has no pool of which this could be another dataset"
            self.found.add(path, cause, 'name its disks or partitions, such as devices = ["ssd.wal"]')
            return None
        self._check_own_devices(table.devices or [], placed, capacities, used, path)
        layers = tuple(layer for _, layer in placed if layer is not None)
        if layers and layers[-1].provides != "filesystem":
            self.found.add(
                (*path, "layers"), "they end in no filesystem", 'add for example { layer = "ext4" }'
            )
            return None
        below = tuple(layer for layer in stack.layers if layer.beside)
        devices, lowest = table.devices or [], list(placed)
        if table.devices is None:
            devices, below = [*stack.devices], stack.layers[:pool]
            lowest = [*(((*path, "layers"), layer) for layer in below), *placed]
        if not layers or not self.fits_together(stack.name, devices, lowest, capacities):
            return None
        return Stack(
            stack.name,
            tuple(devices),
            (*below, *layers),
            sector_bytes=sectors_of(devices, self.devices),
            own=name,
            base=len(below),
            mount=f"{PLACE}{table.mount}",
        )

    def check_mounts(self, filesystems: Mapping[str, Stack], path: Keys) -> None:
        for (first, one), (second, other) in combinations(filesystems.items(), 2):
            if f"{one.mount}/".startswith(f"{other.mount}/") or f"{other.mount}/".startswith(f"{one.mount}/"):
                cause = f'"{first}" and "{second}" are mounted on one mount point, or one within the other'
                self.found.add((*path, second, "mount"), cause, "choose another mount point")

    def check_settings(self, settings: Mapping[str, Mapping[str, Any]], path: Keys) -> None:
        for kind, given in settings.items():
            if kind in self.catalogue.servers:
                for each in self.catalogue.servers[kind](given):
                    self.found.add((*path, kind), each.cause, each.remedy)
            else:
                remedy = nearest(kind, self.catalogue.servers)
                self.found.add((*path, kind), f'there is no database server "{kind}"', remedy)

    def check_declared(self, device: str, capacities: Mapping[str, int], path: Keys) -> bool:
        known = dict.fromkeys([*self.declared, *capacities])
        if device in known:
            return True
        self.found.add(path, f'there is no device "{device}"', nearest(device, known))
        return False

    def devices_of(
        self, table: StackTable, layers: tuple[Layer, ...], capacities: Mapping[str, int], path: Keys
    ) -> list[str]:
        """The devices of the lowest layer: as declared, or all that no layer names."""
        needs_none = bool(layers) and layers[0].requires.maximum == 0
        if table.devices is None:
            named = set[str]().union(*map(names_of, layers))
            named = named.union(*(each.devices or () for each in table.filesystems.values()))
            return [] if needs_none else [name for name in self.declared if name not in named]
        for index, device in enumerate(table.devices):
            where = (*path, "devices", index)
            if self.check_declared(device, capacities, where) and device in table.devices[:index]:
                self.found.add(where, f'"{device}" is named twice', "name each device once")
        if table.devices == [] and not needs_none:
            cause = "a stack needs a device"
            self.found.add((*path, "devices"), cause, "leave the key out to use all of them")
        return table.devices

    def check_named(self, devices: list[str], placed: list[_Placed], capacities: Mapping[str, int]) -> None:
        used = set(devices)
        for path, layer in placed:
            for key, names in layer.named_devices().items() if layer is not None else ():
                for name in names:
                    if self.check_declared(name, capacities, (*path, key)) and name in used:
                        cause = f'"{name}" is used elsewhere in this stack'
                        remedy = "name another device, or leave it out of the stack's `devices`"
                        self.found.add((*path, key), cause, remedy)
                    used.add(name)

    def check_order(self, placed: list[_Placed]) -> None:
        known = [(path, layer) for path, layer in placed if layer is not None]
        for (_, below), (path, layer) in pairwise(known):
            if layer.beside and not below.beside:
                cause = f"the devices that it makes do not exist yet for {below.layer} below it"
                self.found.add(path, cause, "move it to the beginning of `layers`")

    def _check_own_devices(
        self,
        devices: list[str],
        placed: list[_Placed],
        capacities: Mapping[str, int],
        used: set[str],
        path: Keys,
    ) -> None:
        """Hold the devices of a further filesystem against those in use, to which they are added."""
        for index, device in enumerate(devices):
            where = (*path, "devices", index)
            if self.check_declared(device, capacities, where) and device in used:
                cause = f'"{device}" is used elsewhere in this stack'
                self.found.add(where, cause, "name another device, or a partition")
            used.add(device)
        self.check_named(devices, placed, capacities)
        for where, layer in placed:
            if layer is not None and (layer.beside or used & {*names_of(layer)}):
                cause = "a layer that divides disks, or names a disk of another filesystem, stands here"
                self.found.add(where, cause, "divide disks in the stack's own `layers`")
            used |= {*names_of(layer)} if layer is not None else set()

    def fits_together(
        self, name: str, devices: list[str], placed: list[_Placed], capacities: Mapping[str, int]
    ) -> bool:
        """Whether each layer gets what it requires, and a workload one thing to run on.

        Checking continues above an invalid layer as if it were valid, so that all mistakes are found at once.
        """
        sizes = tuple(capacities.get(each, AMPLE_BYTES) for each in devices)
        provided: Provided | None = Provided("block", sizes, sector_bytes=sectors_of(devices, self.devices))
        below, sound = ", ".join(devices), True
        for path, layer in placed:
            if layer is None:
                provided, sound = None, False
                continue
            requires = layer.requires
            fits = provided is None or (requires.kind == provided.kind and requires.fits(provided.count))
            if provided is not None and not fits:
                shown = f"{provided} ({below})" if below else str(provided)
                cause = f"{layer.layer} takes {requires}, but stands on {shown}"
                remedy = _join_remedy(requires, provided, self.catalogue, is_lowest=path == placed[0][0])
                self.found.add(path, cause, remedy)
                provided, sound = None, False
            if provided is None:
                count = _AMPLE_COUNT if requires.maximum is None else requires.maximum
                provided = Provided(requires.kind, (AMPLE_BYTES,) * count)
            named = {each: capacities.get(each, AMPLE_BYTES) for each in names_of(layer)}
            if self.found.extend(path, layer.diagnostics(provided, named)):
                provided, sound = None, False
            else:
                provided = layer.provided(provided)
            below = below if layer.beside else layer.layer
        if sound and provided is not None and not self._is_one_thing(provided, placed):
            cause = f"the stack ends in {provided}, but workloads run on "
            cause += "a mounted filesystem or one block device"
            self.found.add(("stacks", name, "layers"), cause, _top_remedy(provided, self.catalogue))
            return False
        return sound

    def _is_one_thing(self, provided: Provided, placed: list[_Placed]) -> bool:
        """Whether a workload can run on what a stack ends in; some run on several bare disks."""
        is_bare = self.several and all(layer is not None and layer.beside for _, layer in placed)
        return provided.kind != "pool" and (provided.count == 1 or is_bare)


def _joined(placed: list[_Placed]) -> list[_Placed]:
    """The layers, each as it is below the next."""
    return [
        (path, layer.under(upper) if layer is not None and upper is not None else layer)
        for (path, layer), (_, upper) in zip(placed, [*placed[1:], ((), None)], strict=False)
    ]


def _join_remedy(
    requires: LowerInterface, provided: Provided, catalogue: Catalogue, *, is_lowest: bool
) -> str:
    if requires.kind != provided.kind:
        between = [
            name
            for name, layer in catalogue.layers.items()
            if layer.requires.kind == provided.kind and layer.provides == requires.kind
            if requires.fits(1) and not layer.is_container and not layer.runs_commands
        ]
        choices = [] if is_lowest else ["remove one of the two layers"]
        choices += [f"put a layer between them: {', '.join(between)}"] if between else []
        return ", or ".join(choices)
    if requires.maximum == 0:
        return "leave `devices` out: it stands on nothing"
    if provided.count > 1:
        return f"name one disk in `devices`, or use a layer that takes several: {_joining(catalogue)}"
    return "name more disks in `devices`"


def _top_remedy(provided: Provided, catalogue: Catalogue) -> str:
    if provided.kind == "pool":
        taking = [name for name, layer in catalogue.layers.items() if layer.requires.kind == "pool"]
        return f"add a layer on top that takes a pool: {', '.join(taking)}"
    return f"name one disk in `devices`, or add a layer that takes several: {_joining(catalogue)}"


def _joining(catalogue: Catalogue) -> str:
    joining = (each for each in catalogue.layers.items() if each[1].requires.maximum is None)
    return ", ".join(name for name, layer in joining if not layer.beside)
