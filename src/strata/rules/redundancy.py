# SPDX-License-Identifier: Apache-2.0
"""The losses of disks that a stack survives, and the space that it leaves unused, by its declaration."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from strata.diagnostics.names import disk_of
from strata.model.layer import Layer, Provided
from strata.model.stack import Stack
from strata.model.study import Study
from strata.model.warning import WARNINGS, ResultWarning
from strata.units import MIB, format_size, percent
from strata.words import grouped, listed

# More than this of the disks' capacity is no rounding, and seldom meant. A judgement.
_UNUSED_MAX: Final = 0.1


def losses_survived(stack: Stack, capacities_bytes: Mapping[str, int]) -> int:
    """The number of its disks that may be lost, whichever they are; of a stack without disks 0."""
    lowest = _lowest(stack)
    if lowest is None or [*single_points(stack, capacities_bytes)]:
        return 0
    return lowest.losses_survived(_below(stack, capacities_bytes))


def single_points(stack: Stack, capacities_bytes: Mapping[str, int]) -> Iterator[str]:
    """A sentence on each disk whose loss takes what other disks of the stack hold."""
    found = _shared_disks(stack)
    lowest = _lowest(stack)
    # Without redundancy every disk is a single point, which its RAID level says.
    if lowest is not None and lowest.losses_survived(_below(stack, capacities_bytes)):
        found = {disk_of(device): role for device, role in _sole_copies(stack).items()} | found
    yield from (f"{disk} is a single point of failure: {role}" for disk, role in found.items())


def _lowest(stack: Stack) -> Layer | None:
    return next((layer for layer in stack.layers if not layer.beside), None)


def _below(stack: Stack, capacities_bytes: Mapping[str, int]) -> Provided:
    return stack.offers(capacities_bytes)[0]


def _sole_copies(stack: Stack) -> dict[str, str]:
    """The devices that layers name as the only copy of something, each with its role."""
    return {
        device: f"it alone is {layer.layer}'s {key}"
        for layer in stack.layers
        for key in layer.sole_copies()
        for device in layer.named_devices().get(key, ())
    }


def _shared_disks(stack: Stack) -> dict[str, str]:
    """The roles that fail with each disk of several used partitions, unless all have copies elsewhere."""
    found = {}
    roles = {"the lowest layer": stack.devices}
    roles |= {
        f"the filesystem {name}": part.devices for name, part in stack.filesystems.items() if not part.in_pool
    }
    for name, layer in zip(stack.layer_names, stack.layers, strict=True):
        if not layer.beside:
            roles |= {f"{name}'s {key}": devices for key, devices in layer.named_devices().items()}
    for disk in dict.fromkeys(disk_of(device) for devices in roles.values() for device in devices):
        counts = {role: [*map(disk_of, devices)].count(disk) for role, devices in roles.items()}
        members = {role: count for role, count in counts.items() if count}
        alone = any(count == len(roles[role]) or count > 1 for role, count in members.items())
        if sum(members.values()) > 1 and alone:
            found[disk] = f"its partitions serve as {listed(list(members))}"
    return found


def unused_bytes(stack: Stack, capacities_bytes: Mapping[str, int]) -> dict[str, int]:
    """The space of each of its devices that the lowest layer leaves unused, because another is smaller."""
    lowest = _lowest(stack)
    if lowest is None or len(stack.devices) < 2 or getattr(lowest, "size_bytes", None) is not None:
        return {}
    sizes = list(_below(stack, capacities_bytes).capacities_bytes)
    found = {}
    for index, device in enumerate(stack.devices):
        needed = _least(lowest.usable_bytes, sizes, index)
        if needed < sizes[index]:
            found[device] = sizes[index] - needed
            sizes[index] = needed
    return found


def _least(usable_bytes: Callable[[Sequence[int]], int], sizes: Sequence[int], index: int) -> int:
    """The least size of one device with which a layer holds as much, within a MiB, by bisection."""
    whole, low, high = usable_bytes(sizes), 0, sizes[index]
    while high - low > MIB:
        middle = (low + high) // 2
        holds = usable_bytes([*sizes[:index], middle, *sizes[index + 1 :]]) >= whole
        low, high = (low, middle) if holds else (middle, high)
    return high


def stack_warnings(study: Study) -> list[ResultWarning]:
    """Warnings of likely mistakes in a study's stacks: each once, with the stacks that it holds for."""
    found = grouped((each, name) for name, stack in study.stacks.items() for each in _warnings(study, stack))
    return [WARNINGS[code].warning(f"{listed(stacks)}: {text}") for (code, text), stacks in found.items()]


def _warnings(study: Study, stack: Stack) -> Iterator[tuple[str, str]]:
    capacities = study.capacities_bytes
    for sentence in single_points(stack, capacities):
        yield "single-point-of-failure", sentence
    lowest = _lowest(stack)
    if lowest is None or len(stack.devices) < 2:
        return
    kinds = grouped((study.devices[disk_of(device)].device.kind, device) for device in stack.devices)
    if len(kinds) > 1:
        shown = "; ".join(f"{kind}: {', '.join(names)}" for kind, names in kinds.items())
        yield "mixed-members", f"{lowest.layer} joins devices of different kinds ({shown})"
    unused = unused_bytes(stack, capacities)
    total = sum(_below(stack, capacities).capacities_bytes)
    if sum(unused.values()) > _UNUSED_MAX * total:
        sizes = listed([f"{format_size(size)} of {device}" for device, size in unused.items()])
        share = percent(sum(unused.values()) / total)
        yield "unused-capacity", f"{lowest.layer} leaves {sizes} unused, {share} of the disks' capacity"
