# SPDX-License-Identifier: Apache-2.0
"""study.json: the study as the last `strata run` into a results folder saw it."""

from __future__ import annotations

from typing import Any, Final, Literal, Self

from pydantic import Field, model_validator

from strata.results.record import Frozen, Sha256, TimeDomain
from strata.spec.trial import CellName, TrialName

STUDY_VERSION: Final = 1


class Choice(Frozen):
    """A stack or a workload of the study.

    Attributes:
        name: Its name in the study.
        title: What it is in one line.
        rationale: Of a workload a paragraph: what use it stands for.
    """

    name: str
    title: str = ""
    rationale: str = ""


class StudySnapshot(Frozen):
    """What a table or a report needs to know of a study beside its results.

    Attributes:
        stacks: In the study's order; so are the workloads.
        trials: Every trial with its ``spec_sha256``; a result with another one is out of date.
        skipped: What has no trials because it cannot be run, with the reason.
        time_domain: A folder holds results of one domain; virtual and wall time are never pooled.
        seeds: Those declared, and then those that were added for any workload.
        added_seeds: By workload, which seeds were added, since it was not as precise as the study asks.
        not_converged: What was not so at the end of the run: the half-width of the
            95 % interval of its log-ratio to the best stack; None where there is no interval yet. It is empty
            in a study that asks for no precision.
        described: The study as it was understood, with every default and the parameters of its devices.
        text: The study file's text.
        file: The study file's name, without its folder.
        command: The command of that run without what is the machine's own.
    """

    study_version: Literal[1] = STUDY_VERSION
    name: str
    question: str
    stacks: tuple[Choice, ...]
    workloads: tuple[Choice, ...]
    seeds: tuple[int, ...]
    added_seeds: dict[str, tuple[int, ...]] = Field(default={})
    not_converged: dict[CellName, float | None] = Field(default={})
    trials: dict[TrialName, Sha256]
    skipped: dict[CellName, str] = Field(default={})
    time_domain: TimeDomain
    runner: str
    described: dict[str, Any] = Field(default={}, repr=False)
    text: str = ""
    file: str = ""
    command: str = ""

    def seeds_of(self, workload: str) -> tuple[int, ...]:
        """The seeds that a workload is to have: without those that were added for others alone."""
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
