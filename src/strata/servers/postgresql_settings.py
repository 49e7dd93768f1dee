# SPDX-License-Identifier: Apache-2.0
"""The settings of PostgreSQL 15 to 17 that a study may give: memory, durability, upkeep and planning.

None of them names a file, a library, a command, a role or an address.
"""

from __future__ import annotations

from typing import Final

from strata.spec.allowed import Forms, form, one_of

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

SETTINGS: Final[Forms] = {
    **dict.fromkeys(_SWITCHES.split(), _SWITCH),
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
"""The settings by their whole names."""
