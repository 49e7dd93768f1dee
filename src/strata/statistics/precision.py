# SPDX-License-Identifier: Apache-2.0
"""Whether there are enough seeds: the rule that stops on precision, never on p."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from strata.spec.trial import CellKey
from strata.statistics.comparison import MetricKind
from strata.statistics.interval import Interval

if TYPE_CHECKING:
    from strata.statistics.study import StudyResults

# Stopping as soon as p falls below a limit would find differences that are not there.
HALF_WIDTH_TARGET: Final = 0.025
SEEDS_WANTED: Final = 6


def half_width(interval: Interval | None) -> float:
    """Half an interval's width in logarithms (0.025: about ±2.5 %); infinite without one above zero."""
    if interval is None or interval.low <= 0 or math.isinf(interval.high):
        return math.inf
    return math.log(interval.high / interval.low) / 2


def half_widths(results: StudyResults, workload: str, kind: MetricKind) -> dict[str, float]:
    """The half-width of each stack's log-ratio to the best stack; infinite with fewer than six seeds.

    A single stack has that of the logarithm of its own mean. The best stack has the widest of the others',
    since every ratio needs its seeds too.
    """
    summaries = results.summaries(workload, kind.name)
    if not summaries:
        return {}
    best, *others = results.ranking(workload, kind)
    found: dict[str, float] = {}
    for stack in others:
        ratio = results.ratio(workload, kind.name, stack, best)
        enough = ratio is not None and ratio.n >= SEEDS_WANTED
        found[stack] = half_width(ratio.interval) if ratio is not None and enough else math.inf
    own = summaries[best]
    alone = half_width(own.interval) if own.n >= SEEDS_WANTED else math.inf
    return {best: max(found.values(), default=alone), **found}


def unconverged(results: StudyResults, target: float = HALF_WIDTH_TARGET) -> Mapping[CellKey, float]:
    """The cells that need more seeds, with their half-widths by the first headline, in the study's order.

    A cell without a usable value needs seeds too, unless the study skips it.
    """
    found: dict[CellKey, float] = {}
    for workload in results.workloads:
        widths = results.half_widths(workload)
        for stack in results.stacks:
            width = widths.get(stack, math.inf)
            if width > target and CellKey(stack, workload) not in results.snapshot.skipped:
                found[CellKey(stack, workload)] = width
    return found
