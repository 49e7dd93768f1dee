# SPDX-License-Identifier: Apache-2.0
"""The options of mke2fs(8), and those of ext4's driver (Documentation/admin-guide/ext4.rst), as lists."""

from __future__ import annotations

from typing import Final

from strata.layers.options import (
    HERE_ALREADY,
    LABEL,
    MOUNT,
    NOTHING_MADE,
    OPTIONAL_INTEGER,
    OPTIONAL_SWITCH,
    PROJECT_QUOTA,
    UUID,
    flags,
    named,
    numbers,
)
from strata.spec.allowed import INTEGER, NUMBER, Forms, features, form, given, one_of, suboptions

_BYTES: Final = form(r"\d{1,12}[kKmM]?", "a number of bytes such as 4096 or 64k")
_QUOTA_TYPES: Final = form(r"(usr|grp|prj)quota(:(usr|grp|prj)quota){0,2}", "such as usrquota:prjquota")

MKFS: Final[Forms] = {
    **named("-b -C -i", _BYTES),
    **numbers("-I -N -g -G"),
    **flags("-D -j"),
    "-m": NUMBER,
    "-r": one_of("0", "1"),
    "-e": one_of("continue", "remount-ro"),
    "-L": LABEL,
    "-T": suboptions(flags("default small floppy big huge news largefile largefile4")),
    "-O": features(
        "64bit bigalloc casefold dir_index dir_nlink ea_inode encrypt ext_attr extent extents "
        "extra_isize fast_commit filetype flex_bg has_journal huge_file inline_data large_dir large_file "
        "meta_bg metadata_csum metadata_csum_seed mmp orphan_file project quota resize_inode sparse_super "
        "sparse_super2 stable_inodes uninit_bg verity"
    ),
    "-J": suboptions({"size": INTEGER, "fast_commit_size": INTEGER, "location": _BYTES}),
    "-E": suboptions(
        {
            **numbers("stride stripe_width stripe-width resize mmp_update_interval num_backup_sb"),
            **numbers("desc_size orphan_file_size"),
            **named("lazy_itable_init lazy_journal_init", OPTIONAL_SWITCH),
            **named("assume_storage_prezeroed packed_meta_blocks", OPTIONAL_SWITCH),
            **flags("discard nodiscard"),
            "quotatype": _QUOTA_TYPES,
            "encoding": one_of("utf8", "utf8-12.1"),
            "encoding_flags": one_of("strict", "nostrict"),
            "hash_seed": given("it derives from the trial's seed: leave it out"),
        }
    ),
    **named("-F -q", HERE_ALREADY),
    "-n": NOTHING_MADE,
    "-U": UUID,
    "-t": given("the layer says which filesystem it is: leave it out"),
}

EXT2: Final[Forms] = {
    **MOUNT,
    **flags(
        "acl user_xattr block_validity noblock_validity bsddf minixdf grpid nogrpid bsdgroups sysvgroups "
        "nouid32 discard nodiscard nombcache noinit_itable warn_on_error nowarn_on_error nobarrier quota "
        "noquota usrquota grpquota prefetch_block_bitmaps no_prefetch_block_bitmaps noauto_da_alloc"
    ),
    **named("barrier auto_da_alloc", OPTIONAL_SWITCH),
    **numbers("inode_readahead_blks max_batch_time max_dir_size_kb min_batch_time stripe"),
    "init_itable": OPTIONAL_INTEGER,
    "mb_optimize_scan": one_of("0", "1"),
    "errors": one_of("continue", "remount-ro"),
    **PROJECT_QUOTA,
}
"""Mount options of ext2, ext3 and ext4."""

EXT3: Final[Forms] = {
    **EXT2,
    "commit": INTEGER,
    "data": one_of("journal", "ordered", "writeback"),
    "data_err": one_of("abort", "ignore"),
    "journal_ioprio": form("[0-7]", "a priority from 0 to 7"),
}
"""Mount options of ext3 and ext4."""

EXT4: Final[Forms] = {
    **EXT3,
    **flags(
        "delalloc nodelalloc dioread_lock dioread_nolock nodioread_nolock journal_async_commit "
        "journal_checksum nojournal_checksum inlinecrypt"
    ),
    "dax": one_of("always", "inode", "never", optional=True),
}
