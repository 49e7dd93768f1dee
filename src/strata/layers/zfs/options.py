# SPDX-License-Identifier: Apache-2.0
"""The properties of pools and datasets and the parameters of ZFS's module that a study may give.

From zpoolprops(7), zpool-features(7), zfsprops(7) and zfs(4) of OpenZFS 2.4, without parameters that hold
paths, that a running module does not take, or that only serve recovery and debugging.
"""

from __future__ import annotations

from typing import Final

from strata.layers.options import ON_OFF, numbers
from strata.model.allowed import Form, Forms, form, given, named, one_of

_SIZE: Final = form(r"\d{1,8}[kKmM]?", "a size such as 64K")
_POOL_SIZE: Final = given("the size is that of the pool: leave it out, or give the devices less `capacity`")
_MOUNTED: Final = given("Strata mounts it: leave it out")

FEATURE_SET: Final = r"[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*"
"""The name of a file in compatibility.d, which cannot be a path."""


def _keys(names: str) -> dict[str, Form]:
    return {name: given(f"write the key `{name}` instead") for name in names.split()}


_FEATURES: Final = (
    "allocation_classes async_destroy blake3 block_cloning block_cloning_endian bookmark_v2 "
    "bookmark_written bookmarks device_rebuild device_removal draid dynamic_gang_header edonr embedded_data "
    "empty_bpobj enabled_txg encryption extensible_dataset fast_dedup filesystem_limits head_errlog "
    "hole_birth large_blocks large_dnode large_microzap livelist log_spacemap longname lz4_compress "
    "multi_vdev_crash_dump obsolete_counts physical_rewrite project_quota raidz_expansion redacted_datasets "
    "redaction_bookmarks redaction_list_spill resilver_defer sha512 skein spacemap_histogram spacemap_v2 "
    "userobj_accounting vdev_zaps_v2 zilsaxattr zpool_checkpoint zstd_compress"
)

POOL: Final[Forms] = {
    **named("autoexpand delegation listsnapshots", ON_OFF),
    "dedup_table_quota": form(r"auto|none|\d{1,12}[kKmMgGtT]?", "auto, none or a size"),
    "failmode": one_of("wait", "continue"),
    "version": form(r"\d{1,2}", "a version up to 28"),
    **{f"feature@{name}": one_of("enabled", "disabled") for name in _FEATURES.split()},
    **_keys("ashift autotrim compatibility"),
    "cachefile": given("nothing but its steps may import it: leave it out"),
    "altroot": _MOUNTED,
}
"""The properties of a pool."""

_DATASET: Final[Forms] = {
    "prefetch": one_of("all", "metadata", "none"),
    "redundant_metadata": one_of("all", "most", "some", "none"),
    "snapdev": one_of("hidden", "visible"),
    "special_small_blocks": _SIZE,
    **_keys("compression checksum copies dedup encryption sync logbias primarycache secondarycache"),
}

FILESYSTEM: Final[Forms] = {
    **_DATASET,
    **named("relatime devices exec setuid nbmand overlay utf8only longname", ON_OFF),
    "aclinherit": one_of("discard", "noallow", "restricted", "passthrough", "passthrough-x"),
    "aclmode": one_of("discard", "groupmask", "passthrough", "restricted"),
    "acltype": one_of("off", "posix", "nfsv4"),
    "casesensitivity": one_of("sensitive", "insensitive", "mixed"),
    "direct": one_of("disabled", "standard", "always"),
    "normalization": one_of("none", "formC", "formD", "formKC", "formKD"),
    "snapdir": one_of("disabled", "hidden", "visible"),
    **_keys("recordsize atime xattr dnodesize"),
    **named("mountpoint canmount", _MOUNTED),
    **named("quota refquota", _POOL_SIZE),
}
"""The properties of a filesystem."""

VOLUME: Final[Forms] = {
    **_DATASET,
    "volthreading": ON_OFF,
    **_keys("volblocksize"),
    "volsize": given("write the key `size` instead"),
    "refreservation": given("write the key `sparse` instead"),
    "volmode": given("it is a device without partitions: leave it out"),
}
"""The properties of a volume."""

PARAMETERS: Final[Forms] = {
    **numbers(
        "dbuf_cache_hiwater_pct dbuf_cache_lowater_pct dbuf_cache_max_bytes dbuf_cache_shift "
        "dbuf_metadata_cache_max_bytes dbuf_metadata_cache_shift dmu_ddt_copies "
        "dmu_object_alloc_chunk_shift dmu_prefetch_max l2arc_exclude_special l2arc_feed_again "
        "l2arc_feed_min_ms l2arc_feed_secs l2arc_headroom l2arc_headroom_boost l2arc_meta_percent "
        "l2arc_mfuonly l2arc_noprefetch l2arc_norw l2arc_rebuild_blocks_min_l2size l2arc_rebuild_enabled "
        "l2arc_trim_ahead l2arc_write_boost l2arc_write_max metaslab_aliquot metaslab_bias_enabled "
        "metaslab_df_max_search metaslab_df_use_largest_segment metaslab_fragmentation_factor_enabled "
        "metaslab_lba_weighting_enabled metaslab_perf_bias metaslab_preload_enabled metaslab_preload_limit "
        "metaslab_preload_pct metaslab_unload_delay metaslab_unload_delay_ms spa_asize_inflation "
        "spa_cpus_per_allocator spa_num_allocators spa_slop_shift zap_iterate_prefetch zap_micro_max_size "
        "zap_shrink_enabled zfetch_max_distance zfetch_max_idistance zfetch_max_reorder zfetch_max_sec_reap "
        "zfetch_max_streams zfetch_min_distance zfetch_min_sec_reap zil_maxblocksize zil_maxcopied "
        "zil_nocacheflush zil_slog_bulk zil_special_is_slog zio_dva_throttle_enabled "
        "zio_requeue_io_start_cut_in_line zio_slow_io_ms zio_taskq_batch_pct zio_taskq_batch_tpq "
        "zio_taskq_write_tpq zstd_abort_size zstd_earlyabort_pass zvol_blk_mq_blocks_per_thread "
        "zvol_blk_mq_queue_depth zvol_num_taskqs zvol_prefetch_bytes zvol_request_sync zvol_threads "
        "zvol_use_blk_mq zfs_abd_scatter_enabled zfs_abd_scatter_max_order zfs_abd_scatter_min_size "
        "zfs_arc_dnode_limit zfs_arc_dnode_limit_percent zfs_arc_dnode_reduce_percent "
        "zfs_arc_evict_batch_limit zfs_arc_evict_batches_limit zfs_arc_eviction_pct zfs_arc_grow_retry "
        "zfs_arc_lotsfree_percent zfs_arc_meta_balance zfs_arc_min zfs_arc_min_prefetch_ms "
        "zfs_arc_min_prescient_prefetch_ms zfs_arc_pc_percent zfs_arc_prune_task_threads "
        "zfs_arc_shrink_shift zfs_arc_shrinker_limit zfs_arc_sys_free zfs_async_block_max_blocks "
        "zfs_bclone_enabled zfs_bclone_wait_dirty zfs_commit_timeout_pct zfs_compressed_arc_enabled "
        "zfs_ddt_data_is_special zfs_dedup_log_cap zfs_dedup_log_flush_txgs zfs_dedup_log_txg_max "
        "zfs_dedup_prefetch zfs_default_bs zfs_default_ibs zfs_delay_min_dirty_percent zfs_delay_scale "
        "zfs_delete_blocks zfs_dio_enabled zfs_dirty_data_max zfs_dirty_data_sync_percent "
        "zfs_dmu_offset_next_sync zfs_embedded_slog_min_ms zfs_fallocate_reserve_percent "
        "zfs_immediate_write_sz zfs_max_async_dedup_frees zfs_max_recordsize zfs_metaslab_find_max_tries "
        "zfs_metaslab_fragmentation_threshold zfs_metaslab_max_size_cache_sec zfs_metaslab_mem_limit "
        "zfs_metaslab_segment_weight_enabled zfs_metaslab_switch_threshold "
        "zfs_metaslab_try_hard_before_gang zfs_mg_fragmentation_threshold zfs_mg_noalloc_threshold "
        "zfs_multilist_num_sublists zfs_no_scrub_prefetch zfs_nopwrite_enabled zfs_object_mutex_size "
        "zfs_pd_bytes_max zfs_per_txg_dirty_frees_percent zfs_prefetch_disable zfs_rebuild_max_segment "
        "zfs_rebuild_scrub_enabled zfs_rebuild_vdev_limit zfs_resilver_disable_defer "
        "zfs_resilver_min_time_ms zfs_scan_issue_strategy zfs_scan_legacy zfs_scan_mem_lim_fact "
        "zfs_scan_vdev_limit zfs_scrub_min_time_ms zfs_send_queue_length "
        "zfs_special_class_metadata_reserve_pct zfs_sync_pass_deferred_free zfs_sync_pass_dont_compress "
        "zfs_sync_pass_rewrite zfs_traverse_indirect_prefetch_limit zfs_trim_extent_bytes_max "
        "zfs_trim_extent_bytes_min zfs_trim_queue_limit zfs_trim_txg_batch zfs_txg_history zfs_txg_timeout "
        "zfs_user_indirect_is_special zfs_vdev_aggregation_limit zfs_vdev_aggregation_limit_non_rotating "
        "zfs_vdev_async_read_max_active zfs_vdev_async_read_min_active "
        "zfs_vdev_async_write_active_max_dirty_percent zfs_vdev_async_write_active_min_dirty_percent "
        "zfs_vdev_async_write_max_active zfs_vdev_async_write_min_active zfs_vdev_default_ms_count "
        "zfs_vdev_default_ms_shift zfs_vdev_disk_max_segs zfs_vdev_max_active zfs_vdev_max_auto_ashift "
        "zfs_vdev_max_ms_shift zfs_vdev_min_auto_ashift zfs_vdev_min_ms_count "
        "zfs_vdev_mirror_non_rotating_inc zfs_vdev_mirror_non_rotating_seek_inc "
        "zfs_vdev_mirror_rotating_inc zfs_vdev_mirror_rotating_seek_inc "
        "zfs_vdev_mirror_rotating_seek_offset zfs_vdev_ms_count_limit zfs_vdev_nia_credit "
        "zfs_vdev_nia_delay zfs_vdev_read_gap_limit zfs_vdev_rebuild_max_active zfs_vdev_rebuild_min_active "
        "zfs_vdev_removal_max_active zfs_vdev_removal_min_active zfs_vdev_scrub_max_active "
        "zfs_vdev_scrub_min_active zfs_vdev_sync_read_max_active zfs_vdev_sync_read_min_active "
        "zfs_vdev_sync_write_max_active zfs_vdev_sync_write_min_active zfs_vdev_trim_max_active "
        "zfs_vdev_trim_min_active zfs_vdev_write_gap_limit zfs_vnops_read_chunk_size zfs_wrlog_data_max "
        "zfs_zil_clean_taskq_maxalloc zfs_zil_clean_taskq_minalloc zfs_zil_clean_taskq_nthr_pct "
        "zfs_zil_saxattr"
    ),
    "zfs_active_allocator": one_of("dynamic", "cursor"),
    "zfs_blake3_impl": one_of("cycle", "fastest", "generic", "sse2", "sse41", "avx2", "avx512"),
    "zfs_fletcher_4_impl": one_of(
        *("fastest", "scalar", "superscalar", "superscalar4", "sse2", "ssse3", "avx2", "avx512f", "avx512bw"),
        "aarch64_neon",
    ),
    "zfs_vdev_raidz_impl": one_of(
        *("cycle", "fastest", "original", "scalar", "sse2", "ssse3", "avx2", "avx512f", "avx512bw"),
        *("aarch64_neon", "aarch64_neonx2"),
    ),
    "zfs_arc_max": given("write arc_max instead"),
    "zfs_nocacheflush": given("write barriers = false instead"),
}
"""The parameters of the kernel module."""
