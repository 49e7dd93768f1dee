# SPDX-License-Identifier: Apache-2.0
"""study.json: the study as the last `strata run` into a results folder saw it."""

from __future__ import annotations

from typing import Any, Final, Literal, Self

from pydantic import Field, model_validator

from strata.results.record import Frozen, Sha256, TimeDomain
from strata.spec.trial import CellName, TrialName

STUDY_VERSION: Final = 1


class Choice(Frozen):
    """A stack or a workload of the study; ``rationale`` is a workload's paragraph on the use behind it."""

    name: str
    title: str = ""
    rationale: str = ""


class StudySnapshot(Frozen):
    """A study, as tables and reports need it beside the results.

    Attributes:
        stacks: In the study's order, as are the workloads.
        trials: Every trial with its ``spec_sha256``; a result with another one is out of date.
        skipped: The cells that cannot be run, with the reason.
        time_domain: A folder holds results of one domain; virtual and wall time are never pooled.
        seeds: The declared ones, and then all that were added.
        added_seeds: By workload, the seeds added for the precision that the study asks for.
        not_converged: The cells still less precise at the end of the run: the half-width of the 95 % interval
            of the log-ratio to the best stack; None without an interval.
        given_up: The cells whose further seeds are not run, with the failure that two trials had.
        described: The study as it was read, with every default and the parameters of its devices.
        file: The study file's name, without its folder.
        command: The command of that run, without the machine's own settings.
    """

    study_version: Literal[1] = STUDY_VERSION
    name: str
    question: str
    stacks: tuple[Choice, ...]
    workloads: tuple[Choice, ...]
    seeds: tuple[int, ...]
    added_seeds: dict[str, tuple[int, ...]] = Field(default={})
    not_converged: dict[CellName, float | None] = Field(default={})
    given_up: dict[CellName, str] = Field(default={})
    trials: dict[TrialName, Sha256]
    skipped: dict[CellName, str] = Field(default={})
    time_domain: TimeDomain
    runner: str
    described: dict[str, Any] = Field(default={}, repr=False)
    text: str = ""
    file: str = ""
    command: str = ""

    def seeds_of(self, workload: str) -> tuple[int, ...]:
        """A workload's seeds, without seeds added for other workloads alone."""
        added = {seed for seeds in self.added_seeds.values() for seed in seeds}
        own = self.added_seeds.get(workload, ())
        return tuple(seed for seed in self.seeds if seed not in added or seed in own)

    @model_validator(mode="after")
    def _trials_are_of_the_study(self) -> Self:
        stacks = {choice.name for choice in self.stacks}
        workloads = {choice.name for choice in self.workloads}
        for named in (*(trial.cell for trial in self.trials), *self.skipped):
            if named.stack not in stacks or named.workload not in workloads:
                raise ValueError(f"{named} is of no stack and workload of the study")
        return self
