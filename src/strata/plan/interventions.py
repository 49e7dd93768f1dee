# SPDX-License-Identifier: Apache-2.0
"""Interventions in a stack beside the loads: snapshots, a lost disk and its rebuild, scrubs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from strata.diagnostics.names import disk_of
from strata.model.layer import Placed
from strata.model.metric import Metric
from strata.model.stack import Stack
from strata.model.step import Phase, Purpose, Step
from strata.model.workload import Intervention, Outputs, Workload, unreadable
from strata.plan.fragmentation import fragmentation_steps
from strata.plan.model import Plan
from strata.plan.placement import Placement, place_of, places_by_name
from strata.plan.site import LayerPlace
from strata.rules.fit import SNAPSHOT, SNAPSHOT_LANE, snapshotting, taken_in_window
from strata.units import NS_PER_S

FAULT_PARAMETER: Final = "/sys/module/strata/parameters/fault"
"""Where the lab's driver takes faults of its disks; no other machine has it."""

LOAD_LANE: Final = "load"  # the lane of the load's steps, if it is alone
_REBUILD_LANE: Final = "rebuild"
TIMED_OUT: Final = 124  # the exit code of timeout(1)


def unmet_interventions(placed: Sequence[Placed], load: Workload) -> str | None:
    """Why a stack cannot undergo the interventions that a workload asks for, as a sentence, or None."""
    lowest = next((each for each in placed if not each[0].beside), None)
    survives = lowest[0].losses_survived(lowest[1].provided) if lowest else 0
    wanted = [*load.before_measure, *(["snapshot"] if load.snapshot_every_ns is not None else [])]
    for each in wanted:
        if each == "snapshot" and snapshotting(placed) is None:
            return "no layer of the stack takes snapshots"
        if each == "lose-disk" and not survives:
            return "no layer of the stack survives the loss of a disk"
        if each == "rebuild" and not (lowest and lowest[0].named_devices().get("spares")):
            return "the stack has no spare disk to rebuild onto"
    return None


def intervention_steps(stack: Stack, load: Workload, placements: Sequence[Placement]) -> list[Step]:
    """The steps beside the load. Layers that tenants share undergo each intervention once.

    Fragmentation is measured everywhere before anything is changed: a snapshot of one tenant's share would
    show in what another one reads. Scrubs come last: below an LVM snapshot dm-raid takes no message.
    """
    steps: dict[str, Step] = {}
    for placement in placements:
        for step in fragmentation_steps(placement, load):
            steps.setdefault(step.id, step)
    for same in zip(*(_interventions(stack, load, placement) for placement in placements), strict=True):
        for intervention in same:
            for step in intervention:
                steps.setdefault(step.id, step)
    # All tenants' first snapshots come before all their second ones.
    return sorted(steps.values(), key=lambda step: step.not_before_ns)


def _interventions(stack: Stack, load: Workload, placement: Placement) -> Iterator[Iterable[Step]]:
    """The interventions on a placement, each of which happens everywhere before the next."""
    if load.snapshot_every_ns is not None:
        yield _window_snapshots(placement, load)
    for each in load.before_measure:
        yield _intervention_steps(stack, placement, each)
        if each == "rebuild" and times_rebuild(load):
            yield _rebuilt_steps(placement, load)
    if load.scrub:
        yield _scrub_steps(placement)


def in_lanes(loaded: Iterable[Step]) -> list[Step]:
    """A load's steps; those of the measured window in a lane, beside which snapshots can be taken."""
    return [
        step.model_copy(update={"lane": LOAD_LANE})
        if step.phase == "measure" and step.lane is None and not step.background
        else step
        for step in loaded
    ]


def _snapshotting(placement: Placement) -> LayerPlace:
    found = snapshotting(placement.placed)
    assert found is not None  # `unmet_interventions` has looked
    return place_of(placement, found)


def _window_snapshots(placement: Placement, load: Workload) -> Iterator[Step]:
    """Take snapshots during the measured window, and drop them in phase ``inspect``."""
    place = _snapshotting(placement)
    layer, context = place.layer, place.context
    name = "-".join(filter(None, (context.name, context.tenant)))
    numbers = range(1, taken_in_window(load) + 1)
    for number in numbers:
        taking = context.during("measure", f"{name}-snapshot-{number}")
        fields = {
            "lane": SNAPSHOT_LANE,
            "not_before_ns": number * (load.snapshot_every_ns or 0),
            "purpose": Purpose(what="snapshot", layer=name, number=number),
        }
        taken = place.site.hold(layer.snapshot(taking, f"s{number}") or ())
        yield from (step.model_copy(update=fields) for step in taken)
    for number in numbers:
        dropping = context.during("inspect", f"{name}-drop-{number}")
        yield from place.site.hold(layer.drop_snapshot(dropping, f"s{number}"))


def _intervention_steps(stack: Stack, placement: Placement, intervention: Intervention) -> Iterator[Step]:
    """The steps of phase ``alter``, and the steps of phase ``inspect`` that undo them."""
    if intervention == "lose-disk":
        yield lose_disk(disk_of(lost_disk(stack)))
    elif intervention == "snapshot":
        place = _snapshotting(placement)
        layer, context = place.layer, place.context
        taken = layer.snapshot(context.during("alter", f"{context.name}-snapshot"), SNAPSHOT)
        dropped = layer.drop_snapshot(context.during("inspect", f"{context.name}-drop"), SNAPSHOT)
        yield from place.site.hold([*(taken or ()), *dropped])
    else:
        place = _lowest(placement)
        layer, context = place.layer, place.context
        spare = layer.named_devices()["spares"][0]
        rebuilding = context.during("alter", f"{context.name}-rebuild")
        begun = layer.rebuild(rebuilding, f"${{{lost_disk(stack)}}}", f"${{{spare}}}")
        purpose = {"purpose": Purpose(what="rebuild", layer=context.name)}
        yield from (step.model_copy(update=purpose) for step in place.site.hold(begun or ()))


def times_rebuild(load: Workload) -> bool:
    """Whether the load's measured window has a length for which the end of a rebuild can be waited for."""
    return "rebuild" in load.before_measure and load.window_ns > 0


def _rebuilt_steps(placement: Placement, load: Workload) -> Iterator[Step]:
    """Wait beside the load for the end of the rebuild, for as long as the measured window at the most."""
    place = _lowest(placement)
    context = place.context.during("measure", f"{place.context.name}-rebuild")
    waiting = place.layer.rebuilt(context) or []
    if any(step.background for step in waiting):  # dm-raid: a service cannot be given up as undecided
        return
    limit = f"{load.window_ns / NS_PER_S:.3f}"
    for step in place.site.hold(waiting):
        fields = {
            "argv": ("timeout", limit, *step.argv),
            "expect_exit": (*step.expect_exit, TIMED_OUT),
            "lane": _REBUILD_LANE,
            "purpose": Purpose(what="rebuilt", layer=place.context.name),
        }
        yield step.model_copy(update=fields)


def _lowest(placement: Placement) -> LayerPlace:
    return next(each for each in placement.layers if not each.layer.beside)


def lost_disk(stack: Stack) -> str:
    """The device of a stack that is lost: the last one below its lowest layer."""
    return stack.devices[-1]


LOSE_DISK: Final = "lose-disk"
"""The step that loses a disk."""


def lose_disk(device: str, phase: Phase = "alter") -> Step:
    """The step after which every command to a modelled disk fails."""
    return Step(
        id=LOSE_DISK,
        phase=phase,
        title=f"Lose {device}",
        argv=("tee", FAULT_PARAMETER),
        cwd="/" if phase == "build" else "${scratch}",
        stdin=f"${{{device}}} gone,0\n",
    )


def loses_disk(steps: Iterable[Step]) -> bool:
    return any(FAULT_PARAMETER in step.argv for step in steps)


def _scrub_steps(placement: Placement) -> Iterator[Step]:
    for place in reversed(placement.layers):
        context = place.context
        purpose = {"purpose": Purpose(what="scrub", layer=context.name)}
        found = place.layer.scrub(context.during("inspect", f"{context.name}-scrub")) or ()
        yield from (step.model_copy(update=purpose) for step in place.site.hold(found))


def scrub_errors(plan: Plan, placements: Sequence[Placement], outputs: Outputs) -> Iterator[str]:
    """The errors that scrubs found, as reasons for a result's invalidity; RunError if one is unreadable."""
    places = places_by_name(placements)
    scrubs = ((step.purpose, step.id) for step in plan.steps_for("scrub"))
    last = {purpose.layer: step_id for purpose, step_id in scrubs if purpose and purpose.layer}
    for name, step_id in last.items():
        layer = places[name].layer
        if step_id not in outputs.steps:
            continue
        text = outputs.steps[step_id].stdout
        try:
            count = layer.scrub_errors(text)
        except (ValueError, IndexError) as error:
            raise unreadable(step_id, "the scrub does not report its errors", text) from error
        if count:
            yield f"the scrub of {layer.layer} found {count} errors"


def snapshot_metrics(plan: Plan, outputs: Outputs) -> list[Metric]:
    """How many snapshots were taken in the window, and how long one took; none where there were none."""
    took: dict[Purpose | None, int] = {}
    for step in plan.steps_for("snapshot"):
        if step.id in outputs.steps:
            took[step.purpose] = took.get(step.purpose, 0) + outputs.steps[step.id].duration_ns
    if not took:
        return []
    mean_ns, max_ns = sum(took.values()) / len(took), float(max(took.values()))
    return [
        Metric.of("snapshots_taken", float(len(took)), "1"),
        Metric.of("snapshot_ns_mean", mean_ns, "ns", family="snapshot_ns"),
        Metric.of("snapshot_ns_max", max_ns, "ns", family="snapshot_ns"),
    ]
