# SPDX-License-Identifier: Apache-2.0
"""Metrics in words, for a line, a table or a chart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from strata.model.metric import Metric
from strata.units import format_value, percentile

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
