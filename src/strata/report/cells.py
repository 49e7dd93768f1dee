# SPDX-License-Identifier: Apache-2.0
"""The page's heat map: every cell against a stack that the reader chooses.

The page shows one reference; for all others it carries the comparisons, as Python made them, which its script
puts in their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from strata.report.heat_map import STEPS_MAX, HeatMap, heat_map, shade
from strata.report.wording import gain_words, metric_title
from strata.statistics.comparison import Comparison, Verdict
from strata.statistics.study import StudyResults
from strata.units import format_value, significant

SIGNS: Final[dict[Verdict, str]] = {
    "better": "▲",
    "equal": "=",
    "worse": "▼",
    "undecided": "?",
    "too few seeds": "·",
}
"""A cell's verdict must not hang on its colour."""
_COMPARISONS_MAX: Final = 1500
"""So many are made with all stacks as the reference, in about a second; of more, with the first one alone."""
_LETTERS: Final[dict[Verdict, str]] = {
    "better": "b",
    "equal": "e",
    "worse": "w",
    "undecided": "u",
    "too few seeds": "f",
}


@dataclass(frozen=True)
class CellView:
    """A cell as the page writes it first.

    Attributes:
        step: Of the shade, from -4 to 4; None where there is no comparison.
        words: What its tooltip says.
    """

    stack: str
    step: int | None
    sign: str
    gain: str
    verdict: str
    words: str
    is_reference: bool


@dataclass(frozen=True)
class RowView:
    """A workload's cells, with the metric that they compare."""

    workload: str
    title: str
    metric: str
    cells: list[CellView]


@dataclass(frozen=True)
class CellsView:
    """The heat map, and the table of the same comparisons.

    Attributes:
        numbers: Workload, stack, value, n, ratio with interval, verdict, p-value after Holm.
        choices: The stacks that can be chosen as the reference.
        data: What the page's script needs to show another one.
        has_all: Whether it holds intervals for all of them, or for the reference alone.
    """

    reference: str
    rows: list[RowView]
    numbers: list[tuple[str, ...]]
    choices: list[str]
    data: dict[str, Any]
    has_all: bool


def cells_view(results: StudyResults, reference: str | None = None) -> CellsView | None:
    """The heat map against a stack; None where there is nothing to compare.

    Args:
        results: The study's.
        reference: The stack; the study's first one with results without it.
    """
    choices = [
        stack
        for stack in results.stacks
        if any(results.cells[stack, workload].records for workload in results.workloads)
    ]
    if len(choices) < 2:
        return None
    first = heat_map(results, reference or choices[0])
    count = len(choices) * (len(choices) - 1) * len(results.workloads)
    maps = {stack: heat_map(results, stack) for stack in choices} if count <= _COMPARISONS_MAX else {}
    maps[first.reference] = first
    rows = [_row(results, first, workload) for workload in results.workloads]
    return CellsView(
        reference=first.reference,
        rows=rows,
        numbers=[row for each in rows for row in _numbers(results, first, each)],
        choices=choices,
        data=_data(results, maps, choices),
        has_all=len(maps) == len(choices),
    )


def step_class(step: int | None) -> str:
    """The style sheet's class of a shade: ``g0`` is as good as half or worse, ``g8`` as double or better."""
    return "none" if step is None else f"g{step + STEPS_MAX}"


def _row(results: StudyResults, found: HeatMap, workload: str) -> RowView:
    kind = found.kinds.get(workload)
    cells = []
    for stack in results.stacks:
        comparison = found.cells[stack, workload]
        value = _value(results, stack, workload)
        if comparison is not None:
            words = (
                f"{stack} under {workload}: {gain_words(comparison)} of {found.reference}, {value}; "
                f"{comparison.verdict}"
            )
            cells.append(
                CellView(
                    stack,
                    shade(comparison.gain),
                    SIGNS[comparison.verdict],
                    gain_text(comparison.gain),
                    comparison.verdict,
                    words,
                    is_reference=False,
                )
            )
        else:
            is_reference = stack == found.reference and value != ""
            said = f"the reference, {value}" if is_reference else "no result"
            words = f"{stack} under {workload}: {said}"
            cells.append(
                CellView(stack, None, "", "1" if is_reference else "–", "", words, is_reference=is_reference)
            )
    return RowView(workload, _title(results, workload), metric_title(kind) if kind else "", cells)


def gain_text(gain: float) -> str:
    """A gain as a cell has it: two digits behind the point below ten."""
    return f"{gain:.2f}" if gain < 9.995 else significant(gain, 2)


def _title(results: StudyResults, workload: str) -> str:
    return next(each.title for each in results.snapshot.workloads if each.name == workload)


def _value(results: StudyResults, stack: str, workload: str) -> str:
    kinds = results.metrics(workload)[:1]
    summary = results.summaries(workload, kinds[0].name).get(stack) if kinds else None
    return format_value(summary.estimate, kinds[0].unit) if summary else ""


def _numbers(results: StudyResults, found: HeatMap, row: RowView) -> list[tuple[str, ...]]:
    numbers: list[tuple[str, ...]] = []
    for cell in row.cells:
        comparison = found.cells[cell.stack, row.workload]
        value = _value(results, cell.stack, row.workload) or "–"
        if comparison is None:
            said = ("reference" if cell.is_reference else "–", "", "")
            n = str(len(results.cells[cell.stack, row.workload].records))
        else:
            said, n = (
                (gain_words(comparison), comparison.verdict, p_text(comparison)),
                str(comparison.ratio.n),
            )
        numbers.append((cell.stack, row.workload, row.metric, value, n, *said))
    return numbers


def p_text(comparison: Comparison) -> str:
    """The p-value after Holm's correction."""
    p = comparison.p_value_holm
    return "–" if p is None else "< 0.001" if p < 0.001 else f"{p:.3f}"


def _data(results: StudyResults, maps: dict[str, HeatMap], choices: Sequence[str]) -> dict[str, Any]:
    """Per reference and workload, one entry per stack: gain, low, high, verdict, p, n; 0 for none."""
    return {
        "stacks": results.stacks,
        "workloads": results.workloads,
        "references": list(choices),
        "signs": {letter: SIGNS[verdict] for verdict, letter in _LETTERS.items()},
        "verdicts": {letter: verdict for verdict, letter in _LETTERS.items()},
        "values": [
            [_value(results, stack, workload) for stack in results.stacks] for workload in results.workloads
        ],
        "against": [
            [
                [_plain(maps[reference].cells[stack, workload]) for stack in results.stacks]
                for workload in results.workloads
            ]
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
    """For a reference without comparisons: the page divides these, and says that it has no interval."""
    kinds = results.metrics(workload)[:1]
    summary = results.summaries(workload, kinds[0].name).get(stack) if kinds else None
    return float(f"{summary.estimate:.6g}") if summary else None


def _plain(comparison: Comparison | None) -> Any:
    if comparison is None:
        return 0
    step = shade(comparison.gain) + STEPS_MAX
    interval = gain_words(comparison)
    return [
        gain_text(comparison.gain),
        step,
        _LETTERS[comparison.verdict],
        interval,
        p_text(comparison),
        comparison.ratio.n,
    ]
