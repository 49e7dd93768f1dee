# SPDX-License-Identifier: Apache-2.0
"""Configuration texts of volumes in the network and of controllers, from plain numbers.

Apart from ``strata.lab.model``, so that a mistake in either shows as a difference.
"""

from __future__ import annotations

from collections.abc import Iterable

MIB = 1 << 20
GIB = 1 << 30
MS = 1_000_000
S = 1_000_000_000


def _lines(values: dict[str, object]) -> list[str]:
    return [f"{key}={value}" for key, value in values.items() if value is not None]


def network_lines(
    *,
    latency_ns: int = 500_000,
    buckets: Iterable[str] = (),
    capacity_bytes: int = 100 * GIB,
    **changed: object,
) -> list[str]:
    """A volume of one constant latency; keywords replace or, with None, remove keys."""
    constant = ",".join([str(latency_ns)] * 257)
    values: dict[str, object] = {
        "name": "sda",
        "capacity_sectors": capacity_bytes // 512,
        "backing_fd": 3,
        "model": "network",
        "queue_depth": 256,
        "unit_bytes": 262_144,
        "link_bytes_per_s": 0,
        "read_latency_ns": constant,
        "write_latency_ns": constant,
    }
    values.update(changed)
    return [*_lines(values), *buckets]


def network_text(**changed: object) -> str:
    """The text of `network_lines`."""
    return "\n".join(network_lines(**changed)) + "\n"  # type: ignore[arg-type]


def controller_text(member: Iterable[str], **changed: object) -> str:
    """A controller over four such members; keywords replace or, with None, remove keys.

    Its own share of a command is 50 us and the transfer at 2 GB/s.
    """
    values: dict[str, object] = {
        "name": "sda",
        "capacity_sectors": 4 * GIB // 512,
        "backing_fd": 3,
        "model": "controller",
        "queue_depth": 256,
        "level": "raid10",
        "members": 4,
        "stripe_bytes": 65_536,
        "cache_bytes": 16 * MIB,
        "battery": 1,
        "overhead_ns": 50_000,
        "interval_ns": 0,
        "link_bytes_per_s": 2_000_000_000,
        "high_percent": 80,
        "low_percent": 50,
        "destage_depth": 4,
        "destage_bytes": MIB,
        "idle_ns": 50 * MS,
    }
    values.update(changed)
    return "\n".join([*_lines(values), *(f"member.{line}" for line in member)]) + "\n"


def slow_member(*, iops: int = 100, capacity_bytes: int = 100 * GIB) -> list[str]:
    """A member that serves ``iops`` I/Os a second, one at a time, of any kind and place."""
    bucket = f"operations_bucket={iops},1,1"
    return network_lines(latency_ns=0, buckets=[bucket], unit_bytes=1 << 30, capacity_bytes=capacity_bytes)
