# SPDX-License-Identifier: Apache-2.0
"""ext2, ext3 and ext4 on one block device: mke2fs makes them, and one driver of the kernel mounts them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, Literal

from pydantic import Field, StrictStr

from strata.devices.structure import Structure
from strata.diagnostics.names import Diagnostic
from strata.layers.filesystem import (
    WRITE_BACK,
    AlignedFilesystem,
    ProjectQuotaFilesystem,
    act,
    filesystem_prerequisites,
    log_structures,
)
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
    numbers,
)
from strata.model.abilities import FreeSpace, divided, found
from strata.model.allowed import (
    INTEGER,
    Forms,
    Limits,
    Rule,
    features,
    form,
    given,
    given_words,
    named,
    one_of,
    suboptions,
    within,
)
from strata.model.layer import KernelLog, LayerContext, LowerInterface, Provided
from strata.model.step import Step
from strata.units import NS_PER_S, describe_size

_BYTES: Final = form(r"\d{1,12}[kKmM]?", "a number of bytes such as 4096 or 64k")
_QUOTA_TYPES: Final = form(r"(usr|grp|prj)quota(:(usr|grp|prj)quota){0,2}", "such as usrquota:prjquota")

_MKE2FS: Final = "misc/mke2fs.c of e2fsprogs 1.47"
_SUPER: Final = "fs/ext4/super.c of Linux 7.2"

MKFS: Final[Forms] = {
    # EXT2_MIN_BLOCK_SIZE to EXT2_MAX_BLOCK_SIZE; EXT2_MIN_CLUSTER_SIZE to EXT2_MAX_CLUSTER_SIZE
    "-b": within(_BYTES, Limits(1 << 10, 64 << 10, _MKE2FS)),
    "-C": within(_BYTES, Limits(2 << 10, 1 << 29, _MKE2FS)),
    "-i": within(_BYTES, Limits(1 << 10, 64 << 20, _MKE2FS)),
    "-I": within(INTEGER, Limits(128, 64 << 10, _MKE2FS, is_power=True)),
    "-N": within(INTEGER, Limits(0, (1 << 32) - 1, _MKE2FS)),
    "-g": within(INTEGER, Limits(256, 524_280, _MKE2FS, multiple=8)),  # at most 8 for each byte of a block
    "-G": within(INTEGER, Limits(1, 1 << 31, _MKE2FS, is_power=True)),
    **flags("-D -j"),
    "-m": form(r"([0-4]?\d(\.\d{1,9})?|50(\.0{1,9})?)", "a percentage from 0 to 50"),
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
    **numbers("max_batch_time max_dir_size_kb min_batch_time stripe"),
    "inode_readahead_blks": within(INTEGER, Limits(1, 1 << 30, _SUPER, is_power=True, default=0)),
    "init_itable": OPTIONAL_INTEGER,
    "mb_optimize_scan": one_of("0", "1"),
    "errors": one_of("continue", "remount-ro"),
    **PROJECT_QUOTA,
}
"""Mount options of ext2, ext3 and ext4."""

EXT3: Final[Forms] = {
    **EXT2,
    "commit": within(INTEGER, Limits(0, 2_147_483, _SUPER)),  # INT_MAX / HZ, of 1000 HZ
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


_JOURNAL: Final = ("data", "data_err=abort", "commit", "journal_checksum", "journal_async_commit")
RULES: Final = (
    Rule("-C", _MKE2FS, needs=("-O bigalloc",)),
    *(Rule("-O bigalloc", _MKE2FS, excludes=(f"-O {each}",)) for each in ("^extent", "^extents")),
    Rule("-O ^has_journal", _SUPER, excludes=_JOURNAL),
    Rule("data=journal", _SUPER, excludes=("delalloc", "dax", "dax=always")),
    # A journal of ordered data is the default.
    Rule("journal_async_commit", _SUPER, needs=("data=writeback", "data=journal")),
)

_ALIGNING: Final = ("stride", "stripe_width", "stripe-width")
# util.c of e2fsprogs 1.47: blocks of a journal, which takes less than half of the filesystem.
_JOURNAL_BLOCKS_MIN: Final = 1024
_JOURNAL_BLOCKS_MAX: Final = 10_240_000
_SMALL_BYTES: Final = 512 << 20  # mke2fs.conf of e2fsprogs: the type "small" is for less than 512 MiB
# What e2freefrag prints as Num., Avg. and Max.
_FREE: Final = r"^{}\. free extent: (\d+)"


class ExtFilesystem(AlignedFilesystem):
    """The base of ext2, ext3 and ext4; `Ext4` says why its mount options."""

    requires = LowerInterface("block")
    capacity_bytes_min = 64 << 20
    checker = ("e2fsck", "-f", "-n")
    # fs/ext4/super.c and fs/jbd2/{commit,journal,recovery}.c of Linux 7.2; ext4's driver mounts all three.
    kernel_log = KernelLog(
        trouble=(
            r"EXT4-fs error .*",
            r"EXT4-fs \(\S+\): (?:Remounting filesystem read-only|.*checksum (?:invalid|failed).*)",
            r"Aborting journal on device .*",
            r"JBD2: .*(?:error|invalid checksum|recovery failed|bad block).*",
        )
    )
    packages = ("e2fsprogs", "quota")
    rules = RULES

    def alignment(self, lower: Provided) -> Mapping[str, str]:
        """The user's stride and stripe_width, or else the chunk and the stripe below in blocks."""
        _, extended = self.mkfs_without("-E")
        given = [option.partition("=") for option in extended]
        if chosen := {key: value for key, _, value in given if key in _ALIGNING}:
            return chosen
        block_bytes = self._block_bytes(lower)
        geometry = lower.geometry if self.align else None
        if geometry is None or block_bytes is None or geometry.chunk_bytes % block_bytes:
            return {}
        stride, width = geometry.chunk_bytes // block_bytes, geometry.stripe_bytes // block_bytes
        return {"stride": str(stride), "stripe_width": str(width)}

    def _block_bytes(self, lower: Provided) -> int | None:
        """The block size that mke2fs will choose; None if options leave it to its configuration."""
        _, sizes = self.mkfs_without("-b")
        if sizes and sizes[-1].isdigit():
            return int(sizes[-1])
        if sizes or any(option.startswith("-T") for option in self.mkfs):
            return None
        usual_bytes = 1024 if lower.smallest_bytes < _SMALL_BYTES else 4096
        return max(usual_bytes, lower.sector_bytes)

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        yield from super().diagnostics(lower, named)
        size_mb = dict(given_words(self.mkfs, MKFS)).get("-J size") or ""
        block_bytes = self._block_bytes(lower)
        if not size_mb.isdecimal() or block_bytes is None:
            return
        blocks, half = (int(size_mb) << 20) // block_bytes, lower.smallest_bytes // block_bytes // 2
        most = min(_JOURNAL_BLOCKS_MAX, half - 1)
        if not _JOURNAL_BLOCKS_MIN <= blocks <= most:
            yield Diagnostic(
                f"a journal has {_JOURNAL_BLOCKS_MIN:,} to {most:,} blocks here, and {size_mb} MiB are "
                f"{blocks:,}",
                remedy=f"give -J size={_JOURNAL_BLOCKS_MIN * block_bytes >> 20} or more",
                key="mkfs",
            )

    def structures(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Structure]:
        """The journal, if the study sets its size; the default is mke2fs's own."""
        size_mb = dict(given_words(self.mkfs, MKFS)).get("-J size")
        return log_structures(int(size_mb) << 20 if size_mb else None, f"journal of {self.layer}")

    def make_options(self, context: LayerContext) -> list[str]:
        # mke2fs obeys only the last -E, so the user's is joined to ours.
        further, extended = self.mkfs_without("-E")
        ours = [f"hash_seed={context.derived_uuid('hash-seed')}"]
        ours += ["lazy_itable_init=1", "lazy_journal_init=1", "nodiscard"]
        given = {option.partition("=")[0] for option in extended}
        if not given.intersection(_ALIGNING):
            aligned = self.alignment(context.provided) if self.align else {"stride": "0", "stripe_width": "0"}
            ours += [f"{key}={value}" for key, value in aligned.items()]
        make = [f"mkfs.{self.layer}", "-q", "-F", "-U", str(context.derived_uuid("uuid"))]
        return [*make, "-E", ",".join(ours + extended), *further]

    def mount_options(self, context: LayerContext) -> list[str]:
        return ["noinit_itable", "no_prefetch_block_bitmaps", *super().mount_options(context)]

    def resize(self, context: LayerContext, capacity_bytes: int, *, grow: bool) -> list[Step] | None:
        if not grow:
            return None
        grown = ("resize2fs", context.lower[0])
        return [act(context, "grow", f"Grow the {self.layer} filesystem to its device", *grown)]

    def free_space(self, context: LayerContext) -> list[Step] | None:
        return [act(context, "list", "See how the free space is divided", "e2freefrag", context.lower[0])]

    def free_space_metrics(self, stdout: str) -> list[FreeSpace]:
        """Of ``e2freefrag``, whose sizes are in KB."""
        count, mean, largest = (
            int(found(re.compile(_FREE.format(each), re.MULTILINE), stdout, "e2freefrag"))
            for each in ("Num", "Avg", "Max")
        )
        maximum = FreeSpace("free_extent_bytes_max", float(largest << 10), "B", "higher")
        return [*divided(count, mean << 10), maximum]


# JBD2_DEFAULT_MAX_COMMIT_AGE
_WITH_JOURNAL: Final = {**WRITE_BACK, "commit of the journal": 5 * NS_PER_S}


class Ext2(ExtFilesystem):
    """ext2 on one block device: no journal; mounted by ext4's driver.

    The kernel has CONFIG_EXT4_USE_FOR_EXT2. Unlike ext4 it cannot leave inode tables to be initialised later:
    mkfs writes them all.
    """

    prerequisites = filesystem_prerequisites("ext2")
    make_limit_ns = 7200 * NS_PER_S
    allowed = {"mkfs": MKFS, "mount": EXT2}

    layer: Literal["ext2"] = "ext2"


class Ext3(ExtFilesystem):
    """ext3: ext2 with a journal, mounted by ext4's driver.

    Unlike ext4 it cannot leave inode tables to be initialised later: mkfs writes them all.
    """

    prerequisites = filesystem_prerequisites("ext3")
    periods_ns = _WITH_JOURNAL
    make_limit_ns = 7200 * NS_PER_S
    allowed = {"mkfs": MKFS, "mount": EXT3}

    layer: Literal["ext3"] = "ext3"


class Ext4(ExtFilesystem, ProjectQuotaFilesystem):
    """ext4 on one block device, with the defaults of mke2fs.

    Inode tables and journal are initialised on first use, never in the background (``noinit_itable``). So a
    fresh filesystem behaves as one whose initialisation ended long ago: neither mkfs nor, in the measured
    window, the kernel writes gigabytes of zeros. Nor does the kernel read the block bitmaps of all groups
    after mounting (``no_prefetch_block_bitmaps``): it reads one when it first allocates in its group.
    """

    prerequisites = filesystem_prerequisites("ext4")
    periods_ns = _WITH_JOURNAL
    allowed = {"mkfs": MKFS, "mount": EXT4}
    # A 64-bit filesystem, the default of mke2fs for ext4, needs extents.
    rules = (*RULES, *(Rule(f"-O {each}", _MKE2FS, needs=("-O ^64bit",)) for each in ("^extent", "^extents")))

    device_keys = ("journal",)
    external_log = ("-J device=", "-j ", "journal_path=")

    layer: Literal["ext4"] = "ext4"
    journal: StrictStr | None = Field(None, examples=["ssd0"], exclude_if=lambda value: value is None)
    """A device of the study that holds nothing but the journal; default: it lies in the filesystem"""

    def diagnostics(self, lower: Provided, named: Mapping[str, int]) -> Iterable[Diagnostic]:
        yield from super().diagnostics(lower, named)
        if self.journal is None:
            return
        given = dict(given_words(self.mkfs, MKFS))
        if other := [each for each in given if each.startswith("-J") or each == "-O ^has_journal"]:
            cause = f"{other[0]} is for a journal in the filesystem"
            yield Diagnostic(cause, remedy="leave it out: the journal takes its device", key="mkfs")
        if self._block_bytes(lower) is None:
            cause = "the journal needs the filesystem's size of blocks"
            yield Diagnostic(cause, remedy='write mkfs = ["-b", "4096"]', key="journal")
        if (size := named.get(self.journal)) is not None and size < _JOURNAL_BLOCKS_MIN << 13:
            cause = f"a journal needs {describe_size(_JOURNAL_BLOCKS_MIN << 13)}"
            yield Diagnostic(cause, remedy="raise the `capacity` of its device", key="journal")

    def build(self, context: LayerContext) -> list[Step]:
        if self.journal is None:
            return super().build(context)
        make = ("mkfs.ext4", "-q", "-F", "-O", "journal_dev", "-U", str(context.derived_uuid("journal")))
        blocks = ("-b", str(self._block_bytes(context.provided)))
        journal = context.step(
            "journal",
            f"Make the journal on {self.journal}",
            *(*make, *blocks, f"${{{self.journal}}}"),
            destroys=(self.journal,),
            time_limit_ns=self.make_limit_ns,
        )
        return [journal, *super().build(context)]

    def make_options(self, context: LayerContext) -> list[str]:
        program, *rest = super().make_options(context)
        return [program, *(["-O", "quota,project"] if self.project_quota else []), *rest]
