# SPDX-License-Identifier: Apache-2.0
"""Recovery on disks whose power was cut: mount, so that logs are recovered, check, and go on.

Two plans make a power cut: the trial's own, which the cut ends, and then, on the same disk images,
`compile_recovery`'s. Its steps may end in another cut, and so on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final

from strata.diagnostics.names import disk_of
from strata.errors import PlanError
from strata.model.layer import Layer, LayerContext, Placed
from strata.model.step import BROUGHT, Purpose, Step
from strata.model.study import Study
from strata.plan.aspects.interventions import lose_disk, lost_disk
from strata.plan.compile import check_steps, compile_stack
from strata.plan.model import Plan
from strata.plan.placement import placed_layers, sites
from strata.units import NS_PER_S

_CHECK_LIMIT_NS: Final = 3600 * NS_PER_S


def compile_recovery(
    study: Study, stack: str, seed: int, then: Iterable[Step] = (), *, degraded: bool = False
) -> Plan:
    """The plan of a boot on the disk images of a stack whose power was cut.

    Its steps, all of phase ``build``:

    Layers below the uppermost are assembled; then, of the uppermost:

    1. ``LAYER-recover-…``: bring it up; a filesystem is mounted for writing, which recovers its log.
    2. ``LAYER-recovered``: take it down, as at teardown.
    3. ``LAYER-check…``: its own checker, which changes nothing; of a dataset a scrub of its pool.
    4. ``LAYER-…``: bring it up as in the trial.

    Steps above a guest run in it, as in the trial.

    The images hold content alone: the disks' faults and the state of their models (a flash drive's map, a
    shingled drive's cache) begin anew, so what this boot takes is not what the first one would have taken.

    A step that fails ends the plan, as in every plan, and the agent's end names it: a filesystem that
    cannot be mounted fails at ``LAYER-recover-mount``, one that is damaged at 3.

    ``then`` are further steps on the mounted stack: to verify, to work on, to cut the power again. With
    ``degraded`` the disk that a workload had lost before the cut stays lost.
    """
    plan = compile_stack(study, stack, seed)
    declared = study.stacks[stack]
    placed = placed_layers(study, declared, seed)
    lost = lost_disk(declared) if degraded else None
    if lost is not None:
        placed = [(layer, _without(f"${{{lost}}}", context)) for layer, context in placed]
    placed, contained = _without_containers(placed)
    checking = _checking(placed)
    if not checking:
        raise PlanError(f'the stack "{stack}" cannot be checked after a power cut', place=f"stacks.{stack}")
    layer, context = placed[-1]
    *below, (own, _) = zip(sites(placed), placed, strict=False)
    steps = [] if lost is None else [lose_disk(disk_of(lost), "build")]
    for site, lower in below:
        steps += site.hold(_assembling(*lower))
    recovering = _assembling(layer, context.during("build", f"{context.name}-recover"))
    if not any(step.undo is not None or step.background for step in recovering):
        raise PlanError(f'the layer "{context.name}" cannot be taken down again', place=f"stacks.{stack}")
    ids = tuple(step.id for step in recovering)
    down = context.step("recovered", f"Take down the layer {context.name}", "sync", takes_down=ids)
    steps += own.hold([*recovering, down, *checking, *_assembling(layer, context)])
    for container in contained:
        steps += _assembling(*container)
    steps += then
    variables = _with_brought(plan.variables, steps)
    check_steps(steps, variables, declared.all_devices, place=f"{plan.trial.id}, recovery")
    return plan.model_copy(update={"steps": tuple(steps), "variables": variables})


def _with_brought(variables: Iterable[str], steps: Iterable[Step]) -> tuple[str, ...]:
    """The variables, and those of programs that come along as far as the steps use them."""
    used = set[str]().union(*(step.variables for step in steps))
    return tuple(dict.fromkeys([*variables, *(name for name in BROUGHT if name in used)]))


def _without_containers(placed: list[Placed]) -> tuple[list[Placed], list[Placed]]:
    """The layers, and those that hold a container, without which it is checked."""
    contained = [
        each for each in placed[1:] if each[0].is_container and each[0].requires.kind == "filesystem"
    ]
    return placed[: len(placed) - len(contained)], contained


def _without(path: str, context: LayerContext) -> LayerContext:
    return replace(context, lower=tuple(each for each in context.lower if each != path))


def _checking(placed: Sequence[Placed]) -> list[Step]:
    """The steps that find damage while the uppermost layer is down."""
    if not placed:
        return []
    layer, context = placed[-1]
    purpose = Purpose(what="check", layer=context.name)
    if check := layer.check_argv(context):
        title, limit_ns = f"Check the layer {context.name}", _CHECK_LIMIT_NS
        return [context.step("check", title, *check, time_limit_ns=limit_ns, purpose=purpose)]
    below = ((each, where.during("build", f"{where.name}-check")) for each, where in reversed(placed[:-1]))
    found = next((steps for each, where in below if (steps := each.verify(where))), [])
    return [step.model_copy(update={"purpose": purpose}) for step in found]


def _assembling(layer: Layer, context: LayerContext) -> list[Step]:
    """The steps that bring a layer up again; those say that they recover it."""
    purpose = {"purpose": Purpose(what="recover", layer=context.name)}
    return [
        step.model_copy(update=purpose) if layer.provides == "filesystem" or step.undo is not None else step
        for step in layer.assemble(context)
    ]
