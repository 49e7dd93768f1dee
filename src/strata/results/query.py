# SPDX-License-Identifier: Apache-2.0
"""Results as tables: Parquet files derived from a results folder, queried with DuckDB.

The files under ``RESULTS/query/`` can be removed at any time; they are made again when a query needs them.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import duckdb

from strata.database import interruptible, offline_connection, table_file
from strata.errors import ResultError
from strata.files import explained, read_plain, refuse_link, write_durably
from strata.results.counts import every_metric
from strata.results.events import Sample, read_events
from strata.results.store import Reading, ResultsFolder


def confine(connection: duckdb.DuckDBPyConnection, readable: Iterable[Path]) -> None:
    """Let a connection reach these files and nothing else, for good: no other file, network or extension."""
    connection.execute("SET allowed_paths = ?", [[str(path) for path in readable]])
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


# A new number makes every folder derive its tables anew.
_QUERY_VERSION: Final = 2

_TRIAL = (("trial", "VARCHAR", "the trial's id: stack.workload.sSEED"),)
_CELL = (
    *_TRIAL,
    ("stack", "VARCHAR", "the stack's name in the study"),
    ("workload", "VARCHAR", "the workload's name in the study"),
    ("seed", "BIGINT", "the trial's seed"),
)
# Column name, DuckDB type, meaning.
TABLES: Final[Mapping[str, tuple[tuple[str, str, str], ...]]] = {
    "trials": (
        *_CELL,
        ("attempt", "INTEGER", "which attempt the row is from"),
        ("valid", "BOOLEAN", "whether its numbers may be used"),
        ("problem", "VARCHAR", "why not, or why there is no result"),
        ("time_domain", "VARCHAR", "virtual or wall"),
        ("runner", "VARCHAR", "what carried it out"),
        ("measure_ns", "BIGINT", "length of the measured window"),
        ("real_duration_s", "DOUBLE", "real seconds it took"),
        ("virtual_per_real", "DOUBLE", "virtual seconds per real second"),
        ("kernel", "VARCHAR", "kernel release"),
        ("spec_sha256", "VARCHAR", "hash of the plan and the devices' parameters"),
        ("record_sha256", "VARCHAR", "hash of the result without real time"),
    ),
    "metrics": (
        *_CELL,
        ("metric", "VARCHAR", "name, unit last; the counts per operation, too"),
        ("value", "DOUBLE", "in the unit"),
        ("unit", "VARCHAR", "1/s, ns, B/s, B or 1"),
        ("better", "VARCHAR", "higher or lower"),
        ("headline", "BOOLEAN", "whether a report shows it first"),
        ("valid", "BOOLEAN", "whether the trial's numbers may be used"),
    ),
    "samples": (
        *_CELL,
        ("monotonic_ns", "BIGINT", "time of the sample"),
        ("moment", "VARCHAR", "interval, step_start or step_end"),
        ("step", "VARCHAR", "the step that started or ended"),
        ("source", "VARCHAR", "disk name, memory or cpu"),
        ("name", "VARCHAR", "the reading, unit last"),
        ("value", "BIGINT", "as read; counters are cumulative"),
    ),
    "disk_accounts": (
        *_CELL,
        ("disk", "VARCHAR", "the disk's name in the study"),
        ("name", "VARCHAR", "the counter, unit last"),
        ("value", "BIGINT", "change over the measured window"),
    ),
}


@dataclass(frozen=True)
class Answer:
    """A query's result: column names and rows."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


def query(folder: ResultsFolder, sql: str) -> Answer:
    """Answer a query over ``TABLES``. It can read these tables and nothing else.

    Raises ResultError if the results cannot be read or the query is refused.
    """
    with _tables(folder) as parquet, offline_connection() as connection:
        files = {table: (parquet / f"{table}.parquet").absolute() for table in TABLES}
        with _derivable(parquet):
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


def _answer(connection: duckdb.DuckDBPyConnection, sql: str) -> Answer:
    found = connection.execute(sql)
    columns = tuple(column[0] for column in found.description or ())
    return Answer(columns, found.fetchall() if columns else [])


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
def _tables(folder: ResultsFolder) -> Iterator[Path]:
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
    attempts = [
        each for identity in folder.study().trials.values() for each in folder.store.attempts(identity)
    ]
    sources = [path for attempt in attempts for path in (attempt.result_path, attempt.events_path)]
    for path in [folder.study_path, *sources]:
        with explained(path, "look at the file"):
            if path.exists():
                found = path.stat()
                digest.update(os.fsencode(path) + f" {found.st_size} {found.st_mtime_ns}\n".encode())
    return json.dumps({"query_version": _QUERY_VERSION, "sources_sha256": digest.hexdigest()}).encode()


def _derive(folder: ResultsFolder, target: Path) -> None:
    readings = folder.readings()
    with _derivable(folder.path), offline_connection() as connection:
        for table, columns in TABLES.items():
            lines = target / f"{table}.jsonl"
            with explained(lines, "write the derived tables"), lines.open("w", encoding="utf-8") as file:
                for each in readings:
                    head = {"trial": each.trial_id, **each.trial._asdict()}
                    file.writelines(f"{json.dumps(head | row)}\n" for row in _ROWS[table](each))
            types = {name: kind for name, kind, _ in columns}
            derived = connection.read_json(table_file(lines), format="newline_delimited", columns=types)
            derived.write_parquet(str(target / f"{table}.parquet"))
            lines.unlink()


def _trial_rows(reading: Reading) -> Iterator[dict[str, Any]]:
    record, attempt = reading.record, reading.attempt
    row: dict[str, Any] = {"valid": reading.usable, "problem": reading.problem}
    if record is not None and attempt is not None:
        row |= {
            "attempt": attempt.number,
            "time_domain": record.time_domain,
            "runner": record.runner,
            "measure_ns": record.phases_ns.get("measure"),
            "real_duration_s": record.real_time.duration_s,
            "virtual_per_real": record.real_time.virtual_per_real,
            "kernel": record.versions.kernel,
            "spec_sha256": record.spec_sha256,
            "record_sha256": reading.record_sha256,
        }
    yield row


def _metric_rows(reading: Reading) -> Iterator[dict[str, Any]]:
    for each in every_metric(reading.record) if reading.record else ():
        plain = each.model_dump(include={"value", "unit", "better", "headline"})
        yield {"metric": each.name, **plain, "valid": reading.usable}


def _account_rows(reading: Reading) -> Iterator[dict[str, Any]]:
    for disk, account in (reading.record.disks if reading.record else {}).items():
        yield from ({"disk": disk, "name": name, "value": value} for name, value in account.items())


def _sample_rows(reading: Reading) -> Iterator[dict[str, Any]]:
    samples: Sequence[Sample] = ()
    # The record counts; a result whose events were damaged later merely has no samples.
    with suppress(ResultError):
        samples = read_events(reading.attempt.events_path).samples if reading.attempt else ()
    for each in samples:
        head = {"monotonic_ns": each.monotonic_ns, "moment": each.at, "step": each.step}
        for source, values in {**each.disks, "memory": each.memory, "cpu": each.cpu}.items():
            for name, value in values.items():
                yield {**head, "source": source, "name": name, "value": value}


_ROWS: Final = {
    "trials": _trial_rows,
    "metrics": _metric_rows,
    "samples": _sample_rows,
    "disk_accounts": _account_rows,
}
