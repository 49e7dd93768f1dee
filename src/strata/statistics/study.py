# SPDX-License-Identifier: Apache-2.0
"""A study's results arranged as stacks × workloads, each cell over its seeds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from strata.errors import ResultError
from strata.results.record import ResultRecord
from strata.results.snapshot import StudySnapshot
from strata.results.store import Reading, ResultsFolder
from strata.statistics.caution import Caution
from strata.statistics.comparison import Comparison, MetricKind, together
from strata.statistics.ratio import Ratio, best_first, compare
from strata.statistics.summary import Series, Summary, percentile_of, summarize


@dataclass(frozen=True)
class Cell:
    """One stack under one workload: its usable records by seed."""

    stack: str
    workload: str
    records: Mapping[int, ResultRecord]

    def series(self, metric: str) -> Series:
        """A metric's values by seed, with the histograms behind them."""
        found = {seed: record.metric(metric) for seed, record in sorted(self.records.items())}
        return Series(
            values={seed: each.value for seed, each in found.items() if each is not None},
            percentile=percentile_of(metric),
            histograms={seed: each.histogram for seed, each in found.items() if each and each.histogram},
        )


@dataclass(frozen=True)
class StudyResults:
    """Everything that a table or a report says of a study comes from here.

    Attributes:
        cells: By ``(stack, workload)``, in the study's order; a cell without results is there, empty.
    """

    snapshot: StudySnapshot
    readings: tuple[Reading, ...]
    cells: Mapping[tuple[str, str], Cell] = field(repr=False)
    _summaries: dict[tuple[str, str], dict[str, Summary]] = field(default_factory=dict, repr=False)

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

    def leading(self, workload: str) -> list[MetricKind]:
        """The metrics to show first: the headlines, and the 99th percentile of the latency.

        Of several latencies the headlines among them are enough, as of several tenants'.
        """
        kinds = self.metrics(workload)
        tails = [kind for kind in kinds if kind.name.endswith("latency_ns_p99")]
        whole = [kind for kind in tails if kind.headline or kind.name == "latency_ns_p99"]
        return [kind for kind in kinds if kind.headline or kind in (whole or tails)]

    def summaries(self, workload: str, metric: str) -> dict[str, Summary]:
        """A metric by stack, in the study's order; stacks without a usable value are left out."""
        known = self._summaries.get((workload, metric))
        if known is None:
            found = {stack: self.cells[stack, workload].series(metric) for stack in self.stacks}
            known = {stack: summarize(series) for stack, series in found.items() if series.values}
            self._summaries[workload, metric] = known
        return known

    def ranking(self, workload: str, kind: MetricKind) -> list[str]:
        """The stacks with a value, best first."""
        summaries = self.summaries(workload, kind.name)
        return best_first({stack: summary.estimate for stack, summary in summaries.items()}, kind.better)

    def ratio(self, workload: str, metric: str, stack: str, baseline: str) -> Ratio | None:
        """A stack's metric over another's, paired by seed."""
        return compare(
            self.cells[stack, workload].series(metric), self.cells[baseline, workload].series(metric)
        )

    def against(self, baseline: str, kinds: Mapping[str, list[MetricKind]] | None = None) -> list[Comparison]:
        """Every other stack compared to one, workload by workload, in the study's order.

        Their p-values are adjusted for all of them.

        Args:
            baseline: The stack to compare to.
            kinds: The metrics to compare, by workload; each workload's first headline without it.
        """
        found = []
        for workload in self.workloads:
            for kind in self.metrics(workload)[:1] if kinds is None else kinds.get(workload, []):
                for stack in self.stacks:
                    ratio = None
                    if stack != baseline:
                        ratio = self.ratio(workload, kind.name, stack, baseline)
                    if ratio is not None:
                        found.append(Comparison(workload, stack, baseline, kind, ratio))
        return together(found)

    def cautions(self, stack: str, workload: str) -> list[Caution]:
        """What there is to doubt of a cell's numbers."""
        return []


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
    by_cell: dict[tuple[str, str], dict[int, ResultRecord]] = {}
    for record in usable:
        by_cell.setdefault((record.trial.stack, record.trial.workload), {})[record.trial.seed] = record
    cells = {
        (stack.name, workload.name): Cell(
            stack.name, workload.name, by_cell.get((stack.name, workload.name), {})
        )
        for stack in snapshot.stacks
        for workload in snapshot.workloads
    }
    return StudyResults(snapshot, readings, cells)
