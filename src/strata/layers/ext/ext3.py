# SPDX-License-Identifier: Apache-2.0
"""ext3 on one block device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal

from strata.layers.ext.base import ExtFilesystem
from strata.layers.ext.options import EXT3, MKFS
from strata.spec.allowed import Forms
from strata.spec.step import Prerequisites
from strata.units import NS_PER_S


class Ext3(ExtFilesystem):
    """ext3 on one block device: ext2 with a journal, mounted by ext4's driver, as Linux does since 4.3.

    Unlike ext4 it cannot leave inode tables to be initialised later: mkfs writes them all.
    """

    prerequisites: ClassVar[Prerequisites] = Prerequisites(
        tools=("mkfs.ext3", "mount", "umount"), features=("filesystem:ext3",)
    )
    make_limit_ns: ClassVar[int] = 7200 * NS_PER_S

    allowed: ClassVar[Mapping[str, Forms]] = {"mkfs": MKFS, "mount": EXT3}

    layer: Literal["ext3"] = "ext3"
