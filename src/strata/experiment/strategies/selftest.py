# SPDX-License-Identifier: Apache-2.0
"""The method on one stack that stands for several: how often is a difference found where there is none?"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice
from typing import Final

from strata.errors import RunError, StudyError
from strata.experiment.experiment import Cells
from strata.model.design import further_seeds
from strata.model.study import Study
from strata.model.trial import CellKey
from strata.plan.compile import skipped
from strata.printable import in_json
from strata.results.store import ResultsFolder
from strata.statistics.selftest import SHAPES, BestOf, best_of, synthetic_best_of
from strata.statistics.study import gather
from strata.units import percent

GOOD: Final = "at most 5 %"
TOO_OFTEN: Final = "too often"
_LEVEL: Final = 0.05


@dataclass(frozen=True)
class Tested:
    of: str  # the metric, stack and workload, or the distribution
    values: int  # their number; 0 for drawn values
    found: BestOf

    @property
    @in_json
    def verdict(self) -> str:
        """Whether either rate is surely above 5 %, by the interval of the rate."""
        rates = (self.found.by_interval, self.found.by_verdict)
        return TOO_OFTEN if any(rate.interval[0] > _LEVEL for rate in rates) else GOOD


def one_cell(study: Study, cell: CellKey, seeds: int, group: int) -> Study:
    """The study reduced to one cell, with this number of seeds. Raises StudyError if these are too few."""
    if seeds < 2 * group:
        raise StudyError(
            f"{seeds} seeds are too few for two groups of {group}",
            place="--seeds",
            remedy=f"ask for {8 * group}, four times as many as a comparison takes; or lower --group",
        )
    if why := skipped(study).get(cell):
        raise StudyError(f"{cell} cannot be run: {why}", place=str(study.file))
    drawn = [*islice(chain(study.seeds, further_seeds(study.seeds)), seeds)]
    return Cells([cell.stack], [cell.workload], drawn).of(study)


def measured(study: Study, folder: ResultsFolder, group: int, stacks: int, workloads: int) -> Tested:
    """The studies drawn from the values of one cell. Raises RunError if they are too few, or not above 0."""
    gathered = gather(folder)
    (stack,), (workload,) = study.stacks, study.workloads
    kinds = gathered.metrics(workload)
    values = gathered.cells[stack, workload].series(kinds[0].name).values if kinds else {}
    if len(values) < 2 * group:
        raise RunError(
            f"only {len(values)} trials of {stack}.{workload} are valid: too few for two groups of {group}",
            place=str(folder.path),
            remedy=f"`strata show {folder.path}` says what is wrong with the others",
        )
    if min(values.values()) <= 0:
        raise RunError(
            f"{kinds[0].name} is not always above 0, so that it has no ratios", place=str(folder.path)
        )
    of = f"{kinds[0].name} of {stack} under {workload}"
    return Tested(of, len(values), best_of(values, group, stacks, workloads))


def synthetic(group: int, stacks: int, workloads: int, spread: float, slower: float) -> list[Tested]:
    """The same of known distributions, without a lab."""
    return [
        Tested(
            f"{name} ({shape.means}), ±{percent(spread)}",
            0,
            synthetic_best_of(name, group, stacks, workloads, spread=spread, slower=slower),
        )
        for name, shape in SHAPES.items()
    ]
