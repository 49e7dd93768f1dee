# SPDX-License-Identifier: Apache-2.0
"""Two sets of results against each other, in a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from strata.report.comparison import (
    difference_groups,
    interval_text,
    likeness_sentence,
    ratio_text,
    seeds_text,
    verdict_sentence,
)
from strata.report.wording import metric_title
from strata.statistics.comparison import Verdict
from strata.statistics.pair import Overall, Pair, Row
from strata.statistics.pairing import Side
from strata.units import format_share, format_value

_STYLES: Final[dict[Verdict, str]] = {
    "worse": "bold red",
    "better": "bold green",
    "equal": "",
    "undecided": "yellow",
    "too few seeds": "yellow",
}
# Beside the ratios there is room for the values they are of.
_WIDTH_WITH_VALUES: Final = 100
_DIFFERENCES_MAX: Final = 12


def pair_view(pair: Pair, rows: Sequence[Row], *, width: int, sorted_anew: bool = False) -> RenderableType:
    """The answer, what differs, a table of ratios, and what could not be compared.

    Args:
        pair: What was compared.
        rows: Its rows, as ordered.
        width: How many characters fit into a line.
        sorted_anew: Whether the order is not the study's, so that there is one table.
    """
    parts: list[RenderableType] = [_sides(pair), Text()]
    for sentence in (verdict_sentence(pair), likeness_sentence(pair)):
        if sentence is not None:
            parts.append(Text(sentence, style="bold"))
    parts += [Text(), *_differences(pair), Text()]
    groups = [list(rows)] if sorted_anew else _by_workload(rows)
    for group in groups:
        parts += [_table(group, with_values=width >= _WIDTH_WITH_VALUES, flat=sorted_anew), Text()]
    if pair.overall:
        parts += [_overall(pair.overall), Text()]
    parts += list(_absent(pair))
    parts.append(Text(_legend(pair), style="dim"))
    return Group(*parts)


def _sides(pair: Pair) -> RenderableType:
    table = _grid()
    for letter, side in (("A", pair.first), ("B", pair.second)):
        table.add_row(
            Text(letter, style="bold"), Text(side.name, overflow="fold"), Text(_when(side), style="dim")
        )
    return table


def _when(side: Side) -> str:
    """Of which study, on what, and on which days."""
    snapshot = side.results.snapshot
    days = sorted({record.real_time.started_at[:10] for record in side.results.records})
    period = " to ".join(dict.fromkeys((days[0], days[-1]))) if days else ""
    return ", ".join(part for part in (snapshot.name, snapshot.runner, period) if part)


def _differences(pair: Pair) -> Iterator[RenderableType]:
    found = list(difference_groups(pair))
    if not found:
        yield Text("No version, setting, option or plan differs between A and B.")
        return
    yield Text("What differs", style="bold cyan")
    table = _grid()
    for name, first, second in found[:_DIFFERENCES_MAX]:
        table.add_row(name, first, Text("→", style="dim"), second)
    yield Padding(table, (0, 0, 0, 2))
    if len(found) > _DIFFERENCES_MAX:
        yield Text(f"  … and {len(found) - _DIFFERENCES_MAX} more: --json has them all", style="dim")


def _by_workload(rows: Sequence[Row]) -> list[list[Row]]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.cell.workload, row.comparison.kind.name), []).append(row)
    return list(groups.values())


def _table(rows: list[Row], *, with_values: bool, flat: bool) -> RenderableType:
    """One table of a workload and a metric; ``flat``: one of all, each row with its own."""
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("" if flat else _heading(rows[0]), overflow="fold", min_width=20)
    for name in (*(("A", "B") if with_values else ()), "B/A", "95 % interval"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("n", no_wrap=True, justify="right")
    for row in rows:
        comparison = row.comparison
        title = f"{row.cell.title}, {metric_title(comparison.kind)}" if flat else row.cell.stack_title
        table.add_row(
            title,
            *(_levels(row) if with_values else ()),
            ratio_text(comparison),
            Text(interval_text(comparison), style="dim"),
            Text(comparison.verdict, style=_STYLES[comparison.verdict]),
            seeds_text(row),
        )
    if flat:
        return table
    return Group(Text(rows[0].cell.workload_title, style="bold cyan"), table)


def _heading(row: Row) -> str:
    kind = row.comparison.kind
    return f"{metric_title(kind)} {'↑' if kind.better == 'higher' else '↓'}"


def _levels(row: Row) -> tuple[str, str]:
    unit = row.comparison.kind.unit
    return format_value(row.first, unit), format_value(row.second, unit)


def _overall(overall: Sequence[Overall]) -> RenderableType:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    table.add_column("geometric mean of cells", min_width=20)
    for name in ("times as good", "95 % interval"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    table.add_column("cells", justify="right")
    for each in overall:
        table.add_row(
            each.workload or "in all",
            ratio_text(each.comparison),
            Text(interval_text(each.comparison), style="dim"),
            Text(each.comparison.verdict, style=_STYLES[each.comparison.verdict]),
            str(each.cells),
        )
    return table


def _absent(pair: Pair) -> Iterator[RenderableType]:
    if pair.absent:
        yield Text("Not compared", style="bold cyan")
        for each in pair.absent:
            yield Text.assemble(f"  {each.what}", (f": {each.why}", "yellow"))
        yield Text()


def _legend(pair: Pair) -> str:
    return (
        "B/A: geometric mean of the ratios of trials of the same seed; ↑ more is better, ↓ less is better.\n"
        f"A is the baseline: worse means that B is worse by more than {format_share(pair.zone)}."
    )


def _grid() -> Table:
    return Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
