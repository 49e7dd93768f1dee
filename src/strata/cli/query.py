# SPDX-License-Identifier: Apache-2.0
"""``strata query``: SQL over a study's results."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Group, JustifyMethod, RenderableType
from rich.table import Table
from rich.text import Text

from strata.cli.application import examples
from strata.console import Terminal
from strata.errors import ResultError
from strata.printable import json_text, printable
from strata.results.store import ResultsFolder

if TYPE_CHECKING:
    from strata.results.query import Answer

_GAP: Final = 2
# Text that is folded into less is slower to read than a row that is written as a list.
_FOLDED_WIDTH_MIN: Final = 24


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(
        "query",
        epilog=examples(
            "strata query results/quickstart --tables",
            'strata query results/quickstart "select stack, avg(value) from metrics where headline '
            'group by all"',
            "strata query results/quickstart --csv \"select * from samples where source = 'memory'\"",
        ),
    )(query_results)


def query_results(
    results: Annotated[Path, typer.Argument(help="Folder that `strata run` wrote.", metavar="RESULTS")],
    sql: Annotated[str | None, typer.Argument(help="A query in DuckDB's SQL.", metavar="SQL")] = None,
    tables: Annotated[bool, typer.Option("--tables", help="Describe the tables and their columns.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Rows as JSON objects.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Rows as CSV.")] = False,
) -> None:
    """Ask a study's results anything, in SQL."""
    # DuckDB takes half a second to load, which no other command should pay.
    from strata.results.query import TABLES, Answer, query  # noqa: PLC0415

    if as_json and as_csv:
        raise ResultError("both were asked for", place="--json, --csv", remedy="give one of them")
    folder = ResultsFolder.open(results)
    if tables:
        columns = ("table", "column", "type", "meaning")
        answer = Answer(columns, [(table, *column) for table, each in TABLES.items() for column in each])
    elif sql is None:
        raise ResultError(
            "there is no query",
            place="strata query",
            remedy='give one such as "select * from trials"; --tables describes the tables',
        )
    else:
        answer = query(folder, sql)
    _print(answer, as_json=as_json, as_csv=as_csv)


def _print(answer: Answer, *, as_json: bool, as_csv: bool) -> None:
    if as_json:
        rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
        typer.echo(json_text(rows, indent=2))
    elif as_csv:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(answer.columns)
        writer.writerows(answer.rows)
        typer.echo(printable(text.getvalue()), nl=False)
    else:
        console = Terminal(highlight=False)
        console.print(_fitting(answer, console.width))


def _fitting(answer: Answer, width: int) -> RenderableType:
    """A table, with its widest column folded where that is enough to fit; else every row as a list.

    A column that is cut to a letter or two tells nothing.
    """
    widths = [
        max(len(column), *(len(_cell(row[index]).plain) for row in answer.rows), 0)
        for index, column in enumerate(answer.columns)
    ]
    excess = sum(widths) + _GAP * (len(widths) - 1) - width
    if excess <= 0 or not answer.rows or max(widths) - excess >= _FOLDED_WIDTH_MIN:
        return _table(answer, widest=widths.index(max(widths)) if widths else 0)
    return _records(answer)


def _table(answer: Answer, widest: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, _GAP, 0, 0))
    for index, column in enumerate(answer.columns):
        numeric = any(isinstance(row[index], int | float) for row in answer.rows)
        justify: JustifyMethod = "right" if numeric else "left"
        table.add_column(column, justify=justify, no_wrap=index != widest, overflow="fold")
    for row in answer.rows:
        table.add_row(*(_cell(value) for value in row))
    return table


def _records(answer: Answer) -> RenderableType:
    """Every row as lines of a column's name and its value, an empty line between two rows."""
    parts: list[RenderableType] = []
    for number, row in enumerate(answer.rows):
        table = Table(box=None, pad_edge=False, show_header=False, padding=(0, _GAP, 0, 0))
        table.add_column(style="dim", no_wrap=True, min_width=max(len(name) for name in answer.columns))
        table.add_column(overflow="fold")
        for name, value in zip(answer.columns, row, strict=True):
            table.add_row(name, _cell(value))
        parts += [Text(), table] if number else [table]
    return Group(*parts)


def _cell(value: Any) -> Text:
    if value is None:
        return Text("–", style="dim")
    if isinstance(value, float):
        return Text(f"{value:.6g}")
    return Text(str(value))
