# SPDX-License-Identifier: Apache-2.0
"""Metrics: the values that a workload measures, and the declaration of what it can measure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, Protocol, Self

from pydantic import BaseModel, ConfigDict, Field

from strata.model.step import Phase
from strata.units import format_value, percentile

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
        headline: Whether a report shows it first.
        family: Of a mean, quantile or maximum: the name of the distribution, such as ``latency_ns``.
        tenant: The tenant that it was measured of; None: all, or a workload that is alone.
        steps: The steps whose time it measures, if that is not all of the measured window. A record has none.
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
    steps: tuple[str, ...] = Field(default=(), exclude=True, repr=False)

    @classmethod
    def of(cls, name: str, value: float, unit: str, **fields: Any) -> Self:
        """A metric; of times less is better, and of anything else more, unless ``better`` is given."""
        chosen = {"better": "lower" if unit == "ns" else "higher", **fields}
        return cls(name=name, value=value, unit=unit, **chosen)

    def prefixed(self, prefix: str, **changes: Any) -> Self:
        """The metric with a prefix to its name and that of its family, and with further changes."""
        family = None if self.family is None else f"{prefix}{self.family}"
        return self.model_copy(update={"name": f"{prefix}{self.name}", "family": family, **changes})

    def of_tenant(self, tenant: str | None, **changes: Any) -> Self:
        """The metric of one of several tenants, whose name it begins with; itself for None."""
        return self.prefixed(tenant_prefix(tenant), tenant=tenant, **changes)


_ANSWERS: Final = (*(f"{of}{LATENCY}_p99" for of in ("", "pass_", "sync_")), "transactions_skipped")


def of_open_loop(metrics: Iterable[Metric]) -> list[Metric]:
    """The metrics of a load whose rate the study chose: its 99th percentile first, then what it skipped.

    The rate that it reached says what was asked for, so it is no headline; without a latency it stays one.
    """
    each = list(metrics)
    answers = [metric for name in _ANSWERS for metric in each if metric.name == name and metric.value]
    if not any(metric.quantile for metric in answers):
        return each
    others = [metric.model_copy(update={"headline": False}) for metric in each if metric not in answers]
    return [*(metric.model_copy(update={"headline": True}) for metric in answers), *others]


_PART: Final = re.compile(r"\{([^}]*)\}|<[^>]*>|([^{<]+)")


@dataclass(frozen=True)
class MetricSpec:
    """A metric of a workload, or several: ``{read,write}`` is one of these words, ``<part>`` any."""

    names: str
    unit: str
    better: Better
    meaning: str

    def covers(self, metric: Metric) -> bool:
        return (metric.unit, metric.better) == (self.unit, self.better) and self.is_called(metric.name)

    def is_called(self, name: str) -> bool:
        return re.fullmatch(_PART.sub(_pattern, self.names), name) is not None


def _pattern(match: re.Match[str]) -> str:
    if match[1] is not None:
        return f"(?:{'|'.join(map(re.escape, match[1].split(',')))})"
    return re.escape(match[2]) if match[2] is not None else "[a-z0-9_]+"


def latency_metric_specs(meaning: str, prefix: str = "") -> tuple[MetricSpec, ...]:
    """The metrics of `latency_metrics`; ``prefix`` is the family without ``latency_ns``."""
    names = f"{prefix}latency_ns_{{mean,p50,p95,p99,p999,max}}"
    return (MetricSpec(names, "ns", "lower", meaning),)


_EACH: Final = "of disks and processors for one operation (or one load that counts none): "
PER_OPERATION: Final = (
    MetricSpec(
        "{reads,writes,flushes,journal_writes,seeks}_per_operation",
        "1",
        "lower",
        f"{_EACH}requests, movements",
    ),
    MetricSpec("{read,write}_bytes_per_operation", "B", "lower", f"{_EACH}data moved"),
    MetricSpec("processor_time_ns_per_operation", "ns", "lower", f"{_EACH}time of the lab's processors"),
)
"""The counts per operation of every workload: no check and no rank regards them."""
_PIECES: Final = "fragmentation_<layer>"
_WITH: Final = "with fragmentation: "
COMMON: Final = (
    *PER_OPERATION,
    MetricSpec("snapshots_taken", "1", "higher", "with snapshot_every: snapshots taken in the window"),
    MetricSpec("snapshot_ns_{mean,max}", "ns", "lower", "with snapshot_every: what one took"),
    MetricSpec("rebuild_ns", "ns", "lower", "with a rebuild in before_measure: from the loss to its end"),
    MetricSpec("aged_snapshots_bytes", "B", "lower", "with snapshots of age: space that only they held"),
    MetricSpec(
        "aged_snapshots_{delete,send}_ns",
        "ns",
        "lower",
        "with snapshots of age: to delete all and free their space; to send what changed from first to last",
    ),
    MetricSpec(
        f"{_PIECES}_extents_per_file_{{mean,p50,p99,max}}",
        "1",
        "lower",
        f"{_WITH}pieces of a file; …_before_… of before the window",
    ),
    MetricSpec(f"{_PIECES}_files_in_one_piece", "1", "higher", f"{_WITH}their share"),
    MetricSpec(f"{_PIECES}_extent_bytes_mean", "B", "higher", f"{_WITH}size of a piece"),
    MetricSpec(f"{_PIECES}_free_extents", "1", "lower", f"{_WITH}pieces of free space"),
    MetricSpec(
        f"{_PIECES}_free_extent_bytes_{{mean,max}}", "B", "higher", f"{_WITH}size of a piece of free space"
    ),
    MetricSpec(f"{_PIECES}_free_space_index", "1", "lower", f"{_WITH}as ZFS says, 0 to 1"),
    MetricSpec(
        "linear_read_{before,after}_bytes_per_s",
        "B/s",
        "higher",
        "with linear_read: all files read from their beginning to their end",
    ),
)
"""The metrics that every workload can yield: the counts, and others by keys that all have."""


_HEADLINES_MAX: Final = 4  # several tenants have a dozen; tables show all of them
_QUALIFIERS: Final = {"max": "maximum", "min": "minimum", "mean": "mean", "stddev": "standard deviation"}
_UNITS_IN_NAMES: Final = {"ns", "s", "ms", "us"}


class Titled(Protocol):
    """Whatever describes a metric: a measured one, or its kind in a comparison."""

    @property
    def name(self) -> str: ...
    @property
    def family(self) -> str | None: ...
    @property
    def quantile(self) -> float | None: ...


def metric_title(metric: Titled) -> str:
    """A metric in words: ``latency, 99th percentile``."""
    if metric.quantile is None or metric.family is None:
        return name_title(metric.name)
    of = "median" if metric.quantile == 0.5 else f"{percentile(metric.quantile)}th percentile"
    return f"{name_title(metric.family)}, {of}"


def name_title(name: str) -> str:
    """The name of a metric or of a family in words: ``latency``."""
    parts = [part for part in name.removesuffix("_per_s").split("_") if part not in _UNITS_IN_NAMES]
    title = " ".join(part for part in parts if part not in _QUALIFIERS)
    title += " per second" if name.endswith("_per_s") else ""
    return ", ".join([title, *(_QUALIFIERS[part] for part in parts if part in _QUALIFIERS)])


def headlines(metrics: Sequence[Metric]) -> str:
    """The first headlines of a trial with their values; without any its first metric."""
    chosen = [metric for metric in metrics if metric.headline] or list(metrics[:1])
    return ", ".join(
        f"{metric_title(each)} {format_value(each.value, each.unit).removesuffix(' /s')}"
        for each in chosen[:_HEADLINES_MAX]
    )
