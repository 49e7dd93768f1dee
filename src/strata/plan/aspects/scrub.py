# SPDX-License-Identifier: Apache-2.0
"""``scrub``: at the end each layer compares its copies and checksums, from the top down."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from strata.model.step import Purpose, Step
from strata.model.workload import unreadable
from strata.plan.aspects.aspect import Aspect, CarriedOut, Combination
from strata.plan.placement import Placement, places_by_name


class Scrub(Aspect):
    """Scrubs come last: below an LVM snapshot dm-raid takes no message."""

    def steps(self, combination: Combination, placements: Sequence[Placement]) -> Iterator[Step]:
        for placement in placements if combination.load.scrub else ():
            for place in reversed(placement.layers):
                context = place.context
                scrubbed = place.layer.scrub(context.during("inspect", f"{context.name}-scrub")) or ()
                yield from place.acting(scrubbed, Purpose(what="scrub", layer=context.name))

    def problems(self, trial: CarriedOut) -> Iterable[str]:
        """The errors that scrubs found."""
        places = places_by_name(trial.placements)
        scrubs = ((step.purpose, step.id) for step in trial.plan.steps_for("scrub"))
        last = {purpose.layer: step_id for purpose, step_id in scrubs if purpose and purpose.layer}
        for name, step_id in last.items():
            layer = places[name].layer
            if step_id not in trial.outputs.steps:
                continue
            text = trial.outputs.steps[step_id].stdout
            try:
                count = layer.scrub_errors(text)
            except (ValueError, IndexError) as error:
                raise unreadable(step_id, "the scrub does not report its errors", text) from error
            if count:
                yield f"the scrub of {layer.layer} found {count} errors"
