# SPDX-License-Identifier: Apache-2.0
"""Control groups that limit programs: their memory with its page cache, their requests, their processors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, Self

from pydantic import Field, StrictInt

from strata.diagnostics.names import checked
from strata.model.io_limit import IoLimits
from strata.model.layer import Layer, LayerContext
from strata.model.step import Command, Prerequisites, Step
from strata.units import MemorySize, describe_size

MEMORY_PREREQUISITES: Final = Prerequisites(tools=("mkdir", "rmdir", "tee"), features=("cgroup:memory",))
"""The prerequisites of the steps of `limit_memory`."""

_ROOT: Final = "/sys/fs/cgroup"
# The kernel slows writers down by a group's count of dirty pages, which may be two seconds old
# (mem_cgroup_flush_stats_ratelimited). Until then a burst of writes fills the group with pages that cannot be
# dropped, and the kernel kills: at once in virtual time, since no disk completes anything meanwhile. Above
# `memory.high` the writers sleep instead, and their overshoot stays below `memory.max`.
_BURST_DIVISOR: Final = 4


MemoryLimit = Annotated[
    MemorySize,
    checked(
        lambda memory_bytes: memory_bytes >= 64 << 20,
        lambda memory_bytes: (
            f"{describe_size(memory_bytes)} is too little memory for the programs of a guest"
        ),
        "give it 64MiB at least",
    ),
]
"""A key that limits memory."""


RequestLimits = Annotated[
    IoLimits | None,
    Field(
        examples=["{ read_iops = 500 }"],
        exclude_if=lambda io: io is None,
        description="Limits of its requests to the disks; default: none",
    ),
]
ProcessorLimit = Annotated[
    StrictInt | None,
    Field(
        ge=1,
        le=64,
        examples=[1],
        exclude_if=lambda cpus: cpus is None,
        description="The processors that its programs may use together (cpu.max; on a host, their time in "
        "each 0.1 s); default: all",
    ),
]
"""In the lab's virtual time a group uses at most this number of processors at any time; on a host it may use
more of them for a part of each 0.1 s."""

_CPU_PERIOD_US: Final = 100_000  # the kernel's own
_PROCESSOR_PREREQUISITES: Final = Prerequisites(features=("cgroup:cpu",))


class GroupLimits(NamedTuple):
    """What the programs of a control group may take; None: without limit."""

    memory_bytes: int | None = None
    io: IoLimits | None = None
    cpus: int | None = None

    def needs(self) -> Prerequisites:
        """What `limit_memory` needs beside `MEMORY_PREREQUISITES`."""
        needs = self.io.needs() if self.io else Prerequisites()
        return needs | _PROCESSOR_PREREQUISITES if self.cpus else needs


class MemoryLimited(Layer):
    """The base of the layers that limit the memory of all above them, by their key ``memory``."""

    if TYPE_CHECKING:
        memory_bytes: int

    def stated(self) -> Mapping[str, str]:
        return {"memory": describe_size(self.memory_bytes)}

    def memory_limit_bytes(self) -> int | None:
        return self.memory_bytes

    def limited(self, memory_bytes: int) -> Self:
        return self.model_copy(update={"memory_bytes": memory_bytes})


def memory_bytes_max(memory_bytes: int) -> int:
    """The hard limit of a group with this limit, for a burst of writes."""
    return memory_bytes + memory_bytes // _BURST_DIVISOR


def control_group(context: LayerContext) -> str:
    return f"{_ROOT}/{context.label}"


def limited_bytes(steps: Iterable[Step]) -> int:
    """The hard limits of all control groups of `limit_memory` together."""
    limits = {step.argv: step.limit_bytes for step in steps}  # of a group that a restart makes again, once
    return sum(limits.values())


NO_LIMITS: Final = GroupLimits()


def processor_quota(cpus: int) -> str:
    """The line of cpu.max."""
    return f"{cpus * _CPU_PERIOD_US} {_CPU_PERIOD_US}"


def limit_memory(context: LayerContext, limits: GroupLimits, whose: str) -> list[Step]:
    """Make the control group ``whose``, without swap, with limits of its memory, requests and processors.

    Programs above the limit are slowed down until pages are dropped or written back, and killed above
    `memory_bytes_max`.
    """
    group = control_group(context)
    memory_bytes, io, cpus = limits

    def write(name: str, title: str, path: str, text: object, **fields: Any) -> Step:
        return context.step(name, title, "tee", path, stdin=f"{text}\n", **fields)

    enable = f"{_ROOT}/cgroup.subtree_control"
    burst = f"Limit the memory that {whose} may take in a burst"
    undo = Command(argv=("rmdir", group))
    controllers = "+memory" + (" +io" if io else "") + (" +cpu" if cpus else "")
    steps = [
        write("enable", "Let control groups limit memory", enable, controllers),
        context.step("group", f"Make {whose}'s control group", "mkdir", group, undo=undo),
    ]
    if memory_bytes is not None:
        most = memory_bytes_max(memory_bytes)
        steps += [
            write("memory", f"Limit {whose}'s memory", f"{group}/memory.high", memory_bytes),
            write("memory-max", burst, f"{group}/memory.max", most, limit_bytes=most),
            # A kernel without swap has no such file.
            write("swap", f"Keep {whose} from swapping", f"{group}/memory.swap.max", 0, expect_exit=(0, 1)),
        ]
    steps += io.steps(context, group, whose) if io else []
    if cpus is not None:
        title = f"Limit {whose}'s processor time"
        steps.append(write("cpus", title, f"{group}/cpu.max", processor_quota(cpus)))
    return [step.model_copy(update={"again": True}) for step in steps]
