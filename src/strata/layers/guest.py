# SPDX-License-Identifier: Apache-2.0
"""The border of a virtual machine: what is above it shares a memory limit of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, Field

from strata.spec.joint import JointKind, Takes
from strata.spec.layer import Layer, LayerContext
from strata.spec.names import Refusal
from strata.spec.step import Command, Requires, Step
from strata.units import Size, describe_size

_ROOT: Final = "/sys/fs/cgroup"
_MEMORY_BYTES_MIN: Final = 64 << 20


def _at_least(memory_bytes: int) -> int:
    if memory_bytes < _MEMORY_BYTES_MIN:
        raise Refusal(
            f"{describe_size(memory_bytes)} is too little memory for the programs of a guest",
            remedy=f"give it {describe_size(_MEMORY_BYTES_MIN)} at least",
        )
    return memory_bytes


class Guest(Layer):
    """The border of a virtual machine: what is above it shares a memory limit of its own.

    It gives the block device that it stands on, the virtual disk. All steps above it run in a control group
    with a memory limit, which the page cache of their filesystems is charged to, and without swap. There is
    no second kernel: what a hypervisor costs is not in the results.
    """

    takes: ClassVar[Takes] = Takes("block")
    gives: ClassVar[JointKind] = "block"
    requires: ClassVar[Requires] = Requires(tools=("mkdir", "rmdir", "tee"), features=("cgroup:memory",))

    layer: Literal["guest"] = "guest"
    memory_bytes: Annotated[Size, AfterValidator(_at_least)] = Field(
        default=512 << 20,
        alias="memory",
        description="Memory of the guest: of its programs and its page cache",
        examples=["512MiB"],
    )

    def stated(self) -> Mapping[str, str]:
        """Its memory, which bounds what its filesystems can cache."""
        return {"memory": describe_size(self.memory_bytes)}

    def build(self, context: LayerContext) -> list[Step]:
        """Make the control group and set its limits."""
        group = self.cgroup(context)
        return [
            context.step(
                "enable",
                "Let control groups limit memory",
                *("tee", f"{_ROOT}/cgroup.subtree_control"),
                stdin="+memory\n",
            ),
            context.step(
                "group",
                "Make the guest's control group",
                *("mkdir", group),
                undo=Command(argv=("rmdir", group)),
            ),
            context.step(
                "memory",
                "Limit the guest's memory",
                *("tee", f"{group}/memory.max"),
                stdin=f"{self.memory_bytes}\n",
            ),
            # A kernel without swap has no such file.
            context.step(
                "swap",
                "Keep the guest from swapping",
                *("tee", f"{group}/memory.swap.max"),
                stdin="0\n",
                expect_exit=(0, 1),
            ),
        ]

    def assemble(self, context: LayerContext) -> list[Step]:
        """The control group keeps nothing: it is made again."""
        return self.build(context)

    def path(self, context: LayerContext) -> str:
        """The virtual disk."""
        return context.lower[0]

    def cgroup(self, context: LayerContext) -> str:
        """The guest's control group."""
        return f"{_ROOT}/{context.label}"
