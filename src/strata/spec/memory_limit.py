# SPDX-License-Identifier: Apache-2.0
"""Limits of memory: control groups that programs run in, and that their page cache is charged to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

from pydantic import AfterValidator

from strata.spec.layer import LayerContext
from strata.spec.names import Diagnostic
from strata.spec.step import Command, Prerequisites, Step
from strata.units import MemorySize, describe_size

MEMORY_PREREQUISITES: Final = Prerequisites(tools=("mkdir", "rmdir", "tee"), features=("cgroup:memory",))
"""The prerequisites of the steps of `limit_memory`."""

_ROOT: Final = "/sys/fs/cgroup"
_LIMIT: Final = "/memory.max"
_MEMORY_BYTES_MIN: Final = 64 << 20
# The kernel slows writers down by a group's count of dirty pages, which may be two seconds old
# (mem_cgroup_flush_stats_ratelimited). Until then a burst of writes fills the group with pages that cannot be
# dropped, and the kernel kills: at once in virtual time, since no disk completes anything meanwhile. Above
# `memory.high` it lets the writers sleep instead, and their overshoot stays below `memory.max`.
_BURST_DIVISOR: Final = 4


def _at_least(memory_bytes: int) -> int:
    if memory_bytes < _MEMORY_BYTES_MIN:
        raise Diagnostic(
            f"{describe_size(memory_bytes)} is too little memory for the programs of a guest",
            remedy=f"give it {describe_size(_MEMORY_BYTES_MIN)} at least",
        )
    return memory_bytes


MemoryLimit = Annotated[MemorySize, AfterValidator(_at_least)]
"""A key that limits memory."""


def memory_bytes_max(memory_bytes: int) -> int:
    """The hard limit of a group with this limit, for a burst of writes."""
    return memory_bytes + memory_bytes // _BURST_DIVISOR


def control_group(context: LayerContext) -> str:
    """The folder of the control group with the context's name."""
    return f"{_ROOT}/{context.label}"


def limited_bytes(steps: Iterable[Step]) -> int:
    """The hard limits of all control groups of `limit_memory` together."""
    found = {step.argv[1]: int(step.stdin or "0") for step in steps if _sets_limit(step)}
    return sum(found.values())


def _sets_limit(step: Step) -> bool:
    return step.argv[0] == "tee" and step.argv[1].startswith(_ROOT) and step.argv[1].endswith(_LIMIT)


def limit_memory(context: LayerContext, memory_bytes: int, whose: str) -> list[Step]:
    """Make the control group of `control_group`, with a limit, and without swap.

    Whoever takes more is slowed down until something is dropped or written back; `memory_bytes_max` kills.

    Args:
        context: Gives its name, and those of the steps.
        memory_bytes: The limit.
        whose: Whose it is, for the titles: "the guest".
    """
    group = control_group(context)
    return [
        context.step(
            "enable",
            "Let control groups limit memory",
            *("tee", f"{_ROOT}/cgroup.subtree_control"),
            stdin="+memory\n",
        ),
        context.step(
            "group",
            f"Make {whose}'s control group",
            *("mkdir", group),
            undo=Command(argv=("rmdir", group)),
        ),
        context.step(
            "memory",
            f"Limit {whose}'s memory",
            *("tee", f"{group}/memory.high"),
            stdin=f"{memory_bytes}\n",
        ),
        context.step(
            "memory-max",
            f"Limit the memory that {whose} may take in a burst",
            *("tee", f"{group}{_LIMIT}"),
            stdin=f"{memory_bytes_max(memory_bytes)}\n",
        ),
        # A kernel without swap has no such file.
        context.step(
            "swap",
            f"Keep {whose} from swapping",
            *("tee", f"{group}/memory.swap.max"),
            stdin="0\n",
            expect_exit=(0, 1),
        ),
    ]
