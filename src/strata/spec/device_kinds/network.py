# SPDX-License-Identifier: Apache-2.0
"""A volume in the network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from strata.spec.device_kinds.parameter import CAPACITY, QUEUE_DEPTH, Expected, Parameters, Require, number

_TOKENS: Final = float(1 << 32)  # the largest bucket of the driver
_RATE_MIB: Final = 16_384.0  # of the driver's link, 2^34 bytes/s

PARAMETERS: Final[Mapping[str, Expected]] = {
    "capacity": CAPACITY,
    "read_latency_median": Expected("median of a read's way there and back, no waiting", "ms", 0.0, 1000),
    "write_latency_median": Expected("median of a write's way there and back, no waiting", "ms", 0.0, 1000),
    "latency_sigma": Expected("standard deviation of the latency's natural logarithm", "1", 0.0, 1.5),
    "operation_rate": Expected("operations that it sustains", "1/s", 1, 10_000_000),
    "operation_burst_rate": Expected("the same while credits last; 0: none", "1/s", 0, 1e7, default=0),
    "operation_credits": Expected("operations that can be saved up for bursts", "1", 0, _TOKENS, default=0),
    "operation_credits_initial": Expected("of those, at the start", "1", 0, _TOKENS, default=0),
    "operation_size_max": Expected("a larger I/O counts as several operations", "KiB", 0.5, 1 << 20),
    "byte_rate": Expected("data that it sustains", "MiB/s", 0.01, _RATE_MIB),
    "byte_burst_rate": Expected("the same while credits last; 0: none", "MiB/s", 0, _RATE_MIB, default=0),
    "byte_credits": Expected("data that can be saved up for bursts", "GiB", 0, 2047, default=0),
    "byte_credits_initial": Expected("of those, at the start", "GiB", 0, 2047, default=0),
    "token_interval": Expected("depth of a bucket without credits", "ms", 0.001, 60_000),
    "link_rate": Expected("rate to all volumes; 0: not a limit", "MiB/s", 0, _RATE_MIB, default=0),
    "queue_depth": QUEUE_DEPTH,
}


def check(parameters: Parameters, require: Require) -> None:
    """Credits and burst rate belong together."""
    for what in ("operation", "byte"):
        credits, burst = number(parameters, f"{what}_credits"), number(parameters, f"{what}_burst_rate")
        require(
            (credits > 0) == (burst > 0),
            f"{what}_credits",
            f"credits and {what}_burst_rate belong together",
            "state both, or leave both out",
        )
        require(
            burst == 0 or burst > number(parameters, f"{what}_rate"),
            f"{what}_burst_rate",
            f"the burst is not faster than {what}_rate",
            "a volume that sustains as much needs no credits: leave them out",
        )
        require(
            number(parameters, f"{what}_credits_initial") <= credits,
            f"{what}_credits_initial",
            "there are more credits at the start than it can save up",
            f"at most {what}_credits",
        )
