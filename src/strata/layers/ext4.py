# SPDX-License-Identifier: Apache-2.0
"""ext4 on one block device."""

from __future__ import annotations

from typing import ClassVar, Literal

from strata.spec.filesystem import Filesystem
from strata.spec.joint import Takes
from strata.spec.layer import LayerContext
from strata.spec.step import Requires


class Ext4(Filesystem):
    """ext4 on one block device, with the defaults of mke2fs.

    The inode tables and the journal are left to be initialised when they are first used, and the kernel is
    told not to initialise the rest in the background (``noinit_itable``). So a fresh filesystem behaves as
    one whose initialisation has ended long ago: neither does mkfs write gigabytes of zeros, nor does the
    kernel do so during the measured window. Nor does the kernel read the block bitmaps of all groups in the
    background after mounting (``no_prefetch_block_bitmaps``, in Linux since 5.9): it reads one when it first
    allocates in its group.
    """

    takes: ClassVar[Takes] = Takes("block")
    requires: ClassVar[Requires] = Requires(
        tools=("mkfs.ext4", "mount", "umount"), features=("filesystem:ext4",)
    )
    capacity_bytes_min: ClassVar[int] = 64 << 20
    checker: ClassVar[tuple[str, ...]] = ("e2fsck", "-f", "-n")
    owned_options: ClassVar[dict[str, str]] = {
        "-U": "the UUID derives from the trial's seed: leave it out",
        "-F": "it is given already: leave it out",
        "-n": "it would make nothing: leave it out",
    }

    layer: Literal["ext4"] = "ext4"

    def make_options(self, context: LayerContext) -> list[str]:
        """As of `Filesystem`."""
        # mke2fs obeys the last -E alone, so that the user's must be joined to ours.
        further, extended = _split_extended(self.mkfs)
        ours = [
            f"hash_seed={context.derived_uuid('hash-seed')}",
            "lazy_itable_init=1",
            "lazy_journal_init=1",
            "nodiscard",
        ]
        make = ["mkfs.ext4", "-q", "-F", "-U", str(context.derived_uuid("uuid"))]
        return [*make, "-E", ",".join(ours + extended), *further]

    def mount_options(self, context: LayerContext) -> list[str]:
        """As of `Filesystem`."""
        return ["noinit_itable", "no_prefetch_block_bitmaps"]


def _split_extended(options: list[str]) -> tuple[list[str], list[str]]:
    """The options without ``-E``, and the extended options that were given with it."""
    further: list[str] = []
    extended: list[str] = []
    words = iter(options)
    for word in words:
        if word == "-E":
            extended += [option for option in next(words, "").split(",") if option]
        elif word.startswith("-E"):
            extended += [option for option in word[2:].split(",") if option]
        else:
            further.append(word)
    return further, extended
