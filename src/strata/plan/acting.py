# SPDX-License-Identifier: Apache-2.0
"""What happens to the stack beside the loads: looked at, kept, altered, scrubbed; where each step runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from strata.plan.alteration import alteration_steps, scrub_steps
from strata.plan.fragmentation import looks
from strata.plan.placement import Placement, in_group
from strata.plan.snapshots import snapshot_steps
from strata.spec.layer import Layer, Placed
from strata.spec.stack import Stack
from strata.spec.step import Step
from strata.spec.workload import Workload


def control_groups(placed: Iterable[Placed], ground: str | None = None) -> list[str | None]:
    """The control group of each layer's steps, from the lowest on, and then that of what is above all.

    Steps above a guest run in its group, whenever they do. ``ground`` is that of what is below.
    """
    groups = [ground]
    for layer, context in placed:
        groups.append(layer.cgroup(context) or groups[-1])
    return groups


def acting_steps(
    stack: Stack,
    load: Workload,
    placements: Sequence[Placement],
    groups: Sequence[str | None],
    inner: Mapping[str | None, str | None],
) -> list[Step]:
    """What happens to the stack beside the load; what tenants share undergoes it once.

    Everything is looked at before anything is acted on, whoever's it is: a snapshot of one tenant's share
    would be seen in what another one reads. Scrubs come last: below an LVM snapshot dm-raid takes no message.

    Args:
        stack: The stack.
        load: The workload that asks for it.
        placements: Where it runs.
        groups: The control groups of the layers that tenants share, and that of what is above them.
        inner: By tenant the control group of its load.
    """
    steps: dict[str, Step] = {}
    group_of = [_groups_of(placement, groups) for placement in placements]
    for placement, of_layer in zip(placements, group_of, strict=True):
        for look in looks(placement, load):
            group = of_layer.get(id(look.layer)) if look.layer else inner[placement.tenant]
            steps.setdefault(look.step.id, *in_group([look.step], group))
    for same in zip(*(_acts(stack, load, placement) for placement in placements), strict=True):
        for act, of_layer in zip(same, group_of, strict=True):
            for layer, step in act:
                steps.setdefault(step.id, *in_group([step], of_layer.get(id(layer))))
    # All tenants' first snapshots come before all their second ones.
    return sorted(steps.values(), key=lambda step: step.not_before_ns)


def _groups_of(placement: Placement, groups: Sequence[str | None]) -> dict[int, str | None]:
    """By the layers of a site the control groups that their steps run in."""
    every = [*groups[:-1], *control_groups(placement.own, groups[-1])]
    return {id(layer): group for (layer, _), group in zip(placement.placed, every, strict=False)}


def _acts(
    stack: Stack, load: Workload, placement: Placement
) -> Iterator[Iterable[tuple[Layer | None, Step]]]:
    """What is done to a site; each is done to all of them before the next is done to any."""
    if load.snapshot_every_ns is not None:
        yield snapshot_steps(placement, load)
    for each in load.before_measure:
        yield alteration_steps(stack, placement.placed, [each])
    if load.scrub:
        yield scrub_steps(placement.placed)
