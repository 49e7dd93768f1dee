# SPDX-License-Identifier: Apache-2.0
"""Whether a workload, its snapshots and its tenants fit on a stack: space, memory, names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from strata.diagnostics.names import Diagnostic, Path
from strata.model.duties import EndsWhenKnown
from strata.model.layer import Layer, Placed
from strata.model.memory_limit import memory_bytes_max
from strata.model.stack import Stack, names_of
from strata.model.study import RESERVED_NAMES, Study, scaled
from strata.model.workload import Workload
from strata.units import describe_duration, describe_size, format_size
from strata.words import listed

SNAPSHOT: Final = "before"
"""The name of the snapshot before the measured window."""
SNAPSHOT_LANE: Final = "snapshots"
"""The lane of the steps of snapshots in the measured window."""


def snapshotting(placed: Sequence[Placed]) -> Placed | None:
    return next((each for each in reversed(placed) if each[0].snapshot(each[1], SNAPSHOT) is not None), None)


def taken_in_window(load: Workload) -> int:
    """The number of snapshots in the measured window, without its ends."""
    return max(0, (load.window_ns - 1) // load.snapshot_every_ns) if load.snapshot_every_ns else 0


def kept_at_once(load: Workload) -> int:
    """The number of snapshots that a load's own keys keep at once."""
    return taken_in_window(load) + ("snapshot" in load.before_measure)


def interval_diagnostics(load: Workload) -> Iterable[Diagnostic]:
    if load.snapshot_every_ns is None or taken_in_window(load):
        return
    every = describe_duration(load.snapshot_every_ns)
    if load.window_ns:
        window = describe_duration(load.window_ns)
        cause = f"a snapshot every {every} is none at all in a window of {window}"
        remedy = "shorten snapshot_every, or lengthen the window"
    else:
        cause = (
            f"snapshots every {every} need a window of a given length; this one ends when its work is done"
        )
        remedy = 'give `duration`, or take one snapshot before it: before_measure = ["snapshot"]'
    yield Diagnostic(cause, remedy=remedy, key="snapshot_every")


def until_diagnostics(load: Workload) -> Iterable[Diagnostic]:
    """Windows that end early: of all tenants or of none, and without acts that need their whole length."""
    tenants = load.tenants()
    loads = [tenant.load for tenant in tenants.values()] or [load]
    asking = [each for each in loads if isinstance(each, EndsWhenKnown) and each.until is not None]
    acts = (
        "snapshot_every" if load.snapshot_every_ns else "rebuild" if "rebuild" in load.before_measure else ""
    )
    if asking and acts:
        cause = f"{acts} happens over the whole length of the window, and with until it can end early"
        yield Diagnostic(cause, remedy="leave one of them out", key="until" if not tenants else "tenants")
    if asking and len(asking) < len(loads):
        waiting = next(each for each in loads if each not in asking)
        cause = f"the common window ends when all loads are known, and {waiting.workload} has no until"
        yield Diagnostic(cause, remedy="give until to all loads that have it, or to none", key="tenants")


def room_diagnostics(stack: str, placed: Sequence[Placed], load: Workload) -> Iterable[Diagnostic]:
    found = snapshotting(placed)
    room = found[0].snapshots_max() if found else None
    wanted = kept_at_once(load)
    if found and room is not None and taken_in_window(load) and wanted > room:
        yield Diagnostic(
            f"there will be {wanted} snapshots at once, and the layer {found[0].layer} of the stack {stack} "
            f"has room for {room}",
            remedy=f"write snapshots = {wanted} there, or a longer snapshot_every here",
            key="snapshot_every",
        )


# For the kernel's code and tables, the programs' files of the root image, and the agent.
KERNEL_RESERVE_BYTES: Final = 128 << 20
# The kernel, the machine's kernel and initial root as files, and QEMU.
_LEAST_BELOW_BYTES: Final = KERNEL_RESERVE_BYTES + (128 << 20)
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
    capacities = stack.capacities(capacities)
    path: Path = ("stacks", stack.name)
    last = len(stack.common) - 1
    lower = stack.offers(capacities)[last]
    for diagnostic in stack.common[last].share_diagnostics(lower, len(tenants)):
        yield (*path, "layers", last), diagnostic
    provided, is_own_kernel = share.provided, False
    for index, layer in enumerate(stack.each):
        if layer.once_in_kernel and len(tenants) > 1 and not is_own_kernel:
            yield (*path, "each", index), _once(layer)
        is_own_kernel = is_own_kernel or bool(layer.machine_bytes())
        named = {name: capacities[name] for name in names_of(layer)}
        for diagnostic in layer.diagnostics(provided, named):
            cause = f"on the part that each of {len(tenants)} tenants has: {diagnostic.cause}"
            yield (*path, "each", index), Diagnostic(cause, remedy=diagnostic.remedy, key=diagnostic.key)
        if named:
            cause = f"each of {len(tenants)} tenants would take {', '.join(named)} for itself"
            yield (*path, "each", index), Diagnostic(cause, remedy="use the device in `layers`")
        provided = layer.provided(provided)


def once_diagnostics(stack: Stack) -> Iterator[tuple[Path, Diagnostic]]:
    """The layers, each with its path, of which their kernel has one already."""
    held: set[tuple[str, str]] = set()
    for part in stack.parts:
        kernel = ""
        path: Path = ("stacks", stack.name, *(("filesystems", part.own) if part.own else ()))
        for index, layer in enumerate(part.layers):
            own = index - part.base
            if layer.once_in_kernel and own >= 0:
                if (kernel, layer.layer) in held:
                    is_each = index >= len(part.common)
                    key, at = ("each", index - len(part.common)) if is_each else ("layers", own)
                    yield (*path, key, at), _once(layer)
                held.add((kernel, layer.layer))
            if layer.machine_bytes():
                kernel = f"{part.own if own >= 0 else ''}/{index}"


def _once(layer: Layer) -> Diagnostic:
    cause = f"a kernel can have one {layer.layer}, and this would be another"
    remedy = (
        f"put one {layer.layer} in the stack's `layers`, below the tenants' folders, or leave this one out"
    )
    return Diagnostic(cause, remedy=remedy, key="layer")


def name_diagnostics(stack: Stack, workload: Workload) -> Iterator[Diagnostic]:
    taken = {
        **dict.fromkeys(stack.layer_names, f"a layer of the stack {stack.name}"),
        **dict.fromkeys(stack.all_devices, "a device"),
        **dict.fromkeys(RESERVED_NAMES, "a variable of every plan"),
        SNAPSHOT_LANE: "the lane of snapshots",
    }
    for name in workload.tenants():
        if name in taken:
            cause = f'the tenant "{name}" has the name of {taken[name]}'
            yield Diagnostic(cause, remedy="choose another name", key="tenants")


def tables_diagnostics(
    stack: Stack, capacities: Mapping[str, int], memory_bytes: int
) -> Iterator[tuple[int, Diagnostic]]:
    """The layers, by index, whose tables do not fit into the lab's memory."""
    capacities = stack.capacities(capacities)
    for index, layer in enumerate(stack.common):
        named = {name: capacities[name] for name in names_of(layer)}
        taken_bytes = layer.tables_bytes(named)
        needed_bytes = taken_bytes + KERNEL_RESERVE_BYTES
        if taken_bytes and needed_bytes > memory_bytes:
            enough, devices = _in_steps(needed_bytes), " and ".join(named)
            cause = (
                f"its tables for {devices} take {format_size(taken_bytes)} of memory and the kernel needs "
                f"{describe_size(KERNEL_RESERVE_BYTES)}, but the lab has {describe_size(memory_bytes)}"
            )
            remedy = f'write memory = "{enough}" in [study], or lower the `capacity` of {devices}'
            yield index, Diagnostic(cause, remedy=remedy, key="cache")


def machine_diagnostics(stack: Stack, memory_bytes: int) -> Iterator[tuple[int, Diagnostic]]:
    """The layers, by index, whose virtual machine does not fit into the memory, or stands in another."""
    yield from _container_diagnostics(stack)
    yield from _setting_diagnostics(stack)
    machines = [index for index, layer in enumerate(stack.layers) if layer.machine_bytes()]
    for index in machines[1:]:
        cause = "a virtual machine cannot start another one"
        yield index, Diagnostic(cause, remedy="leave one of them out", key="layer")
    for index, layer in enumerate(stack.layers):
        if not machines or index <= machines[0]:
            continue
        held_bytes, has_bytes = layer.kernel_memory_bytes(), stack.layers[machines[0]].machine_bytes()
        if held_bytes >= has_bytes:
            held, has = describe_size(held_bytes), describe_size(has_bytes)
            cause = f"it may hold {held} of memory, and the virtual machine has {has}"
            yield index, Diagnostic(cause, remedy="give the machine more, or the layer less", key="layer")
        if names := list(names_of(layer)):
            cause = (
                f"a virtual machine has no disk but the one below it: {listed(names)} cannot be used in it"
            )
            yield index, Diagnostic(cause, remedy="name the device below the machine", key="layer")
    for index, layer in enumerate(stack.layers):
        if layer.runs_commands and not any(below.image_source() for below in stack.layers[:index]):
            cause = "only a machine from the user's own image runs the commands of a study"
            remedy = 'put { layer = "vm", image = "..." } below it'
            yield index, Diagnostic(cause, remedy=remedy, key="layer")
    for index in machines[:1]:
        needed_bytes = stack.layers[index].machine_bytes() + _LEAST_BELOW_BYTES
        if needed_bytes > memory_bytes:
            cause = (
                f"its memory is a part of the lab's, which needs {describe_size(needed_bytes)} then and has "
                f"{describe_size(memory_bytes)}"
            )
            remedy = f'write memory = "{_in_steps(needed_bytes)}" in [study], or give it less'
            yield index, Diagnostic(cause, remedy=remedy, key="memory")


def _container_diagnostics(stack: Stack) -> Iterator[tuple[int, Diagnostic]]:
    """The layers, by index, that cannot be above or below a container."""
    container = next((index for index, layer in enumerate(stack.layers) if layer.is_container), None)
    if container is None:
        return
    if any(layer.machine_bytes() for layer in stack.layers[:container]):
        cause = "containers do not run in a virtual machine here"
        yield container, Diagnostic(cause, remedy="leave one of the two out", key="layer")
    for index in range(container + 1, len(stack.layers)):
        cause = "a container has no right to make or mount anything: nothing but the load stands on it"
        yield index, Diagnostic(cause, remedy="put the layer below the container", key="layer")


def _setting_diagnostics(stack: Stack) -> Iterator[tuple[int, Diagnostic]]:
    """The layers, by index, that set something of their kernel otherwise than a layer below them does."""
    settings: dict[str, str] = {}
    for index, layer in enumerate(stack.layers):
        for key, value in layer.kernel_settings().items():
            if (below := settings.setdefault(key, value)) != value:
                cause = f"the whole kernel has one {key}, and a layer below says {below}"
                remedy = f'write {key} = "{below}" here too, or put a `vm` between them'
                yield index, Diagnostic(cause, remedy=remedy, key=key)
        if layer.machine_bytes():
            settings = {}  # a kernel of its own


def scaled_to_fit(study: Study, share: float) -> Study:
    """The study in a share of its size (`scaled`), with all of its memory where the stacks need more."""
    part = scaled(study, share)
    if share >= 1 or part.memory_bytes == study.memory_bytes:
        return part
    misfits = (
        found
        for stack in part.stacks.values()
        for found in (
            *tables_diagnostics(stack, part.capacities_bytes, part.memory_bytes),
            *machine_diagnostics(stack, part.memory_bytes),
            *(
                each
                for load in part.workloads.values()
                for each in memory_diagnostics(stack, load, part.memory_bytes)
            ),
        )
    )
    return scaled(study, share, with_memory=False) if any(misfits) else part


def _in_steps(memory_bytes: int) -> str:
    return describe_size(-(-memory_bytes // _MEMORY_STEP_BYTES) * _MEMORY_STEP_BYTES)


def memory_diagnostics(stack: Stack, workload: Workload, memory_bytes: int) -> Iterator[Diagnostic]:
    """The tenants of a workload that do not fit into the lab's memory, each with its limit in a burst."""
    tenants = workload.tenants()
    own = (*stack.each, *(layer for layer in stack.common if layer.is_container))
    guest_bytes = next(filter(None, (layer.memory_limit_bytes() for layer in own)), 0)
    limits = [tenant.memory_bytes or guest_bytes for tenant in tenants.values()]
    # A filesystem that stands on nothing is in memory, which is charged to the writers' limits.
    charged = [layer for layer in stack.layers if layer.requires.maximum == 0] if all(limits) else []
    held_bytes = sum(layer.kernel_memory_bytes() for layer in stack.layers if layer not in charged)
    taken_bytes = sum(map(memory_bytes_max, limits))
    needed_bytes = taken_bytes + held_bytes + KERNEL_RESERVE_BYTES
    if not any(limits) or needed_bytes <= memory_bytes:
        return
    held = f", the stack {stack.name} up to {describe_size(held_bytes)}" if held_bytes else ""
    yield Diagnostic(
        f"{len(tenants)} tenants may take {describe_size(taken_bytes)} in bursts{held} and the kernel needs "
        f"{describe_size(KERNEL_RESERVE_BYTES)}: together {describe_size(needed_bytes)}, but the machine has "
        f"{describe_size(memory_bytes)}",
        remedy=f'write memory = "{_in_steps(needed_bytes)}" in [study], or give the tenants less',
    )
