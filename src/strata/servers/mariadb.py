# SPDX-License-Identifier: Apache-2.0
"""A private MariaDB server: its data and temporary files are in the folder ``mariadb`` on the stack."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from strata.model.allowed import Forms, form, one_of
from strata.model.page_cache import dropped, synced
from strata.model.step import LOAD_USER, Step
from strata.servers.database import OFF, ROLE, START_LIMIT_NS, STOP_LIMIT_NS, DatabaseServer, setting_text

# The settings of MariaDB 10.11 and 11 that a study may give, by their whole names: those of memory,
# durability and execution. None of them names a file, a library, a command, a user or an address.
_SWITCH: Final = one_of("0", "1", "ON", "OFF", "on", "off", "TRUE", "FALSE", "true", "false")
_AMOUNT: Final = form(
    r"-?\d{1,19}(\.\d{1,9})?[kKmMgGtTpPeE]?", "a number, with a suffix such as M if it is a size"
)
_WORDS: Final = form(r"[a-zA-Z_]{1,60}=(on|off)(,[a-zA-Z_]{1,60}=(on|off)){0,60}", "such as mrr=on")

_SWITCHES: Final = """
    aria_encrypt_tables aria_page_checksum binlog_annotate_row_events
    binlog_direct_non_transactional_updates binlog_optimize_thread_scheduling flush
    innodb_adaptive_flushing innodb_adaptive_hash_index innodb_alter_copy_bulk
    innodb_buffer_pool_dump_at_shutdown innodb_buffer_pool_load_at_startup innodb_data_file_buffering
    innodb_data_file_write_through innodb_deadlock_detect innodb_disable_sort_file_cache innodb_file_per_table
    innodb_flush_sync innodb_immediate_scrub_data_uncompressed innodb_log_file_buffering
    innodb_log_file_mmap innodb_log_file_write_through innodb_numa_interleave
    innodb_prefix_index_cluster_optimization innodb_print_all_deadlocks innodb_random_read_ahead
    innodb_rollback_on_timeout innodb_snapshot_isolation innodb_stats_auto_recalc
    innodb_stats_include_delete_marked innodb_stats_on_metadata innodb_stats_persistent
    innodb_stats_traditional innodb_strict_mode innodb_table_locks innodb_undo_log_truncate
    innodb_use_atomic_writes innodb_use_native_aio large_pages low_priority_updates myisam_use_mmap
    performance_schema query_cache_strip_comments query_cache_wlock_invalidate sync_frm userstat
"""
_AMOUNTS: Final = """
    aria_block_size aria_checkpoint_interval aria_checkpoint_log_activity aria_group_commit_interval
    aria_log_file_size aria_max_sort_file_size aria_pagecache_age_threshold aria_pagecache_buffer_size
    aria_pagecache_division_limit aria_pagecache_file_hash_size aria_repair_threads aria_sort_buffer_size
    back_log binlog_cache_size binlog_commit_wait_count binlog_commit_wait_usec
    binlog_expire_logs_seconds binlog_file_cache_size binlog_row_event_max_size binlog_stmt_cache_size
    bulk_insert_buffer_size deadlock_search_depth_long deadlock_search_depth_short deadlock_timeout_long
    deadlock_timeout_short delayed_insert_limit delayed_queue_size
    div_precision_increment eq_range_index_dive_limit
    expire_logs_days flush_time group_concat_max_len histogram_size host_cache_size
    innodb_adaptive_flushing_lwm innodb_adaptive_hash_index_parts innodb_autoextend_increment
    innodb_autoinc_lock_mode innodb_buffer_pool_chunk_size innodb_buffer_pool_dump_pct
    innodb_buffer_pool_size innodb_buffer_pool_size_auto_min innodb_buffer_pool_size_max
    innodb_change_buffer_max_size innodb_compression_failure_threshold_pct innodb_compression_level
    innodb_compression_pad_pct_max innodb_fast_shutdown innodb_fill_factor innodb_flush_log_at_timeout
    innodb_flush_log_at_trx_commit innodb_flush_neighbors innodb_flushing_avg_loops innodb_io_capacity
    innodb_io_capacity_max innodb_lock_wait_timeout innodb_log_buffer_size innodb_log_file_size
    innodb_log_spin_wait_delay innodb_log_write_ahead_size innodb_lru_flush_size innodb_lru_scan_depth
    innodb_max_dirty_pages_pct innodb_max_dirty_pages_pct_lwm innodb_max_purge_lag
    innodb_max_purge_lag_delay innodb_max_purge_lag_wait innodb_max_undo_log_size innodb_old_blocks_pct
    innodb_old_blocks_time innodb_online_alter_log_max_size innodb_open_files innodb_page_size
    innodb_purge_batch_size innodb_purge_rseg_truncate_frequency innodb_purge_threads
    innodb_read_ahead_threshold innodb_read_io_threads innodb_sort_buffer_size innodb_spin_wait_delay
    innodb_stats_modified_counter innodb_stats_persistent_sample_pages
    innodb_stats_transient_sample_pages innodb_sync_spin_loops innodb_undo_tablespaces
    innodb_write_io_threads interactive_timeout join_buffer_size join_buffer_space_limit
    join_cache_level key_buffer_size key_cache_age_threshold key_cache_block_size
    key_cache_division_limit key_cache_file_hash_size key_cache_segments lock_wait_timeout
    long_query_time max_allowed_packet max_binlog_cache_size max_binlog_size max_binlog_stmt_cache_size
    max_delayed_threads max_heap_table_size max_join_size max_length_for_sort_data
    max_prepared_stmt_count max_rowid_filter_size max_seeks_for_key max_session_mem_used max_sort_length
    max_statement_time max_tmp_tables max_write_lock_count metadata_locks_cache_size mrr_buffer_size
    myisam_block_size myisam_data_pointer_size myisam_max_sort_file_size myisam_mmap_size
    myisam_repair_threads myisam_sort_buffer_size net_buffer_length net_read_timeout net_write_timeout
    open_files_limit optimizer_prune_level optimizer_search_depth optimizer_selectivity_sampling_limit
    optimizer_use_condition_selectivity preload_buffer_size progress_report_time query_alloc_block_size
    query_cache_limit query_cache_min_res_unit query_cache_size query_prealloc_size
    range_alloc_block_size read_buffer_size read_rnd_buffer_size sort_buffer_size sync_binlog
    table_definition_cache table_open_cache table_open_cache_instances thread_cache_size
    thread_pool_idle_timeout thread_pool_max_threads thread_pool_oversubscribe
    thread_pool_prio_kickup_timer thread_pool_size thread_pool_stall_limit thread_stack
    tmp_disk_table_size tmp_memory_table_size tmp_table_size transaction_alloc_block_size
    transaction_prealloc_size wait_timeout
"""

SETTINGS: Final[Forms] = {
    **dict.fromkeys(_SWITCHES.split(), _SWITCH),
    **dict.fromkeys(_AMOUNTS.split(), _AMOUNT),
    "aria_group_commit": one_of("none", "hard", "soft"),
    "binlog_checksum": one_of("NONE", "CRC32"),
    "binlog_format": one_of("MIXED", "STATEMENT", "ROW"),
    "binlog_row_image": one_of("FULL", "FULL_NODUP", "NOBLOB", "MINIMAL"),
    "concurrent_insert": one_of("NEVER", "AUTO", "ALWAYS", "0", "1", "2"),
    "delay_key_write": one_of("ON", "OFF", "ALL", "0", "1"),
    "innodb_change_buffering": one_of("none", "inserts", "deletes", "changes", "purges", "all"),
    "innodb_checksum_algorithm": one_of("crc32", "strict_crc32", "full_crc32", "strict_full_crc32"),
    "innodb_compression_algorithm": one_of("none", "zlib", "lz4", "lzo", "lzma", "bzip2", "snappy"),
    "innodb_default_row_format": one_of("redundant", "compact", "dynamic"),
    "innodb_doublewrite": one_of("0", "1", "ON", "OFF", "on", "off", "fast"),
    "innodb_flush_method": one_of(
        *("fsync", "O_DSYNC", "littlesync", "nosync", "O_DIRECT", "O_DIRECT_NO_FSYNC")
    ),
    "innodb_linux_aio": one_of("auto", "io_uring", "aio"),
    "innodb_stats_method": one_of("nulls_equal", "nulls_unequal", "nulls_ignored"),
    # A name would be a path: true keeps the log in the data folder.
    "log_bin": form("1", "true"),
    "optimizer_switch": _WORDS,
    "query_cache_type": one_of("0", "1", "2", "ON", "OFF", "DEMAND"),
    "thread_handling": one_of("one-thread-per-connection", "pool-of-threads"),
    "thread_pool_priority": one_of("high", "low", "auto"),
    "transaction_isolation": one_of("READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"),
    "use_stat_tables": one_of(
        *("NEVER", "COMPLEMENTARY", "PREFERABLY", "COMPLEMENTARY_FOR_QUERIES", "PREFERABLY_FOR_QUERIES")
    ),
}

DATABASE: Final = "sbtest"  # the database of the workloads' tables; sysbench's own default

_OWN_SETTINGS: Final[dict[str, str]] = {
    # MariaDB's own default, stated because it decides how much is read from the disk.
    "innodb_buffer_pool_size": "128M",
    "default_time_zone": "+00:00",
}
_SOCKET: Final = "the server listens on a private socket only: leave it out"
_FOLDER: Final = "its folders are on the measured stack: leave it out"
_LOG: Final = "the server's log goes to the trial's events: leave it out"
_SUPERUSER: Final = "root"
_PREFIXES: Final = ("skip_", "loose_", "enable_", "disable_", "maximum_")


@dataclass(frozen=True)
class MariadbServer(DatabaseServer):
    """MariaDB with its own defaults, but for a private socket without network and TLS, and the connections.

    InnoDB's defaults are those of the manual: every commit is flushed (``innodb_flush_log_at_trx_commit=1``),
    pages are written twice (``innodb_doublewrite``), files are opened with O_DIRECT, the redo log has 96 MiB,
    and there is no binary log.
    """

    doublewrite_place: str | None = None  # of its system tablespace, in which the doublewrite buffer lies

    tools = ("install", "mariadb", "mariadb-install-db", "mariadbd", "sh")
    left_out = "definers, and collations that only MySQL has,"
    of_dump = r"""
sed -E -e 's/DEFINER=`[^`]*`@`[^`]*`//g' -e 's/utf8mb4_0900_[a-z_]+/utf8mb4_general_ci/g' "$1" > "$1.sql"
"""
    title = "MariaDB"
    kind = "mariadb"
    folder = "mariadb"
    # Debian's package of the programs makes no user, and mariadbd does not run as root.
    user = LOAD_USER
    empty_bytes = 512 << 20
    owned: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("socket", "networking", "bind_address", "port", "extra_port"), _SOCKET),
        **dict.fromkeys(("datadir", "tmpdir", "innodb_data_home_dir", "innodb_log_group_home_dir"), _FOLDER),
        **dict.fromkeys(("innodb_undo_directory", "innodb_tmpdir", "pid_file", "chroot"), _FOLDER),
        **dict.fromkeys(("log_error", "console", "syslog"), _LOG),
        **dict.fromkeys(
            ("user", "basedir", "defaults_file", "defaults_extra_file", "bootstrap", "ssl", "grant_tables"),
            "Strata starts the server itself: leave it out",
        ),
        "max_connections": "it follows from the number of threads: leave it out",
        "default_time_zone": "every trial runs in UTC: leave it out",
    }
    allowed: ClassVar[Forms] = SETTINGS
    tearing = ("innodb_doublewrite",)
    risky: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "innodb_flush_log_at_trx_commit": dict.fromkeys(("0", "2"), "it may lose the last second"),
        "innodb_doublewrite": dict.fromkeys(OFF, "a page that it tears stays torn"),
        "innodb_flush_method": {"nosync": "it may damage the whole database"},
    }

    @classmethod
    def owned_remedy(cls, name: str) -> str | None:
        """The same, with the abbreviations and prefixes that mariadbd understands."""
        plain = name
        for prefix in _PREFIXES:
            plain = plain.removeprefix(prefix)
        if name in SETTINGS or not plain:
            return None
        return next((remedy for owned, remedy in cls.owned.items() if owned.startswith(plain)), None)

    @property
    def socket(self) -> str:
        return f"{self.private_folder}/socket"

    @property
    def client_environment(self) -> dict[str, str]:
        return {"MYSQL_UNIX_PORT": self.socket, "TMPDIR": self.private_folder}

    @property
    def _folders(self) -> tuple[str, str, str]:
        """The folder on the stack, and in it the data and, as in a PostgreSQL cluster, temporary files."""
        folder = f"{self.context.mount_path}/mariadb"
        return folder, f"{folder}/data", f"{folder}/temporary"

    @property
    def _doublewrite(self) -> str | None:
        return self.folder_at(self.doublewrite_place, "doublewrite")

    @property
    def _options(self) -> list[str]:
        given = {name: setting_text(value, true="ON", false="OFF") for name, value in self.settings.items()}
        placed = {"innodb_log_group_home_dir": self.log_folder, "innodb_data_home_dir": self._doublewrite}
        given |= {name: folder for name, folder in placed.items() if folder}
        return [f"--{name.replace('_', '-')}={value}" for name, value in {**_OWN_SETTINGS, **given}.items()]

    def steps(self) -> list[Step]:
        """Folders, system tables, server, an empty database and its user, who has no right to files."""
        return [
            self.folders(
                *self._folders, *filter(None, [self.log_folder, self._doublewrite]), self.private_folder
            ),
            self._system_tables(),
            self._server(),
            self.sql(
                "database",
                "Create the database, and the user of the load",
                f"CREATE DATABASE {DATABASE}; CREATE USER {ROLE}@localhost; "
                f"GRANT ALL ON {DATABASE}.* TO {ROLE}@localhost",
                user=_SUPERUSER,
            ),
        ]

    def reads(self, path: str, values: Mapping[str, int]) -> tuple[str, ...]:
        given = ", ".join(f"@{name} = {value}" for name, value in values.items())
        return (*self.client_words(), f"--init-command=SET {given}", f"--execute=source {path}")

    def asks(self, sql: str) -> tuple[str, ...]:
        return (*self.client_words(), "--skip-column-names", f"--execute={sql}")

    def client_words(self, user: str = ROLE) -> tuple[str, ...]:
        """The command of the client ``mariadb`` for this server, and for the load's user its database."""
        words = (*self._client(user), "--batch")
        return (*words, f"--database={DATABASE}") if user == ROLE else words

    def _client(self, user: str) -> tuple[str, ...]:
        return ("mariadb", "--no-defaults", "--skip-ssl", f"--socket={self.socket}", f"--user={user}")

    def sql(self, name: str, title: str, statement: str, *, user: str = ROLE) -> Step:
        words = (*self.client_words(user), f"--execute={statement}")
        return self.prepare(name, title, *words, time_limit_ns=STOP_LIMIT_NS)

    def _system_tables(self) -> Step:
        return self.prepare(
            "cluster",
            "Create the data folder with its system tables",
            *("mariadb-install-db", "--no-defaults", f"--datadir={self._folders[1]}"),
            # Clients on the private socket are root without a password.
            *("--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"),
            *self._options,
            time_limit_ns=2 * START_LIMIT_NS,
        )

    def restart(self, number: int) -> list[Step]:
        """Stop the server, drop the caches, start it again: for the ``number``th time in the window.

        The page cache must be empty, too, because not every filesystem lets InnoDB bypass it by O_DIRECT.
        """
        previous = f"{self.prefix}-server" if number == 1 else f"{self.prefix}-server-{number}"
        stop_id, title = f"{self.prefix}-stop-{number}", "Stop the server; write back what is dirty"
        stopped = synced(self.context, stop_id, "measure", title)
        started = {
            "id": f"{self.prefix}-server-{number + 1}",
            "phase": "measure",
            "title": "Start the MariaDB server anew, with an empty buffer",
        }
        return [
            stopped.model_copy(update={"takes_down": (previous,)}),
            dropped(self.context, f"{self.prefix}-forget-{number}", "measure"),
            self._server().model_copy(update=started),
        ]

    def _server(self) -> Step:
        _, data, temporary = self._folders
        return self.service(
            *("mariadbd", "--no-defaults", f"--datadir={data}", f"--tmpdir={temporary}"),
            *(f"--socket={self.socket}", f"--pid-file={self.private_folder}/pid", "--skip-networking"),
            # With TLS it would make a key and a certificate at each start.
            *("--skip-ssl", f"--max-connections={self.connections}", *self._options),
            # Debian's package of the clients has no mariadb-admin.
            ready=(*self._client(_SUPERUSER), "--execute=DO 0"),
            # An orderly shutdown: end the sessions, write what is dirty, exit.
            stop_signal="TERM",
        )
