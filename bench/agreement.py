# SPDX-License-Identifier: Apache-2.0
"""How well the lab agrees with a machine: typical error, rankings of stacks, and the verdict on the aims."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Final

import numpy as np
from rich.console import Console
from rich.table import Table

from strata.statistics.selftest import interval_of_means

FAR: Final = 1.6
ERROR_MAX: Final = 1.35
SHARE_MIN: Final = 0.9
CELLS_MIN: Final = 16


@dataclass(frozen=True)
class Cell:
    """One figure of a stack and workload, on the host and in the lab."""

    stack: str
    workload: str
    figure: str
    host: tuple[float, ...]
    lab: float
    is_rate: bool

    @property
    def best(self) -> float:
        return max(self.host) if self.is_rate else min(self.host)

    @property
    def interval(self) -> tuple[float, float]:
        """95 %, of the mean of the host's repetitions; all that is possible with less than three."""
        if len(self.host) < 3:
            return 0.0, math.inf
        low, high = interval_of_means(np.log([self.host]))
        return float(np.exp(low[0])), float(np.exp(high[0]))

    @property
    def slowness(self) -> float:
        """How many times the lab takes as long as the host."""
        return self.best / self.lab if self.is_rate else self.lab / self.best

    def is_apart(self, other: Cell) -> bool:
        """Whether the host's intervals separate two stacks."""
        return self.interval[1] < other.interval[0] or other.interval[1] < self.interval[0]


@dataclass(frozen=True)
class Cost:
    """What a cell costs to simulate.

    Attributes:
        virtual_per_processor: Virtual seconds per second of the lab's processor time.
        lab_per_host: The lab's own processor time per operation, over the host's; None if it is unknown.
    """

    stack: str
    workload: str
    virtual_per_processor: float
    lab_per_host: float | None


@dataclass(frozen=True)
class Summary:
    """How far the lab is off over some cells."""

    cells: int
    error_factor: float
    share_within: float
    bias: float
    least: float
    most: float


@dataclass(frozen=True)
class Ranking:
    """The stacks of a figure, the best first; a pair counts if the host's intervals separate it."""

    workload: str
    figure: str
    host: str  # such as "xfs > ext4 = btrfs": = between neighbours that the host does not separate
    lab: str
    pairs: int
    contradicted: tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    """An aim, and what was found of it."""

    aim: str
    found: str
    is_met: bool


def summary(cells: Sequence[Cell]) -> Summary:
    errors = np.log([each.slowness for each in cells])
    return Summary(
        cells=len(cells),
        error_factor=float(np.exp(np.sqrt(np.mean(errors**2)))),
        share_within=float(np.mean(np.abs(errors) <= np.log(FAR))),
        bias=float(np.exp(np.mean(errors))),
        least=float(np.exp(errors.min())),
        most=float(np.exp(errors.max())),
    )


def by_workload(cells: Sequence[Cell]) -> Iterator[tuple[str, Summary]]:
    for name in dict.fromkeys(each.workload for each in cells):
        yield name, summary([each for each in cells if each.workload == name])


def rankings(cells: Sequence[Cell]) -> Iterator[Ranking]:
    for workload, figure in dict.fromkeys((each.workload, each.figure) for each in cells):
        found = [each for each in cells if (each.workload, each.figure) == (workload, figure)]
        if len(found) < 2:
            continue
        sign = -1 if found[0].is_rate else 1
        ranked = sorted(found, key=lambda cell: sign * cell.best)
        host = ranked[0].stack + "".join(
            f" {'>' if one.is_apart(other) else '='} {other.stack}" for one, other in pairwise(ranked)
        )
        lab = " > ".join(each.stack for each in sorted(found, key=lambda cell: sign * cell.lab))
        apart = [pair for pair in combinations(found, 2) if pair[0].is_apart(pair[1])]
        wrong = (pair for pair in apart if (pair[0].best < pair[1].best) != (pair[0].lab < pair[1].lab))
        named = tuple(f"{one.stack}, {other.stack}" for one, other in wrong)
        yield Ranking(workload, figure, host, lab, len(apart), named)


def verdicts(cells: Sequence[Cell]) -> Iterator[Verdict]:
    found, ranked = summary(cells), list(rankings(cells))
    pairs, wrong = sum(each.pairs for each in ranked), sum(len(each.contradicted) for each in ranked)
    yield Verdict(f"at least {CELLS_MIN} cells", f"{found.cells}", found.cells >= CELLS_MIN)
    error = found.error_factor
    yield Verdict(f"typical error at most × {ERROR_MAX}", f"× {error:.2f}", error <= ERROR_MAX)
    within = f"{SHARE_MIN:.0%} of the cells within × {FAR}"
    yield Verdict(within, f"{found.share_within:.0%}", found.share_within >= SHARE_MIN)
    same = "rankings are the same wherever the machine's intervals separate stacks"
    yield Verdict(same, f"{pairs - wrong} of {pairs} pairs", pairs > 0 and wrong == 0)


def show(cells: Sequence[Cell]) -> None:
    for title, is_rate in (("Rates, per second", True), ("Processor time per operation, ns", False)):
        part = [each for each in cells if each.is_rate is is_rate]
        if part:
            _show_cells(part, title)
            _show_workloads(part)
            _show_rankings(list(rankings(part)))
            _show_verdicts(verdicts(part))


def _show_cells(cells: Sequence[Cell], title: str) -> None:
    heads = ("workload", "figure", "stack", "this machine", "its interval", "lab", "lab takes")
    table = Table(*heads, title=title)
    for each in sorted(cells, key=lambda cell: (cell.workload, cell.figure)):
        low, high = (f"{end:,.4g}" for end in each.interval)
        values = f"{each.best:,.4g}", f"{low} … {high}", f"{each.lab:,.4g}", f"{each.slowness:.2f} ×"
        table.add_row(each.workload, each.figure, each.stack, *values)
    Console().print(table)


def _show_workloads(cells: Sequence[Cell]) -> None:
    table = Table("workload", "cells", "typical error", f"within × {FAR}", "on average", "from … to")
    for name, found in (*by_workload(cells), ("all", summary(cells))):
        error, within = f"× {found.error_factor:.2f}", f"{found.share_within:.0%}"
        ends = f"{found.least:.2f} … {found.most:.2f}"
        table.add_row(name, f"{found.cells}", error, within, f"{found.bias:.2f} ×", ends)
    Console().print(table)


def _show_rankings(found: Sequence[Ranking]) -> None:
    table = Table("workload", "figure", "this machine, best first", "lab", "pairs", "contradicted")
    for each in found:
        wrong = "; ".join(each.contradicted) or "none"
        table.add_row(each.workload, each.figure, each.host, each.lab, f"{each.pairs}", wrong)
    Console().print(table)


def _show_verdicts(found: Iterable[Verdict]) -> None:
    table = Table("aim", "found", "")
    for each in found:
        table.add_row(each.aim, each.found, "met" if each.is_met else "missed")
    Console().print(table, "\n")


def show_costs(found: Sequence[Cost]) -> None:
    table = Table(
        "workload", "stack", "virtual s per processor s", "lab's processor time over this machine's"
    )
    for each in sorted(found, key=lambda cost: (cost.workload, cost.stack)):
        ratio = "" if each.lab_per_host is None else f"{each.lab_per_host:.1f} ×"
        table.add_row(each.workload, each.stack, f"{each.virtual_per_processor:.2f}", ratio)
    Console().print(table)
