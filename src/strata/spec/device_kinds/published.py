# SPDX-License-Identifier: Apache-2.0
"""What a data sheet or a review says that a device does: to be compared with the model, never its input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from strata.spec.device_kinds.parameter import Expected

IOPS: Final = "IOPS"
MB_PER_S: Final = "MB/s"

_RATE_MAX: Final = 100_000.0
_IOPS_MAX: Final = 100e6


def _rate(meaning: str) -> Expected:
    return Expected(meaning, MB_PER_S, 0.1, _RATE_MAX)


def _iops(meaning: str) -> Expected:
    return Expected(meaning, IOPS, 0.1, _IOPS_MAX)


PUBLISHED: Final[Mapping[str, Expected]] = {
    "random_read_4k_qd1": _iops("rate of random 4-KiB reads, one at a time"),
    "random_read_4k_qd4": _iops("rate of random 4-KiB reads, 4 at a time"),
    "random_read_4k_qd16": _iops("rate of random 4-KiB reads, 16 at a time"),
    "random_read_4k_qd32": _iops("rate of random 4-KiB reads, 32 at a time"),
    "random_read_4k_qd64": _iops("rate of random 4-KiB reads, 64 at a time"),
    "random_read_4k_qd256": _iops("rate of random 4-KiB reads, 256 at a time"),
    "random_write_4k_qd1": _iops("rate of random 4-KiB writes, one at a time"),
    "random_write_4k_qd32": _iops("rate of random 4-KiB writes, 32 at a time, a fresh device"),
    "random_write_4k_qd32_steady": _iops("rate of random 4-KiB writes, 32 at a time, in the steady state"),
    "sequential_read": _rate("sequential reads, wherever the maker measured"),
    "sequential_read_outer": _rate("sequential reads at the first sector"),
    "sequential_read_middle": _rate("sequential reads at half the capacity"),
    "sequential_read_inner": _rate("sequential reads at the last sector"),
    "sequential_write": _rate("sequential writes, wherever the maker measured"),
    "latency_read_4k_qd1": Expected("latency of random 4-KiB reads, one at a time", "us", 0.01, 1e7),
    "latency_write_4k_qd1": Expected("latency of random 4-KiB writes, one at a time", "us", 0.01, 1e7),
    "flush_latency": Expected("latency of a flush after one 4-KiB write", "ms", 0.0, 10_000),
    "flush_rate": Expected("rate of 4-KiB writes with a flush after each", "1/s", 0.01, 10e6),
}
"""The keys of the table ``[published]``, each optional, in the order of a data sheet."""
