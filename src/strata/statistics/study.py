# SPDX-License-Identifier: Apache-2.0
"""A study's results arranged as stacks × workloads, each cell over its seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from strata.errors import ResultError
from strata.results.record import ResultRecord
from strata.results.snapshot import StudySnapshot
from strata.results.store import Reading, ResultsFolder
from strata.spec.metric import Better
from strata.statistics.ratio import Ratio, best_first, compare
from strata.statistics.summary import Summary, summarize


@dataclass(frozen=True)
class MetricKind:
    """A metric without its value."""

    name: str
    unit: str
    better: Better
    headline: bool


@dataclass(frozen=True)
class Cell:
    """One stack under one workload: its usable records by seed."""

    stack: str
    workload: str
    records: Mapping[int, ResultRecord]

    def values(self, metric: str) -> dict[int, float]:
        """A metric's value by seed."""
        found = {seed: record.metric(metric) for seed, record in self.records.items()}
        return {seed: each.value for seed, each in found.items() if each is not None}

    def summary(self, metric: str) -> Summary | None:
        """A metric over the seeds, or None without a usable value."""
        values = self.values(metric)
        return summarize(values) if values else None

    def histograms(self, metric: str) -> list[str]:
        """A metric's encoded histograms, one per seed that has one."""
        found = (record.metric(metric) for record in self.records.values())
        return [each.histogram for each in found if each is not None and each.histogram is not None]


@dataclass(frozen=True)
class StudyResults:
    """Everything that a table or a report says of a study comes from here.

    Attributes:
        cells: By ``(stack, workload)``, in the study's order; a cell without results is there, empty.
    """

    snapshot: StudySnapshot
    readings: tuple[Reading, ...]
    cells: Mapping[tuple[str, str], Cell] = field(repr=False)

    @property
    def stacks(self) -> list[str]:
        """The stacks' names in the study's order."""
        return [choice.name for choice in self.snapshot.stacks]

    @property
    def workloads(self) -> list[str]:
        """The workloads' names in the study's order."""
        return [choice.name for choice in self.snapshot.workloads]

    @property
    def records(self) -> list[ResultRecord]:
        """The usable records, in the study's order."""
        return [reading.record for reading in self.readings if reading.record is not None and reading.usable]

    def metrics(self, workload: str) -> list[MetricKind]:
        """The metrics that a workload yielded, headlines first; without a headline the first becomes one."""
        kinds: dict[str, MetricKind] = {}
        for (_, name), cell in self.cells.items():
            for record in cell.records.values() if name == workload else ():
                for each in record.metrics:
                    kinds.setdefault(each.name, MetricKind(each.name, each.unit, each.better, each.headline))
        ordered = sorted(kinds.values(), key=lambda kind: not kind.headline)
        if ordered and not ordered[0].headline:
            first = ordered[0]
            ordered[0] = MetricKind(first.name, first.unit, first.better, headline=True)
        return ordered

    def summaries(self, workload: str, metric: str) -> dict[str, Summary]:
        """A metric by stack, in the study's order; stacks without a usable value are left out."""
        found = {stack: self.cells[stack, workload].summary(metric) for stack in self.stacks}
        return {stack: summary for stack, summary in found.items() if summary is not None}

    def ranking(self, workload: str, kind: MetricKind) -> list[str]:
        """The stacks with a value, best first."""
        summaries = self.summaries(workload, kind.name)
        return best_first({stack: summary.mean for stack, summary in summaries.items()}, kind.better)

    def ratio(self, workload: str, metric: str, stack: str, baseline: str) -> Ratio | None:
        """A stack's metric over another's, paired by seed."""
        return compare(
            self.cells[stack, workload].values(metric), self.cells[baseline, workload].values(metric)
        )


def gather(folder: ResultsFolder) -> StudyResults:
    """Read a results folder. Trials without a usable result stay among the readings, with the reason.

    Raises:
        ResultError: If study.json cannot be read, or virtual and wall results lie together.
    """
    snapshot = folder.study()
    readings = tuple(folder.readings())
    usable = [reading.record for reading in readings if reading.record is not None and reading.usable]
    if len({record.time_domain for record in usable}) > 1:
        raise ResultError("virtual and wall results are never pooled", place=str(folder.path))
    cells = {
        (stack.name, workload.name): Cell(
            stack.name,
            workload.name,
            {
                record.trial.seed: record
                for record in usable
                if (record.trial.stack, record.trial.workload) == (stack.name, workload.name)
            },
        )
        for stack in snapshot.stacks
        for workload in snapshot.workloads
    }
    return StudyResults(snapshot, readings, cells)
