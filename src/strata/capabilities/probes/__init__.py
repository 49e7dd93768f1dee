# SPDX-License-Identifier: Apache-2.0
"""The probes of `strata capabilities`."""

from typing import Final

from strata.capabilities.probe import Probe
from strata.capabilities.probes.integrity import CorruptionDetected, CorruptionHealed, DiskLoss
from strata.capabilities.probes.snapshots import (
    Clone,
    CopyOnWrite,
    RestoreLatest,
    RestoreOlder,
    Send,
    Snapshot,
)
from strata.capabilities.probes.space import Discard, Grow, Nesting, Quota, Shrink

PROBES: Final[tuple[type[Probe], ...]] = (
    *(Snapshot, Clone, RestoreLatest, RestoreOlder, Send),
    *(Quota, Grow, Shrink, Discard),
    *(CopyOnWrite, Nesting),
    *(CorruptionDetected, CorruptionHealed, DiskLoss),
)
"""In the order of the matrix."""
