# SPDX-License-Identifier: Apache-2.0
"""Studies read, run and judged in Python, as in a notebook: the names that `import strata` offers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from strata.actions import run as running
from strata.actions.run import Listener
from strata.advice.advise import advise as advise_on
from strata.advice.asked import posed
from strata.advice.model import Advice
from strata.advice.uses import bundled_uses, chosen_uses
from strata.bundled import study_path
from strata.diagnostics.names import require_known
from strata.errors import ResultError
from strata.execution.pool import Labs
from strata.model.study import Study
from strata.model.trial import CellKey
from strata.plan.catalogue import catalogue
from strata.reading.load import load_study as read_study
from strata.report.advice_tables import advices
from strata.report.data import TABLES
from strata.report.document import Document
from strata.report.frames import ResultTable
from strata.report.query import query_results
from strata.report.report import Report
from strata.report.sections import sections
from strata.report.table import Table
from strata.results.findings import read_capabilities
from strata.results.store import ResultsFolder
from strata.runners.base import Cancelled
from strata.runners.name import RunnerName
from strata.statistics.comparison import Comparison, MetricKind, Ratio
from strata.statistics.pair import ComparisonOptions, Pair, compare_sets
from strata.statistics.pairing import Side
from strata.statistics.study import StudyResults, gather


def load_study(file: str | Path, *, scale: float = 1) -> Study:
    """Read a study file; ``scale`` takes this share of its workloads' time and data.

    Raises DiagnosticsError with every mistake of the file.

    >>> study = strata.load_study("studies/quickstart.toml")
    >>> study.name, list(study.stacks), study.seeds
    ('quickstart', ['ext4', 'xfs', 'btrfs'], (1, 2, 3, 4, 5, 6))
    >>> study.trial_count
    36
    """
    return read_study(study_path(str(file)), catalogue(), scale=scale)


def run(
    study: Study | str | Path,
    folder: str | Path | None = None,
    *,
    jobs: Labs = None,
    quiet: bool = False,
) -> Results:
    """Run the missing trials of a study in the lab, as `strata run` does, and open the results.

    The folder is ``results/NAME`` by default. Unless ``quiet``, progress is written to standard error. Trials
    that have their result are not run again. Raises StrataError, and `Cancelled` when a signal ends it.

    >>> strata.run("studies/quickstart.toml", quiet=True)
    Results('results/quickstart', stacks=['ext4', 'xfs', 'btrfs'], workloads=['oltp', 'random-mix'])
    """
    read = study if isinstance(study, Study) else load_study(study)
    place = running.RESULTS / read.name if folder is None else Path(folder)
    listener = running.NOBODY if quiet else Listener(Console(stderr=True))
    runner = running.runner_for(RunnerName.LAB, place, listener=listener)
    command = f"strata run {read.file.name}"
    ran = running.carry_out(read, place, runner, listener, jobs=jobs, command=command)
    if ran.summary.signal_number is not None or not ran.survived:
        raise Cancelled
    return Results.open(place)


@dataclass(frozen=True, repr=False)
class Results:
    """A study's results. In a notebook they show the answer to what the study asks.

    >>> results = strata.Results.open("results/quickstart")
    >>> results
    Results('results/quickstart', stacks=['ext4', 'xfs', 'btrfs'], workloads=['oltp', 'random-mix'])
    >>> results.ratio("oltp", "transactions_per_s", "xfs", "ext4")
    Ratio(n=6, ratio=1.14, interval=(1.11, 1.17))
    """

    folder: ResultsFolder
    gathered: StudyResults = field(repr=False)

    @classmethod
    def open(cls, folder: str | Path) -> Results:
        """The results in a folder that `strata run` wrote. Raises ResultError."""
        found = ResultsFolder.open(Path(folder))
        return cls(found, gather(found))

    @property
    def stacks(self) -> list[str]:
        return self.gathered.stacks

    @property
    def workloads(self) -> list[str]:
        return self.gathered.workloads

    def metrics(self, workload: str) -> list[str]:
        """The names of a workload's metrics.

        >>> results.metrics("oltp")[:2]
        ['transactions_per_s', 'transactions']
        """
        return [kind.name for kind in self._kinds(workload)]

    def values(self, workload: str, metric: str, stack: str) -> Mapping[int, float]:
        """The value of each seed.

        >>> found = results.values("oltp", "transactions_per_s", "xfs")
        >>> {seed: round(value) for seed, value in found.items()}
        {1: 357, 2: 368, 3: 371, 4: 369, 5: 358, 6: 361}
        """
        self._kind(workload, metric)
        require_known("stack", [stack], self.stacks, "stack")
        return self.gathered.cells[stack, workload].series(metric).values

    def ratio(self, workload: str, metric: str, stack: str, against: str) -> Ratio:
        """A stack's metric divided by that of another, by seed, with its interval at 95 %.

        Raises ResultError if one of the two has no values.

        >>> found = results.ratio("oltp", "latency_ns_p99", "btrfs", "ext4")
        >>> found
        Ratio(n=6, ratio=2.68, interval=(2.54, 2.84))
        >>> found.interval.low > 2.5
        True
        """
        return self.compared(workload, metric, stack, against).ratio

    def compared(self, workload: str, metric: str, stack: str, against: str) -> Comparison:
        """The ratio with its verdict, as every table has it: intervals of all stacks hold together.

        >>> results.compared("oltp", "transactions_per_s", "xfs", "ext4").verdict
        'better'
        """
        kind = self._kind(workload, metric)
        require_known("stack", [stack, against], self.stacks, "stack")
        found = self.gathered.compared(kind, CellKey(stack, workload), CellKey(against, workload))
        if found is None:
            cause = (
                f"{metric} of {stack} and {against} under {workload} cannot be compared: values are missing"
            )
            raise ResultError(cause, place=str(self.folder.path), remedy="run the study again")
        return found

    def query(self, sql: str) -> Table:
        """Ask in DuckDB's SQL, as `strata query` does.

        >>> [*results.query("select count(*) from trials").rows]
        [(36,)]
        """
        return query_results(self.folder, sql)

    def table(self, name: str) -> ResultTable:
        """One of the tables that `strata query` has, for pandas, Polars or Arrow.

        >>> results.table("metrics").to_arrow().schema.names[:5]
        ['study', 'trial', 'stack', 'workload', 'seed']
        """
        require_known("table", [name], TABLES, "table")
        return ResultTable(name, self.folder)

    def section(self, name: str) -> Document:
        """A section of the report by its name, such as ``answer`` or ``workload-oltp``.

        >>> "oltp" in results.section("workload-oltp").markdown()
        True
        """
        found = {each.name: each for each in sections(Report.read(self.folder))}
        require_known("section", [name], found, "section")
        return Document([found[name]], stacks=self.stacks)

    def _kinds(self, workload: str) -> Sequence[MetricKind]:
        require_known("workload", [workload], self.workloads, "workload")
        return self.gathered.kinds(workload)

    def _kind(self, workload: str, metric: str) -> MetricKind:
        known = {kind.name: kind for kind in self._kinds(workload)}
        require_known("metric", [metric], known, "metric")
        return known[metric]

    def _repr_html_(self) -> str:
        return Document([*advices(advise(self))], stacks=self.stacks)._repr_html_()

    def __repr__(self) -> str:
        path = str(self.folder.path)
        return f"Results({path!r}, stacks={self.stacks}, workloads={self.workloads})"


def compare(
    before: Results | str | Path, after: Results | str | Path, *, metrics: Sequence[str] = ()
) -> Pair:
    """What got better or worse from one set of results to another, paired by seeds.

    ``metrics`` has globs; without any, the headlines are compared.

    >>> pair = strata.compare("results/quickstart", "results/later", metrics=["transactions_per_s"])
    >>> [(row.comparison.stack, row.comparison.verdict) for row in pair.rows]
    [('ext4', 'equal'), ('xfs', 'worse'), ('btrfs', 'equal')]
    """
    sides = [each if isinstance(each, Results) else Results.open(each) for each in (before, after)]
    first, second = (
        Side(each.gathered, str(each.folder.path), None, read_capabilities(each.folder)) for each in sides
    )
    return compare_sets(first, second, ComparisonOptions(metrics=metrics))


def advise(results: Results | str | Path, *uses: str) -> list[Advice]:
    """Which stack to choose for each use; without names for what the study asks, and all bundled uses.

    >>> [advice] = strata.advise("results/showcase", "postgresql-server")
    >>> advice.leaders
    ('xfs',)
    """
    read = results if isinstance(results, Results) else Results.open(results)
    chosen = chosen_uses(bundled_uses(catalogue()), uses)
    asked = posed(read.gathered.snapshot, chosen, chosen=bool(uses))
    return advise_on(read.gathered, asked, read_capabilities(read.folder))
