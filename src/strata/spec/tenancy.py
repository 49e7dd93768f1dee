# SPDX-License-Identifier: Apache-2.0
"""Whether several tenants fit on a stack at once: space, layers on a part, names, memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from strata.spec.memory_limit import memory_bytes_max
from strata.spec.names import Diagnostic
from strata.spec.positions import Path
from strata.spec.snapshots import SNAPSHOT_LANE
from strata.spec.stack import Stack, names_of
from strata.spec.study import RESERVED_NAMES
from strata.spec.workload import Workload
from strata.units import describe_size

# For the kernel's code and tables, the programs' files of the root image, and the agent.
KERNEL_RESERVE_BYTES: Final = 128 << 20
_MEMORY_STEP_BYTES: Final = 256 << 20


def capacity_bytes(stack: Stack, capacities: Mapping[str, int], workload: Workload) -> int | None:
    """The capacity for one workload, or for each tenant; None: the stack cannot be shared."""
    tenants = tuple(workload.tenants())
    if not tenants:
        return stack.offers(capacities)[-1].smallest_bytes
    share = stack.share(capacities, tenants)
    if share is None:
        return None
    provided = share.provided
    for layer in stack.each:
        provided = layer.provided(provided)
    return provided.smallest_bytes


def stack_diagnostics(
    stack: Stack, capacities: Mapping[str, int], workload: Workload
) -> Iterator[tuple[Path, Diagnostic]]:
    """Layers that the tenants cannot share, or that do not fit on a tenant's part, each with its path."""
    tenants = tuple(workload.tenants())
    share = stack.share(capacities, tenants) if tenants else None
    if share is None:
        return
    path: Path = ("stacks", stack.name)
    last = len(stack.common) - 1
    lower = stack.offers(capacities)[last]
    for diagnostic in stack.common[last].share_diagnostics(lower, len(tenants)):
        yield (*path, "layers", last), diagnostic
    provided = share.provided
    for index, layer in enumerate(stack.each):
        named = {name: capacities[name] for name in names_of(layer)}
        for diagnostic in layer.diagnostics(provided, named):
            cause = f"on the part that each of {len(tenants)} tenants has: {diagnostic.cause}"
            yield (*path, "each", index), Diagnostic(cause, remedy=diagnostic.remedy, key=diagnostic.key)
        if named:
            cause = f"each of {len(tenants)} tenants would take {', '.join(named)} for itself"
            yield (*path, "each", index), Diagnostic(cause, remedy="use the device in `layers`")
        provided = layer.provided(provided)


def name_diagnostics(stack: Stack, workload: Workload) -> Iterator[Diagnostic]:
    """Tenants with the name of something else in the plan."""
    taken = {
        **dict.fromkeys(stack.layer_names, f"a layer of the stack {stack.name}"),
        **dict.fromkeys(stack.all_devices, "a device"),
        **dict.fromkeys(RESERVED_NAMES, "a variable of every plan"),
        SNAPSHOT_LANE: "the lane of snapshots",
    }
    for name in workload.tenants():
        if name in taken:
            yield Diagnostic(
                f'the tenant "{name}" has the name of {taken[name]}',
                remedy="choose another name",
                key="tenants",
            )


def memory_diagnostics(stack: Stack, workload: Workload, memory_bytes: int) -> Iterator[Diagnostic]:
    """The tenants of a workload that do not fit into the lab's memory, each with its limit in a burst."""
    tenants = workload.tenants()
    guests = [limit for layer in stack.each if (limit := layer.memory_limit_bytes()) is not None]
    limits = [tenant.memory_bytes or (guests[0] if guests else 0) for tenant in tenants.values()]
    # A filesystem that stands on nothing is in memory, which is charged to the writers' limits.
    charged = [layer for layer in stack.layers if layer.requires.maximum == 0] if all(limits) else []
    held_bytes = sum(layer.kernel_memory_bytes() for layer in stack.layers if layer not in charged)
    taken_bytes = sum(map(memory_bytes_max, limits))
    needed_bytes = taken_bytes + held_bytes + KERNEL_RESERVE_BYTES
    if not any(limits) or needed_bytes <= memory_bytes:
        return
    held = f", the stack {stack.name} up to {describe_size(held_bytes)}" if held_bytes else ""
    enough_bytes = -(-needed_bytes // _MEMORY_STEP_BYTES) * _MEMORY_STEP_BYTES
    yield Diagnostic(
        f"{len(tenants)} tenants may take {describe_size(taken_bytes)} in bursts{held} and the kernel needs "
        f"{describe_size(KERNEL_RESERVE_BYTES)}: together {describe_size(needed_bytes)}, but the machine has "
        f"{describe_size(memory_bytes)}",
        remedy=f'write memory = "{describe_size(enough_bytes)}" in [study], or give the tenants less',
    )
