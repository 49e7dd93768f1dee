# SPDX-License-Identifier: Apache-2.0
"""What a workload measures: a value with its unit and the direction in which it is better."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

from strata.spec.step import Phase

Better = Literal["higher", "lower"]


class Metric(BaseModel):
    """One measured value.

    Attributes:
        name: The field's term with the unit last, such as ``latency_ns_p99``.
        unit: ``1/s``, ``ns``, ``B/s``, ``B`` or ``1``.
        better: The direction in which a larger difference is an improvement.
        phase: The phase that yielded it.
        headline: Whether a report shows it first.
        histogram: An encoded HdrHistogram of the distribution behind the value, in the same unit.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    value: float
    unit: str
    better: Better
    phase: Phase = "measure"
    headline: bool = False
    histogram: str | None = None
