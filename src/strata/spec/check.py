# SPDX-License-Identifier: Apache-2.0
"""What is known of the soundness of a trial's numbers, beside whether they are valid."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

Verdict = Literal["yes", "no", "unknown"]


class Check(BaseModel):
    """The answer to one question about a trial's numbers.

    Attributes:
        name: The question in kebab case, such as ``larger-than-memory``.
        verdict: The answer; ``unknown`` when it cannot be told.
        detail: Why, as a sentence with figures.
        required: Whether a "no" makes the result invalid.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    verdict: Verdict
    detail: str
    required: bool = False
