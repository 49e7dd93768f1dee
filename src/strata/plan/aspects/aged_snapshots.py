# SPDX-License-Identifier: Apache-2.0
"""``snapshots`` of ``study.age``: snapshots of different age that are there when the measured window begins.

A machine that takes one an hour measures every load with some hundred of them kept. Afterwards the difference
from the oldest to the newest is sent to nowhere, and all are deleted, the oldest first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, Literal

from strata.model.metric import Metric
from strata.model.step import Purpose, Step
from strata.plan.aspects.aspect import Aspect, CarriedOut, Combination, outputs_for
from strata.plan.aspects.snapshots import NO_SNAPSHOTS, name_of
from strata.plan.placement import Placement
from strata.rules.fit import kept_at_once, snapshotting

_NOWHERE: Final = "/dev/null"


def taken(placement: Placement, number: int) -> list[Step]:
    """The steps that take one while the filesystem is aged; 1 is the oldest."""
    place = placement.snapshotting
    context = place.context.during("prepare", f"{name_of(place.context)}-aged-{number}")
    return place.site.hold(place.layer.snapshot(context, _snapshot(number)) or ())


class AgedSnapshots(Aspect):
    """Their space, and the times to send and to delete them."""

    def unmet(self, combination: Combination) -> str | None:
        age, load = combination.study.age, combination.load
        if age is None or not age.snapshots:
            return None
        if (found := snapshotting(combination.placed)) is None:
            return NO_SNAPSHOTS
        room = found[0].snapshots_max()
        wanted = age.snapshots + kept_at_once(load)
        if room is not None and wanted > room:
            return f"its {found[0].layer} has room for {room} snapshots, and {wanted} are kept at once"
        return None

    def steps(self, combination: Combination, placements: Sequence[Placement]) -> Iterator[Step]:
        count = combination.study.age.snapshots if combination.study.age is not None else 0
        for placement in placements if count else ():
            place, tenant = placement.snapshotting, placement.tenant
            layer, context = place.layer, place.context.during("inspect", f"{name_of(place.context)}-aged")
            yield from _held(placement, "before")
            if count > 1:
                sent = layer.send(context, _snapshot(1), _snapshot(count), _NOWHERE) or ()
                yield from place.acting(sent, Purpose(what="aged-send", tenant=tenant))
            for number in range(1, count + 1):
                dropping = replace(context, prefix=f"{context.prefix}-drop-{number}")
                dropped = layer.drop_snapshot(dropping, _snapshot(number))
                yield from place.acting(dropped, Purpose(what="aged-drop", tenant=tenant))
            yield from place.acting(layer.given_back(context), Purpose(what="aged-drop", tenant=tenant))
            yield from _held(placement, "after")

    def metrics(self, trial: CarriedOut) -> Iterator[Metric]:
        for placement in trial.placements:
            held, sent, dropped = (
                [*outputs_for(trial, placement.tenant, what).values()]
                for what in ("aged-held", "aged-send", "aged-drop")
            )
            found: list[Metric] = []
            if len(held) == 2:  # before and after
                allocated_bytes = placement.snapshotting.layer.allocated_bytes
                before, after = (allocated_bytes(output.stdout) for output in held)
                found.append(Metric.of("aged_snapshots_bytes", float(before - after), "B", better="lower"))
            for name, steps in (("send", sent), ("delete", dropped)):
                if steps:
                    took_ns = steps[-1].started_ns + steps[-1].duration_ns - steps[0].started_ns
                    found.append(Metric.of(f"aged_snapshots_{name}_ns", float(took_ns), "ns"))
            yield from (metric.of_tenant(placement.tenant, phase="inspect") for metric in found)


def _held(placement: Placement, when: Literal["before", "after"]) -> list[Step]:
    """The steps that tell what is held below, before the snapshots are deleted or after."""
    place = placement.snapshotting
    context = place.context.during("inspect", f"{name_of(place.context)}-aged-{when}")
    allocated = place.layer.allocated(context)
    purpose = Purpose(what="aged-held", tenant=placement.tenant, when=when)
    return place.acting([] if allocated is None else [allocated], purpose)


def _snapshot(number: int) -> str:
    return f"age{number}"
