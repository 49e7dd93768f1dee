# SPDX-License-Identifier: Apache-2.0
"""A private PostgreSQL server: its cluster is the folder ``pgdata`` on the stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from strata.model.allowed import Forms, form, one_of
from strata.model.step import Step
from strata.servers.database import OFF, ROLE, START_LIMIT_NS, DatabaseServer, setting_text
from strata.units import NS_PER_S

# The settings of PostgreSQL 15 to 17 that a study may give, by their whole names: memory, durability, upkeep
# and planning. None of them names a file, a library, a command, a role or an address.
_SWITCH: Final = one_of("0", "1", "on", "off", "true", "false", "yes", "no")
_AMOUNT: Final = form(
    r"-?\d{1,15}(\.\d{1,9})?([eE]-?\d{1,2})? ?(B|kB|MB|GB|TB|us|ms|s|min|h|d)?",
    "a number, with a unit if it has one: 256MB, 5min, 0.9",
)

_SWITCHES: Final = """
    autovacuum default_transaction_deferrable data_sync_retry geqo jit enable_async_append
    enable_bitmapscan enable_gathermerge enable_group_by_reordering enable_hashagg enable_hashjoin
    enable_incremental_sort enable_indexonlyscan enable_indexscan enable_material enable_memoize
    enable_mergejoin enable_nestloop enable_parallel_append enable_parallel_hash enable_partition_pruning
    enable_partitionwise_aggregate enable_partitionwise_join enable_presorted_aggregate enable_seqscan
    enable_sort enable_tidscan track_commit_timestamp update_process_title log_checkpoints log_lock_waits
    parallel_leader_participation track_activities track_counts track_io_timing track_wal_io_timing
    synchronize_seqscans fsync full_page_writes summarize_wal wal_init_zero wal_log_hints wal_recycle
"""
_AMOUNTS: Final = """
    autovacuum_analyze_scale_factor autovacuum_analyze_threshold autovacuum_freeze_max_age
    autovacuum_max_workers autovacuum_multixact_freeze_max_age autovacuum_naptime
    autovacuum_vacuum_cost_delay autovacuum_vacuum_cost_limit autovacuum_vacuum_insert_scale_factor
    autovacuum_vacuum_insert_threshold autovacuum_vacuum_scale_factor autovacuum_vacuum_threshold
    autovacuum_work_mem backend_flush_after bgwriter_delay bgwriter_flush_after bgwriter_lru_maxpages
    bgwriter_lru_multiplier checkpoint_completion_target checkpoint_flush_after checkpoint_timeout
    checkpoint_warning commit_delay commit_siblings commit_timestamp_buffers cpu_index_tuple_cost
    cpu_operator_cost cpu_tuple_cost cursor_tuple_fraction deadlock_timeout default_statistics_target
    effective_cache_size effective_io_concurrency from_collapse_limit geqo_effort geqo_generations
    geqo_pool_size geqo_seed geqo_selection_bias geqo_threshold gin_fuzzy_search_limit
    gin_pending_list_limit hash_mem_multiplier huge_page_size idle_in_transaction_session_timeout
    idle_session_timeout io_combine_limit jit_above_cost jit_inline_above_cost jit_optimize_above_cost
    join_collapse_limit lock_timeout log_autovacuum_min_duration log_min_duration_statement log_temp_files
    logical_decoding_work_mem maintenance_io_concurrency maintenance_work_mem max_files_per_process
    max_locks_per_transaction max_parallel_maintenance_workers max_parallel_workers
    max_parallel_workers_per_gather max_pred_locks_per_page max_pred_locks_per_relation
    max_pred_locks_per_transaction max_prepared_transactions max_replication_slots max_slot_wal_keep_size
    max_wal_senders max_wal_size max_worker_processes min_dynamic_shared_memory
    min_parallel_index_scan_size min_parallel_table_scan_size min_wal_size multixact_member_buffers
    multixact_offset_buffers notify_buffers old_snapshot_threshold parallel_setup_cost parallel_tuple_cost
    random_page_cost recursive_worktable_factor seq_page_cost serializable_buffers shared_buffers
    statement_timeout subtransaction_buffers temp_buffers temp_file_limit track_activity_query_size
    transaction_buffers transaction_timeout vacuum_buffer_usage_limit vacuum_cost_delay vacuum_cost_limit
    vacuum_cost_page_dirty vacuum_cost_page_hit vacuum_cost_page_miss vacuum_failsafe_age
    vacuum_freeze_min_age vacuum_freeze_table_age vacuum_multixact_failsafe_age
    vacuum_multixact_freeze_min_age vacuum_multixact_freeze_table_age wal_buffers wal_decode_buffer_size
    wal_keep_size wal_skip_threshold wal_summary_keep_time wal_writer_delay wal_writer_flush_after
    work_mem
"""

_EXTENSIONS: Final = """
    amcheck autoinc bloom btree_gin btree_gist citext cube dblink dict_int dict_xsyn earthdistance file_fdw
    fuzzystrmatch hstore insert_username intagg intarray isn lo ltree moddatetime pageinspect pg_buffercache
    pg_freespacemap pg_prewarm pg_stat_statements pg_surgery pg_trgm pg_visibility pg_walinspect pgcrypto
    pgrowlocks pgstattuple plpgsql postgres_fdw refint seg sslinfo tablefunc tcn tsm_system_rows
    tsm_system_time unaccent uuid-ossp xml2
"""
EXTENSIONS: Final = frozenset(_EXTENSIONS.split())
"""The extensions of Debian's postgresql-17, which the lab has."""

# The lines of COPY are data, whatever they look like.
_OF_DUMP: Final = r"""
if [ "$(head -c 5 "$1" | tr -d '\0')" = PGDMP ]; then
  exec pg_restore -O -x --no-comments --no-tablespaces --file="$1.sql" "$1"
fi
owners='ALTER [A-Z ]+ .* OWNER TO .*|ALTER DEFAULT PRIVILEGES .*|(GRANT|REVOKE) .*|COMMENT ON EXTENSION .*'
sed -E -e '/^COPY .* FROM stdin;$/,/^\\\.$/b' -e "/^($owners);\$/d" "$1" > "$1.sql"
"""

# Settings that initdb makes the cluster with, and that a running server only shows.
_OF_CLUSTER: Final = {"data_checksums": "--data-checksums"}

SETTINGS: Final[Forms] = {
    **dict.fromkeys((*_SWITCHES.split(), *_OF_CLUSTER), _SWITCH),
    **dict.fromkeys(_AMOUNTS.split(), _AMOUNT),
    "compute_query_id": one_of("0", "1", "on", "off", "auto", "regress"),
    "constraint_exclusion": one_of("0", "1", "on", "off", "partition"),
    "debug_io_direct": form(r"(data|wal|wal_init)(, ?(data|wal|wal_init)){0,2}", "such as data,wal"),
    "default_toast_compression": one_of("pglz", "lz4"),
    "default_transaction_isolation": one_of(
        "read uncommitted", "read committed", "repeatable read", "serializable"
    ),
    "dynamic_shared_memory_type": one_of("posix", "sysv", "mmap"),
    "huge_pages": one_of("0", "1", "on", "off", "try"),
    "plan_cache_mode": one_of("auto", "force_generic_plan", "force_custom_plan"),
    "recovery_init_sync_method": one_of("fsync", "syncfs"),
    "recovery_prefetch": one_of("0", "1", "on", "off", "try"),
    "shared_memory_type": one_of("mmap", "sysv"),
    "stats_fetch_consistency": one_of("none", "cache", "snapshot"),
    "synchronous_commit": one_of("0", "1", "on", "off", "true", "false", "local"),
    "track_functions": one_of("none", "pl", "all"),
    "wal_compression": one_of("0", "1", "on", "off", "true", "false", "pglz", "lz4", "zstd"),
    "wal_level": one_of("minimal", "replica", "logical"),
    "wal_sync_method": one_of("fsync", "fdatasync", "open_sync", "open_datasync"),
}

_OWN_SETTINGS: Final[dict[str, str]] = {
    "listen_addresses": "",
    "unix_socket_directories": "",  # filled in below
    # Huge pages depend on the machine.
    "huge_pages": "off",
    "shared_buffers": "128MB",
    # A leader that builds an index waits for its workers in a loop without a system call (PostgreSQL 17's
    # WaitForParallelWorkersToAttach). Virtual time stands still meanwhile, so a worker never gets its disk.
    "max_parallel_maintenance_workers": "0",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
_LOG: Final = "the server's log goes to the trial's events: leave it out"
_SUPERUSER: Final = "postgres"
DATABASE: Final = "postgres"  # the database of the workloads' tables


@dataclass(frozen=True)
class PostgresqlServer(DatabaseServer):
    """PostgreSQL with its own defaults, but for a private socket, the connections and the settings above.

    A superuser's SQL can run programs and read files (``COPY ... TO PROGRAM``), so loads have a role without
    these rights.
    """

    left_out = "owners and privileges"
    of_dump = _OF_DUMP
    tools = ("initdb", "install", "pg_isready", "postgres", "psql", "sh")
    title = "PostgreSQL"
    kind = "postgresql"
    folder = "postgres"
    user = "postgres"
    empty_bytes = 1 << 30
    owned: ClassVar[Mapping[str, str]] = {
        "listen_addresses": "the server listens on a private socket only: leave it out",
        "unix_socket_directories": "the socket is in the trial's private folder: leave it out",
        "data_directory": "the data folder is on the measured stack: leave it out",
        "port": "the socket is private, so any port will do: leave it out",
        "max_connections": "it follows from the number of clients: leave it out",
        "log_destination": _LOG,
        "logging_collector": _LOG,
    }
    allowed: ClassVar[Forms] = SETTINGS
    period = ("checkpoint of PostgreSQL", "checkpoint_timeout", 300 * NS_PER_S)
    tearing = ("full_page_writes",)
    risky: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "fsync": dict.fromkeys(OFF, "it may damage the whole database"),
        "synchronous_commit": dict.fromkeys(OFF, "it may lose the last transactions"),
        "full_page_writes": dict.fromkeys(OFF, "a page that it tears stays torn"),
    }

    @property
    def client_environment(self) -> dict[str, str]:
        return {"PGHOST": self.private_folder, "PGUSER": ROLE, "PGDATABASE": DATABASE}

    @property
    def _data(self) -> str:
        return f"{self.context.mount_path}/pgdata"

    def steps(self) -> list[Step]:
        return [
            self.folders(self._data, *filter(None, [self.log_folder]), self.private_folder),
            self._cluster(),
            self._server(),
            self.superuser_sql(
                "role",
                "Create the role of the load, which owns the database",
                f"CREATE ROLE {ROLE} LOGIN",
                f"ALTER DATABASE {DATABASE} OWNER TO {ROLE}",
                time_limit_ns=START_LIMIT_NS,
            ),
        ]

    def started_again(self) -> list[Step]:
        # Without fsync a power cut leaves an empty lock file, and the server then waits for an administrator.
        argv = ("rm", "--force", f"{self._data}/postmaster.pid")
        return [
            self.prepare("unlock", "Remove the lock file of the server before", *argv),
            *super().started_again(),
        ]

    def reads(self, path: str, values: Mapping[str, int]) -> tuple[str, ...]:
        given = (f"--set={name}={value}" for name, value in values.items())
        return ("psql", "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", *given, f"--file={path}")

    def asks(self, sql: str) -> tuple[str, ...]:
        bare = ("--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1")
        return ("psql", *bare, f"--command={sql}")

    def superuser_sql(self, name: str, title: str, *statements: str, time_limit_ns: int) -> Step:
        """A step of preparation that executes Strata's own statements as the superuser."""
        psql = ("psql", "--no-psqlrc", "--quiet", f"--username={_SUPERUSER}")
        commands = (f"--command={each}" for each in statements)
        return self.prepare(name, title, *psql, *commands, time_limit_ns=time_limit_ns)

    def checkpoint(self, time_limit_ns: int) -> Step:
        title = "Write a checkpoint, so that the load starts from a clean one"
        return self.superuser_sql("checkpoint", title, "CHECKPOINT", time_limit_ns=time_limit_ns)

    def _cluster(self) -> Step:
        return self.prepare(
            "cluster",
            "Create the database cluster",
            *("initdb", f"--pgdata={self._data}", f"--username={_SUPERUSER}", "--auth=trust"),
            *("--no-locale", "--encoding=UTF8", "--no-instructions"),
            *(option for name, option in _OF_CLUSTER.items() if self._set(name) not in OFF),
            *([f"--waldir={self.log_folder}"] if self.log_folder else []),
            time_limit_ns=2 * START_LIMIT_NS,
        )

    def _set(self, name: str) -> str:
        return setting_text(self.settings.get(name, False), true="true", false="false")

    def _server(self) -> Step:
        settings = {**_OWN_SETTINGS, "unix_socket_directories": self.private_folder}
        settings["max_connections"] = str(self.connections)
        settings |= {name: self._set(name) for name in self.settings if name not in _OF_CLUSTER}
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return self.service(
            "postgres",
            *("-D", self._data, *options),
            ready=("pg_isready", "--quiet", "--timeout=5"),
            # Fast shutdown: end the sessions, write a checkpoint, exit.
            stop_signal="INT",
        )
