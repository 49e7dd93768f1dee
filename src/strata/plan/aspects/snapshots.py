# SPDX-License-Identifier: Apache-2.0
"""``snapshot_every``: snapshots at intervals of the measured window, of the uppermost layer that can."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from strata.model.layer import LayerContext
from strata.model.metric import Metric
from strata.model.step import Purpose, Step
from strata.plan.aspects.aspect import Aspect, CarriedOut, Combination
from strata.plan.placement import Placement
from strata.rules.fit import SNAPSHOT_LANE, snapshotting, taken_in_window

NO_SNAPSHOTS = "no layer of the stack takes snapshots"


def name_of(context: LayerContext) -> str:
    """The name of a layer, or of a tenant's share of it, in the ids of steps."""
    return "-".join(filter(None, (context.name, context.tenant)))


class WindowSnapshots(Aspect):
    """They are taken beside the load, and dropped in phase ``inspect``."""

    def unmet(self, combination: Combination) -> str | None:
        asked = combination.load.snapshot_every_ns is not None
        return NO_SNAPSHOTS if asked and snapshotting(combination.placed) is None else None

    def fills_window(self, combination: Combination) -> bool:
        return combination.load.snapshot_every_ns is not None

    def steps(self, combination: Combination, placements: Sequence[Placement]) -> Iterator[Step]:
        load = combination.load
        for placement in placements if load.snapshot_every_ns is not None else ():
            place = placement.snapshotting
            layer, context = place.layer, place.context
            name = name_of(context)
            numbers = range(1, taken_in_window(load) + 1)
            for number in numbers:
                taking = context.during("measure", f"{name}-snapshot-{number}")
                at = {"lane": SNAPSHOT_LANE, "not_before_ns": number * (load.snapshot_every_ns or 0)}
                purpose = Purpose(what="snapshot", layer=name, number=number)
                yield from place.acting(layer.snapshot(taking, f"s{number}") or (), purpose, **at)
            for number in numbers:
                dropping = context.during("inspect", f"{name}-drop-{number}")
                yield from place.site.hold(layer.drop_snapshot(dropping, f"s{number}"))

    def metrics(self, trial: CarriedOut) -> list[Metric]:
        """How many snapshots were taken in the window, and how long one took; none where there were none."""
        took: dict[Purpose | None, int] = {}
        for step in trial.plan.steps_for("snapshot"):
            if step.id in trial.outputs.steps:
                took[step.purpose] = took.get(step.purpose, 0) + trial.outputs.steps[step.id].duration_ns
        if not took:
            return []
        mean_ns, max_ns = sum(took.values()) / len(took), float(max(took.values()))
        return [
            Metric.of("snapshots_taken", float(len(took)), "1"),
            Metric.of("snapshot_ns_mean", mean_ns, "ns", family="snapshot_ns"),
            Metric.of("snapshot_ns_max", max_ns, "ns", family="snapshot_ns"),
        ]
