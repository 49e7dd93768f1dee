# SPDX-License-Identifier: Apache-2.0
"""The page's heat map: every cell against a stack that the reader chooses.

The page shows one reference, and carries the comparisons with all others for its script.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from markupsafe import Markup

from strata.report.heat_map import STEPS_MAX, HeatCell, HeatMap, heat_map, measured_stacks
from strata.report.table import Column, Table
from strata.report.wording import SIGNS, gain_words
from strata.statistics.comparison import Comparison
from strata.statistics.study import StudyResults
from strata.statistics.warnings import warnings_together

_COMPARISONS_MAX: Final = 1500  # take a second; with more, one stack alone can be the reference
_NUMBERS: Final = (
    Column("stack", "stack"),
    Column("workload", "workload"),
    Column("metric"),
    Column("value", align="right"),
    Column("n", "count"),
    Column("times as good (95 % interval)", align="right"),
    Column("verdict"),
    Column("p", align="right"),
)


@dataclass(frozen=True)
class CellsView:
    """The heat map, and the table of the same comparisons.

    Attributes:
        choices: The stacks that can be chosen as the reference.
        data: For the page's script, to show another one.
        has_all: Whether it holds intervals for all of them, or for the reference alone.
    """

    reference: str
    rows: list[tuple[str, str, list[HeatCell]]]
    numbers: Table
    choices: list[str]
    data: dict[str, Any]
    has_all: bool


def cells_view(results: StudyResults, reference: str | None = None) -> CellsView | None:
    """The heat map against a stack, by default the first with results; None without two stacks to compare."""
    choices = measured_stacks(results)
    if len(choices) < 2:
        return None
    first = heat_map(results, reference or choices[0])
    count = len(choices) * (len(choices) - 1) * len(results.workloads)
    maps = {stack: heat_map(results, stack) for stack in choices} if count <= _COMPARISONS_MAX else {}
    maps[first.reference] = first
    return CellsView(
        reference=first.reference,
        rows=first.rows(),
        numbers=_numbers(results, first),
        choices=choices,
        data=_data(results, maps, choices),
        has_all=len(maps) == len(choices),
    )


def _numbers(results: StudyResults, found: HeatMap) -> Table:
    rows: list[tuple[Any, ...]] = []
    for workload, metric, cells in found.rows():
        for cell in cells:
            head = (cell.stack, workload, metric, cell.value or None)
            if cell.comparison is None:
                n = len(results.cells[cell.stack, workload].records)
                rows.append((*head, n, "reference" if cell.is_reference else None, "", ""))
            else:
                said = (gain_words(cell.comparison), cell.verdict, p_text(cell.comparison))
                rows.append((*head, cell.comparison.ratio.n, *said))
    title = Markup("Against <b data-reference>{}</b>").format(found.reference)
    note = "by seed in pairs; p-values after Holm’s correction for all cells together"
    compared = [cell.comparison for _, _, cells in found.rows() for cell in cells if cell.comparison]
    note += "".join(f". Warning: {each.text}; {each.remedy}" for each in warnings_together(compared))
    return Table(_NUMBERS, rows, title, note)


def p_text(comparison: Comparison) -> str:
    """The p-value after Holm's correction."""
    p = comparison.p_value_holm
    return "–" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _data(results: StudyResults, maps: dict[str, HeatMap], choices: Sequence[str]) -> dict[str, Any]:
    """Per reference and workload, one entry per stack: gain, step, verdict, words, p, n; 0 for none."""
    some = next(iter(maps.values()))
    return {
        "stacks": results.stacks,
        "workloads": results.workloads,
        "references": list(choices),
        "signs": {verdict[0]: sign for verdict, sign in SIGNS.items()},
        "verdicts": {verdict[0]: verdict for verdict in SIGNS},
        "values": [[cell.value for cell in cells] for _, _, cells in some.rows()],
        "against": [
            [[_plain(cell) for cell in cells] for _, _, cells in maps[reference].rows()]
            if reference in maps
            else None
            for reference in choices
        ],
        "estimates": [
            [_estimate(results, stack, workload) for stack in results.stacks]
            for workload in results.workloads
        ],
        "better": [
            "".join(kind.better for kind in results.metrics(workload)[:1]) for workload in results.workloads
        ],
    }


def _estimate(results: StudyResults, stack: str, workload: str) -> float | None:
    """For a reference without comparisons: the page divides the estimates, without an interval."""
    kinds = results.metrics(workload)[:1]
    summary = results.summaries(workload, kinds[0].name).get(stack) if kinds else None
    return float(f"{summary.estimate:.6g}") if summary else None


def _plain(cell: HeatCell) -> Any:
    comparison = cell.comparison
    if comparison is None or cell.step is None:
        return 0
    step, verdict = cell.step + STEPS_MAX, comparison.verdict[0]
    return [cell.text, step, verdict, gain_words(comparison), p_text(comparison), comparison.ratio.n]
