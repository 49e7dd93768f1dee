# SPDX-License-Identifier: Apache-2.0
"""Further seeds for cells that are not precise enough: a study stops on precision, never on a difference.

Stopping as soon as a difference is clear finds differences that are not there. Stopping at a fixed width
costs less, but it does cost: it stops where the scatter happens to look small, so that fewer intervals hold
than they promise (docs/explanation/statistics.md, "Stopping", has how many). Seeds are added as whole blocks,
on every stack, and follow from the results alone: in the lab a study comes to the same seeds, however often
it is interrupted.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from strata.model.design import CONVERGED_SEEDS_MIN, further_seeds
from strata.model.study import Study
from strata.model.trial import CellKey, TrialKey
from strata.statistics.study import StudyResults
from strata.units import format_share, percent


def with_all_seeds(study: Study) -> Study:
    """The study with every seed that could be added to it."""
    if study.precision is None:
        return study
    return replace(study, added_seeds=dict.fromkeys(study.workloads, _following(study)))


def more_seeds(
    study: Study, results: StudyResults, chosen: Container[TrialKey]
) -> tuple[Study, tuple[str, ...]] | None:
    """Another seed for each workload with an imprecise cell; where trials fail, seeds do not help."""
    if study.precision is None:
        return None
    unusable = [reading.trial for reading in results.readings if not reading.usable]
    failed = {trial.cell for trial in unusable}
    widths = results.unconverged(study.precision)
    unsure = {cell: width for cell, width in widths.items() if cell not in failed}
    grown = with_more_seeds(study, unsure)
    return None if grown is None else (grown, tuple(_reasons(study, grown, unsure)))


def with_more_seeds(study: Study, unsure: Collection[CellKey]) -> Study | None:
    """The study with another seed for each workload that has an unsure cell; None if none is added."""
    following = _following(study)
    added = dict(study.added_seeds)
    for workload in dict.fromkeys(workload for _, workload in unsure):
        count = len(added.get(workload, ()))
        added[workload] = following[: max(count + 1, CONVERGED_SEEDS_MIN - len(study.seeds))]
    grown = {workload: added[workload] for workload in study.workloads if added.get(workload)}
    return None if grown == dict(study.added_seeds) else replace(study, added_seeds=grown)


def _following(study: Study) -> tuple[int, ...]:
    return tuple(islice(further_seeds(study.seeds), max(0, study.seeds_max - len(study.seeds))))


def _reasons(study: Study, grown: Study, unsure: Mapping[CellKey, float]) -> Iterator[str]:
    """For each workload that gets more seeds: its present precision, and the seeds."""
    for workload in grown.added_seeds:
        new = grown.seeds_of(workload)[len(study.seeds_of(workload)) :]
        if new:
            widths = {stack: width for (stack, load), width in unsure.items() if load == workload}
            widest = max(widths, key=lambda stack: widths[stack])
            of = "no interval yet" if math.isinf(widths[widest]) else f"{widest}: ±{percent(widths[widest])}"
            seeds = ("seeds " if len(new) > 1 else "seed ") + ", ".join(map(str, new))
            yield f"{workload} is not within ±{format_share(study.precision or 0)} yet ({of}): {seeds} added"
