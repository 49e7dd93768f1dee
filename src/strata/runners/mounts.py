# SPDX-License-Identifier: Apache-2.0
"""What of a trial is mounted."""

from __future__ import annotations

from pathlib import Path

from strata.disks.mounts import OWN_MOUNTS, mount_of, mounts

__all__ = ["OWN_MOUNTS", "mount_of", "mounts", "mounts_under"]


def mounts_under(path: Path, mountinfo: Path = OWN_MOUNTS) -> list[Path]:
    """Mount points under ``path``, as one process sees them, the last mounted first."""
    return [mount.point for mount in mounts(mountinfo) if mount.point.is_relative_to(path)][::-1]
