# SPDX-License-Identifier: Apache-2.0
"""The options of mkfs.f2fs(8) and of f2fs's driver (Documentation/filesystems/f2fs.rst), as lists."""

from __future__ import annotations

from typing import Final

from strata.spec.allowed import FLAG, INTEGER, NUMBER, Form, Forms, form, given, one_of, suboptions
from strata.spec.options.common import HERE_ALREADY, LABEL, MOUNT, PROJECT_QUOTA, UUID, flags, numbers

_EXTENSIONS: Final = form(r"[a-z0-9]{1,7}(,[a-z0-9]{1,7}){0,31}", "extensions of files such as mp4,mkv")


def _with_opposites(names: str) -> dict[str, Form]:
    return flags(" ".join(f"{name} no{name}" for name in names.split()))


MKFS: Final[Forms] = {
    **dict.fromkeys(("-b", "-s", "-w", "-z"), INTEGER),
    "-a": one_of("0", "1"),
    "-o": NUMBER,
    "-i": FLAG,
    **dict.fromkeys(("-e", "-E"), _EXTENSIONS),
    "-l": LABEL,
    "-C": form(r"utf8(-12\.1\.0)?(:strict)?", "such as utf8"),
    "-O": suboptions(
        flags(
            "casefold compression encrypt extra_attr flexible_inline_xattr inode_checksum inode_crtime "
            "lost_found project_quota quota sb_checksum verity"
        )
    ),
    "-U": UUID,
    "-c": given("f2fs stands on one device: leave it out"),
    **dict.fromkeys(("-f", "-q", "-r", "-t"), HERE_ALREADY),
}

MOUNT_OPTIONS: Final[Forms] = {
    **MOUNT,
    **_with_opposites("acl user_xattr inline_xattr inline_data inline_dentry flush_merge barrier"),
    **_with_opposites("extent_cache discard checkpoint_merge gc_merge quota"),
    **flags("age_extent_cache atgc compress_cache compress_chksum data_flush disable_ext_identify"),
    **flags("fastboot heap no_heap inlinecrypt nat_bits usrquota grpquota"),
    **numbers("inline_xattr_size reserve_root reserve_node"),
    "active_logs": one_of("2", "4", "6"),
    "alloc_mode": one_of("default", "reuse"),
    "background_gc": one_of("on", "off", "sync"),
    "compress_algorithm": form(r"(lzo|lzo-rle|lz4|zstd)(:\d{1,2})?", "such as zstd:3"),
    "compress_log_size": form("[2-8]", "a binary logarithm from 2 to 8"),
    **dict.fromkeys(
        ("compress_extension", "nocompress_extension"),
        form(r"[a-z0-9]{1,7}|\*", "an extension of files, or *"),
    ),
    "compress_mode": one_of("fs", "user"),
    "discard_unit": one_of("block", "segment", "section"),
    "errors": one_of("continue", "remount-ro"),
    "fsync_mode": one_of("posix", "strict", "nobarrier"),
    "lookup_mode": one_of("perf", "compat", "auto"),
    "memory": one_of("normal", "low"),
    "mode": one_of("adaptive", "lfs", "fragment:segment", "fragment:block"),
    **PROJECT_QUOTA,
}
