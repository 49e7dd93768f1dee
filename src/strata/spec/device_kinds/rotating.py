# SPDX-License-Identifier: Apache-2.0
"""A rotating disk."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from strata.spec.device_kinds.parameter import CAPACITY, Expected, Parameters, Require, number

PARAMETERS: Final[Mapping[str, Expected]] = {
    "capacity": CAPACITY,
    "rotation_speed": Expected("rotational speed", "rpm", 1000, 60_000),
    "seek_average_read": Expected("mean seek over pairs of random tracks", "ms", 0.01, 100),
    "seek_track_to_track": Expected("seek to the next track", "ms", 0.0, 100),
    "seek_full_stroke": Expected("seek from the first track to the last", "ms", 0.01, 200),
    "seek_intercept": Expected("the seek curve's value at distance zero", "ms", 0.0, 100),
    "sustained_rate_outer": Expected("sequential rate of the outermost zone", "MB/s", 0.1, 2000),
    "sustained_rate_inner": Expected("sequential rate of the innermost zone", "MB/s", 0.1, 2000),
    "zone_count": Expected("zones of equal sectors per track", "1", 1, 64, whole=True),
    "track_skew": Expected("angle between the ends of a track and the next", "rev", 0.0, 0.99),
    "command_overhead": Expected("time to decode a command", "ms", 0.0, 100),
    "write_settle": Expected("added to the seek of a write", "ms", 0.0, 100),
    "queue_depth": Expected("commands that the device holds at once", "1", 1, 32, whole=True),
    "scheduler_window": Expected("oldest commands among which it picks the nearest", "1", 1, 32, whole=True),
    "scheduler_wait_limit": Expected("age from which the oldest command goes first", "ms", 0.0, 100_000),
}


def check(parameters: Parameters, require: Require) -> None:
    """The relations between the parameters that the formulas need."""
    require(
        number(parameters, "seek_track_to_track") <= number(parameters, "seek_intercept") + 1e-9,
        "seek_track_to_track",
        "the seek to the next track is longer than the seek curve's intercept",
        "lower it, or raise seek_intercept",
    )
    intercept, full = number(parameters, "seek_intercept"), number(parameters, "seek_full_stroke")
    # The closed form spans from a straight line, with the mean a + (full-a)/3, to a square root all over,
    # with the mean a + 8(full-a)/15.
    low, high = intercept + (full - intercept) / 3, intercept + (full - intercept) * 8 / 15
    require(
        low < number(parameters, "seek_average_read") < high,
        "seek_average_read",
        "no seek curve has this intercept, mean and full stroke",
        f"with this intercept and full stroke the mean lies between {low:.4g} and {high:.4g} ms",
    )
    require(
        number(parameters, "sustained_rate_inner") <= number(parameters, "sustained_rate_outer"),
        "sustained_rate_inner",
        "the inner zone is faster than the outer",
        "tracks are shorter towards the spindle: swap the two",
    )
