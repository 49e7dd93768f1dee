# SPDX-License-Identifier: Apache-2.0
"""f2fs on one block device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from strata.layers.filesystem import ProjectQuotaFilesystem
from strata.spec.allowed import Forms
from strata.spec.interface import LowerInterface
from strata.spec.layer import KernelLog, LayerContext
from strata.spec.options.f2fs import MKFS, MOUNT_OPTIONS
from strata.spec.step import Prerequisites


class F2fs(ProjectQuotaFilesystem):
    """f2fs, the log-structured filesystem for flash, on one block device, with the defaults of mkfs.f2fs.

    It writes in segments of 2 MiB and knows no stripes of a RAID.
    """

    requires: ClassVar[LowerInterface] = LowerInterface("block")
    prerequisites: ClassVar[Prerequisites] = Prerequisites(
        tools=("mkfs.f2fs", "mount", "umount"), features=("filesystem:f2fs",)
    )
    capacity_bytes_min: ClassVar[int] = 64 << 20
    checker: ClassVar[tuple[str, ...]] = ("fsck.f2fs", "-f", "--dry-run")
    allowed: ClassVar[Mapping[str, Forms]] = {"mkfs": MKFS, "mount": MOUNT_OPTIONS}
    # The messages of fs/f2fs/*.c of Linux 7.2 say "run fsck to fix" or name what does not fit.
    kernel_log: ClassVar[KernelLog] = KernelLog(
        trouble=(
            r"F2FS-fs(?: \(\S+\))?: .*(?:fsck|[Cc]orrupt|[Ii]nconsistent|[Ii]nvalid|[Mm]ismatch"
            r"|[Ii]ncorrect|wrongly|stop checkpoint|Failed to|fails to|[Ww]rong ).*",
        )
    )
    packages: ClassVar[tuple[str, ...]] = ("f2fs-tools",)
    no_free_space: ClassVar[str] = "No tool lists the free extents of a mounted f2fs."

    layer: Literal["f2fs"] = "f2fs"

    def make_options(self, context: LayerContext) -> list[str]:
        """As of `Filesystem`: without discard, and with the checkpoint's first number fixed."""
        make = ["mkfs.f2fs", "-q", "-f", "-r", "-t", "0", "-U", str(context.derived_uuid("uuid"))]
        # The quota's files need the attributes in inodes that a project's number is one of.
        quota = ["-O", "extra_attr,project_quota,quota"] if self.project_quota else []
        return [*make, *quota, *self.mkfs]
