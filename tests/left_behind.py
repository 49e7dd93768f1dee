# SPDX-License-Identifier: Apache-2.0
"""What trials must not leave attached, and metrics that no workload declares."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from strata.model.metric import Metric, MetricSpec


def loops_under(path: Path) -> dict[str, str]:
    """The loop devices whose file is, or was, under ``path``, with that file."""
    found = {}
    for state in sorted(Path("/sys/block").glob("loop*/loop/backing_file")):
        with suppress(OSError):  # detached meanwhile
            file = os.fsdecode(state.read_bytes()).rstrip("\n").removesuffix(" (deleted)")
            if Path(file).is_relative_to(path):
                found[f"/dev/{state.parent.parent.name}"] = file
    return found


def undeclared(metric_specs: Iterable[MetricSpec], metrics: Iterable[Metric]) -> Iterator[str]:
    """The metrics that are none of the declared ones, each with its unit and direction."""
    declared = tuple(metric_specs)
    for metric in metrics:
        if not any(each.covers(metric) for each in declared):
            yield f"{metric.name} ({metric.unit}, {metric.better} is better)"
