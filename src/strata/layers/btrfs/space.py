# SPDX-License-Identifier: Apache-2.0
"""The capacity of btrfs on several disks, and its free extents."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from strata.spec.abilities import FreeSpace, divided, unreadable_free_space

_BTRFS_COUNT: Final = re.compile(r"free space info extent count (\d+)")
_BTRFS_EXTENT: Final = re.compile(r"\(\d+ FREE_SPACE_EXTENT (\d+)\)")
_BTRFS_BITMAP: Final = re.compile(r"\(\d+ FREE_SPACE_BITMAP \d+\)")


def mirrored_bytes(disks_bytes: Sequence[int], copies: int) -> int:
    """Each block lies on ``copies`` different disks, so a disk larger than the rest cannot be filled.

    However many disks are full of one copy, the others must hold the remaining copies.
    """
    ascending = sorted(disks_bytes)
    return min(sum(ascending[: len(ascending) - full]) // (copies - full) for full in range(copies))


def striped_bytes(disks_bytes: Sequence[int], parities: int, disks_min: int) -> int:
    """Stripes go over all disks that have space left; each gives up ``parities`` of its parts."""
    usable_bytes = filled_bytes = 0
    ascending = sorted(disks_bytes)
    for index, disk_bytes in enumerate(ascending):
        width = len(ascending) - index
        if width >= disks_min:
            usable_bytes += (disk_bytes - filled_bytes) * (width - parities)
        filled_bytes = disk_bytes
    return usable_bytes


def of_btrfs(stdout: str) -> list[FreeSpace]:
    """The figures of ``btrfs inspect-internal dump-tree -t free-space``, for the allocated chunks.

    Fragmented block groups have bitmaps, without sizes in the output: then there is no mean.
    """
    counts = _BTRFS_COUNT.findall(stdout)
    if not counts:
        raise unreadable_free_space("btrfs", stdout)
    count = sum(map(int, counts))
    sizes = [int(size) for size in _BTRFS_EXTENT.findall(stdout)]
    if _BTRFS_BITMAP.search(stdout) or not sizes:
        return [FreeSpace("free_extents", float(count), "1", "lower")]
    largest = FreeSpace("free_extent_bytes_max", float(max(sizes)), "B", "higher")
    return [*divided(count, sum(sizes) / len(sizes)), largest]
