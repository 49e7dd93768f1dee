# SPDX-License-Identifier: Apache-2.0
"""What happens to a stack beside the workload: altered before the measured window, scrubbed after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from strata.spec.layer import Layer, Placed
from strata.spec.snapshots import SNAPSHOT, snapshotting
from strata.spec.stack import Stack
from strata.spec.step import Step
from strata.spec.study import Study
from strata.spec.workload import Alteration

FAULT_PARAMETER: Final = "/sys/module/strata/parameters/fault"
"""Where the lab's driver takes faults of its disks; no other machine has it."""


def placed_layers(study: Study, stack: Stack, seed: int = 1) -> list[Placed]:
    """The layers of a stack with their contexts, from the lowest on."""
    return list(zip(stack.layers, stack.contexts(study.capacities_bytes, seed), strict=True))


def unmet_alteration(placed: Sequence[Placed], alterations: Sequence[Alteration]) -> str | None:
    """Why a stack cannot undergo what a workload asks for, as a sentence, or None."""
    lowest = placed[0] if placed else None
    survives = lowest[0].losses_survived(lowest[1].provided) if lowest else 0
    for alteration in alterations:
        if alteration == "snapshot" and snapshotting(placed) is None:
            return "no layer of the stack takes snapshots"
        if alteration == "lose-disk" and not survives:
            return "no layer of the stack survives the loss of a disk"
        if alteration == "rebuild" and not (lowest and lowest[0].named_devices().get("spares")):
            return "the stack has no spare disk to rebuild onto"
    return None


def alteration_steps(
    stack: Stack, placed: Sequence[Placed], alterations: Sequence[Alteration]
) -> Iterator[tuple[Layer | None, Step]]:
    """The steps of phase ``alter``, and those of phase ``inspect`` that take back what they did.

    Each with the layer that acts; none does in the loss of a disk. The stack fulfils `unmet_alteration`.
    """
    for alteration in alterations:
        if alteration == "snapshot":
            found = snapshotting(placed)
            assert found is not None
            layer, context = found
            taken = layer.snapshot(context.during("alter", f"{context.name}-snapshot"), SNAPSHOT)
            dropped = layer.drop_snapshot(context.during("inspect", f"{context.name}-drop"), SNAPSHOT)
            yield from ((layer, step) for step in (*(taken or ()), *dropped))
        elif alteration == "lose-disk":
            yield None, lose_disk(lost_disk(stack))
        else:
            layer, context = placed[0]
            spare = layer.named_devices()["spares"][0]
            begun = layer.rebuild(
                context.during("alter", f"{context.name}-rebuild"),
                f"${{{lost_disk(stack)}}}",
                f"${{{spare}}}",
            )
            yield from ((layer, step) for step in begun or ())


def lost_disk(stack: Stack) -> str:
    """Which of a stack's devices is lost: the last one that its lowest layer stands on."""
    return stack.devices[-1]


def lose_disk(device: str) -> Step:
    """The step after which every command to a modelled disk fails."""
    return Step(
        id="lose-disk",
        phase="alter",
        title=f"Lose {device}",
        argv=("tee", FAULT_PARAMETER),
        cwd="${scratch}",
        stdin=f"${{{device}}} gone,0\n",
    )


def loses_disk(steps: Iterable[Step]) -> bool:
    """Whether steps let a disk fail."""
    return any(FAULT_PARAMETER in step.argv for step in steps)


def scrub_steps(placed: Sequence[Placed]) -> Iterator[tuple[Layer, Step]]:
    """Every layer's scrub, from the top down; `Layer.scrub_errors` reads the output of its last step."""
    for layer, context in reversed(placed):
        for step in layer.scrub(context.during("inspect", f"{context.name}-scrub")) or ():
            yield layer, step


def scrub_errors(placed: Sequence[Placed], outputs: Mapping[str, str]) -> Iterator[str]:
    """What the scrubs found, as reasons for a result's invalidity.

    Args:
        placed: The layers that were scrubbed.
        outputs: The standard output of every step, by its id.
    """
    last = {id(layer): (layer, step.id) for layer, step in scrub_steps(placed)}
    for layer, step_id in last.values():
        if step_id in outputs and (count := layer.scrub_errors(outputs[step_id])):
            yield f"the scrub of {layer.layer} found {count} errors"
