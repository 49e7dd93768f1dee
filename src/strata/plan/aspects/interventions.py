# SPDX-License-Identifier: Apache-2.0
"""``before_measure``: a snapshot, a lost disk and its rebuild, between preparing and measuring."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from strata.diagnostics.names import disk_of
from strata.model.metric import Metric
from strata.model.stack import Stack
from strata.model.step import Phase, Purpose, Step
from strata.model.survival import REBUILT
from strata.model.workload import Intervention, Workload
from strata.plan.aspects.aspect import Aspect, CarriedOut, Combination
from strata.plan.aspects.snapshots import NO_SNAPSHOTS
from strata.plan.placement import LayerPlace, Placement
from strata.rules.fit import SNAPSHOT, snapshotting
from strata.units import NS_PER_S

FAULT_PARAMETER: Final = "/sys/module/strata/parameters/fault"
"""Where the lab's driver takes faults of its disks; no other machine has it."""
LOSE_DISK: Final = "lose-disk"
"""The step that loses a disk."""
_REBUILD_LANE: Final = "rebuild"
_TIMED_OUT: Final = 124  # the exit code of timeout(1)


class Interventions(Aspect):
    """Each happens everywhere before the next."""

    def unmet(self, combination: Combination) -> str | None:
        lowest = next((placed for placed in combination.placed if not placed[0].beside), None)
        survives = lowest[0].losses_survived(lowest[1].provided) if lowest else 0
        for intervention in combination.load.before_measure:
            if intervention == "snapshot" and snapshotting(combination.placed) is None:
                return NO_SNAPSHOTS
            if intervention == "lose-disk" and not survives:
                return "no layer of the stack survives the loss of a disk"
            if intervention == "rebuild" and not (lowest and lowest[0].named_devices().get("spares")):
                return "the stack has no spare disk to rebuild onto"
        return None

    def fills_window(self, combination: Combination) -> bool:
        return _times_rebuild(combination.load)

    def steps(self, combination: Combination, placements: Sequence[Placement]) -> Iterator[Step]:
        load = combination.load
        for intervention in load.before_measure:
            for placement in placements:
                yield from _intervention_steps(combination.here, placement, intervention)
            for placement in placements if intervention == "rebuild" and _times_rebuild(load) else ():
                yield from _rebuilt_steps(placement, load)

    def metrics(self, trial: CarriedOut) -> list[Metric]:
        """The time from the loss to the end of the rebuild; none if it did not end within the window."""
        steps = trial.outputs.steps
        begun, waited = (
            [steps[step.id] for step in trial.plan.steps_for(what) if step.id in steps]
            for what in ("rebuild", "rebuilt")
        )
        if not begun or not waited or any(run.exit_code in (None, _TIMED_OUT) for run in waited):
            return []
        took_ns = waited[-1].started_ns + waited[-1].duration_ns - begun[0].started_ns
        return [Metric.of(REBUILT, float(took_ns), "ns")]


def _intervention_steps(stack: Stack, placement: Placement, intervention: Intervention) -> Iterator[Step]:
    """The steps of phase ``alter``, and the steps of phase ``inspect`` that undo them."""
    if intervention == "lose-disk":
        yield lose_disk(disk_of(lost_disk(stack)))
    elif intervention == "snapshot":
        place = placement.snapshotting
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
        yield from place.acting(begun or (), Purpose(what="rebuild", layer=context.name))


def _times_rebuild(load: Workload) -> bool:
    """Whether the load's measured window has a length for which the end of a rebuild can be waited for."""
    return "rebuild" in load.before_measure and load.window_ns > 0


def _rebuilt_steps(placement: Placement, load: Workload) -> Iterator[Step]:
    """Wait beside the load for the end of the rebuild, for as long as the measured window at the most."""
    place = _lowest(placement)
    waiting = place.layer.rebuilt(place.context.during("measure", f"{place.context.name}-rebuild")) or []
    if any(step.background for step in waiting):  # dm-raid: a service cannot be given up as undecided
        return
    limit = f"{load.window_ns / NS_PER_S:.3f}"
    for step in place.acting(waiting, Purpose(what="rebuilt", layer=place.context.name), lane=_REBUILD_LANE):
        limited = {"argv": ("timeout", limit, *step.argv), "expect_exit": (*step.expect_exit, _TIMED_OUT)}
        yield step.model_copy(update=limited)


def _lowest(placement: Placement) -> LayerPlace:
    return next(place for place in placement.layers if not place.layer.beside)


def lost_disk(stack: Stack) -> str:
    """The device of a stack that is lost: the last one below its lowest layer."""
    return stack.devices[-1]


def lose_disk(device: str, phase: Phase = "alter") -> Step:
    """The step after which every command to a modelled disk fails."""
    return Step(
        id=LOSE_DISK,
        phase=phase,
        title=f"Lose {device}",
        argv=("tee", FAULT_PARAMETER),
        cwd="/" if phase == "build" else "${scratch}",
        stdin=f"${{{device}}} gone,0\n",
        purpose=Purpose(what="lose-disk"),
    )


def loses_disk(steps: Iterable[Step]) -> bool:
    return any(step.purpose is not None and step.purpose.what == "lose-disk" for step in steps)
