# SPDX-License-Identifier: Apache-2.0
"""ext4 on one block device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from strata.layers.ext.base import ExtFilesystem
from strata.layers.ext.options import EXT4, MKFS
from strata.layers.filesystem import ProjectQuotaFilesystem
from strata.spec.allowed import Forms
from strata.spec.layer import LayerContext
from strata.spec.step import Prerequisites


class Ext4(ExtFilesystem, ProjectQuotaFilesystem):
    """ext4 on one block device, with the defaults of mke2fs.

    The inode tables and the journal are left to be initialised when they are first used, and the kernel is
    told not to initialise the rest in the background (``noinit_itable``). So a fresh filesystem behaves as
    one whose initialisation has ended long ago: neither does mkfs write gigabytes of zeros, nor does the
    kernel do so during the measured window. Nor does the kernel read the block bitmaps of all groups in the
    background after mounting (``no_prefetch_block_bitmaps``, in Linux since 5.9): it reads one when it first
    allocates in its group.
    """

    prerequisites: ClassVar[Prerequisites] = Prerequisites(
        tools=("mkfs.ext4", "mount", "umount"), features=("filesystem:ext4",)
    )

    allowed: ClassVar[Mapping[str, Forms]] = {"mkfs": MKFS, "mount": EXT4}

    layer: Literal["ext4"] = "ext4"

    def make_options(self, context: LayerContext) -> list[str]:
        """As of `Filesystem`; a quota's inode is made with it."""
        options = super().make_options(context)
        if not self.project_quota:
            return options
        program, *rest = options
        return [program, "-O", "quota,project", *rest]
