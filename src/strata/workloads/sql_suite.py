# SPDX-License-Identifier: Apache-2.0
"""A mixed suite of SQL statements against a MariaDB server whose data are on the measured stack."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from importlib.resources import files
from itertools import pairwise
from typing import ClassVar, Final, Literal, NamedTuple

from pydantic import StrictInt

from strata.diagnostics.names import Diagnostic, KebabName
from strata.model import page_cache
from strata.model.allowed import Forms
from strata.model.metric import Metric, MetricSpec
from strata.model.step import Phase, Step, literal
from strata.model.warning import Check, Verdict
from strata.model.workload import Outputs, Workload, WorkloadContext, unreadable
from strata.servers.database import DatabaseServer, ServerLoad, Setting
from strata.servers.mariadb import MariadbServer
from strata.units import NS_PER_S, NS_PER_US
from strata.workloads.keys import DoublewritePlace, key

_ROW_BYTES: Final = 300
"""The space of a row with its indexes, and once more while the table is altered: an estimate."""
_TABLE_BYTES: Final = 256 << 10
"""The space that InnoDB sets aside for a table with one index and few rows."""
_ROWS_IN_COMMIT: Final = 1000
_SETTINGS: Final[dict[str, Setting]] = {
    # Reads after the restart come from the disk, not from a background preload.
    "innodb_buffer_pool_load_at_startup": False,
    # With a binary log only a superuser could make the functions otherwise.
    "log_bin_trust_function_creators": True,
}
_STAMP: Final = re.compile(r"^strata\t(\w+)\t(\d+\.\d{6})$", re.MULTILINE)
_ROWS: Final = re.compile(r"^strata-rows\t(\d+)$", re.MULTILINE)


class _Part(NamedTuple):
    name: str
    meaning: str
    statement: str  # with the workload's figures


_SESSIONS: Final = {
    "write": (
        _Part("create_tables", "small tables are created", "CALL create_tables({tables})"),
        _Part("use_tables", "a row is put into each of them, and read", "CALL use_tables({tables}, {seed})"),
        _Part("insert_committed", "rows with a commit each", "CALL insert_rows(1, {commits}, 1, {seed})"),
        _Part(
            "insert_bulk",
            "the other rows, a thousand to a commit",
            "CALL insert_rows({commits} + 1, {rows}, {rows_in_commit}, {seed})",
        ),
    ),
    "read-keys": (
        _Part("select_by_key", "every row by its key, in random order", "CALL select_by_key({rows})"),
    ),
    "read-ranges": (
        _Part(
            "select_by_range",
            "ranges of the secondary index, each row looked up",
            "CALL select_by_range({commits}, {rows})",
        ),
    ),
    "change": (
        _Part("select_all", "the whole table: sums, groups, a sort, a join", "CALL select_all()"),
        _Part(
            "update_by_key", "the text of rows, with a commit each", "CALL update_by_key({commits}, {seed})"
        ),
        _Part("update_all", "one statement changes every row", "UPDATE bench SET id3 = id3 + 1"),
        _Part(
            "alter_copy",
            "a column is added by copying the table",
            "ALTER TABLE bench ADD COLUMN more INT NOT NULL DEFAULT 0, ALGORITHM = COPY",
        ),
        _Part(
            "alter_index", "an index on the text is added", "ALTER TABLE bench ADD INDEX by_content (content)"
        ),
        _Part("big_table", "a table of many columns, and its rows", "CALL big_table({columns}, {big_rows})"),
        _Part("delete_by_key", "rows with a commit each", "CALL delete_by_key({commits})"),
        _Part(
            "drop_tables",
            "all tables are dropped",
            "SELECT 'strata-rows', COUNT(*) FROM bench; CALL drop_tables({tables})",
        ),
    ),
}
"""The parts, by the session that executes them; before each but the first the server is started anew."""
_TITLES: Final = {
    "write": "Create and fill the tables",
    "read-keys": "Read every row by its key",
    "read-ranges": "Read ranges of rows",
    "change": "Read all, change, alter and drop the tables",
}


class SqlSuite(ServerLoad, Workload):
    """Statements of many kinds against a MariaDB server of their own, each part timed apart.

    Prepare: a new server on the stack, the procedures that the parts consist of, and the order in which rows
    are taken, shuffled by the seed. Measured: tables are created and filled, read, changed, altered and
    dropped. Before each way of reading the server is restarted and the caches dropped, so that reads
    reach the disks. The parts are executed by the server itself, one after the other.
    """

    rationale: ClassVar[str] = (
        "The life of a small database as the old mysql-bench had it: many tables are created, rows inserted "
        "one by one and in bulk, found by key and by range, updated, tables altered, a table of hundreds of "
        "columns written, all of it dropped. It shows which kind of statement a stack is slow at. It has one "
        "session, and so nothing is done side by side."
    )
    tools: ClassVar[tuple[str, ...]] = (*MariadbServer.tools, *page_cache.TOOLS)
    check_questions: ClassVar[Mapping[str, str]] = {
        "rows-as-expected": "did the table end with the rows that it should have?",
    }
    metric_specs: ClassVar[tuple[MetricSpec, ...]] = (
        MetricSpec("total_ns", "ns", "lower", "all parts together"),
        *(
            MetricSpec(f"{part.name}_ns", "ns", "lower", part.meaning)
            for parts in _SESSIONS.values()
            for part in parts
        ),
    )
    example: ClassVar[tuple[str, ...]] = ("rows",)
    allowed: ClassVar[Mapping[str, Forms]] = {"settings": MariadbServer.allowed}
    amounts: ClassVar[Mapping[str, int]] = {"rows": 1000, "commits": 1, "tables": 1, "big_rows": 1}

    workload: Literal["sql-suite"] = "sql-suite"
    rows: StrictInt = key(20_000, "Rows of the table that most parts use", 100_000, ge=1000, le=10_000_000)
    commits: StrictInt = key(
        500,
        "Rows that are inserted, updated and deleted with a commit each; ranges that are read",
        2000,
        ge=1,
        le=1_000_000,
    )
    tables: StrictInt = key(100, "Small tables that are created, used and dropped", 1000, ge=1, le=100_000)
    columns: StrictInt = key(500, "Columns of the big table", 1000, ge=1, le=1000)
    big_rows: StrictInt = key(100, "Rows of the big table, with a commit each", 1000, ge=1, le=100_000)
    settings: dict[str, Setting] = key(
        {}, "Settings of MariaDB's configuration file", {"innodb_buffer_pool_size": "64M"}
    )
    log_place: KebabName | None = key(
        None,
        "The filesystem of the stack for InnoDB's redo log, by its name in `filesystems`; default, and on a "
        "stack without one of that name: beside the data",
        "wal",
    )
    doublewrite_place: DoublewritePlace = None

    @property
    def server_type(self) -> type[DatabaseServer]:
        return MariadbServer

    @property
    def data_bytes(self) -> int | None:
        return self.rows * _ROW_BYTES

    def diagnostics(self, capacity_bytes: int) -> Iterable[Diagnostic]:
        if self.commits > self.rows // 2:
            cause = "more than half of the rows would be committed one by one"
            yield Diagnostic(cause, remedy="lower commits, or raise rows", key="commits")
        data_bytes = 2 * self.rows * _ROW_BYTES + self.tables * _TABLE_BYTES
        yield from self.server_diagnostics(data_bytes, capacity_bytes, "rows")

    def steps(self, context: WorkloadContext) -> list[Step]:
        settings = {**_SETTINGS, **self.settings}
        server = MariadbServer(
            "sql-suite", context, 10, settings, self.log_place, doublewrite_place=self.doublewrite_place
        )
        seed = context.derived_seed("content")
        scripts = files("strata.workloads").joinpath("scripts")
        procedures = scripts.joinpath("sql_suite.sql").read_text(encoding="utf-8")
        shuffle, shuffled = f"CALL shuffle({self.rows}, {seed});\n", f"Shuffle the order of {self.rows} rows"
        return [
            *server.steps(),
            self._session(server, "procedures", "prepare", "Make the procedures of the suite", procedures),
            self._session(server, "shuffle", "prepare", shuffled, shuffle),
            *(
                step
                for number, name in enumerate(_SESSIONS)
                for step in (*(server.restart(number) if number else ()), self._parts(server, name, seed))
            ),
        ]

    def _parts(self, server: MariadbServer, name: str, seed: int) -> Step:
        figures = {**self.model_dump(), "seed": seed, "rows_in_commit": _ROWS_IN_COMMIT}
        lines = [_stamp("begin")]
        for part in _SESSIONS[name]:
            lines += [f"{part.statement.format(**figures)};", _stamp(part.name)]
        return self._session(server, name, "measure", _TITLES[name], "\n".join([*lines, ""]))

    def _session(self, server: MariadbServer, name: str, phase: Phase, title: str, text: str) -> Step:
        return server.client(
            id=f"sql-suite-{name}",
            phase=phase,
            title=title,
            argv=(*server.client_words(), "--skip-column-names"),
            stdin=literal(text),
            # Ten rows a second, one table a second.
            time_limit_ns=(3600 + self.rows // 10 + self.tables) * NS_PER_S,
        )

    def metrics(self, outputs: Outputs) -> list[Metric]:
        metrics: list[Metric] = []
        for session, parts in _SESSIONS.items():
            name = f"sql-suite-{session}"
            text = outputs.step(name).stdout
            stamps_us = [(part, int(at_s.replace(".", ""))) for part, at_s in _STAMP.findall(text)]
            if [part for part, _ in stamps_us] != ["begin", *(part.name for part in parts)]:
                raise unreadable(name, "the parts were not all executed", text or outputs.step(name).stderr)
            metrics += [
                Metric.of(f"{part}_ns", float((ended_us - begun_us) * NS_PER_US), "ns")
                for (_, begun_us), (part, ended_us) in pairwise(stamps_us)
            ]
        total = Metric.of("total_ns", sum(metric.value for metric in metrics), "ns", headline=True)
        return [total, *metrics]

    def checks(self, outputs: Outputs) -> Iterable[Check]:
        found = _ROWS.search(outputs.step("sql-suite-change").stdout)
        expected = self.rows - self.commits
        verdict: Verdict = "unknown" if found is None else "yes" if int(found[1]) == expected else "no"
        detail = f"{found[1] if found else 'an unknown number of'} rows were left, {expected} should be"
        yield Check(name="rows-as-expected", verdict=verdict, detail=detail, required=True)


def _stamp(name: str) -> str:
    return f"SELECT 'strata', '{name}', UNIX_TIMESTAMP(SYSDATE(6));"
