# SPDX-License-Identifier: Apache-2.0
"""A trial that has been carried out, with everything that its result is made of."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from strata.plan.model import Plan
from strata.plan.placement import Placement, placements_of
from strata.results.events import Events
from strata.spec.study import Study
from strata.spec.workload import Outputs, Workload


@dataclass(frozen=True)
class FinishedTrial:
    """A trial that has been carried out, to whatever end.

    Attributes:
        study: The study that declares it.
        plan: The plan that was carried out, compiled from the study.
        events: The agent's account.
    """

    study: Study
    plan: Plan
    events: Events

    @property
    def is_complete(self) -> bool:
        """Whether the agent came to the plan's end."""
        return self.events.end is not None and self.events.end.outcome == "ok"

    @cached_property
    def load(self) -> Workload:
        """Its workload."""
        return self.study.workloads[self.plan.trial.workload]

    @cached_property
    def placements(self) -> list[Placement]:
        """Where its workload, or each of its tenants, ran."""
        trial = self.plan.trial
        return placements_of(self.study, self.study.stacks[trial.stack], trial.workload, trial.seed)[1]

    @cached_property
    def outputs(self) -> Outputs:
        """The output of every step that ended."""
        return self.events.outputs()

    def outputs_of(self, placement: Placement) -> Outputs:
        """The output of one workload's steps."""
        return self.outputs if placement.tenant is None else self.outputs.within(placement.tenant)
