# SPDX-License-Identifier: Apache-2.0
"""``strata query``: SQL over a study's results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
from rich.console import Group, RenderableType
from rich.text import Text

from strata.cli.application import examples
from strata.cli.output import print_json
from strata.console import Terminal
from strata.errors import ResultError
from strata.printable import printable
from strata.report.table import Column, Table, csv_text, facts, objects, terminal
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
    table = _table(answer)
    if as_json:
        print_json(objects(table))
    elif as_csv:
        typer.echo(printable(csv_text(table)), nl=False)
    else:
        console = Terminal(highlight=False)
        console.print(_fitting(table, console.width))


def _table(answer: Answer) -> Table:
    numeric = [
        any(isinstance(row[index], int | float) for row in answer.rows)
        for index in range(len(answer.columns))
    ]
    heads = tuple(
        Column(name, align="right" if is_number else "left")
        for name, is_number in zip(answer.columns, numeric, strict=True)
    )
    return Table(heads, answer.rows)


def _fitting(table: Table, width: int) -> RenderableType:
    """A table, with its widest column folded where that is enough to fit; else every row as a list.

    A column that is cut to a letter or two tells nothing.
    """
    widths = [
        max(len(column.title), *(len(str(row[index])) for row in table.rows), 0)
        for index, column in enumerate(table.columns)
    ]
    excess = sum(widths) + _GAP * (len(widths) - 1) - width
    if excess > 0 and table.rows and max(widths) - excess < _FOLDED_WIDTH_MIN:
        names = [column.title for column in table.columns]
        # An empty line stands between two rows.
        lists = [terminal(facts(zip(names, row, strict=True))) for row in table.rows]
        return Group(*[part for each in lists for part in (each, Text())][:-1])
    widest = widths.index(max(widths)) if widths else 0
    heads = (replace(column, is_whole=index != widest) for index, column in enumerate(table.columns))
    return terminal(Table(tuple(heads), table.rows))
