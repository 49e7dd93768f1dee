# SPDX-License-Identifier: Apache-2.0
"""What a storage layer is: what it joins to, and the steps that build it.

A layer is one file in ``strata/layers/`` with one subclass of `Layer`; the catalogue finds it there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal
from uuid import UUID

from pydantic import BaseModel, ConfigDict

from strata.spec.names import Refusal
from strata.spec.seeds import derive_uuid
from strata.spec.step import Step

JointKind = Literal["block", "filesystem"]


@dataclass(frozen=True)
class Takes:
    """What a layer stands on: a filesystem, or ``minimum`` to ``maximum`` (None: any) block devices."""

    kind: JointKind
    minimum: int = 1
    maximum: int | None = 1

    def __str__(self) -> str:
        if self.kind == "filesystem":
            return "a mounted filesystem"
        if self.maximum is None:
            return f"{self.minimum} or more block devices"
        if self.minimum == self.maximum:
            return "one block device" if self.minimum == 1 else f"{self.minimum} block devices"
        return f"{self.minimum} to {self.maximum} block devices"


@dataclass(frozen=True)
class Gives:
    """What a layer, or the devices of a stack, offer to the layer above."""

    kind: JointKind
    count: int = 1

    def __str__(self) -> str:
        if self.kind == "filesystem":
            return "a mounted filesystem"
        return "one block device" if self.count == 1 else f"{self.count} block devices"


@dataclass(frozen=True)
class LayerContext:
    """What a layer needs to know to become steps.

    Attributes:
        name: The layer's name in its stack; its step ids start with it.
        lower: The variables of the block devices it stands on, without ``${}``.
        seed: The trial's seed. Everything random is derived from it by name.
        mount: The variable of the mount point that a filesystem layer mounts at, without ``${}``.
    """

    name: str
    lower: tuple[str, ...]
    seed: int
    mount: str = "mount"

    @property
    def lower_paths(self) -> tuple[str, ...]:
        """The paths of the block devices, as ``${variable}``s."""
        return tuple(f"${{{name}}}" for name in self.lower)

    @property
    def mount_path(self) -> str:
        """The mount point, as a ``${variable}``."""
        return f"${{{self.mount}}}"

    def derived_uuid(self, purpose: str) -> UUID:
        """A UUID that is the same for every trial of this layer and seed."""
        return derive_uuid(self.seed, self.name, purpose)


class Layer(BaseModel, ABC):
    """One storage layer of a stack, as it is declared in a study file.

    A subclass declares its keys as fields, its name as ``layer: Literal["ext4"] = "ext4"``, and:

    Attributes:
        takes: What it stands on.
        gives: What it offers to the layer or workload above.
        tools: The programs that its steps run, by name; the host runner looks for them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    takes: ClassVar[Takes]
    gives: ClassVar[Gives]
    tools: ClassVar[tuple[str, ...]]

    layer: str

    @abstractmethod
    def steps(self, context: LayerContext) -> list[Step]:
        """The steps that build the layer, each with its undo. Their phase is ``build``."""

    def refusals(self, lower: Gives, smallest_bytes: int) -> Iterable[Refusal]:
        """What of this layer cannot be built on ``lower``, beyond what ``takes`` says.

        Args:
            lower: What the layer stands on.
            smallest_bytes: The capacity of the smallest device of the stack.
        """
        return ()

    def check_argv(self, context: LayerContext) -> tuple[str, ...] | None:
        """The command that looks for damage, changes nothing, and exits 0 if there is none.

        It is run when the layer is taken down (a filesystem: unmounted). None: nothing can be checked.
        """
        return None

    def usable_bytes(self, lower_bytes: Sequence[int]) -> int:
        """What it can hold at most on devices of these capacities; metadata are not subtracted."""
        return sum(lower_bytes)
