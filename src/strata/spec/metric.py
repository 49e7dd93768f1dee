# SPDX-License-Identifier: Apache-2.0
"""Metrics: the values that a workload measures."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from strata.spec.step import Phase

Better = Literal["higher", "lower"]

LATENCY: Final = "latency_ns"
"""The family of the latencies of a whole load; those of its parts end with it: ``read_latency_ns``."""


def tenant_prefix(tenant: str | None) -> str:
    """The beginning of the names of a tenant's metrics; empty for None."""
    return "" if tenant is None else f"{tenant.replace('-', '_')}_"


class Metric(BaseModel):
    """One measured value, with its unit and the direction in which it is better.

    Attributes:
        name: The field's term with the unit last, such as ``latency_ns_p99``.
        unit: ``1/s``, ``ns``, ``B/s``, ``B`` or ``1``.
        better: The direction in which a larger difference is an improvement.
        phase: The phase that yielded it.
        headline: Whether a report shows it first.
        family: Of a mean, quantile or maximum: the name of the distribution, such as ``latency_ns``.
        quantile: Of a quantile: which, such as 0.99.
        tenant: The tenant that it was measured of; None: all, or a workload that is alone.
        histogram: The distribution, as an encoded HdrHistogram in the same unit. Only metrics on their way to
            a record have it: the record keeps it once for its family.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    value: float
    unit: str
    better: Better
    phase: Phase = "measure"
    headline: bool = False
    family: str | None = None
    quantile: Annotated[float, Field(ge=0, le=1)] | None = None
    tenant: str | None = None
    histogram: str | None = Field(default=None, exclude=True, repr=False)

    @classmethod
    def of(cls, name: str, value: float, unit: str, **fields: Any) -> Self:
        """A metric; of times less is better, and of anything else more, unless ``better`` is given."""
        chosen = {"better": "lower" if unit == "ns" else "higher", **fields}
        return cls(name=name, value=value, unit=unit, **chosen)

    def prefixed(self, prefix: str, **changes: Any) -> Self:
        """The metric with a prefix to its name and that of its family, and with further changes."""
        family = None if self.family is None else f"{prefix}{self.family}"
        return self.model_copy(update={"name": f"{prefix}{self.name}", "family": family, **changes})
