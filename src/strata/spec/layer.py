# SPDX-License-Identifier: Apache-2.0
"""What a storage layer is: what it joins to, the steps that build it, and what else it can do.

A layer is one file in ``strata/layers/`` with one subclass of `Layer`; the catalogue finds it there.
`Layer` holds what every layer must say; `strata.spec.abilities` what some of them can do besides.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from strata.spec.abilities import Abilities
from strata.spec.allowed import Allowing
from strata.spec.interface import Interface, LowerInterface, Provided
from strata.spec.names import Diagnostic
from strata.spec.seeds import derive_uuid
from strata.spec.step import Phase, Prerequisites, Step


@dataclass(frozen=True)
class LayerContext:
    """What a layer needs to know to become steps.

    Attributes:
        name: The layer's name in its stack.
        seed: The trial's seed. Everything random is derived from it by name.
        lower: The paths of what it stands on, with ``${variable}``s: block devices, one mount point, or the
            name of one pool.
        provided: What that offers: capacities, geometry.
        devices: The study's devices whose content the layer destroys, by name: those that it stands on
            itself, and those that its keys name.
        mount: Where it mounts, if it is a filesystem: ``${mount}`` on top of its stack.
        phase: The phase of its steps.
        prefix: What the ids of its steps start with.
        tenants: The names of those who share what the layer gives, if it is the uppermost that they share.
        tenant: Of those, the one whose share is acted on: a snapshot of one tenant's volume.
    """

    name: str
    seed: int
    lower: tuple[str, ...]
    provided: Provided
    devices: tuple[str, ...] = ()
    mount: str = "${mount}"
    phase: Phase = "build"
    prefix: str = ""
    tenants: tuple[str, ...] = ()
    tenant: str | None = None

    @property
    def of_tenant(self) -> LayerContext:
        """The same for what acts on the share of ``tenant`` alone: the ids of its steps are the tenant's."""
        if self.tenant is None:
            return self
        return replace(self, prefix=f"{self.prefix or self.name}-{self.tenant}")

    def within(self, path: str) -> str:
        """The folder of ``tenant`` in what is at ``path``; without a tenant ``path`` itself."""
        return path if self.tenant is None else f"{path}/{self.tenant}"

    def fair(self, provided: Provided) -> Provided:
        """What each of ``tenants`` gets of an offer, if all get as much."""
        return provided.of(provided.smallest_bytes // max(1, len(self.tenants)))

    @property
    def label(self) -> str:
        """A name for what the layer assembles (array, volume group, pool), unique on the machine.

        It begins with ``${stack}``, by which the host runner finds what a killed trial left assembled.
        """
        return f"${{stack}}_{self.name.replace('-', '_')}"

    def derived_uuid(self, purpose: str) -> UUID:
        """A UUID that is the same for every trial of this layer and seed."""
        return derive_uuid(self.seed, self.name, purpose)

    def step(self, name: str, title: str, *argv: str, **fields: Any) -> Step:
        """A step of this layer in the context's phase; ``fields`` are further ones of `Step`."""
        return Step(
            id=f"{self.prefix or self.name}-{name}", phase=self.phase, title=title, argv=argv, **fields
        )

    def during(self, phase: Phase, prefix: str) -> LayerContext:
        """The same layer acting again, in a later phase; ``prefix`` keeps the ids of its steps apart."""
        return replace(self, phase=phase, prefix=prefix)


@dataclass(frozen=True)
class KernelLog:
    """Messages in the kernel's log that make a trial with the layer invalid.

    Attributes:
        trouble: Regular expressions, each for a whole message without its time stamp. A comment names the
            source file of the messages.
        disk_lost: Of these messages, the ones that are expected while a plan lets a disk fail.
        silent: Why the layer has no messages of its own, as a sentence.
    """

    trouble: tuple[str, ...] = ()
    disk_lost: tuple[str, ...] = ()
    silent: str = ""


@dataclass(frozen=True)
class Share:
    """One tenant's part of a layer that several share.

    Attributes:
        steps: What makes it, beside what `Layer.build` did.
        path: A block device, or a folder; of a shared pool its name.
        provided: What it holds.
    """

    steps: list[Step]
    path: str
    provided: Provided


class Layer(BaseModel, Abilities, Allowing, ABC):
    """One storage layer of a stack, as it is declared in a study file.

    A subclass declares its keys as fields, its name as ``layer: Literal["ext4"] = "ext4"``, and:

    Attributes:
        requires: What it stands on.
        provides: What it offers to the layer or workload above.
        prerequisites: What its steps need of the machine. A layer whose needs follow from its keys overrides
            `needs`.
        kernel_log: What the kernel's log says when the layer is in trouble.
        packages: Debian's packages with its programs, of those that the lab's image does not have anyway.
        no_free_space: Of a filesystem or pool without `free_space`: why, as a sentence.
        scrub_requires: What a scrub needs besides, other than programs.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True, defer_build=True)

    requires: ClassVar[LowerInterface]
    provides: ClassVar[Interface]
    prerequisites: ClassVar[Prerequisites]
    kernel_log: ClassVar[KernelLog]
    packages: ClassVar[tuple[str, ...]] = ()
    no_free_space: ClassVar[str] = ""
    scrub_requires: ClassVar[Prerequisites] = Prerequisites()

    layer: str

    @abstractmethod
    def build(self, context: LayerContext) -> list[Step]:
        """The steps that make the layer and bring it up, each with the undo of what it brought up.

        Made with `LayerContext.step`; a step that overwrites devices has ``destroys=context.devices``.
        """

    @abstractmethod
    def assemble(self, context: LayerContext) -> list[Step]:
        """The steps that bring up a layer that was built and then taken down by the undos of `build`.

        Each has the same undo. They keep the layer's content, and destroy nothing.
        """

    @abstractmethod
    def path(self, context: LayerContext) -> str:
        """The path of what it gives, with ``${variable}``s: a block device, a mount point; a pool's name."""

    def share(self, context: LayerContext) -> Share | None:
        """The part of ``context.tenant``, one of ``context.tenants``; None: the layer cannot be shared.

        A layer that gives a volume makes one for each tenant in `build`, when ``context.tenants`` are given.
        What `Abilities` says of the layer then holds for the share: a snapshot is one of that alone.
        """
        return None

    def share_diagnostics(self, lower: Provided, tenants: int) -> Iterable[Diagnostic]:
        """Why this number of tenants cannot share the layer, beyond `diagnostics`."""
        return ()

    def limited(self, memory_bytes: int) -> Self:
        """The same layer, if it limits the memory of what is above, with that limit."""
        return self

    def kernel_memory_bytes(self) -> int:
        """What it takes itself of the machine's memory at most, outside of any limit; page cache apart."""
        return 0

    def caches_direct_io(self) -> bool:
        """Whether it keeps content in memory even if what is above bypasses the page cache."""
        return False

    def needs(self) -> Prerequisites:
        """What its steps need of the machine, as its keys are set."""
        return self.prerequisites

    def stated(self) -> Mapping[str, str]:
        """Keys that a title or drawing states with their value even where it is the default."""
        return {}

    def named_devices(self) -> Mapping[str, tuple[str, ...]]:
        """The study's devices that its keys name (a log device, a cache, spares), by key."""
        return {}

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        """What of this layer cannot be built on ``lower``, beyond what ``takes`` says.

        Args:
            lower: What the layer stands on.
            named: The capacity in bytes of each device of `named_devices`.
        """
        return ()

    def unavailable(self) -> str | None:
        """Why no machine can build it with these keys, as a sentence; its trials are then skipped.

        For what exists no longer or not yet, such as XFS without barriers: not a mistake of the study.
        """
        return None

    def usable_bytes(self, lower_bytes: Sequence[int]) -> int:
        """What it can hold at most on what has these capacities; metadata are not subtracted."""
        return sum(lower_bytes)

    def provided(self, lower: Provided) -> Provided:
        """What it offers on ``lower``. A layer that changes stripes or sectors overrides it."""
        capacity_bytes = self.usable_bytes(lower.capacities_bytes)
        if lower.kind == self.provides == "block":
            return lower.of(capacity_bytes)
        return Provided(self.provides, (capacity_bytes,))

    def alignment(self, lower: Provided) -> Mapping[str, str]:
        """The options by which it aligns itself to the geometry below, for `strata stacks`."""
        return {}

    def check_argv(self, context: LayerContext) -> tuple[str, ...] | None:
        """The command that looks for damage, changes nothing, and exits 0 if there is none.

        It is run when the layer is taken down (a filesystem: unmounted) and what is below it is up. None:
        nothing can be checked.
        """
        return None

    def memory_limit_bytes(self) -> int | None:
        """The memory that all above it may take together, if it limits that."""
        return None

    def cgroup(self, context: LayerContext) -> str | None:
        """The folder of the control group that everything above runs in, if it makes one."""
        return None


Placed = tuple[Layer, LayerContext]
"""A layer of a stack, and where it stands there."""
