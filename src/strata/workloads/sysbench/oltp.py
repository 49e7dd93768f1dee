# SPDX-License-Identifier: Apache-2.0
"""sysbench's transactions against a PostgreSQL or MariaDB server whose data are on the measured stack.

In a trial whose power is cut, each transaction also updates a row of its thread, and when its commit has
returned, the thread notes the number outside the stack. Other sessions cannot say what is acknowledged:
InnoDB shows them a transaction before its log is flushed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import PurePath
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, StrictInt, StrictStr

from strata.diagnostics.names import Diagnostic, KebabName
from strata.model.allowed import Forms
from strata.model.duties import EndsWhenKnown, LogsThroughput, SharesPreparation
from strata.model.metric import Metric, MetricSpec, latency_metric_specs
from strata.model.step import Step, Until, literal
from strata.model.survival import CountsAcknowledged, Kept
from strata.model.warning import Check
from strata.model.workload import Outputs, WorkloadContext, unreadable
from strata.servers.database import ROLE, DatabaseServer, ServerLoad, Setting, setting_text
from strata.servers.mariadb import DATABASE, MariadbServer
from strata.servers.postgresql import DATABASE as POSTGRES_DATABASE
from strata.servers.postgresql import PostgresqlServer
from strata.units import NS_PER_MS, NS_PER_S
from strata.words import counted
from strata.workloads import sessions
from strata.workloads.initial import CONTROL, OwnTables
from strata.workloads.keys import DoublewritePlace, WarmUp, Window, key, option_words, yes_or_no
from strata.workloads.sysbench.fileio import SHARED_FIGURES, figures_of, latencies_of

_LEGACY: Final = "legacy-"
_STATEMENT: Final = re.compile(r"\S[^;]*;\s*\n")
_READING: Final = (
    *("oltp_read_only", "oltp_point_select", "select_random_points", "select_random_ranges"),
    *("legacy-read-only", "legacy-simple", "legacy-nontrx-select"),
)
_COMMITTING: Final = ("oltp_read_write", "oltp_write_only", "legacy-complex")
"""The scripts that begin and commit transactions; the other ones that write have one statement each."""
_KEEPING: Final = (
    *(*_COMMITTING, "oltp_update_index", "oltp_update_non_index"),
    *("legacy-nontrx-update-key", "legacy-nontrx-update-nokey"),
)
"""The scripts that leave the number of rows as it is."""
_COUNTED: Final = "CREATE TABLE strata_counted (thread INT PRIMARY KEY, n BIGINT NOT NULL)"
_ROWS: Final = "SELECT '{table}', COUNT(*), SUM(LENGTH(c)) FROM {table}"
_COUNTED_ID: Final = "sysbench-left"
_ROWS_ID: Final = "sysbench-rows"
_COUNT_FORM: Final = re.compile(r"(\d{1,5})[ |\t](\d{1,18})")


def _by_thread(step_id: str, text: str) -> dict[int, int]:
    """The numbers of transactions in lines of a thread and its number."""
    found = [_COUNT_FORM.fullmatch(line) for line in text.strip().splitlines()]
    if None in found:
        raise unreadable(step_id, "the count of transactions is of another form", text)
    return {int(each[1]): int(each[2]) for each in found if each is not None}


def _lua(name: str) -> str:
    """One of Strata's scripts."""
    return files("strata.workloads").joinpath("scripts", name).read_text(encoding="utf-8")


Script = Literal[
    "oltp_read_only", "oltp_read_write", "oltp_write_only", "oltp_point_select", "oltp_insert", "oltp_delete",
    "oltp_update_index", "oltp_update_non_index", "select_random_points", "select_random_ranges",
    "legacy-complex", "legacy-read-only", "legacy-simple", "legacy-nontrx-select",
    "legacy-nontrx-update-key", "legacy-nontrx-update-nokey", "legacy-nontrx-insert", "legacy-nontrx-delete",
]  # fmt: skip
_LOAD: Final = sessions.load_id("sysbench")
_SCRIPT: Final = "load.lua"
_AROUND: Final = "strata-load.lua"  # the script that runs a Lua file of the study's
_LEVEL: Final = "=" * 8  # of the brackets around a text in Lua
_END: Final = f"]{_LEVEL}]"
_LUA: Final = ".lua"
LuaFile = Annotated[StrictStr, Field(pattern=r"^[A-Za-z0-9_./-]{1,200}\.lua$")]
_EVENT: Final = re.compile(r"\bfunction\s+event\b|\bevent\s*=")
_OPTION: Final = r"^[a-z][a-z0-9_-]{0,40}$"
# Without cutting the file, which is mapped.
_ENDING: Final = literal('printf 1 1<> "$0"')
_ROW_BYTES: Final = 250
"""The space of a row with its indexes, in both servers and both tables: an estimate."""
_ROWS_PER_S_MIN: Final = 1000
_SLACK_NS: Final = 300 * NS_PER_S
_INTERVAL: Final = re.compile(r"^\[ (\d+)s \] thds: \d+ tps: ([0-9.]+) ", re.MULTILINE)
_TOTAL_S: Final = re.compile(SHARED_FIGURES["time_s"], re.MULTILINE)
_REPORT: Final = "\nLatency histogram "
_EXECUTED: Final = re.compile(r"^strata: (\d+) transactions executed in (\d+) ns$", re.MULTILINE)
_FIGURES: Final = {
    "reads": r"^ +read: +([0-9]+)$",
    "writes": r"^ +write: +([0-9]+)$",
    "others": r"^ +other: +([0-9]+)$",
    "queries": r"^ +queries: +([0-9]+) ",
    "transactions": r"^ +transactions: +([0-9]+) ",
    "errors": r"^ +ignored errors: +([0-9]+) ",
    "reconnects": r"^ +reconnects: +([0-9]+) ",
    **SHARED_FIGURES,
}


class SysbenchOltp(
    ServerLoad, SharesPreparation, LogsThroughput, CountsAcknowledged, EndsWhenKnown, OwnTables
):
    """sysbench's transactions on a database server of its own.

    Prepare: a new server on the stack, the tables (timed apart as ``prepare_ns``), and what lets the load
    start from a clean state: on PostgreSQL VACUUM, ANALYZE and a checkpoint, on MariaDB ANALYZE. Warm-up and
    measured window are one run, so that the window begins with warm sessions: sysbench sets its counters back
    after the warm-up (``--report-checkpoints``), which begins when all threads have their connections.
    """

    rationale: ClassVar[str] = (
        "The database of a web application: transactions of point reads, short ranges and a few writes of "
        "rows that are found by their number. It stresses the latency of a commit and, once the tables "
        "outgrow the memory, random reads of single pages. It has no joins and no long queries, and its "
        "clients do not think."
    )
    tools: ClassVar[tuple[str, ...]] = (
        *sorted({*PostgresqlServer.tools, *MariadbServer.tools, *sessions.TOOLS, "sysbench", "tee", "test"}),
    )
    check_questions: ClassVar[Mapping[str, str]] = {
        "no-transaction-restarted": "did all transactions go through at the first attempt?",
        "connections-kept": "had each session one connection throughout?",
    }
    metric_specs: ClassVar[tuple[MetricSpec, ...]] = (
        MetricSpec("{transactions,queries}_per_s", "1/s", "higher", "completed, over the whole window"),
        MetricSpec("transactions", "1", "higher", "completed in the window"),
        MetricSpec("transactions_restarted", "1", "lower", "begun again after a deadlock, if any"),
        *latency_metric_specs("of a transaction, in an open loop from when it was due"),
        MetricSpec(
            "queue_time_ns_mean", "ns", "lower", "with rate: how long transactions that were due waited"
        ),
        MetricSpec("prepare_ns", "ns", "lower", "creating and filling the tables"),
    )
    spans_window: ClassVar[bool] = True
    load_keys: ClassVar[Mapping[str, object]] = {"threads": 1, "rate_per_s": None}
    hints: ClassVar[dict[str, str]] = dict.fromkeys(
        ("file", "script_file", "lua"), 'a Lua file beside the study: script = "load.lua"'
    )
    example: ClassVar[tuple[str, ...]] = ("script", "threads")
    allowed: ClassVar[Mapping[str, Forms]] = {
        f"settings of {server.title}": server.allowed for server in (PostgresqlServer, MariadbServer)
    }
    amounts: ClassVar[Mapping[str, int]] = {"rows": 1000}

    workload: Literal["sysbench-oltp"] = "sysbench-oltp"
    server: Literal["postgresql", "mariadb"] = key(..., "The server", "mariadb")
    script: Script | LuaFile = key(
        "oltp_read_write",
        "A script of sysbench 1.0, a mix of sysbench 0.4.12 (legacy-complex and the like), or a Lua file "
        "beside the study as it is, which prepares its own tables. It can run programs: on a host it needs "
        "--allow-commands",
        "legacy-complex",
    )
    requires: list[LuaFile] = key([], "The Lua files that it requires, beside the study", ["tpcc_common.lua"])
    options: dict[Annotated[StrictStr, Field(pattern=_OPTION)], Setting] = key(
        {}, "Options that the Lua file declares", {"scale": 10, "use_fk": False}
    )
    lua_texts: dict[StrictStr, StrictStr] = key(
        {}, "The texts of the Lua files, by their names; they are read", {"load.lua": "function event() end"}
    )
    script_text: StrictStr | None = key(
        None,
        "A transaction of one's own instead: SQL statements, each ended by a semicolon at the end of a line. "
        ":id and :id2 to :id9 are numbers from 1 to :rows, drawn for each transaction, :text 100 digits",
        "BEGIN;\nUPDATE sbtest1 SET k = k + 1 WHERE id = :id;\nCOMMIT;",
    )
    tables: StrictInt = key(1, "Tables", 4, ge=1, le=1000)
    rows: StrictInt = key(
        10_000, "Rows of each table (sysbench's table_size)", 100_000, ge=1, le=1_000_000_000
    )
    threads: StrictInt = key(1, "Concurrent sessions", 8, ge=1, le=10_000)
    warmup_ns: WarmUp = 10 * NS_PER_S
    duration_ns: Window
    rand_type: Literal["special", "uniform", "gaussian", "pareto"] = key(
        "special", "The distribution of the rows' numbers; the legacy mixes lack pareto"
    )
    rate_per_s: Annotated[StrictInt, Field(ge=1, le=1_000_000)] | None = key(
        None,
        "Open loop: this many transactions a second are due, at random times (a Poisson "
        "process); default: each thread begins the next when the last has ended",
        200,
        alias="rate",
    )
    extra_update: Literal["auto", "on", "off"] = key(
        "auto",
        "Whether legacy-complex updates the row that it deletes and inserts again; auto: on PostgreSQL",
    )
    settings: dict[str, Setting] = key(
        {},
        "Settings of the server's configuration file",
        {"innodb_buffer_pool_size": "64M", "innodb_flush_log_at_trx_commit": 2},
    )
    log_place: KebabName | None = key(
        None,
        "The filesystem of the stack for the server's log, by its name in `filesystems`; default, and on a "
        "stack without one of that name: beside the data",
        "wal",
    )

    doublewrite_place: DoublewritePlace = None

    @classmethod
    def with_texts(cls, table: dict[str, Any], read: Callable[..., str]) -> None:
        super().with_texts(table, read)
        required = table.get("requires")
        listed = required if isinstance(required, list) else []
        named = [("script", table.get("script")), *(("requires", each) for each in listed)]
        files = {each: key for key, each in named if isinstance(each, str) and each.endswith(_LUA)}
        if files and "lua_texts" not in table:
            table["lua_texts"] = {each: read(key, each) for each, key in files.items()}

    @property
    def _is_lua(self) -> bool:
        return self.script.endswith(_LUA)

    @property
    def _script_file(self) -> str:
        return _AROUND if self._is_lua else _SCRIPT

    @property
    def needs_permission(self) -> bool:
        return super().needs_permission or self._is_lua

    @property
    def has_own_script(self) -> bool:
        return super().has_own_script or self._is_lua

    @property
    def data_bytes(self) -> int | None:
        if self._is_lua and "rows" not in self.model_fields_set:
            return None
        return self.tables * self.rows * _ROW_BYTES

    @property
    def _mix(self) -> str | None:
        """The mix of sysbench 0.4.12; None for a script of sysbench 1.0."""
        return self.script.removeprefix(_LEGACY) if self.script.startswith(_LEGACY) else None

    @property
    def server_type(self) -> type[DatabaseServer]:
        return PostgresqlServer if self.server == "postgresql" else MariadbServer

    def diagnostics(self, capacity_bytes: int) -> Iterable[Diagnostic]:
        yield from self._script_diagnostics()
        if self._mix is not None and self.tables != 1:
            yield Diagnostic(
                "the mixes of sysbench 0.4.12 have one table", remedy="leave tables out", key="tables"
            )
        if self._mix is not None and self.rand_type == "pareto":
            yield Diagnostic(
                "sysbench 0.4.12 has no pareto distribution", remedy='write "special"', key="rand_type"
            )
        if self._mix != "complex" and self.extra_update != "auto":
            yield Diagnostic(
                f"{self.script} deletes nothing that it inserts again in an UPDATE's sight",
                remedy="leave extra_update out: it is for legacy-complex",
                key="extra_update",
            )
        if self.doublewrite_place is not None and self.server != "mariadb":
            cause = "PostgreSQL has no doublewrite buffer: it writes whole pages to its WAL"
            yield Diagnostic(cause, remedy="leave it out, or write log_place", key="doublewrite_place")
        yield from self.server_diagnostics(self.data_bytes or 0, capacity_bytes, "rows")

    def _script_diagnostics(self) -> Iterable[Diagnostic]:
        yield from self.table_diagnostics("sysbench")
        yield from self._lua_diagnostics()
        text = self.script_text
        if text is None:
            return
        if "script" in self.model_fields_set:
            yield Diagnostic("there are two scripts", remedy="leave script out", key="script_text")
        if not _STATEMENT.search(f"{text}\n") or CONTROL.search(text) or _END in text:
            remedy = 'end each statement with ";" and a new line, and leave out control characters'
            yield Diagnostic("this is no transaction in SQL", remedy=remedy, key="script_text")

    def _lua_diagnostics(self) -> Iterable[Diagnostic]:
        for name in ("requires", "options") if not self._is_lua else ():
            if getattr(self, name):
                cause = f"{self.script} is no Lua file of the study's"
                yield Diagnostic(cause, remedy='leave it out, or write script = "load.lua"', key=name)
        names = [PurePath(each).name for each in self.lua_texts]
        named = [self.script, *self.requires] if self._is_lua else []
        if not {*self.lua_texts} <= {*named} or len(names) > len({*names}) or _AROUND in names:
            remedy = f"leave lua_texts out; files have names of their own, and none is {_AROUND}"
            yield Diagnostic(
                "these are not the Lua files of script and requires", remedy=remedy, key="lua_texts"
            )
        if self._is_lua and self.lua_texts and not any(map(_EVENT.search, self.lua_texts.values())):
            remedy = "write the file that defines event() as `script`, and its further files as `requires`"
            yield Diagnostic(f"{self.script} defines no event() to measure", remedy=remedy, key="script")
        if self.server == "mariadb" and self.extensions:
            yield Diagnostic("MariaDB has no extensions", remedy="leave them out", key="extensions")

    def steps(self, context: WorkloadContext) -> list[Step]:
        server = self._server(context)
        return [
            *server.steps(),
            *self._lua_steps(server),
            server.script(self._script_file, self._script_text(server)),
            *self._prepare(server),
            *self._counting_table(server),
            *self._settle(server),
            *self._load(server),
        ]

    def _lua_steps(self, server: DatabaseServer) -> Iterator[Step]:
        for at, (name, text) in enumerate(self.lua_texts.items(), 1):
            written = server.script(PurePath(name).name, text)
            yield written.model_copy(update={"id": f"{written.id}-{at}"})

    def _server(self, context: WorkloadContext) -> DatabaseServer:
        common = ("sysbench", context, self.threads + 20, self.settings, self.log_place)
        if self.server == "postgresql":
            return PostgresqlServer(*common)
        return MariadbServer(*common, doublewrite_place=self.doublewrite_place)

    @property
    def _prepare_limit_ns(self) -> int:
        return 600 * NS_PER_S + self.tables * self.rows * NS_PER_S // _ROWS_PER_S_MIN

    def _script_text(self, server: DatabaseServer) -> str:
        queue = ""
        if self.rate_per_s is not None:
            queue = f"local WARMUP_S = {self.warmup_ns // NS_PER_S}\n{_lua('sysbench_queue.lua')}"
        told = _lua("sysbench_told.lua") if self._until(server.context) else ""
        queue = f"{self._counting_script(server)}{queue}{told}{_lua('sysbench_begun.lua')}"
        if self.script_text is not None:
            statements = f"local STATEMENTS = [{_LEVEL}[\n{self.script_text}{_END}\n"
            return statements + _lua("sysbench_own.lua") + queue
        if self._mix is not None:
            return _lua("sysbench_legacy.lua") + queue
        if self._is_lua:  # relative to the scratch folder, in which clients run
            found = f'package.path = "{server.folder}/?.lua;" .. package.path\n'
            return f'{found}dofile("{server.folder}/{PurePath(self.script).name}")\n{queue}'
        return f'require("{self.script}")\n{queue}'

    def _until(self, context: WorkloadContext) -> Until | None:
        return self.until_known(context, _LOAD)

    def _prepare(self, server: DatabaseServer) -> list[Step]:
        limit_ns = self._prepare_limit_ns
        if self.has_own_tables:
            return self.make_tables(server, "prepare", {"rows": self.rows}, limit_ns)
        tables = f"{self.tables} tables" if self.tables > 1 else "one table"
        # One thread fills one table at a time.
        threads = self.threads if self._is_lua else min(self.tables, self.threads)
        argv = self._argv(server, "prepare", {"threads": threads}, "prepare")
        title = f"Create and fill {tables} of {self.rows} rows"
        title = f"Let {self.script} create and fill its tables" if self._is_lua else title
        return [server.prepare("prepare", title, *argv, time_limit_ns=limit_ns)]

    def _settle(self, server: DatabaseServer) -> list[Step]:
        if isinstance(server, MariadbServer):
            if self.has_own_tables or self._is_lua:
                return []  # InnoDB brings the statistics of new tables up to date itself
            statement = f"ANALYZE TABLE {', '.join(self._table_names)}"
            return [server.sql("analyse", "Bring the statistics up to date", statement)]
        assert isinstance(server, PostgresqlServer)
        title = "Tidy up after the load, and bring the statistics up to date"
        limit_ns = self._prepare_limit_ns
        vacuum = server.superuser_sql("vacuum", title, "VACUUM ANALYZE", time_limit_ns=limit_ns)
        return [vacuum, server.checkpoint(limit_ns)]

    def _load(self, server: DatabaseServer) -> list[Step]:
        begun = "-".join(filter(None, (f"{server.private_folder}/begun", server.context.window)))
        ended = f"{server.private_folder}/ended"
        until = self._until(server.context)
        warmup_s, duration_s = self.warmup_ns // NS_PER_S, self.duration_ns // NS_PER_S
        options = {
            "begun": begun,
            "ended": ended if until else None,
            "threads": self.threads,
            "time": warmup_s + duration_s,
            "events": 0,
            "rate": self.rate_per_s,
            "report-interval": 1,
            "report-checkpoints": warmup_s,
            "percentile": 99,
            "histogram": "on",
        }
        return sessions.spanning_steps(
            server,
            self._argv(server, "measure", options, "run"),
            who=counted(self.threads, "thread"),
            warmup_ns=self.warmup_ns,
            duration_ns=self.duration_ns,
            slack_ns=_SLACK_NS,
            ready=("test", "-e", begun),
            until=until,
            end_by=("sh", "-c", _ENDING, ended) if until else (),
        )

    def _argv(
        self, server: DatabaseServer, purpose: str, options: Mapping[str, object], command: str
    ) -> tuple[str, ...]:
        if isinstance(server, MariadbServer):
            name, connection, database = "mysql", {"mysql-socket": server.socket}, DATABASE
        else:
            name, connection, database = "pgsql", {"pgsql-host": server.private_folder}, POSTGRES_DATABASE
        kind: dict[str, object] = {"tables": self.tables, "rand-type": self.rand_type}
        if self._is_lua:
            stated = {"tables", "rows"} & self.model_fields_set  # not every file declares these
            own = {name: setting_text(value, true="on", false="off") for name, value in self.options.items()}
            kind = {name: kind[name] for name in kind if name in {*stated, "rand-type"}} | own
        elif self._mix is not None:
            kind = {"mix": self._mix, "distribution": self.rand_type, "extra-update": self.extra_update}
        common = {
            "db-driver": name,
            **connection,
            f"{name}-user": ROLE,
            f"{name}-db": database,
            **kind,
            "table-size": None if self._is_lua and "rows" not in self.model_fields_set else self.rows,
            # Zero would be the time.
            "rand-seed": server.context.derived_seed(purpose) or 1,
        }
        is_named = command == "prepare" and self._mix is None and not self._is_lua
        script = self.script if is_named else server.script_path(self._script_file)
        return ("sysbench", script, *option_words(common), *option_words(options), command)

    def metrics(self, outputs: Outputs) -> list[Metric]:
        text, figures = _report(outputs), _figures(outputs)
        count, time_s = figures["transactions"], figures["time_s"]
        metrics = [
            Metric.of("transactions_per_s", count / time_s, "1/s", headline=True),
            Metric.of("queries_per_s", figures["queries"] / time_s, "1/s"),
            Metric.of("transactions", count, "1"),
            *latencies_of(_LOAD, text, figures, count),
        ]
        if self.rate_per_s is not None:
            metrics.append(_queue_time(outputs.step(_LOAD).stdout, figures))
        if figures["errors"]:
            metrics.append(Metric.of("transactions_restarted", figures["errors"], "1", better="lower"))
        metrics.append(outputs.step("sysbench-prepare").took("prepare_ns", "prepare"))
        return metrics

    @property
    def is_paced(self) -> bool:
        return self.rate_per_s is not None

    def rates_per_s(self, outputs: Outputs) -> Sequence[float]:
        found = _INTERVAL.findall(outputs.step(_LOAD).stdout)
        return [float(rate) for second, rate in found if int(second) > self.warmup_ns // NS_PER_S]

    def checks(self, outputs: Outputs) -> Iterable[Check]:
        figures = _figures(outputs)
        errors, reconnects = int(figures["errors"]), int(figures["reconnects"])
        attempts = int(figures["transactions"]) + errors
        detail = f"{errors} of {attempts} attempts ended in a deadlock or another error that sysbench retries"
        yield yes_or_no("no-transaction-restarted", not errors, detail)
        detail = f"sessions connected anew {reconnects} times"
        yield yes_or_no("connections-kept", not reconnects, detail, required=True)

    @property
    def _table_names(self) -> list[str]:
        several = [f"sbtest{number + 1}" for number in range(self.tables)]
        return several if self._mix is None else ["sbtest"]

    def _is_counted(self, context: WorkloadContext) -> bool:
        return context.is_cut and self.uncounted is None

    def _counting_script(self, server: DatabaseServer) -> str:
        """The part of a script that counts; empty where nothing is counted."""
        if not self._is_counted(server.context):
            return ""
        has_commit = self.script_text is not None or self.script in _COMMITTING
        # Relative to the scratch folder, in which clients run: variables are not known to a script.
        given = {"COUNTED_FOLDER": f'"{server.folder}"', "HAS_COMMIT": str(has_commit).lower()}
        values = "".join(f"local {name} = {value}\n" for name, value in given.items())
        return f"do\n{values}{_lua('sysbench_counted.lua')}end\n"

    def _counting_table(self, server: DatabaseServer) -> list[Step]:
        if not self._is_counted(server.context):
            return []
        title = "Make the table in which each thread counts its transactions"
        return [server.prepare("counted", title, *server.asks(_COUNTED))]

    @property
    def uncounted(self) -> str | None:
        if self._is_lua:
            return "a Lua file of one's own is not counted"
        if self.script_text is not None:
            *_, last = _STATEMENT.findall(f"{self.script_text}\n")
            is_ended = last.strip().rstrip(";").strip().upper() == "COMMIT"
            return None if is_ended else "a transaction of one's own is counted if it ends in COMMIT"
        return f"{self.script} writes nothing" if self.script in _READING else None

    def acknowledged(self, context: WorkloadContext) -> Step:
        server = self._server(context)
        files = ("find", server.private_folder, "-name", "counted-*", "-exec", "cat", "{}", "+")
        title = "Read which transactions the threads know to be acknowledged"
        return server.client(id="acknowledged", phase="measure", title=title, argv=files)

    def recovered(self, context: WorkloadContext, said: str) -> list[Step]:
        questions = {_COUNTED_ID: ("Read the threads' counts", "SELECT thread, n FROM strata_counted")}
        if not self.has_own_tables:
            rows = [_ROWS.format(table=name) for name in self._table_names]
            questions[_ROWS_ID] = ("Read all rows", " UNION ALL ".join(rows))
        return self._server(context).asked_after_cut(questions, self._prepare_limit_ns)

    def kept(self, said: str, outputs: Outputs) -> Kept:
        noted = _by_thread("acknowledged", said)
        if not noted:
            raise unreadable("acknowledged", "no thread has counted its transactions", said)
        acknowledged = sum(noted.values())
        if _COUNTED_ID not in outputs.steps:
            return Kept(acknowledged, acknowledged)
        left = _by_thread(_COUNTED_ID, outputs.step(_COUNTED_ID).stdout)
        lost = sum(max(count - left.get(thread, 0), 0) for thread, count in noted.items())
        return Kept(acknowledged, lost, self._row_damage(outputs))

    def _row_damage(self, outputs: Outputs) -> str:
        """The tables that have another number of rows, under scripts whose transactions keep it."""
        if _ROWS_ID not in outputs.steps or self.has_own_tables or self.script_text is not None:
            return ""
        if self.script not in _KEEPING:
            return ""
        lines = [line.replace("|", "\t").split("\t") for line in outputs.step(_ROWS_ID).stdout.splitlines()]
        wrong = [f"{line[0]} has {line[1]}" for line in lines if line[1:] and line[1] != str(self.rows)]
        return f"of tables with {self.rows} rows, {', '.join(wrong)}" if wrong else ""


def _report(outputs: Outputs) -> str:
    """The report of the measured window, which follows that of the warm-up."""
    text = outputs.step(_LOAD).stdout
    _, begin, report = text.rpartition(_REPORT)
    if not begin:
        raise unreadable(_LOAD, "sysbench printed no report at its end", text or outputs.step(_LOAD).stderr)
    return report


def _figures(outputs: Outputs) -> dict[str, float]:
    """The figures of the window, which sysbench counts from the checkpoint on, but for the time."""
    text = _report(outputs)
    figures = figures_of(_LOAD, text, _FIGURES)
    checkpoint = _TOTAL_S.search(outputs.step(_LOAD).stdout)
    figures["time_s"] -= float(checkpoint[1]) if checkpoint else 0.0
    if not figures["transactions"] or figures["time_s"] <= 0:
        raise unreadable(_LOAD, "no transaction was completed in the measured window", text)
    return figures


def _queue_time(text: str, figures: dict[str, float]) -> Metric:
    """The part of the mean latency that passed before a thread took the transaction on."""
    executed = [(int(count), int(time_ns)) for count, time_ns in _EXECUTED.findall(text)]
    count = sum(count for count, _ in executed)
    if not count:
        raise unreadable(_LOAD, "the threads printed no time of execution", text)
    latency_ns = figures["latency_ms_sum"] * NS_PER_MS / figures["transactions"]
    executed_ns = sum(time_ns for _, time_ns in executed) / count
    return Metric.of("queue_time_ns_mean", max(latency_ns - executed_ns, 0.0), "ns")
