# SPDX-License-Identifier: Apache-2.0
"""Seeds and UUIDs of a trial's parts, each derived from the trial's seed by name, never by order of use."""

from __future__ import annotations

import hashlib
from uuid import UUID


def _digest(seed: int, names: tuple[str, ...]) -> bytes:
    return hashlib.sha256("\0".join([str(seed), *names]).encode()).digest()


def derive_seed(seed: int, *names: str) -> int:
    """A 64-bit seed for the thing that ``names`` name, independent of those of other names."""
    return int.from_bytes(_digest(seed, names)[:8], "little")


def derive_uuid(seed: int, *names: str) -> UUID:
    """A version-4-shaped UUID for the thing that ``names`` name."""
    return UUID(bytes=_digest(seed, names)[:16], version=4)
