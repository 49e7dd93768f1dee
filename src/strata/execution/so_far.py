# SPDX-License-Identifier: Apache-2.0
"""The table of a study that still runs: a row per stack, from the blocks that are complete."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean, geometric_mean

from rich.table import Table

from strata.plan.model import Trial
from strata.results.record import ResultRecord
from strata.spec.metric import Metric
from strata.units import format_value
from strata.words import counted

# A wider or longer table would push everything else off the screen; the final one has all.
_WORKLOADS_MAX = 4
_STACKS_MAX = 12


class TableSoFar:
    """The first headline of each workload, averaged over the seeds whose blocks are complete.

    Only whole blocks count, so that all stacks are averaged over the same seeds: neither the rest of a block
    that an earlier run began nor a block with an invalid trial.
    """

    def __init__(self) -> None:
        self.blocks = 0
        self._block_size = 0
        self._missing: dict[int, set[str]] = {}
        self._waiting: dict[int, list[tuple[Trial, Metric]]] = {}
        self._found: dict[tuple[str, str], list[Metric]] = {}

    def expect(self, trials: Iterable[Trial]) -> None:
        """These trials will be run; trials of the same seed are a block."""
        for trial in trials:
            self._missing.setdefault(trial.seed, set()).add(trial.id)
        self._block_size = max(self._block_size, *map(len, self._missing.values()), 0)

    def take(self, trial: Trial, record: ResultRecord) -> bool:
        """Add a result; true if it completes a whole block."""
        headlines = [metric for metric in record.metrics if metric.headline]
        if record.validity.valid and headlines:
            self._waiting.setdefault(trial.seed, []).append((trial, headlines[0]))
        missing = self._missing.get(trial.seed, set())
        missing.discard(trial.id)
        if missing:
            return False
        block = self._waiting.pop(trial.seed, [])
        if len(block) < self._block_size:
            return False
        for measured, metric in block:
            self._found.setdefault((measured.stack, measured.workload), []).append(metric)
        self.blocks += 1
        return True

    def table(self) -> Table | None:
        """The table; None before a block is complete, for a single stack, or if it is too large to watch."""
        stacks = sorted({stack for stack, _ in self._found})
        workloads = sorted({workload for _, workload in self._found})
        if not 1 < len(stacks) <= _STACKS_MAX or len(workloads) > _WORKLOADS_MAX:
            return None
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
        table.add_column(f"{counted(self.blocks, 'seed')} so far")
        for workload in workloads:
            table.add_column(workload, justify="right")
        for stack in stacks:
            table.add_row(stack, *(_mean(self._found.get((stack, each), ())) for each in workloads))
        return table


def _mean(metrics: Sequence[Metric]) -> str:
    if not metrics:
        return "–"
    values = [metric.value for metric in metrics]
    mean = geometric_mean(values) if min(values) > 0 else fmean(values)
    return format_value(mean, metrics[0].unit)
