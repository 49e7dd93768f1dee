# SPDX-License-Identifier: Apache-2.0
"""``strata query``: SQL over a study's results."""

from __future__ import annotations

from typing import Annotated

from strata.cli.output import print_json, print_text, refuse_both, stdout
from strata.cli.parameters import AsCsv, AsJson, FromResults, argument, option
from strata.errors import ResultError
from strata.report.data import TABLES
from strata.report.query import query_results
from strata.report.table import Table, columns, csv_text, objects, terminal
from strata.results.store import ResultsFolder


def query(
    results: FromResults,
    sql: Annotated[str | None, argument("A query in DuckDB's SQL.", "SQL")] = None,
    tables: Annotated[bool, option("Describe the tables and their columns.", "--tables")] = False,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
) -> None:
    """Ask a study's results anything, in SQL.

    Examples:
        strata query results/quickstart --tables
        strata query results/quickstart "select stack, avg(value) from metrics where headline group by all"
        strata query results/quickstart --csv "select * from samples where source = 'memory'"
    """
    refuse_both(json=as_json, csv=as_csv)
    folder = ResultsFolder.open(results)
    if tables:
        heads = columns("table", "column", "type", "meaning")
        described = [
            (name, column.key, column.sql_type, column.meaning)
            for name, table in TABLES.items()
            for column in table.columns_of(folder.study())
        ]
        answer = Table(heads, described)
    elif sql is None:
        raise ResultError(
            "there is no query",
            place="strata query",
            remedy='give one such as "select * from trials"; --tables describes the tables',
        )
    else:
        answer = query_results(folder, sql)
    if as_json:
        print_json(rows=objects(answer))
    elif as_csv:
        print_text(csv_text(answer))
    else:
        stdout().print(terminal(answer))
