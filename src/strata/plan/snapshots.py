# SPDX-License-Identifier: Apache-2.0
"""Snapshots during the measured window: a lane of steps beside the load's, and what they took."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from strata.plan.model import Plan
from strata.plan.placement import Placement
from strata.spec.layer import Layer, Placed
from strata.spec.metric import Metric
from strata.spec.snapshots import SNAPSHOT_LANE, snapshotting, taken_in_window
from strata.spec.step import Step
from strata.spec.workload import Outputs, Workload

_NUMBERED: Final = re.compile(r"(.+-snapshot-\d+)-")

LOAD_LANE: Final = "load"
"""The lane of the load's steps, if it is alone."""


def unmet_snapshots(placed: Sequence[Placed], load: Workload) -> str | None:
    """Why a stack does not allow what a workload asks for, as a sentence, or None."""
    if load.snapshot_every_ns is not None and snapshotting(placed) is None:
        return "no layer of the stack takes snapshots"
    return None


def in_lanes(loaded: Iterable[Step]) -> list[Step]:
    """The steps of a load, those of the measured window in a lane, beside which snapshots can be taken."""
    return [
        step.model_copy(update={"lane": LOAD_LANE})
        if step.phase == "measure" and step.lane is None and not step.background
        else step
        for step in loaded
    ]


def snapshot_steps(placement: Placement, load: Workload) -> Iterator[tuple[Layer, Step]]:
    """The steps that take them, and those of phase ``inspect`` that drop them, each with the layer that acts.

    Of several tenants, those on what they share have the same ids.
    """
    count, every_ns = taken_in_window(load), load.snapshot_every_ns or 0
    found = snapshotting(placement.placed)
    if found is None:
        return
    layer, context = found
    name = "-".join(filter(None, (context.name, context.tenant)))
    for number in range(1, count + 1):
        taking = context.during("measure", f"{name}-snapshot-{number}")
        lane = {"lane": SNAPSHOT_LANE, "not_before_ns": number * every_ns}
        yield from (
            (layer, step.model_copy(update=lane)) for step in layer.snapshot(taking, f"s{number}") or ()
        )
    for number in range(1, count + 1):
        dropping = context.during("inspect", f"{name}-drop-{number}")
        yield from ((layer, step) for step in layer.drop_snapshot(dropping, f"s{number}"))


def snapshot_metrics(plan: Plan, outputs: Outputs) -> list[Metric]:
    """How many snapshots were taken in the window, and what one took; none where there were none."""
    took: dict[str, int] = {}
    for step in plan.steps:
        match = _NUMBERED.match(step.id)
        if step.lane == SNAPSHOT_LANE and match and step.id in outputs.steps:
            took[match[1]] = took.get(match[1], 0) + outputs.steps[step.id].duration_ns
    if not took:
        return []
    values = {
        "snapshots_taken": (float(len(took)), "1"),
        "snapshot_ns_mean": (sum(took.values()) / len(took), "ns"),
        "snapshot_ns_max": (float(max(took.values())), "ns"),
    }
    return [
        Metric(name=name, value=value, unit=unit, better="higher" if unit == "1" else "lower")
        for name, (value, unit) in values.items()
    ]
