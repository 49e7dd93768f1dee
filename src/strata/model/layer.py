# SPDX-License-Identifier: Apache-2.0
"""A storage layer: the interfaces that it joins, the steps that build it, its further abilities.

A layer is a subclass of `Layer` in a module of ``strata/layers/``, where the catalogue finds it. `Layer` is
what every layer must say; `strata.model.abilities` is what some can do besides.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Final, Literal, NamedTuple, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from strata.diagnostics.names import Diagnostic, disk_of
from strata.model.abilities import Abilities
from strata.model.allowed import Allowing, Forms, Rule
from strata.model.step import Phase, Prerequisites, Step
from strata.seeds import derive_uuid
from strata.units import SECTOR_BYTES, whole_mib

Interface = Literal["block", "filesystem", "pool"]

Family = Literal[
    "RAID and volumes",
    "filesystems",
    "ZFS",
    "caches, encryption, integrity",
    "images and guests",
    "containers",
]

INTERFACES: Final = {"block": "a block device", "filesystem": "a mounted filesystem", "pool": "a pool"}
_ONE: Final = {**INTERFACES, "block": "one block device"}


@dataclass(frozen=True)
class LowerInterface:
    """The interface below: a filesystem, a pool, or ``minimum`` to ``maximum`` (None: any) block devices.

    A ``maximum`` of 0 is for a layer that stands on nothing, such as a filesystem in memory.
    """

    kind: Interface
    minimum: int = 1
    maximum: int | None = 1

    def fits(self, count: int) -> bool:
        return self.minimum <= count and (self.maximum is None or count <= self.maximum)

    def __str__(self) -> str:
        if self.maximum == 0:
            return "no device"
        if self.kind != "block" or self.minimum == self.maximum == 1:
            return _ONE[self.kind]
        most = " or more" if self.maximum is None else f" to {self.maximum}"
        return f"{self.minimum}{'' if self.minimum == self.maximum else most} block devices"


@dataclass(frozen=True)
class Geometry:
    """How a block device is striped over others: ``data_chunks`` of a full stripe are not parity."""

    chunk_bytes: int
    data_chunks: int

    @property
    def stripe_bytes(self) -> int:
        return self.chunk_bytes * self.data_chunks


@dataclass(frozen=True)
class Provided:
    """The interface that a layer, or the devices of a stack, offer to the layer above.

    Attributes:
        kind: Block devices, one mounted filesystem, or one pool.
        capacities_bytes: The capacity of each; metadata are not subtracted.
        geometry: The stripes of a block device.
        sector_bytes: The unit of I/O of block devices: 512 bytes of modelled disks, more of some layers.
    """

    kind: Interface
    capacities_bytes: tuple[int, ...]
    geometry: Geometry | None = None
    sector_bytes: int = SECTOR_BYTES

    @property
    def count(self) -> int:
        return len(self.capacities_bytes)

    @property
    def smallest_bytes(self) -> int:
        return min(self.capacities_bytes, default=0)

    def of(self, capacity_bytes: int) -> Provided:
        """The same with one other capacity."""
        return replace(self, capacities_bytes=(capacity_bytes,))

    def with_sectors(self, sector_bytes: int) -> Provided:
        """The same with sectors of that size, if they are not larger already."""
        return replace(self, sector_bytes=max(self.sector_bytes, sector_bytes))

    def __str__(self) -> str:
        if self.kind != "block" or self.count == 1:
            return _ONE[self.kind]
        return f"{self.count} block devices" if self.count else "no device"


class StackPart(NamedTuple):
    """A part of one of the study's disks."""

    disk: str
    first_byte: int
    size_bytes: int


@dataclass(frozen=True)
class LayerContext:
    """The place of a layer, from which its steps follow; paths have ``${variable}``s.

    Attributes:
        lower: The paths below it: block devices, one mount point, or a pool's name.
        provided: The capacities and the geometry of these.
        devices: The names of the study's devices whose content the layer destroys: below it, or in its keys.
        tenant: The one of ``tenants`` whose share is acted on, as by a snapshot of one tenant's volume.
        below: The layer directly below, if there is one.
        machine: The socket of the virtual machine that runs what is above.
        capacities: The capacities of all of the study's devices in bytes, by name.
        inputs: The names of the files that the steps above read (`Workload.inputs`).
        disks: The names of all disks of the stack.
        bfq: The names of the study's disks whose scheduler is bfq.
    """

    name: str  # in its stack
    seed: int  # the trial's, from which everything random is derived by name
    lower: tuple[str, ...]
    provided: Provided
    devices: tuple[str, ...] = ()
    mount: str = "${mount}"  # of a filesystem
    phase: Phase = "build"
    prefix: str = ""  # the beginning of its steps' ids, if it is not ``name``
    tenants: tuple[str, ...] = ()  # that share the layer, if it is the uppermost shared one
    tenant: str | None = None
    capacities: Mapping[str, int] = field(default_factory=dict, hash=False)
    below: Layer | None = field(default=None, hash=False)
    machine: str | None = None
    inputs: tuple[str, ...] = ()
    disks: tuple[str, ...] = ()
    bfq: tuple[str, ...] = ()

    @property
    def of_tenant(self) -> LayerContext:
        """The same for steps on the share of ``tenant`` alone, whose ids hold the tenant's name."""
        if self.tenant is None:
            return self
        return replace(self, prefix=f"{self.prefix or self.name}-{self.tenant}")

    def within(self, path: str) -> str:
        """The folder of ``tenant`` in what is at ``path``; without a tenant ``path`` itself."""
        return path if self.tenant is None else f"{path}/{self.tenant}"

    def fair(self, provided: Provided) -> Provided:
        """An equal share for each of ``tenants``."""
        return provided.of(provided.smallest_bytes // max(1, len(self.tenants)))

    @property
    def label(self) -> str:
        """The name of the layer's array, volume group or pool, unique on the machine.

        It begins with ``${stack}``, by which the host runner finds what a killed trial left assembled.
        """
        return f"${{stack}}_{self.name.replace('-', '_')}"

    def derived_uuid(self, purpose: str) -> UUID:
        """A UUID that is the same for every trial of this layer and seed."""
        return derive_uuid(self.seed, self.name, purpose)

    @property
    def cwd(self) -> str:
        """The folder in which the layer's programs run: the trial's own as soon as there is one."""
        return "/" if self.phase == "build" else "${scratch}"

    def step(self, name: str, title: str, *argv: str, **fields: Any) -> Step:
        """A step of this layer in the context's phase; ``fields`` are further ones of `Step`.

        Of partitions that it ``destroys`` it names the disks.
        """
        if "destroys" in fields:
            fields["destroys"] = tuple(dict.fromkeys(map(disk_of, fields["destroys"])))
        step_id = f"{self.prefix or self.name}-{name}"
        return Step(id=step_id, phase=self.phase, title=title, argv=argv, **fields)

    def act(self, name: str, title: str, *argv: str, **fields: Any) -> Step:
        """A step on the layer while it is up, in the trial's folder, which takes what its program leaves."""
        return self.step(name, title, *argv, cwd="${scratch}", **fields)

    def during(self, phase: Phase, prefix: str) -> LayerContext:
        """The same layer acting again, in a later phase; ``prefix`` keeps the ids of its steps apart."""
        return replace(self, phase=phase, prefix=prefix)


@dataclass(frozen=True)
class KernelLog:
    """Messages in the kernel's log that make a trial with the layer invalid.

    Attributes:
        trouble: Regular expressions, each for a whole message without its time stamp. A comment names the
            source file of the messages.
        disk_lost: Those of the messages that are expected while a plan lets a disk fail.
        silent: Why the layer has no messages of its own, as a sentence.
    """

    trouble: tuple[str, ...] = ()
    disk_lost: tuple[str, ...] = ()
    silent: str = ""


class RealTimeCost(NamedTuple):
    """Real seconds in the lab: until a layer is up, and for each virtual second of a load.

    ``slowness`` is how many times as long the same work takes in it.
    """

    start_s: float = 0.0
    per_virtual: float = 0.0
    slowness: float = 1.0


@dataclass(frozen=True)
class Share:
    """One tenant's part of a layer that several share, which the steps make after `Layer.build`."""

    steps: list[Step]
    path: str
    provided: Provided


class Layer(BaseModel, Abilities, Allowing, ABC):
    """One storage layer of a stack, as it is declared in a study file.

    A subclass declares its keys as fields, its name as ``layer: Literal["ext4"] = "ext4"``, and:

    Attributes:
        family: Its place in lists of layers.
        also_called: Names by which users look for it, and for which a mistake's remedy names it.
        requires: The interface that it stands on.
        provides: The interface that it offers to the layer or workload above.
        prerequisites: The machine's programs and features that its steps need; where they depend on its keys,
            it overrides `needs`.
        kernel_log: The kernel's messages when the layer is in trouble.
        packages: Debian's packages with its programs, where the lab's image lacks them.
        no_free_space: Why a filesystem or pool has no `free_space`, as a sentence.
        periods_ns: What it does by itself at intervals, by name, such as a commit of its journal.
        no_periods: Why a filesystem or pool has no periods, as a sentence.
        scrub_requires: Features that a scrub needs besides.
        device_keys: The keys that name devices of the study: a log device, a cache, spares.
        writes_whole_blocks: Whether a power failure never leaves a part of a database's page on it.
        is_container: Whether its `machine` is a container, which shares the kernel.
        once_in_kernel: Whether a kernel can have only one of it.
        runs_commands: Whether its steps are the study's own: only a machine from an `image_source` runs them.
        beside: Whether it only makes `parts` of its named devices; what is below remains for the layer above.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, defer_build=True)

    family: ClassVar[Family]
    also_called: ClassVar[tuple[str, ...]] = ()
    requires: ClassVar[LowerInterface]
    provides: ClassVar[Interface]
    prerequisites: ClassVar[Prerequisites]
    kernel_log: ClassVar[KernelLog]
    packages: ClassVar[tuple[str, ...]] = ()
    allowed: ClassVar[Mapping[str, Forms]] = {}
    rules: ClassVar[tuple[Rule, ...]] = ()
    no_free_space: ClassVar[str] = ""
    periods_ns: ClassVar[Mapping[str, int]] = {}
    no_periods: ClassVar[str] = ""
    scrub_requires: ClassVar[Prerequisites] = Prerequisites()
    device_keys: ClassVar[tuple[str, ...]] = ()
    writes_whole_blocks: ClassVar[bool] = False
    is_container: ClassVar[bool] = False
    once_in_kernel: ClassVar[bool] = False
    runs_commands: ClassVar[bool] = False
    beside: ClassVar[bool] = False

    layer: str

    @abstractmethod
    def build(self, context: LayerContext) -> list[Step]:
        """The steps that make the layer and bring it up, each with the undo of what it brought up.

        A step that overwrites devices has ``destroys=context.devices``.
        """

    @abstractmethod
    def assemble(self, context: LayerContext) -> list[Step]:
        """The steps that bring up a layer that was built and then taken down by the undos of `build`.

        Each has the same undo. They keep the layer's content, and destroy nothing.
        """

    @abstractmethod
    def path(self, context: LayerContext) -> str:
        """The block device, mount point or pool's name that it provides, with ``${variable}``s."""

    def share(self, context: LayerContext) -> Share | None:
        """The part of ``context.tenant``, one of ``context.tenants``; None: the layer cannot be shared.

        A layer that provides a volume makes one for each tenant in `build` if ``context.tenants`` are given.
        `Abilities` then act on the share: a snapshot is one of that alone.
        """
        return None

    def share_diagnostics(self, lower: Provided, tenants: int) -> Iterable[Diagnostic]:
        """Why this number of tenants cannot share the layer, beyond `diagnostics`."""
        return ()

    def limited(self, memory_bytes: int) -> Self:
        """The same layer with this limit, if it limits the memory of all above it."""
        return self

    def with_memory(self, ratio: float) -> Self:
        """The same layer in a machine with ``ratio`` times the memory, of which it has the same share."""
        limit = self.memory_limit_bytes()
        return self if limit is None else self.limited(whole_mib(limit * ratio))

    def kernel_memory_bytes(self) -> int:
        """The most memory that it takes itself, outside of any limit and without the page cache."""
        return 0

    def kernel_settings(self) -> Mapping[str, str]:
        """The keys that set something of the whole kernel, with their values in a study file."""
        return {}

    def tables_bytes(self, named: Mapping[str, int]) -> int:
        """The memory that it takes when it is brought up, given the capacities of its named devices."""
        return 0

    def machine_bytes(self) -> int:
        """The memory that it takes of the lab's for a virtual machine."""
        return 0

    def real_time(self) -> RealTimeCost:
        """The real time that it takes besides its requests' own, if that is much: an estimate."""
        return RealTimeCost()

    def needs(self) -> Prerequisites:
        """The prerequisites of its steps, as its keys are set."""
        return self.prerequisites

    def stated(self) -> Mapping[str, str]:
        """Keys that a title or drawing states with their value even where it is the default."""
        return {}

    def named_devices(self) -> Mapping[str, tuple[str, ...]]:
        """The study's devices that `device_keys` name, by key."""
        named = {key: getattr(self, key) for key in self.device_keys}
        listed = {key: [names] if isinstance(names, str) else names for key, names in named.items()}
        return {key: tuple(names) for key, names in listed.items() if names}

    def parts(self, named: Mapping[str, int]) -> Mapping[str, StackPart]:
        """The devices that it makes of its named devices, by names such as ``ssd.log``."""
        return {}

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        """Why this layer cannot be built on ``lower``, with `named_devices` of these capacities in bytes."""
        return ()

    def on_used_disks(self) -> Self:
        """The same layer as it is built on disks that do not hold zeros, as a trial's do."""
        return self

    def on_host(self) -> Self:
        """The same layer as it is built on a host."""
        return self

    def under(self, upper: Layer) -> Self:
        """The same layer as it is built directly below ``upper``."""
        return self

    def power_risks(self) -> Iterable[str]:
        """Its settings by which a power failure takes what it acknowledged as durable, each with the effect.

        The loss of a disk is another matter: `Abilities.losses_survived`.
        """
        return ()

    def unavailable(self) -> str | None:
        """Why no machine can build it with these keys, as a sentence; its trials are then skipped.

        Not a mistake of the study, but something that exists no longer or not yet: XFS without barriers.
        """
        return None

    def usable_bytes(self, lower_bytes: Sequence[int]) -> int:
        """The most that it can hold on devices of these capacities; metadata are not subtracted."""
        return sum(lower_bytes)

    def provided(self, lower: Provided) -> Provided:
        """Its interface on ``lower``. A layer that changes stripes or sectors overrides it."""
        capacity_bytes = self.usable_bytes(lower.capacities_bytes)
        if lower.kind == self.provides == "block":
            return lower.of(capacity_bytes)
        return Provided(self.provides, (capacity_bytes,))

    def alignment(self, lower: Provided) -> Mapping[str, str]:
        """The options by which it aligns itself to the geometry below, for `strata plan --stacks`."""
        return {}

    def check_argv(self, context: LayerContext) -> tuple[str, ...] | None:
        """The command that looks for damage, changes nothing, and exits 0 if there is none.

        The layer is down then (a filesystem: unmounted), the layers below are up. None: there is no check.
        """
        return None

    def memory_limit_bytes(self) -> int | None:
        """The limit of the memory of all above it together, if it sets one."""
        return None

    def cgroup(self, context: LayerContext) -> str | None:
        """The folder of the control group that everything above runs in, if it makes one."""
        return None

    def machine(self, context: LayerContext) -> str | None:
        """The socket of the virtual machine or container that everything above runs in, if it starts one.

        Of a machine from an `image_source` it is the configuration by which ssh reaches it.
        """
        return None

    def image_source(self) -> str | None:
        """The user's disk image, beside the study, that its machine starts from: no agent runs in it."""
        return None

    def inputs_inside(self, context: LayerContext) -> Mapping[str, str]:
        """The paths of ``context.inputs`` in its machine, by name."""
        return {}

    def path_outside(self, context: LayerContext) -> str:
        """The same path as `path`, for steps that do not run in its container."""
        return self.path(context)

    def seen_outside(self, context: LayerContext) -> list[Step]:
        """The steps that `path_outside` needs once the layer is up."""
        return []

    @property
    def is_apart(self) -> bool:
        """Whether everything above runs in a `machine`, which sees nothing else of the lab."""
        return self.is_container or self.machine_bytes() > 0


Placed = tuple[Layer, LayerContext]
"""A layer of a stack, and where it stands there."""
