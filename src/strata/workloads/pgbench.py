# SPDX-License-Identifier: Apache-2.0
"""pgbench against a PostgreSQL server whose data folder is on the measured stack."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, ClassVar, Final, Literal

from pydantic import AfterValidator, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from strata.spec.histogram import empty_histogram, latency_metrics, record
from strata.spec.metric import Metric
from strata.spec.names import Refusal
from strata.spec.step import Collect, Command, Phase, Step, literal
from strata.spec.workload import Outputs, Workload, WorkloadContext, unreadable
from strata.units import NS_PER_MS, NS_PER_S, NS_PER_US, Duration, describe_size

# What a scale unit takes, and what a new cluster and its first WAL segments take besides.
_SCALE_BYTES: Final = 15 << 20
_CLUSTER_BYTES: Final = 1 << 30
_SLACK_NS: Final = 300 * NS_PER_S

_SETTINGS: Final[dict[str, str]] = {
    "listen_addresses": "",
    "unix_socket_directories": "${scratch}/postgres",
    # Huge pages are a matter of the machine, not of the study.
    "huge_pages": "off",
    "shared_buffers": "128MB",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
_OWNED_SETTINGS: Final = {
    "listen_addresses": "the server listens on a private socket only: leave it out",
    "unix_socket_directories": "the socket is in the trial's private folder: leave it out",
    "data_directory": "the data folder is on the measured stack: leave it out",
    "port": "the socket is private, so any port will do: leave it out",
    "max_connections": "it follows from `clients`: leave it out",
    "log_destination": "the server's log goes to the trial's events: leave it out",
    "logging_collector": "the server's log goes to the trial's events: leave it out",
}
_TPS: Final = re.compile(r"^tps = ([0-9.]+) \(without initial connection time\)", re.MULTILINE)
_SETTING_NAME: Final = re.compile(r"[a-z_][a-z0-9_.]*")


def _whole_seconds(time_ns: int) -> int:
    if time_ns < NS_PER_S or time_ns % NS_PER_S:
        raise Refusal("pgbench counts in whole seconds, from 1s on", remedy='write for example "60s"')
    return time_ns


Seconds = Annotated[Duration, AfterValidator(_whole_seconds)]
Count = Annotated[StrictInt, Field(ge=1, le=100_000)]


class Pgbench(Workload):
    """pgbench against a PostgreSQL server of its own.

    Prepare: a new cluster in ``pgdata`` on the stack, the server, the tables (timed apart as
    ``initialisation_ns``), and a checkpoint. Warm-up and measured window run the same script with different
    seeds; nothing comes between them, because a checkpoint there would make the window begin with a burst of
    full-page writes. The tables' filler columns are blank: a stack that compresses gains from that.
    """

    stands_for: ClassVar[str] = (
        "A bank's ledger: short transactions that each change a few rows and wait until they are durable. It "
        "stresses the latency of a commit (log writes and flushes) and, once the tables outgrow the memory, "
        "small random reads. There are no long queries, and the clients do not think."
    )
    tools: ClassVar[tuple[str, ...]] = ("initdb", "install", "pg_isready", "pgbench", "postgres", "psql")
    # 1 - (strata 0.1) first version
    metrics_version: ClassVar[int] = 1

    workload: Literal["pgbench"] = "pgbench"
    scale: Count = Field(description="Scale factor: 100000 accounts, about 15 MiB each", examples=[20])
    clients: Count = Field(description="Concurrent sessions", examples=[10])
    jobs: Count = Field(default=1, description="Threads of pgbench; at most as many as clients", examples=[1])
    warmup_ns: Seconds = Field(
        default=10 * NS_PER_S, alias="warmup", description="Load before the measured window", examples=["10s"]
    )
    duration_ns: Seconds = Field(alias="duration", description="The measured window", examples=["60s"])
    script: Literal["tpcb-like", "simple-update", "select-only"] = Field(
        default="tpcb-like", description="The built-in script"
    )
    protocol: Literal["simple", "extended", "prepared"] = Field(
        default="simple", description="How queries are submitted"
    )
    settings: dict[str, StrictStr | StrictInt | StrictFloat | StrictBool] = Field(
        default={},
        description="Settings of postgresql.conf",
        examples=[{"shared_buffers": "256MB", "synchronous_commit": False}],
    )

    @property
    def duration_ns_min(self) -> int:
        """Warm-up and measured window."""
        return self.warmup_ns + self.duration_ns

    def refusals(self, capacity_bytes: int) -> Iterable[Refusal]:
        """A database that does not fit, more threads than sessions, settings that would break the trial."""
        if self.jobs > self.clients:
            yield Refusal("there are more threads than clients", remedy="lower jobs", key="jobs")
        for name in self.settings:
            if name in _OWNED_SETTINGS:
                yield Refusal(
                    f'the setting "{name}" is given already', remedy=_OWNED_SETTINGS[name], key="settings"
                )
            elif _SETTING_NAME.fullmatch(name) is None:
                yield Refusal(
                    f'"{name[:60]}" is not the name of a setting',
                    remedy="see postgresql.conf",
                    key="settings",
                )
        needed_bytes = self.scale * _SCALE_BYTES + _CLUSTER_BYTES
        if needed_bytes > capacity_bytes:
            yield Refusal(
                f"the database needs about {describe_size(needed_bytes)}, and the smallest stack holds "
                f"{describe_size(capacity_bytes)}",
                remedy="lower scale, or raise the `capacity` of the devices",
                key="scale",
            )

    def steps(self, context: WorkloadContext) -> list[Step]:
        """Cluster, server, tables, checkpoint; warm-up; measured window."""
        return [
            *_cluster_steps(context),
            self._server(context),
            self._initialise(context),
            _postgres_step(
                context,
                id="pgbench-checkpoint",
                phase="prepare",
                title="Write a checkpoint, so that the load starts from a clean one",
                argv=("psql", "--no-psqlrc", "--quiet", "--command=CHECKPOINT"),
                time_limit_ns=self._prepare_limit_ns,
            ),
            self._load(context, "warmup", self.warmup_ns, log=False),
            self._load(context, "measure", self.duration_ns, log=True),
        ]

    @property
    def _prepare_limit_ns(self) -> int:
        return 600 * NS_PER_S + self.scale * 20 * NS_PER_S

    def _server(self, context: WorkloadContext) -> Step:
        settings = dict(_SETTINGS)
        settings["max_connections"] = str(self.clients + 10)
        for name, value in self.settings.items():
            settings[name] = literal(str(value).lower() if isinstance(value, bool) else str(value))
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        ready = Command(
            argv=("pg_isready", "--quiet", "--timeout=5"),
            environment=_client_environment(context),
            user="postgres",
            cwd=context.scratch_path,
            time_limit_ns=30 * NS_PER_S,
        )
        return _postgres_step(
            context,
            id="pgbench-server",
            phase="prepare",
            title="Start the PostgreSQL server",
            argv=("postgres", "-D", f"{context.mount_path}/pgdata", *options),
            background=True,
            ready=ready,
            ready_interval_ns=100 * NS_PER_MS,
            time_limit_ns=_SLACK_NS,
            # Fast shutdown: end the sessions, write a checkpoint, exit.
            stop_signal="INT",
            stop_limit_ns=600 * NS_PER_S,
        )

    def _initialise(self, context: WorkloadContext) -> Step:
        return _postgres_step(
            context,
            id="pgbench-initialise",
            phase="prepare",
            title=f"Create and fill the tables at scale {self.scale}",
            argv=("pgbench", "--initialize", f"--scale={self.scale}", "--init-steps=dtgvp", "--quiet"),
            time_limit_ns=self._prepare_limit_ns,
        )

    def _load(self, context: WorkloadContext, phase: Phase, time_ns: int, *, log: bool) -> Step:
        log_options: tuple[str, ...] = ()
        collect: tuple[Collect, ...] = ()
        if log:
            prefix = f"{context.scratch_path}/postgres/transactions"
            log_options = ("--log", f"--log-prefix={prefix}")
            collect = (Collect(name="transactions", path=f"{prefix}.*"),)
        time_s = time_ns // NS_PER_S
        return _postgres_step(
            context,
            id=f"pgbench-{phase}",
            phase=phase,
            title=f"{'Measure' if log else 'Warm up'} for {time_s} s with {self.clients} clients",
            argv=(
                "pgbench",
                "--no-vacuum",
                f"--builtin={self.script}",
                f"--client={self.clients}",
                f"--jobs={self.jobs}",
                f"--time={time_s}",
                f"--protocol={self.protocol}",
                f"--random-seed={context.derived_seed(phase)}",
                *log_options,
            ),
            time_limit_ns=time_ns + _SLACK_NS,
            collect=collect,
        )

    def metrics(self, outputs: Outputs) -> list[Metric]:
        """Transactions per second, their count and latencies over the window, time of initialisation."""
        measured = outputs.step("pgbench-measure")
        match = _TPS.search(measured.stdout)
        if match is None:
            raise unreadable(
                "pgbench-measure", "pgbench printed no transaction rate", measured.stdout or measured.stderr
            )
        log = outputs.file("pgbench-measure", "transactions")
        initialised = outputs.step("pgbench-initialise")
        return [
            Metric(
                name="transactions_per_s", value=float(match[1]), unit="1/s", better="higher", headline=True
            ),
            *_log_metrics(log),
            Metric(
                name="initialisation_ns",
                value=float(initialised.duration_ns),
                unit="ns",
                better="lower",
                phase="prepare",
            ),
        ]


def _client_environment(context: WorkloadContext) -> dict[str, str]:
    return {"PGHOST": f"{context.scratch_path}/postgres", "PGUSER": "postgres", "PGDATABASE": "postgres"}


def _postgres_step(context: WorkloadContext, **fields: object) -> Step:
    """A step that runs as the user whom the server's data belong to, in the trial's private folder."""
    return Step.model_validate(
        {
            "user": "postgres",
            "environment": _client_environment(context),
            "cwd": context.scratch_path,
            **fields,
        }
    )


def _cluster_steps(context: WorkloadContext) -> list[Step]:
    pgdata = f"{context.mount_path}/pgdata"
    return [
        Step(
            id="pgbench-folders",
            phase="prepare",
            title="Make the folders of the database and of its socket",
            argv=(
                "install",
                "-d",
                "-o",
                "postgres",
                "-g",
                "postgres",
                "-m",
                "0700",
                pgdata,
                f"{context.scratch_path}/postgres",
            ),
            cwd=context.scratch_path,
        ),
        _postgres_step(
            context,
            id="pgbench-cluster",
            phase="prepare",
            title="Create the database cluster",
            argv=(
                "initdb",
                f"--pgdata={pgdata}",
                "--username=postgres",
                "--auth=trust",
                "--no-locale",
                "--encoding=UTF8",
                "--no-instructions",
            ),
            time_limit_ns=2 * _SLACK_NS,
        ),
    ]


def _log_metrics(log: str) -> list[Metric]:
    """The metrics of a transaction log, whose third column is the latency in microseconds.

    A failed transaction has the word ``failed`` (or, since PostgreSQL 15, its kind) in that column.
    """
    histogram = empty_histogram()
    total_ns = count = latency_ns_max = failed = 0
    for line in log.splitlines():
        columns = line.split()
        if len(columns) < 6:
            raise unreadable("pgbench-measure", "the transaction log is cut off or of another form", log)
        if not columns[2].isdigit():
            failed += 1
            continue
        latency_ns = int(columns[2]) * NS_PER_US
        record(histogram, latency_ns)
        total_ns += latency_ns
        count += 1
        latency_ns_max = max(latency_ns_max, latency_ns)
    if count == 0:
        raise unreadable("pgbench-measure", "no transaction was completed", log)
    metrics = latency_metrics(histogram, latency_ns_mean=total_ns / count, latency_ns_max=latency_ns_max)
    metrics.append(Metric(name="transactions", value=float(count), unit="1", better="higher"))
    if failed:
        metrics.append(Metric(name="transactions_failed", value=float(failed), unit="1", better="lower"))
    return metrics
