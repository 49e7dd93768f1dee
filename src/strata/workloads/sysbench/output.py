# SPDX-License-Identifier: Apache-2.0
"""The output of sysbench 1.0 for any test: the general statistics, and the histogram of the latencies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from strata.spec.histogram import empty_histogram, latency_metrics, record
from strata.spec.metric import Metric
from strata.spec.workload import unreadable
from strata.units import NS_PER_MS

SHARED_FIGURES: Final[Mapping[str, str]] = {
    "time_s": r"^ +total time: +([0-9.]+)s$",
    "events": r"^ +total number of events: +([0-9]+)$",
    "latency_ms_max": r"^ +max: +([0-9.]+)$",
    "latency_ms_sum": r"^ +sum: +([0-9.]+)$",
}
"""Patterns of the figures that every test has."""

# The 1024 bins lie between 1 us and 100 s, each 1.8 % above the one before (sb_histogram.c, sb_timer.h).
_BIN: Final = re.compile(r"^ *([0-9]+\.[0-9]+) \|\** +([0-9]+)$", re.MULTILINE)


def figures_of(step_id: str, text: str, patterns: Mapping[str, str]) -> dict[str, float]:
    """The figures that patterns find, each by its first group; a `RunError` if one is missing."""
    figures = {}
    for name, pattern in patterns.items():
        match = re.search(pattern, text, re.MULTILINE)
        if match is None:
            raise unreadable(step_id, f"sysbench printed no {name}", text)
        figures[name] = float(match[1])
    return figures


def latencies_of(step_id: str, text: str, figures: Mapping[str, float], events: float) -> list[Metric]:
    """The latencies of ``events`` events: percentiles of the histogram, an exact mean and maximum.

    sysbench must have been run with ``--histogram``; ``figures`` are those of `SHARED_FIGURES`. Its bins are
    1.8 % wide.
    """
    histogram = empty_histogram()
    bins = _BIN.findall(text)
    if not bins or not events:
        raise unreadable(step_id, "sysbench printed no histogram", text)
    for value_ms, count in bins:
        record(histogram, round(float(value_ms) * NS_PER_MS), int(count))
    return latency_metrics(
        histogram,
        latency_ns_mean=round(figures["latency_ms_sum"] * NS_PER_MS) / events,
        latency_ns_max=float(round(figures["latency_ms_max"] * NS_PER_MS)),
    )
