# SPDX-License-Identifier: Apache-2.0
"""All cells compared with one stack: a heat map whose reference the reader chooses, and its ratios."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from markupsafe import Markup

from strata.report.document import PAGES, Block, Drawn, Fold, Group, Section
from strata.report.heat_map import STEPS_MAX, HeatCell, HeatMap, heat_map, measured_stacks
from strata.report.report import Report
from strata.report.spans import Times
from strata.report.table import Table, columns
from strata.report.templates import in_script
from strata.report.wording import SIGNS
from strata.statistics.study import StudyResults

_COMPARISONS_MAX: Final = 1500  # take a second; with more, one stack alone can be the reference
_SCALE: Final = (
    *("half, or worse", "to 0.71", "to 0.84", "to 0.97", "within ±3 %"),
    *("to 1.19", "to 1.41", "to 2", "double, or better"),
)
_NUMBERS: Final = columns(
    *(("stack", "stack"), ("workload", "workload"), "metric", ("value", "figure"), ("n", "count")),
    *(("times as good (95 % interval)", "figure"), "verdict"),
)


def cells(report: Report) -> Iterator[Section]:
    """The heat map against a stack, by default the study's reference; nothing with one stack alone."""
    results, choices = report.results, measured_stacks(report.results)
    if len(choices) < 2:
        return
    usual = results.reference if results.reference in choices else choices[0]
    first = heat_map(results, report.reference or usual)
    count = len(choices) * (len(choices) - 1) * len(results.workloads)
    maps = {stack: heat_map(results, stack) for stack in choices} if count <= _COMPARISONS_MAX else {}
    maps[first.reference] = first
    blocks: list[Block] = [
        Drawn(_explained(first.reference)),
        Drawn(_chooser(first.reference, choices, has_all=len(maps) == len(choices))),
        Drawn(grid(first)),
        Drawn(legend()),
        Fold(
            "The numbers: each cell’s ratio, with its interval",
            [Group([_numbers(results, first)], "numbers")],
        ),
        Drawn(
            Markup('<script type="application/json" id="cells-data">{}</script>\n').format(
                in_script(_data(results, maps, choices))
            )
        ),
    ]
    yield Section("cells", "All cells compared", blocks, where=PAGES)


def _explained(reference: str) -> Markup:
    return Markup(
        "<p>How many times as good each stack is as <b data-reference>{}</b>, by each workload’s first "
        "metric: 2 is twice as many per second, or half of the time. A sign says how sure that is.</p>\n"
    ).format(reference)


def _chooser(reference: str, choices: Sequence[str], *, has_all: bool) -> Markup:
    options = Markup("").join(
        Markup("<option{}>{}</option>").format(Markup(" selected") if stack == reference else "", stack)
        for stack in choices
    )
    limited = Markup(
        " <small>Intervals and verdicts are here for {}; <code>strata report --reference NAME</code> makes "
        "the page for another.</small>"
    ).format(reference)
    return Markup(
        '<p class="js-only choose"><label for="reference">Compare with</label>\n'
        '<select id="reference">{}</select>{}</p>\n'
    ).format(options, "" if has_all else limited)


def grid(found: HeatMap, *, is_linked: bool = True) -> Markup:
    """The heat map as a table whose cells a reader can walk through; ``is_linked``: in the report's page."""
    heads = Markup("").join(
        Markup('<th scope="col" data-stack="{}"><span>{}</span></th>').format(stack, stack)
        for stack in found.stacks
    )
    rows = Markup("").join(
        Markup(
            '<tr data-workload="{}"><th scope="row">{}<small>{}</small></th>{}</tr>\n'
        ).format(
            workload,
            Markup('<a href="#workload-{}" tabindex="-1">{}</a>').format(workload, workload)
            if is_linked
            else workload,
            metric,
            Markup("").join(_cell(cell, is_linked=is_linked) for cell in cells_of_row),
        )
        for workload, metric, cells_of_row in found.rows()
    )  # fmt: skip
    region = Markup(' tabindex="0" role="region" aria-label="Table of the cells"') if not is_linked else ""
    return Markup(
        '<div class="table heat" data-columns="{}"{}>\n'
        '<table{} aria-label="How many times as good each stack is" id="heat">\n'
        '<thead><tr><th scope="col">workload</th>{}</tr></thead>\n<tbody>\n{}</tbody>\n</table>\n</div>\n'
    ).format(len(found.stacks), region, Markup(' role="grid"') if is_linked else "", heads, rows)


def _cell(cell: HeatCell, *, is_linked: bool) -> Markup:
    sign = Markup("<i>{}</i>").format(cell.sign) if cell.sign else ""
    return Markup(
        '<td data-stack="{}" data-verdict="{}" class="{}" title="{}"{}>{}{}</td>'
    ).format(
        cell.stack, cell.verdict, cell.style, cell.words,
        Markup(' tabindex="-1"') if is_linked else "", cell.text, sign,
    )  # fmt: skip


def legend(*, has_scale: bool = True) -> Markup:
    """The meaning of the colours, and of the signs."""
    shades = Markup("").join(
        Markup('<li><i class="g{}"></i>{}</li>').format(step, label) for step, label in enumerate(_SCALE)
    )
    signs = Markup("").join(
        Markup('<li><span class="sign" aria-hidden="true">{}</span>{}</li>').format(sign, verdict)
        for verdict, sign in SIGNS.items()
    )
    scale = Markup('<ul class="legend scale">{}</ul>\n').format(shades) if has_scale else ""
    return Markup('{}<ul class="legend">{}</ul>\n').format(scale, signs)


def _numbers(results: StudyResults, found: HeatMap) -> Table:
    rows: list[tuple[Any, ...]] = []
    for workload, metric, cells_of_row in found.rows():
        for cell in cells_of_row:
            head = (cell.stack, workload, metric, cell.value or None)
            if cell.comparison is None:
                n = len(results.cells[cell.stack, workload].records)
                rows.append((*head, n, "reference" if cell.is_reference else None, ""))
            else:
                ratio = Times.of(cell.comparison) if not cell.comparison.unranked else "not ranked"
                rows.append((*head, cell.comparison.ratio.n, ratio, cell.verdict))
    title = Markup("Against <b data-reference>{}</b>").format(found.reference)
    note = "by seed in pairs; the intervals of all pairs of stacks of a row hold together"
    return Table(_NUMBERS, rows, title, note)


def _data(results: StudyResults, maps: dict[str, HeatMap], choices: Sequence[str]) -> dict[str, Any]:
    """Per reference and workload, one entry per stack: gain, step, verdict, words, n; 0 for none."""
    some = next(iter(maps.values()))
    return {
        "stacks": results.stacks,
        "workloads": results.workloads,
        "references": list(choices),
        "signs": SIGNS,
        "values": [[cell.value for cell in row] for _, _, row in some.rows()],
        "against": [
            [[_plain(cell) for cell in row] for _, _, row in maps[reference].rows()]
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
    """For a reference without comparisons: the page divides the estimates, without an interval.

    None without a value or a rank.
    """
    if results.unranked(stack, workload):
        return None
    kinds = results.metrics(workload)[:1]
    summary = results.summaries(workload, kinds[0].name).get(stack) if kinds else None
    return float(f"{summary.estimate:.6g}") if summary else None


def _plain(cell: HeatCell) -> Any:
    comparison = cell.comparison
    if comparison is None or cell.step is None:
        return 0
    shown = Times.of(comparison).text
    return [cell.text, cell.step + STEPS_MAX, comparison.verdict, shown, comparison.ratio.n]
