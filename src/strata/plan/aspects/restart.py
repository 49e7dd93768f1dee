# SPDX-License-Identifier: Apache-2.0
"""Preparing once: a plan in which the machine starts anew between preparing and measuring.

The plan of a study with ``prepare = "once"`` has a step at which everything is taken down; the steps after
it bring up what stands on the disks, and measure. The lab carries it out in two boots, each with a part of
the plan. Trials that begin alike have the same first part, whose outcome, the content of the disks and the
state of their models, can be shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from strata.model.step import INPUT_PREFIX, RESTART, Purpose, Step
from strata.model.trial import CellKey
from strata.plan.aspects.aspect import Aspect, Combination
from strata.plan.model import Plan, sha256_hex
from strata.plan.placement import LayerPlace, Placement
from strata.words import grouped

_AGAIN = "again"


class Restart(Aspect):
    """``prepare = "once"`` and ``"aged"``: the machine starts anew before the load, or before its data."""

    def unmet(self, combination: Combination) -> str | None:
        study, stack, load = combination.study, combination.stack, combination.load
        if study.prepare == "each":
            return None
        why = _unprepared(combination)
        if load.tenants():
            why = "tenants make their shares of the stack themselves"
        if faulty := [used.name for used in study.stack_devices(stack.name) if used.device.faults]:
            why = f"faults count from the start of the machine, and {', '.join(faulty)} has some"
        if volatile := [layer.layer for layer in stack.every_layer if layer.requires.maximum == 0]:
            why = f"{volatile[0]} keeps its content in memory"
        if load.needs_layers and (
            contained := [each.layer for each in stack.every_layer if each.is_container]
        ):
            why = f"the daemon of {contained[0]} keeps its images in memory"
        return why and f'with prepare = "{study.prepare}" the machine starts anew before the load: {why}'


def _unprepared(combination: Combination) -> str | None:
    study = combination.study
    if any(layer.image_source() for layer in combination.stack.every_layer):
        return "a machine from an image runs on a host only, which keeps no prepared disks"
    if study.prepare == "once":
        return combination.load.unprepared()
    return None if study.age is not None else "only what ageing made is kept, and the study has no `age`"


def restarted(  # noqa: PLR0917
    steps: Sequence[Step],
    shared: Sequence[LayerPlace],
    placement: Placement,
    prepared: Iterable[Step],
    knobs: Iterable[Step],
    aged: int,
) -> list[Step]:
    """The steps of a plan, in order, with a restart after those of the phases ``build`` and ``prepare``.

    If the load prepares afterwards, it comes after the first ``aged`` steps.
    ``prepared`` are the load's own steps of phase ``prepare``, some of which are repeated after the restart.
    ``knobs`` set the new machine's.
    """
    first = [step for step in steps if step.phase in {"build", "prepare"}]
    first = first if placement.restarts else first[:aged]
    again = [*knobs, *_brought_up(shared), *(_repeated(step) for step in placement.share if step.again)]
    again += _brought_up(placement.layers[placement.shared :])
    again += [_repeated(step) for step in prepared if step.again or step.background]
    known = {step.id for step in again}
    names = {
        old.id: new.id
        for place in (*shared, *placement.layers)
        for old, new in zip(place.layer.assemble(place.context), _assembled_again(place), strict=True)
    }
    names |= {step.id: f"{step.id}-{_AGAIN}" for step in first if f"{step.id}-{_AGAIN}" in known}
    rest = (_taking_down(step, names) for step in steps[len(first) :])
    return [*first, _restart(first), *again, *rest]


def _taking_down(step: Step, names: Mapping[str, str]) -> Step:
    """A step that takes down others, by the names that they have after the restart."""
    if not step.takes_down:
        return step
    return step.model_copy(update={"takes_down": tuple(names.get(each, each) for each in step.takes_down)})


def _assembled_again(place: LayerPlace) -> list[Step]:
    return place.layer.assemble(place.context.during("prepare", f"{place.context.name}-{_AGAIN}"))


def _brought_up(places: Iterable[LayerPlace]) -> list[Step]:
    return [step for place in places for step in place.site.hold(_assembled_again(place))]


def _repeated(step: Step) -> Step:
    return step.model_copy(update={"id": f"{step.id}-{_AGAIN}", "phase": "prepare"})


def _restart(first: Sequence[Step]) -> Step:
    down = {each for step in first for each in step.takes_down}
    up = [step.id for step in first if (step.undo is not None or step.background) and step.id not in down]
    return Step(
        id=RESTART,
        phase="prepare",
        title="Start the machine anew: the disks keep what they hold, all caches are empty",
        argv=("sync",),
        takes_down=tuple(up),
        purpose=Purpose(what="restart"),
    )


def after_restart(steps: Sequence[Step]) -> Sequence[Step]:
    """The steps after the restart; none without one."""
    at = next((index for index, step in enumerate(steps) if step.id == RESTART), len(steps))
    return steps[at + 1 :]


def sharing(plans: Iterable[Plan]) -> list[list[CellKey]]:
    """The cells whose trials of one seed share a first boot, group by group; ``plans`` has one of each cell.

    Cells that prepare in the boot that measures are in no group.
    """
    prepared = ((first_boot_sha256(plan), plan.trial.key.cell) for plan in plans)
    return list(grouped((first, cell) for first, cell in prepared if first).values())


def first_boot_sha256(plan: Plan) -> str | None:
    """What the trials that share prepared disks have in common; None for a plan without a restart."""
    parts = parts_of(plan)
    return None if parts is None else sha256_hex(parts[0].to_json())


def parts_of(plan: Plan) -> tuple[Plan, Plan] | None:
    """The plans of the two boots; None for a plan without a restart."""
    later = after_restart(plan.steps)
    if not later:
        return None
    earlier = plan.steps[: -len(later) - 1]
    run = {command.argv[0] for step in earlier for command in step.commands}
    tools = tuple(tool for tool in plan.prerequisites.tools if tool in run)
    needed = plan.prerequisites.model_copy(update={"tools": tools})
    used = tuple(each for each in plan.inputs if f"${{{INPUT_PREFIX}{each.name}}}" in str(earlier))
    first = plan.model_copy(update={"prerequisites": needed, "steps": earlier, "inputs": used})
    return first, plan.model_copy(update={"steps": tuple(later)})
