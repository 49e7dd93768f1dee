# SPDX-License-Identifier: Apache-2.0
"""How the free space of filesystems and pools is divided, as their own tools tell it."""

from __future__ import annotations

import re
from typing import Final

from strata.errors import RunError
from strata.spec.abilities import FreeSpace

_EXT_MEAN: Final = re.compile(r"^Avg\. free extent: (\d+) KB", re.MULTILINE)
_EXT_MAX: Final = re.compile(r"^Max\. free extent: (\d+) KB", re.MULTILINE)
_EXT_COUNT: Final = re.compile(r"^Num\. free extent: (\d+)", re.MULTILINE)
_XFS_BLOCK: Final = re.compile(r"^data\s+=.*\bbsize=(\d+)", re.MULTILINE)
_XFS_COUNT: Final = re.compile(r"^total free extents (\d+)", re.MULTILINE)
_XFS_MEAN: Final = re.compile(r"^average free extent size ([\d.]+)", re.MULTILINE)
_BTRFS_COUNT: Final = re.compile(r"free space info extent count (\d+)")
_BTRFS_EXTENT: Final = re.compile(r"\(\d+ FREE_SPACE_EXTENT (\d+)\)")
_BTRFS_BITMAP: Final = re.compile(r"\(\d+ FREE_SPACE_BITMAP \d+\)")
_POOL: Final = re.compile(r"^(\d+)%?\s*$")


def of_ext(stdout: str) -> list[FreeSpace]:
    """What ``e2freefrag`` prints."""
    count = int(_found(_EXT_COUNT, stdout, "e2freefrag"))
    mean, largest = (int(_found(each, stdout, "e2freefrag")) << 10 for each in (_EXT_MEAN, _EXT_MAX))
    return [*_divided(count, mean), FreeSpace("free_extent_bytes_max", float(largest), "B", "higher")]


def of_xfs(stdout: str) -> list[FreeSpace]:
    """What ``xfs_spaceman`` prints of its commands ``info`` and ``freesp -s``."""
    block_bytes = int(_found(_XFS_BLOCK, stdout, "xfs_spaceman"))
    count = int(_found(_XFS_COUNT, stdout, "xfs_spaceman"))
    return _divided(count, float(_found(_XFS_MEAN, stdout, "xfs_spaceman")) * block_bytes)


def of_btrfs(stdout: str) -> list[FreeSpace]:
    """What ``btrfs inspect-internal dump-tree -t free-space`` prints: of the chunks that are allocated.

    Block groups that are much divided have bitmaps, of which it prints no sizes: then there is no mean.
    """
    counts = _BTRFS_COUNT.findall(stdout)
    if not counts:
        raise _unreadable("btrfs", stdout)
    count = sum(map(int, counts))
    sizes = [int(size) for size in _BTRFS_EXTENT.findall(stdout)]
    if _BTRFS_BITMAP.search(stdout) or not sizes:
        return [FreeSpace("free_extents", float(count), "1", "lower")]
    largest = FreeSpace("free_extent_bytes_max", float(max(sizes)), "B", "higher")
    return [*_divided(count, sum(sizes) / len(sizes)), largest]


def of_pool(stdout: str) -> list[FreeSpace]:
    """What ``zpool list -H -p -o fragmentation`` prints: an index, which is no share of anything."""
    index = int(_found(_POOL, stdout.strip(), "zpool"))
    return [FreeSpace("free_space_index", index / 100, "1", "lower")]


def _divided(count: int, mean_bytes: float) -> list[FreeSpace]:
    return [
        FreeSpace("free_extents", float(count), "1", "lower"),
        FreeSpace("free_extent_bytes_mean", float(mean_bytes), "B", "higher"),
    ]


def _found(pattern: re.Pattern[str], stdout: str, tool: str) -> str:
    match = pattern.search(stdout)
    if match is None:
        raise _unreadable(tool, stdout)
    return match[1]


def _unreadable(tool: str, stdout: str) -> RunError:
    tail = "\n    ".join(stdout.strip().splitlines()[-5:]) or "(it is empty)"
    return RunError(f"{tool} did not tell how the free space is divided", remedy=f"it said:\n    {tail}")
