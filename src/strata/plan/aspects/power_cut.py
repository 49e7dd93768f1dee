# SPDX-License-Identifier: Apache-2.0
"""Steps that cut the lab's power: after a step of a plan, or at an instant of the measured window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from strata.errors import PlanError
from strata.model.step import Step
from strata.model.survival import CountsAcknowledged
from strata.plan.aspects.aspect import Aspect, Combination
from strata.plan.model import Plan
from strata.plan.placement import Placement
from strata.units import NS_PER_S

CUT_ARGV: Final = ("sh", "-c", "echo cut > /sys/module/strata/parameters/power_cut")
"""Cuts the power of a lab that was started with a `PowerCut`. The command never returns."""
CUT_LANE: Final = "power-cut"
ACKNOWLEDGED: Final = "acknowledged"
"""The step that says what was acknowledged until just before the cut."""


class CutPower(Aspect):
    """Asks beside the load what is acknowledged, and cuts the power.

    The question is asked at an instant of the measured window, and the power is cut when it is answered: what
    is acknowledged in between may be lost uncounted. Tenants are not asked.
    """

    def fills_window(self, combination: Combination) -> bool:
        return combination.cut_after_ns is not None

    def steps(self, combination: Combination, placements: Sequence[Placement]) -> list[Step]:
        if combination.cut_after_ns is None:
            return []
        first, load, asked = placements[0], placements[0].load, list[Step]()
        if first.tenant is None and isinstance(load, CountsAcknowledged) and load.uncounted is None:
            asking = load.acknowledged(first.context())
            asked = first.of_load([asking.model_copy(update={"id": ACKNOWLEDGED})])
        fields = {"phase": "measure", "lane": CUT_LANE, "not_before_ns": combination.cut_after_ns}
        return [step.model_copy(update=fields) for step in (*asked, cut_step())]


def cut_step() -> Step:
    """A step at which the power is cut. Its phase is ``inspect``: it can stand after any other."""
    return Step(id="power-cut", phase="inspect", title="Cut the power", argv=CUT_ARGV, time_limit_ns=NS_PER_S)


def with_cut_after(plan: Plan, step_id: str) -> Plan:
    """The plan up to the step ``step_id``, with a cut of the power as soon as that has ended."""
    ids = [step.id for step in plan.steps]
    if step_id not in ids:
        raise PlanError(f'the plan has no step "{step_id}"', remedy=f"its steps are {', '.join(ids)}")
    kept = plan.steps[: ids.index(step_id) + 1]
    cut = cut_step().model_copy(update={"phase": kept[-1].phase})
    return plan.model_copy(update={"steps": (*kept, cut)})
