# SPDX-License-Identifier: Apache-2.0
"""Results as tables: Parquet files derived from a results folder, queried with DuckDB.

The files under ``RESULTS/query/`` can be removed at any time; they are made again when a query needs them.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final

import duckdb

from strata.advice.asked import answer_of
from strata.database import interruptible, offline_connection, table_file
from strata.errors import ResultError
from strata.files import explained, read_plain, refuse_link, write_durably
from strata.report.data import TABLES
from strata.report.table import Column, Table, parquet
from strata.results.findings import FINDINGS_NAME, read_capabilities
from strata.results.store import ResultsFolder
from strata.statistics.study import gather


def confine(connection: duckdb.DuckDBPyConnection, readable: Iterable[Path]) -> None:
    """Let a connection reach these files and nothing else, for good: no other file, network or extension."""
    connection.execute("SET allowed_paths = ?", [[str(path) for path in readable]])
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


# A new number makes every folder derive its tables anew.
_QUERY_VERSION: Final = 4


def query_results(folder: ResultsFolder, sql: str) -> Table:
    """Answer a query over ``TABLES``. It can read these tables and nothing else.

    Raises ResultError if the results cannot be read or the query is refused.
    """
    with derived_tables(folder) as place, offline_connection() as connection:
        files = {table: (place / f"{table}.parquet").absolute() for table in TABLES}
        with _derivable(place):
            for table, file in files.items():
                connection.read_parquet(table_file(file), hive_partitioning=False).create_view(table)
        confine(connection, files.values())
        try:
            if any(each.type != duckdb.StatementType.SELECT for each in connection.extract_statements(sql)):
                raise ResultError(
                    "a query can only read",
                    place="the query",
                    remedy="write a SELECT; COPY, SET, ATTACH, CREATE and the like are refused",
                )
            return interruptible(connection, partial(_answer, connection, sql))
        except duckdb.Error as error:
            raise ResultError(
                str(error).strip().splitlines()[0],
                place="the query",
                remedy="`strata query RESULTS --tables` describes the tables and their columns",
            ) from error


def _answer(connection: duckdb.DuckDBPyConnection, sql: str) -> Table:
    found = connection.execute(sql)
    rows = found.fetchall() if found.description else []
    heads = []
    for index, column in enumerate(found.description or ()):
        is_number = any(isinstance(row[index], int | float) for row in rows)
        heads.append(Column(column[0], "figure" if is_number else "text"))
    return Table(tuple(heads), rows)


@contextmanager
def _derivable(place: Path) -> Iterator[None]:
    try:
        yield
    except duckdb.Error as error:
        raise ResultError(
            f"the tables cannot be derived or read: {str(error).strip().splitlines()[0]}",
            place=str(place),
            remedy="remove the folder RESULTS/query; if it happens again, a result is damaged: `strata show`",
        ) from error


@contextmanager
def derived_tables(folder: ResultsFolder) -> Iterator[Path]:
    """The folder of up-to-date Parquet files; a temporary one when the results cannot be written."""
    kept = folder.path / "query"
    state = _state(folder)
    stamp = kept / "state.json"
    with explained(kept, "use the derived tables"):
        for path in (kept, *(kept / f"{table}.parquet" for table in TABLES)):
            refuse_link(path)
        up_to_date = stamp.exists() and read_plain(stamp) == state
    if up_to_date:
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="strata-query-") as name:
        fresh = Path(name)
        _derive(folder, fresh)
        try:
            folder.refuse_unsafe()
            kept.mkdir(exist_ok=True)
            stamp.unlink(missing_ok=True)
            for table in TABLES:
                write_durably(
                    kept / f"{table}.parquet", (fresh / f"{table}.parquet").read_bytes(), wait=False
                )
            write_durably(stamp, state)
        except (OSError, ResultError):  # another user's folder, a full disk: derived files can wait
            yield fresh
        else:
            yield kept


def _state(folder: ResultsFolder) -> bytes:
    digest = hashlib.sha256()
    identities = folder.study().trials.values()
    attempts = [attempt for identity in identities for attempt in folder.store.attempts(identity)]
    sources = [path for attempt in attempts for path in (attempt.result_path, attempt.events_path)]
    for path in [folder.study_path, folder.path / FINDINGS_NAME, *sources]:
        with explained(path, "look at the file"):
            if path.exists():
                found = path.stat()
                digest.update(os.fsencode(path) + f" {found.st_size} {found.st_mtime_ns}\n".encode())
    return json.dumps({"query_version": _QUERY_VERSION, "sources_sha256": digest.hexdigest()}).encode()


def _derive(folder: ResultsFolder, target: Path) -> None:
    results = gather(folder)
    asked = answer_of(results, read_capabilities(folder))
    with _derivable(folder.path):
        for name, table in TABLES.items():
            place = target / f"{name}.parquet"
            with explained(place, "write the derived tables"):
                place.write_bytes(parquet(table.of(results, asked)))
