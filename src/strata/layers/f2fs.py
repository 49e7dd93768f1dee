# SPDX-License-Identifier: Apache-2.0
"""f2fs on one block device."""

from __future__ import annotations

from typing import Final, Literal

from strata.layers.filesystem import WRITE_BACK, ProjectQuotaFilesystem, filesystem_prerequisites
from strata.layers.options import HERE_ALREADY, LABEL, MOUNT, PROJECT_QUOTA, UUID, flags, numbers
from strata.model.allowed import (
    FLAG,
    INTEGER,
    NUMBER,
    Forms,
    Limits,
    Rule,
    form,
    given,
    named,
    one_of,
    suboptions,
    within,
)
from strata.model.layer import KernelLog, LayerContext, LowerInterface
from strata.units import NS_PER_S

_EXTENSIONS: Final = form(r"[a-z0-9]{1,7}(,[a-z0-9]{1,7}){0,31}", "extensions of files such as mp4,mkv")
_PAIRED: Final = (
    "acl user_xattr inline_xattr inline_data inline_dentry flush_merge barrier extent_cache discard "
    "checkpoint_merge gc_merge quota"
)
_SUPER: Final = "fs/f2fs/super.c of Linux 7.2"

MKFS: Final[Forms] = {
    **numbers("-b -s -w -z"),
    "-a": one_of("0", "1"),
    "-o": NUMBER,
    "-i": FLAG,
    **named("-e -E", _EXTENSIONS),
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
    **named("-f -q -r -t", HERE_ALREADY),
}

MOUNT_OPTIONS: Final[Forms] = {
    **MOUNT,
    **flags(" ".join(f"{name} no{name}" for name in _PAIRED.split())),
    **flags(
        "age_extent_cache atgc compress_cache compress_chksum data_flush disable_ext_identify fastboot heap "
        "no_heap inlinecrypt nat_bits usrquota grpquota"
    ),
    # MIN_INLINE_XATTR_SIZE and MAX_INLINE_XATTR_SIZE, with blocks of 4 KiB
    "inline_xattr_size": within(INTEGER, Limits(6, 903, _SUPER)),
    **numbers("reserve_root reserve_node"),
    "active_logs": one_of("2", "4", "6"),
    "alloc_mode": one_of("default", "reuse"),
    "background_gc": one_of("on", "off", "sync"),
    "compress_algorithm": form(r"(lzo|lzo-rle|lz4|zstd)(:\d{1,2})?", "such as zstd:3"),
    "compress_log_size": form("[2-8]", "a binary logarithm from 2 to 8"),
    **named(
        "compress_extension nocompress_extension", form(r"[a-z0-9]{1,7}|\*", "an extension of files, or *")
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


RULES: Final = (
    Rule("inline_xattr_size", _SUPER, needs=("-O flexible_inline_xattr",), excludes=("noinline_xattr",)),
    Rule("atgc", _SUPER, excludes=("mode=lfs",)),
)


class F2fs(ProjectQuotaFilesystem):
    """f2fs, the log-structured filesystem for flash, on one device.

    It has the defaults of mkfs.f2fs. It writes in segments of 2 MiB and knows no stripes of a RAID.
    """

    requires = LowerInterface("block")
    prerequisites = filesystem_prerequisites("f2fs")
    capacity_bytes_min = 64 << 20
    checker = ("fsck.f2fs", "-f", "--dry-run")
    allowed = {"mkfs": MKFS, "mount": MOUNT_OPTIONS}
    rules = RULES
    # The messages of fs/f2fs/*.c of Linux 7.2 say "run fsck to fix" or name what does not fit.
    kernel_log = KernelLog(
        trouble=(
            r"F2FS-fs(?: \(\S+\))?: .*(?:fsck|[Cc]orrupt|[Ii]nconsistent|[Ii]nvalid|[Mm]ismatch"
            r"|[Ii]ncorrect|wrongly|stop checkpoint|Failed to|fails to|[Ww]rong ).*",
        )
    )
    packages = ("f2fs-tools",)
    no_free_space = "No tool lists the free extents of a mounted f2fs."
    periods_ns = {**WRITE_BACK, "checkpoint of f2fs": 60 * NS_PER_S}  # DEF_CP_INTERVAL

    layer: Literal["f2fs"] = "f2fs"

    def make_options(self, context: LayerContext) -> list[str]:
        """Without discard, and with the checkpoint's first number fixed."""
        make = ["mkfs.f2fs", "-q", "-f", "-r", "-t", "0", "-U", str(context.derived_uuid("uuid"))]
        # The quota needs extra_attr, because a project's number is such an attribute of an inode.
        quota = ["-O", "extra_attr,project_quota,quota"] if self.project_quota else []
        return [*make, *quota, *self.mkfs]
