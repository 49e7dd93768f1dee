# SPDX-License-Identifier: Apache-2.0
"""An aspect of a trial: what it needs of a stack, and the steps, metrics and checks that it adds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

from strata.model.layer import Placed
from strata.model.metric import Metric
from strata.model.stack import Stack
from strata.model.step import Step
from strata.model.study import Study
from strata.model.warning import Check
from strata.model.workload import Outputs, StepOutput, Workload
from strata.plan.model import Plan
from strata.plan.placement import Placement, placed_layers


@dataclass(frozen=True)
class Combination:
    """A stack and a workload of a study, for which its aspects are compiled.

    Attributes:
        study: As it is for the trials of this stack.
        cut_after_ns: When the power is cut, from the beginning of the measured window; None: it is not.
    """

    study: Study
    stack: Stack
    load: Workload
    cut_after_ns: int | None = None

    @property
    def here(self) -> Stack:
        """The part of the stack that the workload runs on."""
        return self.stack.at(self.load.place)

    @cached_property
    def placed(self) -> list[Placed]:
        return placed_layers(self.study, self.here)


class CarriedOut(Protocol):
    """A trial that came to its end, as far as aspects read it."""

    @property
    def plan(self) -> Plan: ...
    @property
    def placements(self) -> list[Placement]: ...
    @property
    def outputs(self) -> Outputs: ...


def outputs_for(trial: CarriedOut, tenant: str | None, *what: str) -> dict[str, StepOutput]:
    """The outputs of a tenant's steps for these purposes that were run, by id, in their order."""
    steps, done = trial.plan.steps_for(*what), trial.outputs.steps
    own = (step.id for step in steps if step.purpose is not None and step.purpose.tenant == tenant)
    return {step_id: done[step_id] for step_id in own if step_id in done}


class Aspect:
    """One thing that a study asks for beside its loads. A subclass overrides what it has to say."""

    observes: ClassVar[bool] = False
    """Whether it changes nothing: a snapshot of one tenant's share would show in what another one reads."""

    def unmet(self, combination: Combination) -> str | None:
        """Why a trial cannot have it, as a sentence; None where it can, or where nobody asks for it."""
        return None

    def fills_window(self, combination: Combination) -> bool:
        """Whether it acts during the measured window, so that the load gets a lane."""
        return False

    def prepared(self, combination: Combination, placement: Placement) -> Iterable[Step]:
        """The steps of phase ``prepare`` before those of the load."""
        return ()

    def steps(self, combination: Combination, placements: Sequence[Placement]) -> Iterable[Step]:
        """The steps beside the load, in the order of their phases or not. Equal ids mean one step."""
        return ()

    def metrics(self, trial: CarriedOut) -> Iterable[Metric]:
        return ()

    def checks(self, trial: CarriedOut, placement: Placement) -> Iterable[Check]:
        """The checks of a placement."""
        return ()

    def problems(self, trial: CarriedOut) -> Iterable[str]:
        """Reasons for the result's invalidity; RunError if an output is unreadable."""
        return ()
