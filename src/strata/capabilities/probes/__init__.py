# SPDX-License-Identifier: Apache-2.0
"""The probes of `strata capabilities`."""

from typing import Final

from strata.capabilities.probe import Probe
from strata.capabilities.probes import integrity, snapshots, space

PROBES: Final[tuple[type[Probe], ...]] = (
    *(snapshots.Snapshot, snapshots.Clone, snapshots.RestoreLatest, snapshots.RestoreOlder, snapshots.Send),
    *(space.Quota, space.Grow, space.Shrink, space.Discard),
    *(snapshots.CopyOnWrite, space.Nesting),
    *(integrity.CorruptionDetected, integrity.CorruptionHealed, integrity.DiskLoss),
    integrity.SecondDiskLoss,
)
"""In the order of the matrix."""
