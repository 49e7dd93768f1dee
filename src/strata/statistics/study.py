# SPDX-License-Identifier: Apache-2.0
"""A study's results arranged as stacks × workloads, each cell over its seeds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product

from strata.errors import ResultError
from strata.model.metric import LATENCY
from strata.model.trial import CellKey, TrialKey
from strata.model.warning import ResultWarning, doubted_by, unranked_by
from strata.results.counts import COUNT_NAMES, counts_of, metric_of
from strata.results.record import Fingerprint, ResultRecord, StudySnapshot
from strata.results.search import Search, searches
from strata.results.store import Reading, ResultsFolder
from strata.statistics.comparison import CellSeries, Comparison, MetricKind, Ratio, family_over, judge
from strata.statistics.family import Family
from strata.statistics.interval import HALF_WIDTH_TARGET, PRACTICAL_ZONE, SEEDS_WANTED, half_width
from strata.statistics.level import cached_method
from strata.statistics.summary import MetricSummary, Series, summarize
from strata.statistics.warnings import warnings_of
from strata.words import grouped


@dataclass(frozen=True)
class CellResults:
    """One stack under one workload: its usable records by seed."""

    stack: str
    workload: str
    records: Mapping[int, ResultRecord]

    @cached_method
    def series(self, metric: str) -> Series:
        """A metric's values by seed, with the histograms behind them."""
        every = ((seed, metric_of(record, metric)) for seed, record in sorted(self.records.items()))
        found = {seed: each for seed, each in every if each is not None}
        quantile = next((each.quantile for each in found.values()), None)
        histograms = {seed: self.records[seed].histogram(each) for seed, each in found.items()}
        return Series(
            values={seed: each.value for seed, each in found.items()},
            percentile=None if quantile is None else round(quantile * 100, 6),
            histograms={seed: each for seed, each in histograms.items() if each is not None},
        )


@dataclass(frozen=True)
class StudyResults:
    """The source of every figure in tables and reports.

    Attributes:
        cells: By ``(stack, workload)``, in the study's order; a cell without results is empty. Of a search it
            has what the probes found together.
        searches: The probes, by search.
    """

    snapshot: StudySnapshot
    readings: tuple[Reading, ...]
    cells: Mapping[tuple[str, str], CellResults] = field(repr=False)
    searches: Mapping[TrialKey, Search] = field(default_factory=dict, repr=False)

    @property
    def stacks(self) -> list[str]:
        return list(self.snapshot.stacks)

    @property
    def reference(self) -> str:
        """The stack to compare with: the study's, or its first."""
        return self.snapshot.reference or self.stacks[0]

    @property
    def workloads(self) -> list[str]:
        return list(self.snapshot.workloads)

    @property
    def records(self) -> list[ResultRecord]:
        """The usable records, in the study's order."""
        return [reading.record for reading in self.readings if reading.record is not None and reading.usable]

    @cached_property
    def fingerprints(self) -> frozenset[Fingerprint]:
        """The labs or hosts of the usable records; with several, comparisons are doubtful."""
        return frozenset(self._labs())

    def _labs(self) -> Iterator[Fingerprint]:
        """The fingerprints; the first of each kernel that the study asks for counts as no kernel."""
        asked = self.snapshot.kernels
        first: dict[str, str | None] = {}
        for record in self.records:
            kernel = record.fingerprint.kernel_sha256
            expected = first.setdefault(f"{asked.get(record.trial.stack, '')}", kernel) == kernel
            changed = {"kernel_sha256": None} if expected else {}
            yield record.fingerprint.model_copy(update=changed)

    def readings_of(self, stack: str, workload: str) -> list[Reading]:
        return self._readings.get(CellKey(stack, workload), [])

    @cached_property
    def _readings(self) -> dict[CellKey, list[Reading]]:
        return grouped((reading.trial.cell, reading) for reading in self.readings)

    def metrics(self, workload: str) -> list[MetricKind]:
        """The metrics that a workload yielded, headlines first; without a headline the first becomes one."""
        return list(self._kinds.get(workload, ()))

    @cached_property
    def _kinds(self) -> dict[str, list[MetricKind]]:
        found: dict[str, dict[str, MetricKind]] = {}
        for (_, workload), cell in self.cells.items():
            kinds = found.setdefault(workload, {})
            for record in cell.records.values():
                for each in record.metrics:
                    known = kinds.get(each.name)
                    if known is None or each.headline > known.headline:
                        kinds[each.name] = MetricKind.of(each)
        ordered = {
            workload: sorted(kinds.values(), key=lambda kind: not kind.headline)
            for workload, kinds in found.items()
        }
        for kinds_of_one in ordered.values():
            if kinds_of_one and not kinds_of_one[0].headline:
                kinds_of_one[0] = replace(kinds_of_one[0], headline=True)
        return ordered

    @cached_method
    def counts(self, workload: str) -> list[MetricKind]:
        """The counts per operation of a workload's trials: no headlines, and not among its metrics."""
        records = (record for stack in self.stacks for record in self.cells[stack, workload].records.values())
        found = {each.name: MetricKind.of(each) for record in records for each in counts_of(record)}
        return [found[name] for name in COUNT_NAMES if name in found]

    def kinds(self, workload: str) -> list[MetricKind]:
        """The metrics, and then the counts."""
        return [*self.metrics(workload), *self.counts(workload)]

    def leading(self, workload: str) -> list[MetricKind]:
        """The metrics to show first: the headlines, and the 99th percentile of the latency.

        Of several latencies, such as tenants', the headlines suffice.
        """
        kinds = self.metrics(workload)
        tails = [kind for kind in kinds if kind.quantile == 0.99 and kind.is_latency]
        whole = [kind for kind in tails if kind.headline or kind.family == LATENCY]
        return [kind for kind in kinds if kind.headline or kind in (whole or tails)]

    @cached_method
    def summaries(self, workload: str, metric: str) -> dict[str, MetricSummary]:
        """A metric by stack, in the study's order; stacks without a usable value are left out."""
        found = {stack: self.cells[stack, workload].series(metric) for stack in self.stacks}
        return {stack: summarize(series) for stack, series in found.items() if series.values}

    def lacking(self, stack: str, workload: str) -> str:
        """The known reason why a cell has no valid result; empty: there is none, or it has one."""
        cell = CellKey(stack, workload)
        if why := self.snapshot.skipped.get(cell):
            return f"skipped: {why}"
        if self.cells[cell].records:
            return ""
        return next(filter(None, (each.problem for each in self.readings_of(*cell))), "")

    @cached_method
    def unranked(self, stack: str, workload: str) -> str:
        """The reason for which a cell has no rank, in a few words; empty: it has one."""
        return unranked_by(record.checks for record in self.cells[stack, workload].records.values())

    @property
    def precision(self) -> float:
        """The half-width to which the study asks ratios to be known, or the default one."""
        return self.snapshot.precision or HALF_WIDTH_TARGET

    def ranking(self, workload: str, kind: MetricKind) -> list[str]:
        """The stacks that have a rank, the best first."""
        summaries = self.summaries(workload, kind.name)
        sign = -1 if kind.better == "higher" else 1
        ranked = [stack for stack in summaries if not self.unranked(stack, workload)]
        return sorted(ranked, key=lambda stack: sign * summaries[stack].estimate)

    def series(self, cell: CellKey, kind: MetricKind, *, cached: bool = False) -> CellSeries:
        """A metric of a cell with everything that a verdict on it depends on.

        ``cached``: that its window did not reach the disks is no reason to doubt it.
        """
        each = self.cells[cell]
        doubt = doubted_by((record.checks for record in each.records.values()), kind.phase, cached=cached)
        return CellSeries(
            cell.workload,
            cell.stack,
            each.series(kind.name),
            self.precision,
            self.unranked(*cell),
            f"{cell.stack}: {doubt}" if doubt else "",
        )

    @cached_method
    def compared(
        self,
        kind: MetricKind,
        cell: CellKey,
        other: CellKey,
        *,
        among: frozenset[str] | None = None,
        cached: bool = False,
        zone: float = PRACTICAL_ZONE,
    ) -> Comparison | None:
        """A cell against another one.

        Under one workload the intervals of all pairs of ranked stacks hold together: of all stacks, or of
        those ``among`` which the two are.
        """
        chosen = tuple(each for each in self.stacks if among is None or each in among)
        upper, lower = (self.series(each, kind, cached=cached) for each in (cell, other))
        alike = cell.workload == other.workload
        family = self._family(cell.workload, kind.name, chosen) if alike else None
        return judge(kind, upper, lower, zone=zone, family=family)

    @cached_method
    def _family(self, workload: str, metric: str, stacks: tuple[str, ...]) -> Family | None:
        ranked = (stack for stack in stacks if not self.unranked(stack, workload))
        return family_over([self.cells[stack, workload].series(metric) for stack in ranked])

    @cached_method
    def half_widths(self, workload: str) -> dict[str, float]:
        """The half-width of each ranked stack's log-ratio to the best stack, by the first headline.

        It is infinite with fewer than six seeds. A single stack has that of the logarithm of its own mean.
        The best of several has the widest of the others': every ratio needs its seeds too.
        """
        kind = next(iter(self.metrics(workload)), None)
        ranking = self.ranking(workload, kind) if kind is not None else []
        if kind is None or not ranking:
            return {}
        alike = {stack for stack in ranking if self.cells[stack, workload].series(kind.name).alike}

        def width(found: Ratio | MetricSummary | None, *of: str) -> float:
            if found is None or found.n < SEEDS_WANTED:
                return math.inf
            return 0.0 if alike.issuperset(of) else half_width(found.interval)  # more of the same add nothing

        best, *others = ranking
        best_cell = CellKey(best, workload)
        against = {stack: self.compared(kind, CellKey(stack, workload), best_cell) for stack in others}
        ratios = {stack: each.ratio if each else None for stack, each in against.items()}
        widths = {stack: width(ratio, stack, best) for stack, ratio in ratios.items()}
        own = self.summaries(workload, kind.name)[best]
        return {best: max(widths.values(), default=width(own, best)), **widths}

    def unconverged(self, target: float = HALF_WIDTH_TARGET) -> dict[CellKey, float]:
        """The cells that need more seeds, with their half-widths by the first headline, in the study's order.

        A cell without a usable value needs seeds too, unless the study skips it; one without a rank does not.
        """
        every = (CellKey(stack, workload) for workload in self.workloads for stack in self.stacks)
        cells = [cell for cell in every if not self.unranked(*cell)]
        widths = {cell: self.half_widths(cell.workload).get(cell.stack, math.inf) for cell in cells}
        skipped = self.snapshot.skipped
        return {cell: width for cell, width in widths.items() if width > target and cell not in skipped}

    def against(self, baseline: str, kinds: Mapping[str, list[MetricKind]] | None = None) -> list[Comparison]:
        """Every other stack compared to one, in the study's order.

        ``kinds`` has the metrics to compare, by workload; without it each workload's first headline counts.
        """
        found = []
        for workload in self.workloads:
            for kind in self.metrics(workload)[:1] if kinds is None else kinds.get(workload, []):
                for stack in self.stacks:
                    cells = CellKey(stack, workload), CellKey(baseline, workload)
                    if stack != baseline and (each := self.compared(kind, *cells)) is not None:
                        found.append(each)
        return found

    @cached_method
    def warnings(self, stack: str, workload: str) -> list[ResultWarning]:
        """Every reason to doubt a cell's numbers, the gravest first."""
        return warnings_of(self, stack, workload)


def gather(folder: ResultsFolder) -> StudyResults:
    """Read a results folder; trials without a usable result stay among the readings, with the reason.

    Raises ResultError if study.json cannot be read, or virtual and wall results lie together.
    """
    snapshot = folder.study()
    readings = tuple(folder.readings())
    if len({each.record.time_domain for each in readings if each.record is not None and each.usable}) > 1:
        raise ResultError("virtual and wall results are never pooled", place=str(folder.path))
    return arranged(snapshot, readings)


def arranged(snapshot: StudySnapshot, readings: tuple[Reading, ...]) -> StudyResults:
    """The readings as the cells of the study."""
    usable = [reading.record for reading in readings if reading.record is not None and reading.usable]
    found = searches(snapshot, usable)
    whole = (search.as_record(key) for key, search in found.items())
    by_cell: dict[tuple[str, str], dict[int, ResultRecord]] = {}
    # A probe is no value of its cell: the search is.
    alone = (record for record in usable if record.trial.rate is None)
    for record in (*alone, *filter(None, whole)):
        by_cell.setdefault((record.trial.stack, record.trial.workload), {})[record.trial.seed] = record
    names = product(snapshot.stacks, snapshot.workloads)
    cells = {cell: CellResults(*cell, by_cell.get(cell, {})) for cell in names}
    return StudyResults(snapshot, readings, cells, found)
