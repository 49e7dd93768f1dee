# SPDX-License-Identifier: Apache-2.0
"""Two sets of results against each other: tables, and all of it in a terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.text import Text

from strata.report.comparison import (
    difference_groups,
    interval_text,
    likeness_sentence,
    ratio_text,
    seeds_text,
    verdict_sentence,
)
from strata.report.table import Cell, Column, Table, Tone, columns, escaped, markdown, terminal
from strata.report.wording import metric_title
from strata.statistics.comparison import Verdict
from strata.statistics.pair import Overall, Pair, Row
from strata.statistics.pairing import Side
from strata.units import format_share

_TONES: Final[dict[Verdict, Tone]] = {
    "worse": "worse",
    "better": "better",
    "equal": "",
    "undecided": "doubt",
    "too few seeds": "doubt",
}
# Beside the ratios there is room for the values they are of.
_WIDTH_WITH_VALUES: Final = 100
_DIFFERENCES_MAX: Final = 12
_NAME_WIDTH: Final = 20
_ENDS: Final = Column("95 % interval", align="right", tone="dim")


def _heading(row: Row) -> str:
    kind = row.comparison.kind
    return f"{metric_title(kind)} {'↑' if kind.better == 'higher' else '↓'}"


_NAMES: Final[dict[str, Any]] = {
    "workload": lambda row: row.cell.workload_title,
    "stack": lambda row: row.cell.stack_title,
    "metric": _heading,
    "all": lambda row: f"{row.cell.title}, {metric_title(row.comparison.kind)}",
}


def _rows_table(rows: Sequence[Row], names: Sequence[Column], *, with_values: bool = False) -> Table:
    """A row per comparison, which the columns of ``names`` name."""
    made: list[tuple[Any, ...]] = []
    for row in rows:
        comparison = row.comparison
        values = [Cell(value, comparison.kind.unit) for value in (row.first, row.second)]
        made.append(
            (
                *(_NAMES[each.name](row) for each in names),
                *(values if with_values else ()),
                ratio_text(comparison),
                interval_text(comparison),
                Cell(comparison.verdict, tone=_TONES[comparison.verdict]),
                seeds_text(row),
            )
        )
    levels = columns(("A", "1"), ("B", "1")) if with_values else ()
    heads = (
        *names,
        *levels,
        Column("B/A", align="right"),
        _ENDS,
        Column("verdict"),
        Column("n", align="right"),
    )
    return Table(heads, made)


def _overall_table(overall: Sequence[Overall], title: str) -> Table:
    rows = [
        (
            each.workload or "in all",
            ratio_text(each.comparison),
            interval_text(each.comparison),
            Cell(each.comparison.verdict, tone=_TONES[each.comparison.verdict]),
            each.cells,
        )
        for each in overall
    ]
    heads = (Column(title, width=_NAME_WIDTH), Column("times as good", align="right"), _ENDS)
    return Table((*heads, Column("verdict"), Column("cells", "count")), rows)


def pair_view(pair: Pair, rows: Sequence[Row], *, width: int, sorted_anew: bool = False) -> RenderableType:
    """The answer, what differs, a table of ratios, and what could not be compared, in a terminal.

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
    with_values = width >= _WIDTH_WITH_VALUES
    if sorted_anew:
        name = Column("", name="all", width=_NAME_WIDTH)
        parts += [terminal(_rows_table(rows, [name], with_values=with_values)), Text()]
    for group in [] if sorted_anew else _by_workload(rows):
        name = Column(_heading(group[0]), name="stack", width=_NAME_WIDTH)
        parts.append(Text(group[0].cell.workload_title, style="bold cyan"))
        parts += [terminal(_rows_table(group, [name], with_values=with_values)), Text()]
    if pair.overall:
        parts += [terminal(_overall_table(pair.overall, "geometric mean of cells")), Text()]
    if pair.absent:
        parts.append(Text("Not compared", style="bold cyan"))
        parts += [Text.assemble(f"  {each.what}", (f": {each.why}", "yellow")) for each in pair.absent]
        parts.append(Text())
    return Group(*parts, Text(_legend(pair), style="dim"))


def _sides(pair: Pair) -> RenderableType:
    rows = [
        (Cell(letter, tone="strong"), side.name, Cell(_when(side), tone="dim"))
        for letter, side in (("A", pair.first), ("B", pair.second))
    ]
    return terminal(Table(columns("", "", ""), rows, is_headed=False))


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
    arrow = Cell("→", tone="dim")
    rows = [(name, first, arrow, second) for name, first, second in found[:_DIFFERENCES_MAX]]
    yield terminal(Table(columns("", "A", "", "B"), rows, is_headed=False), indent=2)
    if len(found) > _DIFFERENCES_MAX:
        yield Text(f"  … and {len(found) - _DIFFERENCES_MAX} more: --json has them all", style="dim")


def _by_workload(rows: Sequence[Row]) -> list[list[Row]]:
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.cell.workload, row.comparison.kind.name), []).append(row)
    return list(groups.values())


def _legend(pair: Pair) -> str:
    return (
        "B/A: geometric mean of the ratios of trials of the same seed; ↑ more is better, ↓ less is better.\n"
        f"A is the baseline: worse means that B is worse by more than {format_share(pair.zone)}."
    )


def pair_markdown(pair: Pair, rows: Sequence[Row]) -> str:
    """The answer, a table of ratios, what differs, and what could not be compared: for a merge request."""
    names = [Column(each, name=each) for each in ("workload", "stack", "metric")]
    blocks = [f"# {escaped(pair.second.name)} against {escaped(pair.first.name)}"]
    blocks.append("\n".join(filter(None, (verdict_sentence(pair), likeness_sentence(pair)))))
    blocks.append(markdown(_rows_table(rows, names)))
    if pair.overall:
        blocks.append("Geometric means over cells, above 1 is better:")
        blocks.append(markdown(_overall_table(pair.overall, "workload")))
    differences = markdown(Table(columns("", "A", "B"), list(difference_groups(pair))))
    blocks += ["## What differs", differences or "No version, setting, option or plan."]
    if pair.absent:
        absent = (f"- {escaped(each.what)}: {escaped(each.why)}" for each in pair.absent)
        blocks += ["## Not compared", "\n".join(absent)]
    return "\n\n".join(block.rstrip() for block in blocks if block) + "\n"
