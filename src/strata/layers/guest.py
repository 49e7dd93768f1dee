# SPDX-License-Identifier: Apache-2.0
"""The border of a virtual machine: the layers and workloads above it share a memory limit."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from strata.model.layer import KernelLog, LayerContext, LowerInterface
from strata.model.memory_limit import (
    MEMORY_PREREQUISITES,
    GroupLimits,
    MemoryLimit,
    MemoryLimited,
    ProcessorLimit,
    RequestLimits,
    control_group,
    limit_memory,
)
from strata.model.step import Prerequisites, Step


class Guest(MemoryLimited):
    """The border of a guest: everything above shares a memory limit.

    It passes on the block device below as the virtual disk. All steps above run in a control group without
    swap, whose memory limit includes the page cache of their filesystems. There is no second kernel: the
    results do not include the cost of a hypervisor.
    """

    family = "images and guests"
    requires = LowerInterface("block")
    provides = "block"
    prerequisites = MEMORY_PREREQUISITES
    kernel_log = KernelLog(silent="It is a control group, which adds nothing to the disk.")
    also_called = ("cgroup",)

    layer: Literal["guest"] = "guest"
    memory_bytes: MemoryLimit = Field(512 << 20, alias="memory", examples=["512MiB"])
    """Memory of the guest's programs and of the page cache of its filesystems; it has no swap"""
    io: RequestLimits = None
    cpus: ProcessorLimit = None

    @property
    def _limits(self) -> GroupLimits:
        return GroupLimits(self.memory_bytes, self.io, self.cpus)

    def needs(self) -> Prerequisites:
        return self.prerequisites | self._limits.needs()

    def build(self, context: LayerContext) -> list[Step]:
        return limit_memory(context, self._limits, "the guest")

    def assemble(self, context: LayerContext) -> list[Step]:
        return self.build(context)

    def path(self, context: LayerContext) -> str:
        return context.lower[0]

    def cgroup(self, context: LayerContext) -> str:
        return control_group(context)
