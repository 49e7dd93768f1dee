# SPDX-License-Identifier: Apache-2.0
"""An explanation in a terminal."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from strata.explanation.analysis import Explanation
from strata.explanation.comparison import Comparison
from strata.explanation.sentences import sentences
from strata.explanation.tables import Table, tables
from strata.units import format_duration


def explanation_view(found: Explanation) -> RenderableType:
    """One trial: its tables, one below the other."""
    head = Text.assemble((found.name, "bold cyan"), (f"  {found.workload_title}", "dim"))
    head.append(f"\nmeasured window of {format_duration(found.window_ns)}, {found.time_domain} time", "dim")
    parts: list[RenderableType] = [head]
    if found.left_out is None:
        parts.append(Text("no trace of its requests: this is what the disks counted", style="yellow"))
    elif found.missing:
        text = f"the trace was full: {found.missing:,} requests are missing where kinds are told apart"
        parts.append(Text(text, style="yellow"))
    for table in tables(found):
        parts += [Text(), _view(table)]
    return Group(*parts)


def comparison_view(comparison: Comparison) -> RenderableType:
    """Why one trial is faster, a paragraph for each sentence."""
    first, *others = sentences(comparison)
    parts: list[RenderableType] = [Text(first, style="bold")]
    for sentence in others:
        parts += [Text(), Text(sentence)]
    return Group(*parts)


def _view(table: Table) -> RenderableType:
    made = RichTable(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for index, column in enumerate(table.columns):
        made.add_column(column, justify="left" if index == 0 else "right", overflow="fold")
    for row in table.rows:
        made.add_row(*row)
    title = Text.assemble((table.title, "bold"), (f"  {table.note}" if table.note else "", "dim"))
    return Group(title, Padding(made, (0, 0, 0, 2)))
