# SPDX-License-Identifier: Apache-2.0
"""Whether results can be shown, and which metrics of a workload are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from strata.errors import ResultError
from strata.statistics.comparison import MetricKind
from strata.statistics.study import StudyResults

TAILS_MAX: Final = 2
"""With more kinds of requests, only the slowest kind's latency is shown."""


def check_reportable(results: StudyResults, reference: str | None = None) -> None:
    """Raise ResultError if there is no valid result, or no stack named ``reference``."""
    if not results.records:
        raise ResultError(
            "there is no valid result to report",
            place=results.snapshot.name,
            remedy="`strata show RESULTS` says of each trial what is wrong with it",
        )
    if reference is not None and reference not in results.stacks:
        raise ResultError(
            f'the study has no stack "{reference}"',
            place="--reference",
            remedy=f"there are: {', '.join(results.stacks)}",
        )


def chosen_metrics(results: StudyResults, workload: str, names: Sequence[str]) -> list[MetricKind]:
    """The workload's metrics of these names, or its default ones. Raises ResultError for an unknown name."""
    known = {kind.name for each in results.workloads for kind in results.metrics(each)}
    for name in names:
        if name not in known:
            listing = ", ".join(sorted(known)) or "none, for lack of results"
            raise ResultError(
                f'no workload has the metric "{name}"', place="--metric", remedy=f"there are: {listing}"
            )
    if not names:
        return shown_kinds(results, workload)
    return [kind for kind in results.metrics(workload) if kind.name in names]


def shown_kinds(results: StudyResults, workload: str) -> list[MetricKind]:
    """The leading metrics, with one tail where each kind of request has its own: that of the slowest kind.

    In a page the others are among the other metrics, and their distributions are folded away.
    """
    leading = results.leading(workload)
    tails = [kind for kind in leading if not kind.headline]
    if len(tails) <= TAILS_MAX:
        return leading
    slowest = max(tails, key=lambda kind: _typical(results, workload, kind))
    return [kind for kind in leading if kind.headline or kind is slowest]


def _typical(results: StudyResults, workload: str, kind: MetricKind) -> float:
    """The median of a metric over all trials."""
    found = [results.cells[stack, workload].series(kind.name).values.values() for stack in results.stacks]
    return float(np.median([value for values in found for value in values]))
