# SPDX-License-Identifier: Apache-2.0
"""ext2 on one block device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from strata.layers.ext.base import ExtFilesystem
from strata.layers.ext.options import EXT2, MKFS
from strata.spec.allowed import Forms
from strata.spec.step import Prerequisites
from strata.units import NS_PER_S


class Ext2(ExtFilesystem):
    """ext2 on one block device: no journal; mounted by ext4's driver (CONFIG_EXT4_USE_FOR_EXT2).

    Unlike ext4 it cannot leave inode tables to be initialised later: mkfs writes them all.
    """

    prerequisites: ClassVar[Prerequisites] = Prerequisites(
        tools=("mkfs.ext2", "mount", "umount"), features=("filesystem:ext2",)
    )
    make_limit_ns: ClassVar[int] = 7200 * NS_PER_S

    allowed: ClassVar[Mapping[str, Forms]] = {"mkfs": MKFS, "mount": EXT2}

    layer: Literal["ext2"] = "ext2"
