# SPDX-License-Identifier: Apache-2.0
"""What is known of the soundness of a trial's numbers, beside whether they are valid."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

Verdict = Literal["yes", "no", "unknown"]

FINISHED: Final = "finished"
DID_IO: Final = "did-io"
DID_IO_IN_WINDOW: Final = "did-io-in-window"
LARGER_THAN_MEMORY: Final = "larger-than-memory"
STEADY: Final = "steady"
AGED: Final = "aged"
UNDISTURBED: Final = "undisturbed"
PRECONDITIONED: Final = "preconditioned"

QUESTIONS: Final = {
    FINISHED: "did every step come to its end?",
    DID_IO: "did the disks move data?",
    DID_IO_IN_WINDOW: "did the measured window reach the disks?",
    LARGER_THAN_MEMORY: "was the data set larger than memory?",
    STEADY: "was the steady state reached?",
    AGED: "was the filesystem aged as the study asks?",
    UNDISTURBED: "was the machine quiet while it was measured?",
    PRECONDITIONED: "were the flash drives in the state that the study asks for?",
}
"""The checks that are made of every trial (of ageing where a study asks for it, of disturbances and
of real flash drives on a host), as questions. A workload's
own are named by themselves."""

NEGATIONS: Final = {
    FINISHED: "a step did not come to its end",
    DID_IO: "no data reached the disks",
    DID_IO_IN_WINDOW: "cached: the measured window did not reach the disks",
    LARGER_THAN_MEMORY: "the data set fits into memory",
    STEADY: "not steady",
    AGED: "ageing did not come to its end",
    UNDISTURBED: "disturbed",
    PRECONDITIONED: "a flash drive was not in the state that the study asks for",
}
"""What a "no" says, in a few words."""


class Check(BaseModel):
    """The answer to one question about a trial's numbers.

    Attributes:
        name: The question in kebab case, such as ``larger-than-memory``.
        verdict: The answer; ``unknown`` when it cannot be told.
        detail: Why, as a sentence with figures.
        required: Whether a "no" makes the result invalid.
        tenant: Whose numbers it is about; None: those of the trial.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    verdict: Verdict
    detail: str
    required: bool = False
    tenant: Annotated[str | None, Field(exclude_if=lambda value: value is None)] = None

    @property
    def question(self) -> str:
        """The question in plain words."""
        asked = QUESTIONS.get(self.name, f"{self.name.replace('-', ' ')}?")
        return asked if self.tenant is None else f"{self.tenant}: {asked}"

    @property
    def negation(self) -> str:
        """What a "no" says, in a few words."""
        named = self.name.replace("-", " ")
        said = NEGATIONS.get(self.name, f'the check "{named}" says no')
        return said if self.tenant is None else f"{self.tenant}: {said}"
