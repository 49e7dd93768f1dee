# SPDX-License-Identifier: Apache-2.0
"""A stack: its devices, its layers from the disks upwards, and each layer's context."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, NamedTuple

from strata.diagnostics.names import Diagnostic, disk_of
from strata.model.describe import declared
from strata.model.knobs import DEFAULT_SYSCTL, Sysctl
from strata.model.layer import Interface, Layer, LayerContext, Provided, Share, StackPart
from strata.model.study_record import LayerRecord, StackRecord
from strata.model.trial import ANY_NAME
from strata.units import MIB, SECTOR_BYTES, describe_size

USABLE_TENTHS: Final = 9
"""The share of a stack's capacity that data may take, in tenths: an estimate of what metadata leave."""


PLACE: Final = "${mounts}/at"
"""The folder of the mount points of a stack's further filesystems."""


class Volume(NamedTuple):
    """A disk or partition, and the filesystem on it: a further one, or ``*``, the stack's own."""

    filesystem: str
    part: StackPart


@dataclass(frozen=True)
class Stack:
    """A stack: its devices by name, and its layers from the disks upwards.

    Attributes:
        devices: Disks and partitions below the lowest layer; keys of layers may name others.
        shared: How many layers, from the lowest on, tenants share; each has the others of its own. None: all.
        sector_bytes: The largest sectors of its devices.
        settings: Of the workloads' database servers, by kind of server and name.
        filesystems: Further ones that are mounted beside, by name, each as a stack on the same partitions.
        own: The name of such a filesystem, with which the names of its own layers begin.
        base: How many layers of such a filesystem, from the lowest on, are the stack's: those that divide
            disks, or all up to the pool of which it is a dataset.
        mount: The mount point of the uppermost filesystem.
        sysctl: Settings of the machine's kernel, with the study's.
    """

    name: str
    devices: tuple[str, ...]
    layers: tuple[Layer, ...]
    shared: int | None = None
    sector_bytes: int = SECTOR_BYTES
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    filesystems: Mapping[str, Stack] = field(default_factory=dict)
    own: str = ""
    base: int = 0
    mount: str = "${mount}"
    sysctl: Sysctl = DEFAULT_SYSCTL

    def describe(self) -> StackRecord:
        return StackRecord(
            devices=self.devices,
            layers=tuple(
                LayerRecord(
                    layer=layer.layer,
                    stated=dict(declared(layer)),
                    keys=layer.model_dump(mode="json", exclude={"layer"}),
                )
                for layer in self.layers
            ),
            shared=self.shared,
            settings={kind: dict(each) for kind, each in self.settings.items()},
            filesystems={name: each.describe() for name, each in self.filesystems.items()},
            mount=self.mount if self.own else "",
            sysctl=self.sysctl.vm.stated(),
        )

    def on_host(self) -> Stack:
        others = {name: each.on_host() for name, each in self.filesystems.items()}
        return replace(self, layers=tuple(layer.on_host() for layer in self.layers), filesystems=others)

    def with_memory(self, ratio: float) -> Stack:
        """The stack in a machine with ``ratio`` times the memory."""
        others = {name: each.with_memory(ratio) for name, each in self.filesystems.items()}
        return replace(
            self, layers=tuple(layer.with_memory(ratio) for layer in self.layers), filesystems=others
        )

    @property
    def parts(self) -> tuple[Stack, ...]:
        """The stack and each of its further filesystems."""
        return (self, *self.filesystems.values())

    @property
    def every_layer(self) -> tuple[Layer, ...]:
        """The layers of all its filesystems, each once."""
        return (
            *self.layers,
            *(layer for each in self.filesystems.values() for layer in each.layers[each.base :]),
        )

    @property
    def in_pool(self) -> bool:
        """Whether it is a further dataset of the stack's pool, without devices of its own."""
        return not all(layer.beside for layer in self.layers[: self.base])

    @property
    def common_base(self) -> int:
        """The number of its lowest layers that its further filesystems have in common with it."""
        return max((each.base for each in self.filesystems.values()), default=0)

    def at(self, place: str | None) -> Stack:
        """The part with the filesystem of this name; the stack itself if it has none of that name."""
        return self.filesystems.get(place or "", self)

    @property
    def writes_whole_blocks(self) -> bool:
        return bool(self.layers) and self.layers[-1].writes_whole_blocks

    @property
    def provides(self) -> Interface:
        """The interface that workloads run on."""
        return self.layers[-1].provides if self.layers else "block"

    @property
    def common(self) -> tuple[Layer, ...]:
        return self.layers[: self.shared]

    @property
    def each(self) -> tuple[Layer, ...]:
        return self.layers[len(self.common) :]

    @property
    def layer_names(self) -> tuple[str, ...]:
        """A name for each layer: its kind, numbered from the second of a kind on."""
        names: list[str] = []
        for index, layer in enumerate(self.layers):
            earlier = sum(other.layer == layer.layer for other in self.layers[:index])
            begin = f"{self.own}-" if self.own and index >= self.base else ""
            names.append(f"{begin}{layer.layer}-{earlier + 1}" if earlier else f"{begin}{layer.layer}")
        return tuple(names)

    @property
    def is_bare(self) -> bool:
        """Whether workloads run on its disks or partitions themselves."""
        return all(layer.beside for layer in self.layers)

    @property
    def ages(self) -> bool:
        """Whether it ends in a filesystem, which can be aged."""
        return bool(self.layers) and self.layers[-1].provides == "filesystem"

    @property
    def all_devices(self) -> tuple[str, ...]:
        """Its disks: partitions count as the disk that they lie on."""
        return tuple(dict.fromkeys(map(disk_of, self.device_names)))

    @property
    def device_names(self) -> tuple[str, ...]:
        devices = (name for each in self.parts for name in each.devices)
        return (*devices, *(name for layer in self.every_layer for name in names_of(layer)))

    def capacities(self, capacities_bytes: Mapping[str, int]) -> Mapping[str, int]:
        """The capacities of disks, and of the partitions that its layers make of them, by name."""
        return with_parts(self.layers, capacities_bytes)

    def volumes(self, capacities_bytes: Mapping[str, int]) -> dict[str, Volume]:
        """The disks and partitions that it stands on, by name."""
        made: dict[str, StackPart] = {}
        named = self.capacities(capacities_bytes)
        for layer in self.layers:
            made |= layer.parts({name: named[name] for name in names_of(layer)})
        return {
            name: Volume(each.own or ANY_NAME, made.get(name) or StackPart(name, 0, capacities_bytes[name]))
            for each in self.parts
            if not each.in_pool
            for name in each.own_devices
        }

    @property
    def own_devices(self) -> tuple[str, ...]:
        """The disks and partitions below its uppermost layer, without those of further filesystems."""
        above = (layer for layer in self.layers if not layer.beside)
        return (*self.devices, *(name for layer in above for name in names_of(layer)))

    def unavailable(self) -> str | None:
        """Why no machine can build one of its layers, as a sentence."""
        return next((why for layer in self.every_layer if (why := layer.unavailable())), None)

    def offers(self, capacities_bytes: Mapping[str, int]) -> list[Provided]:
        """The block devices below the lowest layer, then the provision of each layer up to the workload."""
        offers = [self._offered(capacities_bytes)]
        for layer in self.layers:
            offers.append(layer.provided(offers[-1]))
        return offers

    def contexts(self, capacities_bytes: Mapping[str, int], seed: int) -> list[LayerContext]:
        """The context of each layer, from the lowest on, for a single workload."""
        named = list(zip(self.layer_names, self.layers, strict=True))
        return self._stand(named, self._ground(capacities_bytes, seed), top=self.mount)

    def common_contexts(
        self, capacities_bytes: Mapping[str, int], seed: int, tenants: tuple[str, ...]
    ) -> list[LayerContext]:
        """The contexts of the layers that tenants share; the last has the tenants' names."""
        named = list(zip(self.layer_names, self.common, strict=False))
        contexts = self._stand(named, self._ground(capacities_bytes, seed), top="${mount}")
        return [*contexts[:-1], replace(contexts[-1], tenants=tenants)] if contexts else []

    def tenant_contexts(self, seed: int, tenant: str, share: Share) -> list[LayerContext]:
        """The contexts of a tenant's own layers, on its share of the others."""
        names = [f"{tenant}-{name}" for name in self.layer_names[len(self.common) :]]
        base = LayerContext(
            tenant, seed, lower=(share.path,), provided=share.provided, disks=self.all_devices
        )
        top = f"${{mounts}}/{names[-1]}" if names else ""
        return self._stand(list(zip(names, self.each, strict=True)), base, top=top)

    def share(self, capacities_bytes: Mapping[str, int], tenants: tuple[str, ...]) -> Share | None:
        """The first tenant's share of the common layers; None if these cannot be shared."""
        if not self.common:
            return None
        *_, context = self.common_contexts(capacities_bytes, 1, tenants)
        return self.common[-1].share(replace(context, tenant=tenants[0]))

    def _ground(self, capacities_bytes: Mapping[str, int], seed: int) -> LayerContext:
        lower, provided = tuple(f"${{{name}}}" for name in self.devices), self._offered(capacities_bytes)
        return LayerContext(
            self.name,
            seed,
            lower=lower,
            provided=provided,
            devices=self.devices,
            capacities=self.capacities(capacities_bytes),
            disks=self.all_devices,
        )

    def _offered(self, capacities_bytes: Mapping[str, int]) -> Provided:
        capacities = self.capacities(capacities_bytes)
        sizes = tuple(capacities[name] for name in self.devices)
        return Provided("block", sizes, sector_bytes=self.sector_bytes)

    def _stand(
        self, named: Sequence[tuple[str, Layer]], base: LayerContext, *, top: str
    ) -> list[LayerContext]:
        contexts: list[LayerContext] = []
        lower, provided, devices, below = base.lower, base.provided, base.devices, base.below
        for index, (name, layer) in enumerate(named):
            own = tuple(dict.fromkeys([*(() if layer.beside else devices), *names_of(layer)]))
            mount = top if index == len(named) - 1 else f"${{mounts}}/{name}"
            context = replace(
                base, name=name, lower=lower, provided=provided, devices=own, mount=mount, below=below
            )
            contexts.append(context)
            if layer.beside:
                continue
            lower, provided, devices, below = (layer.path(context),), layer.provided(provided), (), layer
        machine = None
        for index in reversed(range(len(named))):
            contexts[index] = replace(contexts[index], machine=machine)
            if named[index][1].machine_bytes():
                machine = named[index][1].machine(contexts[index])
        return contexts


def names_of(layer: Layer) -> Iterable[str]:
    return (name for names in layer.named_devices().values() for name in names)


def with_parts(
    layers: Iterable[Layer], capacities_bytes: Mapping[str, int], unknown_bytes: int = 0
) -> dict[str, int]:
    """The capacities of devices, ``unknown_bytes`` of others, and of the parts that layers make of them."""
    found = dict(capacities_bytes)
    for layer in layers:
        made = layer.parts({name: found.get(name, unknown_bytes) for name in names_of(layer)})
        found |= {name: part.size_bytes for name, part in made.items()}
    return found


def room_bytes(kind: Interface, held_bytes: int) -> int:
    """The room for data on what holds so much: all of a block device, nine tenths of a filesystem."""
    return held_bytes if kind == "block" else held_bytes * USABLE_TENTHS // 10


def space_diagnostics(what: str, needed_bytes: int, room_bytes: int, *, key: str) -> Iterable[Diagnostic]:
    """Refuse ``what`` of ``needed_bytes`` if it does not fit the smallest stack's `room_bytes`."""
    if needed_bytes > room_bytes:
        yield Diagnostic(
            f"{what} of {_rounded(needed_bytes, up=True)} do not fit: the smallest stack (or a tenant's part "
            f"of it) has room for {_rounded(room_bytes)}; of a filesystem or pool 90 % count",
            remedy=f"shrink {key}, or raise the `capacity` of the devices",
            key=key,
        )


def _rounded(size_bytes: int, *, up: bool = False) -> str:
    if size_bytes < MIB:
        return describe_size(size_bytes)
    return describe_size((-(-size_bytes // MIB) if up else size_bytes // MIB) * MIB)
