# SPDX-License-Identifier: Apache-2.0
"""The names of other programs' options, for drawing: known names, and names that installed programs list."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from functools import cache
from typing import Final

_EXT: Final = """
-b -c -C -d -D -e -E -F -g -G -h -i -I -j -J -l -L -m -M -n -N -o -O -q -r -S -t -T -U -v -V -z -a
-s
"""
_EXT_E: Final = """
encoding encoding_flags mmp_update_interval stride stripe_width stripe-width offset resize
lazy_itable_init lazy_journal_init assume_storage_prezeroed no_copy_xattrs num_backup_sb
packed_meta_blocks root_owner root_perms test_fs discard nodiscard quotatype hash_seed revision hash
desc_size orphan_file_size
"""
_EXT_J: Final = """
size fast_commit_size location device
"""
_XFS: Final = """
-b size; -c options; -m crc; -m finobt; -m uuid; -m rmapbt; -m reflink; -m inobtcount; -m bigtime;
-d agcount; -d agsize; -d file; -d name; -d size; -d sunit; -d swidth; -d su; -d sw; -d noalign; -d
sectsize; -d rtinherit; -d extszinherit; -d cowextsize; -d daxinherit; -f; -i perblock; -i size; -i
maxpct; -i attr; -i projid32bit; -i sparse; -i nrext64; -K; -l agnum; -l internal; -l size; -l
logdev; -l name; -l file; -l version; -l sunit; -l su; -l sectsize; -l lazy-count; -L; -n size; -n
version; -n ftype; -N; -p; -q; -r extsize; -r size; -r rtdev; -r name; -r file; -r noalign; -s size;
-V
"""
_F2FS: Final = """
-a -b -c -C -d -e -E -f -g -H -i -l -m -o -O -q -r -R -s -S -t -T -U -V -w -z -Z -h
"""
_BTRFS_LONG: Final = ("--subvol", "--inode-flags", "--compress", "--device-uuid", "--zoned")
_MOUNT: Final = """
noatime nodiratime relatime strictatime lazytime sync dirsync async ro rw suid nosuid dev nodev exec
noexec remount bind rbind move loop offset sizelimit encryption defaults auto nofail user users
owner group uid gid umask context fscontext defcontext rootcontext x-mount.mkdir X-mount.subdir
X-mount.idmap x-gvfs helper uhelper iversion mand silent loud verity.hashdevice verity.roothash
verity.hashfile verity.fecdevice commit data journal journal_dev journal_path journal_async_commit
journal_checksum barrier nobarrier discard nodiscard delalloc nodelalloc errors init_itable
noinit_itable stripe usrquota grpquota prjquota usrjquota grpjquota jqfmt sb max_batch_time
min_batch_time auto_da_alloc noload dax block_validity inode_readahead_blks journal_ioprio
test_dummy_encryption debug resuid resgid nouid32 abort i_version logdev rtdev logbufs logbsize
allocsize attr2 filestreams ikeep inode32 inode64 largeio swalloc norecovery nouuid sunit swidth
wsync pquota uquota gquota osyncisdsync device degraded subvol subvolid compress compress-force
nodatacow nodatasum autodefrag ssd ssd_spread space_cache clear_cache thread_pool max_inline
metadata_ratio flushoncommit fatal_errors rescue usebackuproot user_subvol_rm_allowed
rescan_uuid_tree skip_balance acl noacl background_gc gc_merge mode alloc_mode fsync_mode checkpoint
compress_algorithm compress_extension inline_data inline_xattr active_logs extent_cache
fault_injection io_bits whint_mode memory atgc size nr_blocks nr_inodes huge mpol noswap
"""
_ZFS: Final = """
aclinherit aclmode acltype atime canmount casesensitivity checksum compression copies dedup devices
direct dnodesize encryption exec keyformat keylocation logbias mlslabel mountpoint nbmand
normalization overlay pbkdf2iters prefetch primarycache quota readonly recordsize redundant_metadata
refquota refreservation relatime reservation secondarycache setuid sharenfs sharesmb snapdev snapdir
special_small_blocks sync utf8only version volblocksize volmode volsize vscan xattr zoned
user:property org.x:y
"""
_ZPOOL: Final = """
altroot ashift autoexpand autoreplace autotrim bootfs cachefile comment compatibility
dedup_table_quota delegation failmode feature@async_destroy feature@encryption guid health
listsnapshots multihost readonly version
"""
_MODULE: Final = """
zfs_arc_max zfs_arc_min zfs_txg_timeout zfs_nocacheflush zfs_prefetch_disable zfs_vdev_scheduler
spa_config_path zfs_vdev_max_active zfs_dirty_data_max zvol_inhibit_dev zfs_flags
zfs_autoimport_disable zfs_dbgmsg_enable spa_load_verify_data zfs_user_indirect_is_special
spl_kmem_cache_reclaim
"""
_POSTGRES: Final = """
archive_command archive_library restore_command archive_cleanup_command recovery_end_command
config_file hba_file ident_file data_directory external_pid_file unix_socket_directories
listen_addresses port shared_preload_libraries local_preload_libraries session_preload_libraries
dynamic_library_path jit_provider log_directory log_filename log_destination logging_collector
ssl_passphrase_command ssl_key_file krb_server_keyfile stats_temp_directory temp_tablespaces
primary_conninfo huge_pages shared_buffers fsync synchronous_commit wal_sync_method
promote_trigger_file backtrace_functions event_source zero_damaged_pages
"""
_MARIADB: Final = """
plugin_dir plugin_load plugin_load_add init_file init_connect secure_file_priv slow_query_log_file
general_log_file general_log log_bin log_bin_index log_error datadir tmpdir socket pid_file
bind_address port innodb_data_home_dir innodb_data_file_path innodb_log_group_home_dir
innodb_undo_directory innodb_tmpdir innodb_buffer_pool_filename innodb_temp_data_file_path
innodb_ft_aux_table basedir chroot user lc_messages_dir character_sets_dir aria_log_dir_path
relay_log master_info_file ssl_key ssl_cert ssl_ca des_key_file debug debug_no_sync core_file
memlock skip_grant_tables symbolic_links wsrep_provider wsrep_notify_cmd server_audit_file_path
handlersocket innodb_buffer_pool_size innodb_flush_method innodb_io_capacity
"""
_FIO: Final = """
read_iolog write_iolog replay_redirect merge_blktrace_file iomem mem ioengine external exec_prerun
exec_postrun filename directory opendir write_bw_log write_lat_log write_hist_log log_avg_msec
cgroup cgroup_nodelete ioscheduler cpus_allowed prioclass trigger trigger_file trigger_remote
verify_state_load aux-path verify_dump buffer_pattern verify_pattern include job profile server
client hostname port netscript program arguments grpc_port chroot uid gid unlink unlink_each_loop
create_only pre_read allow_file_create allow_mounted_write http_host volname rbdname sharedmem
libaio cuda_io pool namenode dedupe_mode sqthread_poll nonvectored rw bs iodepth numjobs thinktime
rate runtime ramp_time loops fsync direct norandommap randrepeat
"""
_PGBENCH: Final = (
    "\\set \\setshell \\shell \\sleep \\if \\endif \\gset \\aset \\startpipeline \\! \\o \\i \\copy \\g"
)


@cache
def option_names() -> Mapping[str, tuple[str, ...]]:
    """The names of options by key: ``layers.NAME.KEY``, ``workloads.NAME.KEY``, or ``*.KEY`` for any."""
    ext = (
        *_EXT.split(),
        *(f"-E {name}" for name in _EXT_E.split()),
        *(f"-J {name}" for name in _EXT_J.split()),
    )
    postgres = _sorted(_POSTGRES, _first_words("postgres", "--describe-config"))
    mariadb = _sorted(
        _MARIADB, _words(r"(?m)^([a-z][a-z-]{2,})  ", "mariadbd", "--no-defaults", "--verbose", "--help")
    )
    servers = tuple(sorted({*postgres, *mariadb}))
    btrfs = _words(r"(?<![\w-])(--?[a-zA-Z][\w-]*)", "mkfs.btrfs", "--help")
    return {
        "layers.ext2.mkfs": ext,
        "layers.ext3.mkfs": ext,
        "layers.ext4.mkfs": ext,
        "layers.xfs.mkfs": tuple(each.strip() for each in _XFS.split(";")),
        "layers.btrfs.mkfs": _sorted(" ".join(_BTRFS_LONG), btrfs),
        "layers.f2fs.mkfs": tuple(_F2FS.split()),
        "*.mount": tuple(_MOUNT.split()),
        "layers.zpool.properties": tuple(_ZPOOL.split()),
        "*.properties": tuple(_ZFS.split()),
        "*.parameters": tuple(_MODULE.split()),
        "workloads.fio.options": _sorted(_FIO, _words(r"(?m)^(\w+)\s+:", "fio", "--cmdhelp=all")),
        "workloads.pgbench.settings": postgres,
        "workloads.sql-suite.settings": mariadb,
        "*.settings": servers,
        "*.script_text": tuple(_PGBENCH.split()),
    }


def names_for(place: str, key: str) -> tuple[str, ...]:
    """The names of the options that ``place``, such as ``layers.ext4``, has in one of its keys."""
    known = option_names()
    return known.get(f"{place}.{key}") or known.get(f"*.{key}") or ("name",)


def _sorted(known: str, asked: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted({*known.split(), *asked}))


def _words(pattern: str, *argv: str) -> tuple[str, ...]:
    return tuple(re.findall(pattern, _said(*argv)))


def _first_words(*argv: str) -> tuple[str, ...]:
    return tuple(line.split()[0] for line in _said(*argv).splitlines() if line.strip())


def _said(*argv: str) -> str:
    """A program's output; empty if the program is not installed."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, errors="replace", timeout=60, check=False)
    except OSError:
        return ""
    return done.stdout + done.stderr
