# SPDX-License-Identifier: Apache-2.0
"""The declaration of a workload's metrics: names, units, directions, meanings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from strata.spec.metric import Better, Metric

_PART: Final = re.compile(r"\{([^}]*)\}|<[^>]*>|([^{<]+)")


@dataclass(frozen=True)
class MetricSpec:
    """A metric that a workload can yield, or a family of them.

    Attributes:
        names: Its name. ``{read,write}`` stands for one of these words, ``<part>`` for any.
        unit: As in `Metric`, like ``better``.
        meaning: A few words.
    """

    names: str
    unit: str
    better: Better
    meaning: str

    def covers(self, metric: Metric) -> bool:
        return (metric.unit, metric.better) == (self.unit, self.better) and self.is_called(metric.name)

    def is_called(self, name: str) -> bool:
        pattern = "".join(_pattern(match) for match in _PART.finditer(self.names))
        return re.fullmatch(pattern, name) is not None


def _pattern(match: re.Match[str]) -> str:
    if match[1] is not None:
        return f"(?:{'|'.join(map(re.escape, match[1].split(',')))})"
    return re.escape(match[2]) if match[2] is not None else "[a-z0-9_]+"


def latency_metric_specs(meaning: str, prefix: str = "") -> tuple[MetricSpec, ...]:
    """The metrics of `latency_metrics`; ``prefix`` is the family without ``latency_ns``."""
    names = f"{prefix}latency_ns_{{mean,p50,p95,p99,p999,max}}"
    return (MetricSpec(names, "ns", "lower", meaning),)


def undeclared(metric_specs: Iterable[MetricSpec], metrics: Iterable[Metric]) -> Iterator[str]:
    """The metrics that are none of the declared ones, each with its unit and direction."""
    declared = tuple(metric_specs)
    for metric in metrics:
        if not any(each.covers(metric) for each in declared):
            yield f"{metric.name} ({metric.unit}, {metric.better} is better)"


COMMON: Final = (
    MetricSpec("snapshots_taken", "1", "higher", "with snapshot_every: snapshots taken in the window"),
    MetricSpec("snapshot_ns_{mean,max}", "ns", "lower", "with snapshot_every: what one took"),
    MetricSpec(
        "fragmentation_<layer>_extents_per_file_{mean,p50,p99,max}",
        "1",
        "lower",
        "with fragmentation: pieces of a file; …_before_… of before the window",
    ),
    MetricSpec("fragmentation_<layer>_files_in_one_piece", "1", "higher", "with fragmentation: their share"),
    MetricSpec(
        "fragmentation_<layer>_extent_bytes_mean", "B", "higher", "with fragmentation: size of a piece"
    ),
    MetricSpec(
        "fragmentation_<layer>_free_extents", "1", "lower", "with fragmentation: pieces of free space"
    ),
    MetricSpec(
        "fragmentation_<layer>_free_extent_bytes_{mean,max}",
        "B",
        "higher",
        "with fragmentation: size of a piece of free space",
    ),
    MetricSpec(
        "fragmentation_<layer>_free_space_index", "1", "lower", "with fragmentation: as ZFS says, 0 to 1"
    ),
    MetricSpec(
        "linear_read_{before,after}_bytes_per_s",
        "B/s",
        "higher",
        "with linear_read: all files read from their beginning to their end",
    ),
)
"""The metrics that every workload can yield, by keys that all have."""
