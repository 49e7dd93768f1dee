# SPDX-License-Identifier: Apache-2.0
"""pgbench against a PostgreSQL server whose data folder is on the measured stack."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import PurePath
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import Field, StrictFloat, StrictInt, StrictStr

from strata.diagnostics.names import Diagnostic, KebabName
from strata.model.allowed import Forms
from strata.model.duties import EndsWhenKnown, LogsThroughput, SharesPreparation
from strata.model.histogram import empty_histogram, latency_metrics, record
from strata.model.metric import LATENCY, Metric, MetricSpec, latency_metric_specs
from strata.model.step import Collect, Step, literal
from strata.model.survival import CountsAcknowledged, Kept
from strata.model.warning import Check
from strata.model.workload import Outputs, Workload, WorkloadContext, unreadable
from strata.servers.database import DatabaseServer, ServerLoad, Setting
from strata.servers.postgresql import PostgresqlServer
from strata.units import NS_PER_MS, NS_PER_S, NS_PER_US
from strata.workloads import sessions
from strata.workloads.initial import CONTROL, OwnTables
from strata.workloads.keys import (
    WarmUp,
    WholeMilliseconds,
    Window,
    key,
    option_words,
    yes_or_no,
)

# The space of a scale unit.
_SCALE_BYTES: Final = 15 << 20
_SLACK_NS: Final = 300 * NS_PER_S
_US_PER_S: Final = NS_PER_S // NS_PER_US

_SCRIPT: Final = "script.sql"
_ENTRY: Final = re.compile(r"[^@\x00]{1,200}(@\d{1,6})?")
_LOAD_ID: Final = sessions.load_id("pgbench")
_BEYOND_NS: Final = NS_PER_S  # it runs on, so that the window is full to its end
META_COMMANDS: Final = (
    *("set", "if", "elif", "else", "endif", "sleep", "gset", "aset"),
    *("startpipeline", "syncpipeline", "endpipeline"),
)
"""pgbench's meta-commands that a script may have: none of them runs a program."""
# pgbench finds a meta-command anywhere outside of quotes and comments. So that nobody has to parse SQL as it
# does, quotes and comments make no difference here. A line may go on after a backslash at its end.
_BACKSLASH: Final = re.compile(rf"\\(?!(?:(?:{'|'.join(META_COMMANDS)})(?![^ \t\r\n]))|\r?\n)(\S{{0,30}})")

# A transaction of the built-in scripts that write adds a row to pgbench_history and its amount to three
# balances, or with simple-update to one. Another session sees a row once its commit is done, so that nothing
# is left to do but to acknowledge it. The snapshot says afterwards which rows it saw.
_SEEN: Final = "SELECT pg_current_snapshot(), count(*) FROM pgbench_history"
_SEEN_FORM: Final = re.compile(r"^(\d{1,20}:\d{1,20}:[\d,]{0,4096})\|(\d{1,20})$", re.MULTILINE)
_LEFT: Final = """\
SELECT count(*) FROM pgbench_history WHERE pg_visible_in_snapshot(xmin::text::xid8, '{snapshot}')"""
_BALANCES: Final = """\
SELECT coalesce(sum(delta), 0), (SELECT sum(abalance) FROM pgbench_accounts),
(SELECT sum(tbalance) FROM pgbench_tellers), (SELECT sum(bbalance) FROM pgbench_branches)
FROM pgbench_history"""
_LEFT_ID: Final = "pgbench-left"
_BALANCES_ID: Final = "pgbench-balances"

# pgbench writes its log in pieces of 4 KiB: intervals are of its time stamps. A bin is half a per cent wide.
_TELLING: Final = literal(
    """until ls "$0".* > /dev/null 2>&1; do sleep 0.1; done
tail --lines=+1 --follow --sleep-interval=0.5 "$0".* | mawk -W interactive '
$3 !~ /^[0-9]+$/ { next }
second && $5 > second {
    for (left = count * 0.99; left > 0; bin++) left -= counts[bin]
    printf "strata-interval %d %.0f\\n", count, exp((bin - 0.5) / 200) * 1000 > "/dev/stderr"
    for (; ++second < $5;) print "strata-interval 0 0" > "/dev/stderr"
    split("", counts); count = bin = 0
}
{ second = $5; count++; counts[int(log($3 + 1) * 200)]++ }'"""
)

Count = Annotated[StrictInt, Field(ge=1, le=100_000)]


class Pgbench(ServerLoad, SharesPreparation, LogsThroughput, CountsAcknowledged, EndsWhenKnown, OwnTables):
    """pgbench against a PostgreSQL server of its own.

    Prepare: a new cluster in ``pgdata`` on the stack, the server, the tables (timed apart as
    ``initialisation_ns``), and a checkpoint. Warm-up and measured window are one run, so that the window
    begins with warm sessions; transactions that end in it count. No checkpoint comes between them,
    because the window would begin with a burst of full-page writes. The tables' filler columns are blank: a
    stack that compresses gains from that.
    """

    rationale: ClassVar[str] = (
        "A bank's ledger: short transactions that each change a few rows and wait until they are durable. It "
        "stresses the latency of a commit (log writes and flushes) and, once the tables outgrow the memory, "
        "small random reads. There are no long queries, and the clients do not think."
    )
    tools: ClassVar[tuple[str, ...]] = (*PostgresqlServer.tools, *sessions.TOOLS, "pgbench", "tee")
    check_questions: ClassVar[Mapping[str, str]] = {
        "no-transaction-failed": "did all transactions succeed?",
        "no-transaction-skipped": "with latency_limit: were all transactions begun in time?",
    }
    metric_specs: ClassVar[tuple[MetricSpec, ...]] = (
        MetricSpec("transactions_per_s", "1/s", "higher", "transactions completed"),
        MetricSpec("transactions", "1", "higher", "completed in the window"),
        MetricSpec("transactions_{failed,skipped}", "1", "lower", "failed, or too late to begin"),
        *latency_metric_specs("from its start, in an open loop from its due time"),
        MetricSpec("schedule_lag_ns_{mean,p50,p95,p99,p999,max}", "ns", "lower", "with rate: the late start"),
        MetricSpec("initialisation_ns", "ns", "lower", "creating and filling the tables"),
        MetricSpec("<script>_transactions_per_s", "1/s", "higher", "of one of several `scripts`"),
        MetricSpec("<script>_transactions", "1", "higher", "completed in the window, of one of `scripts`"),
        *latency_metric_specs("of one of several `scripts`", "<script>_"),
    )
    spans_window: ClassVar[bool] = True
    telling_tools: ClassVar[tuple[str, ...]] = ("ls", "mawk", "sleep", "tail")
    load_keys: ClassVar[Mapping[str, object]] = {
        "clients": 1,
        "script_text": None,
        "scripts": [],
        "script_texts": {},
    }
    hints: ClassVar[dict[str, str]] = Workload.hints | dict.fromkeys(
        ("file", "script_file"), 'files beside the study, with weights: scripts = ["load.sql@3"]'
    )
    example: ClassVar[tuple[str, ...]] = ("warmup",)
    allowed: ClassVar[Mapping[str, Forms]] = {"settings": PostgresqlServer.allowed}
    amounts: ClassVar[Mapping[str, int]] = {"scale": 1}

    workload: Literal["pgbench"] = "pgbench"
    scale: Count = key(..., "Scale factor: 100000 accounts, about 15 MiB each", 20)
    clients: Count = key(..., "Concurrent sessions", 10)
    jobs: Count = key(1, "Threads of pgbench; at most as many as clients", 1)
    warmup_ns: WarmUp = 10 * NS_PER_S
    duration_ns: Window
    script: Literal["tpcb-like", "simple-update", "select-only"] = key("tpcb-like", "The built-in script")
    script_text: StrictStr | None = key(
        None,
        "A script of one's own instead, in pgbench's language; :scale is set",
        "\\set aid random(1, 100000 * :scale)\nSELECT abalance FROM pgbench_accounts WHERE aid = :aid;",
    )
    scripts: list[StrictStr] = key(
        [],
        "The same from files beside the study, each chosen with the weight after its @, as by pgbench --file",
        ["new-order.sql@45", "payment.sql@43"],
    )
    script_texts: dict[StrictStr, StrictStr] = key(
        {}, "The texts of `scripts`, by their entries; they are read", {"payment.sql@43": "SELECT 1;"}
    )
    rate_per_s: Annotated[StrictInt | StrictFloat, Field(gt=0, le=1e6)] | None = key(
        None,
        "Open loop: this many transactions a second are due, at random times (a Poisson "
        "process); default: each client begins the next when the last has ended",
        200,
        alias="rate",
    )
    latency_limit_ns: WholeMilliseconds | None = key(
        None,
        "With rate: transactions that are already later than this are skipped and counted",
        "500ms",
        alias="latency_limit",
    )
    protocol: Literal["simple", "extended", "prepared"] = key("simple", "How queries are submitted")
    settings: dict[str, Setting] = key(
        {}, "Settings of postgresql.conf", {"shared_buffers": "256MB", "synchronous_commit": False}
    )
    log_place: KebabName | None = key(
        None,
        "The filesystem of the stack for PostgreSQL's WAL, by its name in `filesystems`; default, and on a "
        "stack without one of that name: beside the data",
        "wal",
    )

    @classmethod
    def with_texts(cls, table: dict[str, Any], read: Callable[..., str]) -> None:
        super().with_texts(table, read)
        entries = table.get("scripts")
        if isinstance(entries, list) and "script_texts" not in table:
            files = {each: each.partition("@")[0] for each in entries if isinstance(each, str)}
            table["script_texts"] = {each: read("scripts", file) for each, file in files.items()}

    @property
    def _texts(self) -> list[str]:
        """The scripts of the study's own; none: a built-in one."""
        return [*self.script_texts.values(), *([] if self.script_text is None else [self.script_text])]

    @property
    def has_own_script(self) -> bool:
        return bool(self.scripts) or self.script_text is not None

    @property
    def server_type(self) -> type[DatabaseServer]:
        return PostgresqlServer

    @property
    def data_bytes(self) -> int | None:
        return self.scale * _SCALE_BYTES

    def diagnostics(self, capacity_bytes: int) -> Iterable[Diagnostic]:
        if self.jobs > self.clients:
            yield Diagnostic("there are more threads than clients", remedy="lower jobs", key="jobs")
        if self.until is not None and self.jobs > 1:
            cause = "each thread writes a log of its own, and until reads one"
            yield Diagnostic(cause, remedy="leave jobs out", key="until")
        yield from self._script_diagnostics()
        yield from self.table_diagnostics("pgbench")
        if self.latency_limit_ns is not None and self.rate_per_s is None:
            cause = "without a rate no transaction is ever late"
            yield Diagnostic(cause, remedy="write for example rate = 200 beside it", key="latency_limit")
        yield from self.server_diagnostics(self.scale * _SCALE_BYTES, capacity_bytes, "scale")

    def _script_diagnostics(self) -> Iterator[Diagnostic]:
        given = [each for each in ("scripts", "script_text") if getattr(self, each)]
        if given and ("script" in self.model_fields_set or len(given) > 1):
            yield Diagnostic("there are two scripts", remedy="leave script out", key=given[0])
        for each in self.scripts:
            if not _ENTRY.fullmatch(each):
                remedy = "write the file's name, and perhaps @ and a weight: payment.sql@43"
                yield Diagnostic(f'"{each[:60]}" names no script', remedy=remedy, key="scripts")
        for name, text in self.script_texts.items():
            for found in _script_diagnostics(text):
                yield Diagnostic(f"{name}: {found.cause}", remedy=found.remedy, key="scripts")
        if self.script_text is not None:
            yield from _script_diagnostics(self.script_text)

    def steps(self, context: WorkloadContext) -> list[Step]:
        server = self._server(context)
        script = [] if self.script_text is None else [server.script(_SCRIPT, self.script_text)]
        for at, text in enumerate(self.script_texts.values(), 1):
            written = server.script(f"{at}-{_SCRIPT}", text)
            script.append(written.model_copy(update={"id": f"{written.id}-{at}"}))
        return [
            *server.steps(),
            *self._initialise(server),
            server.checkpoint(self._prepare_limit_ns),
            *script,
            *self._load(server),
        ]

    def _server(self, context: WorkloadContext) -> PostgresqlServer:
        return PostgresqlServer("pgbench", context, self.clients + 10, self.settings, self.log_place)

    @property
    def uncounted(self) -> str | None:
        if self.has_own_script:
            return "a script of one's own leaves no history to count"
        return "select-only writes nothing" if self.script == "select-only" else None

    def acknowledged(self, context: WorkloadContext) -> Step:
        title = "Ask another session which transactions are acknowledged"
        server = self._server(context)
        return server.client(id="acknowledged", phase="measure", title=title, argv=server.asks(_SEEN))

    def recovered(self, context: WorkloadContext, said: str) -> list[Step]:
        server = self._server(context)
        asked = {
            _LEFT_ID: ("Count what is left of the acknowledged", _LEFT.format(snapshot=_seen(said)[0])),
            _BALANCES_ID: ("Add up the balances, and the history", _BALANCES),
        }
        return server.asked_after_cut(asked, self._prepare_limit_ns)

    def kept(self, said: str, outputs: Outputs) -> Kept:
        _, acknowledged = _seen(said)
        if _LEFT_ID not in outputs.steps:
            return Kept(acknowledged, acknowledged)
        [left] = _numbers(outputs, _LEFT_ID)
        if _BALANCES_ID not in outputs.steps:
            return Kept(acknowledged, acknowledged - left)
        history, *balances = _numbers(outputs, _BALANCES_ID)
        names = ("accounts", "tellers", "branches")[: 1 if self.script == "simple-update" else 3]
        differing = [name for name, sum_ in zip(names, balances, strict=False) if sum_ != history]
        damage = f"the balances of {', '.join(differing)} differ from the history" if differing else ""
        return Kept(acknowledged, acknowledged - left, damage)

    def _initialise(self, server: PostgresqlServer) -> list[Step]:
        limit_ns = self._prepare_limit_ns
        if self.has_own_tables:
            return self.make_tables(server, "initialise", {"scale": self.scale}, limit_ns)
        argv = ("pgbench", "--initialize", f"--scale={self.scale}", "--init-steps=dtgvp", "--quiet")
        title = f"Create and fill the tables at scale {self.scale}"
        return [server.prepare("initialise", title, *argv, time_limit_ns=limit_ns)]

    @property
    def _prepare_limit_ns(self) -> int:
        return 600 * NS_PER_S + self.scale * 20 * NS_PER_S

    def _load(self, server: PostgresqlServer) -> list[Step]:
        has_script, limit_ns = self.script_text is not None, self.latency_limit_ns
        several = [
            f"--file={server.script_path(f'{at}-{_SCRIPT}')}@{each.partition('@')[2] or 1}"
            for at, each in enumerate(self.script_texts, 1)
        ]
        log = "-".join(filter(None, (f"{server.private_folder}/transactions", server.context.window)))
        options = {
            "no-vacuum": True,
            "builtin": None if self.has_own_script else self.script,
            "file": server.script_path(_SCRIPT) if has_script else None,
            # pgbench finds the scale only for its own scripts.
            "scale": self.scale if self.has_own_script else None,
            "client": self.clients,
            "jobs": self.jobs,
            "time": (self.warmup_ns + self.duration_ns + _BEYOND_NS) // NS_PER_S,
            "protocol": self.protocol,
            "random-seed": server.context.derived_seed("measure"),
            "rate": None if self.rate_per_s is None else f"{self.rate_per_s:g}",
            "latency-limit": None if limit_ns is None else limit_ns // NS_PER_MS,
            "log": True,
            "log-prefix": log,
        }
        until = self.until_known(server.context, "pgbench-telling")
        ending: dict[str, Any] = {}
        if until is not None:
            # Its own end of time, which it counts on.
            ending = {"until": until, "telling": ("sh", "-c", _TELLING, log), "stop_signal": "ALRM"}
            ending["ready"] = ("true",)
        return sessions.spanning_steps(
            server,
            ("pgbench", *option_words(options), *several),
            who=f"{self.clients} clients",
            warmup_ns=self.warmup_ns,
            duration_ns=self.duration_ns,
            slack_ns=_SLACK_NS,
            collect=(Collect(name="transactions", path=f"{log}.*"),),
            **ending,
        )

    def metrics(self, outputs: Outputs) -> list[Metric]:
        lines = self._transactions(outputs)
        return [
            self._rate(lines, outputs).model_copy(update={"headline": True}),
            *_log_metrics(lines),
            *_lag_metrics(lines),
            outputs.step("pgbench-initialise").took("initialisation_ns", "prepare"),
            *(metric for each in self._by_script(lines, outputs) for metric in each),
        ]

    def _rate(self, lines: Sequence[_Line], outputs: Outputs) -> Metric:
        done = sum(line.outcome == "done" for line in lines)
        return Metric.of("transactions_per_s", done * NS_PER_S / self._lasted_ns(outputs), "1/s")

    def _by_script(self, lines: Sequence[_Line], outputs: Outputs) -> Iterator[list[Metric]]:
        """The metrics of each of several scripts that completed a transaction."""
        for at, name in enumerate(metric_prefixes(self.scripts) if len(self.scripts) > 1 else ()):
            if own := [line for line in lines if line.script == at and line.outcome == "done"]:
                found = [self._rate(own, outputs), *_log_metrics(own)]
                yield [each.prefixed(f"{name}_") for each in found]

    def _transactions(self, outputs: Outputs) -> list[_Line]:
        """The transactions that ended in the measured window."""
        return outputs.once(("pgbench", self.duration_ns), lambda: self._in_window(outputs))

    def _lasted_ns(self, outputs: Outputs) -> int:
        """The measured window's length: with until it may have ended before the wait that it is."""
        waited_ns = self.duration_ns if self.until is None else outputs.step("pgbench-measure").duration_ns
        return min(self.duration_ns, waited_ns)

    def _in_window(self, outputs: Outputs) -> list[_Line]:
        log = outputs.file(_LOAD_ID, "transactions")
        begin_us = sessions.window_begin_ns(outputs, "pgbench") // NS_PER_US
        window_us = range(begin_us, begin_us + self._lasted_ns(outputs) // NS_PER_US)
        return [
            line for line in _read_log(log, has_lag=self.rate_per_s is not None) if line.end_us in window_us
        ]

    @property
    def is_paced(self) -> bool:
        return self.rate_per_s is not None or any("sleep" in text for text in self._texts)

    def spans_ns(self, outputs: Outputs) -> Sequence[tuple[int, int]]:
        lines = self._transactions(outputs)
        ends = ((line.end_us, line.latency_us) for line in lines)
        return [((end - took) * NS_PER_US, end * NS_PER_US) for end, took in ends if took is not None]

    def rates_per_s(self, outputs: Outputs) -> Sequence[float]:
        begin_us = sessions.window_begin_ns(outputs, "pgbench") // NS_PER_US
        lines = self._transactions(outputs)
        counts = Counter((line.end_us - begin_us) // _US_PER_S for line in lines if line.outcome == "done")
        return (
            [float(counts[second]) for second in range(self._lasted_ns(outputs) // NS_PER_S)]
            if counts
            else []
        )

    def checks(self, outputs: Outputs) -> Iterable[Check]:
        lines = self._transactions(outputs)
        failed = sum(1 for line in lines if line.outcome == "failed")
        yield yes_or_no("no-transaction-failed", not failed, f"{failed} of {len(lines)} transactions failed")
        skipped = sum(1 for line in lines if line.outcome == "skipped")
        if self.latency_limit_ns is not None:
            detail = f"{skipped} of {len(lines)} transactions were later than the limit before they began"
            yield yes_or_no("no-transaction-skipped", not skipped, detail)


def _seen(said: str) -> tuple[str, int]:
    """The snapshot in which another session counted the committed transactions, and their number."""
    match = _SEEN_FORM.search(said)
    if match is None:
        raise unreadable("acknowledged", "the count of transactions is of another form", said)
    return match[1], int(match[2])


def _numbers(outputs: Outputs, step_id: str) -> list[int]:
    text = outputs.step(step_id).stdout
    try:
        return [int(word) for word in text.strip().split("|")]
    except ValueError:
        raise unreadable(step_id, "the counts are of another form", text) from None


def _script_diagnostics(text: str) -> Iterable[Diagnostic]:
    if not text.strip():
        yield Diagnostic("the script is empty", remedy="write SQL, or leave it out", key="script_text")
    if CONTROL.search(text):
        cause = "the script has control characters"
        yield Diagnostic(cause, remedy="leave all out but tabs and line breaks", key="script_text")
    if match := _BACKSLASH.search(text):
        yield Diagnostic(
            f'the script has a backslash before "{match[1]}", not a meta-command that a study may use',
            remedy="these are allowed: " + " ".join(f"\\{name}" for name in META_COMMANDS),
            key="script_text",
        )


def metric_prefixes(scripts: Sequence[str]) -> list[str]:
    """The beginning of each script's metrics: ``payment`` of ``payment.sql@43``."""
    names: list[str] = []
    for each in scripts:
        name = (
            re.sub(r"[^a-z0-9]+", "_", PurePath(each.partition("@")[0]).stem.lower()).strip("_") or "script"
        )
        further = (f"{name}_{number}" for number in count(len(names) + 1))
        names.append(name if name not in names else next(each for each in further if each not in names))
    return names


@dataclass(frozen=True, slots=True)
class _Line:
    """One transaction of pgbench's log; only one that is done has a latency.

    ``end_us`` counts from the epoch; in an open loop the transaction began ``lag_us`` after it was due.
    """

    outcome: Literal["done", "failed", "skipped"]
    script: int
    latency_us: int | None
    end_us: int
    lag_us: int | None


def _read_log(log: str, *, has_lag: bool) -> Iterator[_Line]:
    """The transactions of a log: client, number, latency, script, end in s and us, and perhaps the lag.

    Instead of a latency a skipped transaction has the word ``skipped``, a failed one ``failed`` (since
    PostgreSQL 15: the kind of failure).
    """
    for line in io.StringIO(log):
        columns = line.split()
        if len(columns) < (7 if has_lag else 6):
            raise unreadable(_LOAD_ID, "the transaction log is cut off or of another form", log)
        script, end_us = int(columns[3]), int(columns[4]) * _US_PER_S + int(columns[5])
        lag_us = int(columns[6]) if has_lag else None
        if columns[2].isdigit():
            yield _Line("done", script, int(columns[2]), end_us, lag_us)
        else:
            outcome: Literal["skipped", "failed"] = "skipped" if columns[2] == "skipped" else "failed"
            yield _Line(outcome, script, None, end_us, lag_us)


def _log_metrics(lines: Sequence[_Line]) -> list[Metric]:
    latencies_ns = [line.latency_us * NS_PER_US for line in lines if line.latency_us is not None]
    if not latencies_ns:
        raise unreadable(_LOAD_ID, "no transaction was completed in the measured window", "")
    metrics = _distribution(latencies_ns)
    metrics.append(Metric.of("transactions", float(len(latencies_ns)), "1"))
    outcomes = Counter(line.outcome for line in lines)
    metrics += [
        Metric.of(f"transactions_{outcome}", float(outcomes[outcome]), "1", better="lower")
        for outcome in ("failed", "skipped")
        if outcomes[outcome]
    ]
    return metrics


def _lag_metrics(lines: Sequence[_Line]) -> list[Metric]:
    lags_ns = [
        line.lag_us * NS_PER_US for line in lines if line.lag_us is not None and line.outcome == "done"
    ]
    return _distribution(lags_ns, "schedule_lag_ns") if lags_ns else []


def _distribution(times_ns: Sequence[int], family: str = LATENCY) -> list[Metric]:
    histogram = empty_histogram()
    for time_ns in times_ns:
        record(histogram, time_ns)
    mean_ns = sum(times_ns) / len(times_ns)
    return latency_metrics(histogram, latency_ns_mean=mean_ns, latency_ns_max=max(times_ns), family=family)
