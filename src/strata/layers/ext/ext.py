# SPDX-License-Identifier: Apache-2.0
"""ext2, ext3 and ext4 on one block device: mke2fs makes them, and one driver of the kernel mounts them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar, Final, Literal

from strata.layers.ext.options import EXT2, EXT3, EXT4, MKFS
from strata.layers.filesystem import (
    AlignedFilesystem,
    ProjectQuotaFilesystem,
    act,
    filesystem_prerequisites,
    option_values,
)
from strata.spec.abilities import FreeSpace, divided, found
from strata.spec.allowed import Forms
from strata.spec.layer import KernelLog, LayerContext, LowerInterface, Provided
from strata.spec.step import Prerequisites, Step
from strata.units import NS_PER_S

_ALIGNING: Final = ("stride", "stripe_width", "stripe-width")
# mke2fs.conf of e2fsprogs: the type "small" is for less than 512 MiB.
_SMALL_BYTES: Final = 512 << 20
# What e2freefrag prints as Num., Avg. and Max.
_FREE: Final = r"^{}\. free extent: (\d+)"


class ExtFilesystem(AlignedFilesystem):
    """The base of ext2, ext3 and ext4.

    Mount options keep the kernel from initialising inode tables in the background (``noinit_itable``),
    and from reading block bitmaps of all groups after a mount (``no_prefetch_block_bitmaps``, since 5.9).
    """

    requires: ClassVar[LowerInterface] = LowerInterface("block")
    capacity_bytes_min: ClassVar[int] = 64 << 20
    checker: ClassVar[tuple[str, ...]] = ("e2fsck", "-f", "-n")
    # fs/ext4/super.c and fs/jbd2/{commit,journal,recovery}.c of Linux 7.2; ext4's driver mounts all three.
    kernel_log: ClassVar[KernelLog] = KernelLog(
        trouble=(
            r"EXT4-fs error .*",
            r"EXT4-fs \(\S+\): (?:Remounting filesystem read-only|.*checksum (?:invalid|failed).*)",
            r"Aborting journal on device .*",
            r"JBD2: .*(?:error|invalid checksum|recovery failed|bad block).*",
        )
    )
    packages: ClassVar[tuple[str, ...]] = ("e2fsprogs", "quota")

    def alignment(self, lower: Provided) -> Mapping[str, str]:
        """The user's stride and stripe_width, or else the chunk and the stripe below in blocks."""
        _, extended = option_values(self.mkfs, "-E")
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
        _, sizes = option_values(self.mkfs, "-b")
        if sizes and sizes[-1].isdigit():
            return int(sizes[-1])
        if sizes or any(option.startswith("-T") for option in self.mkfs):
            return None
        usual_bytes = 1024 if lower.smallest_bytes < _SMALL_BYTES else 4096
        return max(usual_bytes, lower.sector_bytes)

    def make_options(self, context: LayerContext) -> list[str]:
        # mke2fs obeys only the last -E, so the user's is joined to ours.
        further, extended = option_values(self.mkfs, "-E")
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
        """Grow to the size of the device; shrinking would need it unmounted."""
        if not grow:
            return None
        grown = ("resize2fs", context.lower[0])
        return [act(context, "grow", f"Grow the {self.layer} filesystem to its device", *grown)]

    def free_space(self, context: LayerContext) -> list[Step] | None:
        return [act(context, "list", "See how the free space is divided", "e2freefrag", context.lower[0])]

    def free_space_metrics(self, stdout: str) -> list[FreeSpace]:
        return of_ext(stdout)


def of_ext(stdout: str) -> list[FreeSpace]:
    """The figures of ``e2freefrag``, whose sizes are in KB."""
    count, mean, largest = (
        int(found(re.compile(_FREE.format(each), re.MULTILINE), stdout, "e2freefrag"))
        for each in ("Num", "Avg", "Max")
    )
    maximum = FreeSpace("free_extent_bytes_max", float(largest << 10), "B", "higher")
    return [*divided(count, mean << 10), maximum]


class Ext2(ExtFilesystem):
    """ext2 on one block device: no journal; mounted by ext4's driver (CONFIG_EXT4_USE_FOR_EXT2).

    Unlike ext4 it cannot leave inode tables to be initialised later: mkfs writes them all.
    """

    prerequisites: ClassVar[Prerequisites] = filesystem_prerequisites("ext2")
    make_limit_ns: ClassVar[int] = 7200 * NS_PER_S
    allowed: ClassVar[Mapping[str, Forms]] = {"mkfs": MKFS, "mount": EXT2}

    layer: Literal["ext2"] = "ext2"


class Ext3(ExtFilesystem):
    """ext3 on one block device: ext2 with a journal, mounted by ext4's driver, as Linux does since 4.3.

    Unlike ext4 it cannot leave inode tables to be initialised later: mkfs writes them all.
    """

    prerequisites: ClassVar[Prerequisites] = filesystem_prerequisites("ext3")
    make_limit_ns: ClassVar[int] = 7200 * NS_PER_S
    allowed: ClassVar[Mapping[str, Forms]] = {"mkfs": MKFS, "mount": EXT3}

    layer: Literal["ext3"] = "ext3"


class Ext4(ExtFilesystem, ProjectQuotaFilesystem):
    """ext4 on one block device, with the defaults of mke2fs.

    Inode tables and journal are initialised on first use, never in the background (``noinit_itable``). So a
    fresh filesystem behaves as one whose initialisation ended long ago: neither mkfs nor, in the measured
    window, the kernel writes gigabytes of zeros. Nor does the kernel read the block bitmaps of all groups
    after mounting (``no_prefetch_block_bitmaps``): it reads one when it first allocates in its group.
    """

    prerequisites: ClassVar[Prerequisites] = filesystem_prerequisites("ext4")
    allowed: ClassVar[Mapping[str, Forms]] = {"mkfs": MKFS, "mount": EXT4}

    layer: Literal["ext4"] = "ext4"

    def make_options(self, context: LayerContext) -> list[str]:
        """With the quota's inode."""
        program, *rest = super().make_options(context)
        return [program, *(["-O", "quota,project"] if self.project_quota else []), *rest]
