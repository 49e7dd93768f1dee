# SPDX-License-Identifier: Apache-2.0
"""A rotating disk: its mechanism, its queue, its caches; optionally shingled."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from strata.spec.device_kinds.parameter import CAPACITY, Expected, Parameters, Require, number

_BLOCK_BYTES: Final = 4096

PARAMETERS: Final[Mapping[str, Expected]] = {
    "capacity": CAPACITY,
    "rotation_speed": Expected("rotational speed", "rpm", 1000, 60_000),
    "seek_average_read": Expected("mean seek over pairs of random tracks", "ms", 0.01, 100),
    "seek_average_write": Expected("the same for writes; 0: see write_settle", "ms", 0.0, 100, default=0.0),
    "seek_track_to_track": Expected("seek to the next track", "ms", 0.0, 100),
    "seek_full_stroke": Expected("seek from the first track to the last", "ms", 0.01, 200),
    "seek_intercept": Expected("the seek curve's value at distance zero", "ms", 0.0, 100),
    "seek_table": Expected(
        'a measured curve, which then counts instead of the four values above: "1 0.8, 10 1.2, ..."',
        "tracks ms",
        text=True,
        default="",
    ),
    "sustained_rate_outer": Expected("sequential rate of the outermost zone", "MB/s", 0.1, 2000),
    "sustained_rate_inner": Expected("sequential rate of the innermost zone", "MB/s", 0.1, 2000),
    "zone_count": Expected("zones of equal sectors per track", "1", 1, 64, whole=True),
    "track_skew": Expected("angle between the ends of a track and the next", "rev", 0.0, 0.99),
    "command_overhead": Expected("time to decode a command", "ms", 0.0, 100),
    "buffer_overhead": Expected(
        "the same where only the buffer is needed; 0: as long", "ms", 0.0, 100, default=0.0
    ),
    "write_settle": Expected("added to the seek of a write", "ms", 0.0, 100, default=0.0),
    "physical_sector": Expected(
        "bytes that are written at once; a smaller write takes one more turn", "B", 512, 4096, True, 512
    ),
    "grown_defects": Expected("bad sectors that live elsewhere", "1", 0, 512, whole=True, default=0),
    "link_rate": Expected("data rate to the host; 0: takes no time", "MB/s", 0, 10_000, default=0),
    "queue_depth": Expected("commands that the device holds at once", "1", 1, 32, whole=True),
    "scheduler_window": Expected("oldest commands among which it picks the nearest", "1", 1, 32, whole=True),
    "scheduler_wait_limit": Expected("age from which the oldest command goes first", "ms", 0.0, 100_000),
    "read_segments": Expected("streams that it reads ahead for; 0: none", "1", 0, 64, whole=True, default=0),
    "read_segment_size": Expected("how far it reads ahead of each", "KiB", 0, 1 << 20, default=0),
    "write_cache": Expected("volatile write cache; 0: none", "MiB", 0, 1 << 20, default=0),
    "write_cache_runs": Expected("runs of dirty sectors that it can hold", "1", 0, 65_536, True, default=0),
    "destage_high": Expected("filled so far, it is emptied whatever else waits", "%", 1, 100, default=75),
    "destage_window": Expected("nearest dirty runs that it chooses from", "1", 1, 1024, True, default=8),
    "destage_idle": Expected("without commands for so long, it is emptied", "ms", 0, 100_000, default=50),
    "fua": Expected("1: takes writes that are to be durable", "1", 0, 1, whole=True, default=0),
    "discard": Expected("1: takes discards (TRIM)", "1", 0, 1, whole=True, default=0),
    "shingle_cache": Expected("of a shingled disk: the persistent cache", "GiB", 0, 4096, default=0),
    "shingle_band": Expected("tracks that can only be written in order", "MiB", 0, 4096, default=0),
    "cleaning_idle": Expected("without commands for so long, bands are cleaned", "ms", 0, 1e6, default=1000),
}

_PAIR: Final = re.compile(r"\s*(\d+)\s+(\d+(?:\.\d+)?)\s*")


def seek_table(text: str) -> list[tuple[int, float]] | None:
    """The points of a measured seek curve: distances in tracks, ascending from 1, and times in ms.

    None if it is anything else.
    """
    matches = [_PAIR.fullmatch(part) for part in text.split(",")]
    points = [(int(match[1]), float(match[2])) for match in matches if match]
    distances = [distance for distance, _ in points]
    good = len(points) == len(matches) and distances[0] == 1 and distances == sorted(set(distances))
    return points if good and points[-1][1] <= 200 else None


def write_settle_ms(parameters: Parameters) -> float:
    """What a write adds to a seek: stated, or the difference of the mean seeks."""
    mean_write = number(parameters, "seek_average_write")
    return (
        mean_write - number(parameters, "seek_average_read")
        if mean_write
        else number(parameters, "write_settle")
    )


def check(parameters: Parameters, require: Require) -> None:
    """The relations between the parameters that the formulas need."""
    table = str(parameters["seek_table"].value)
    if table:
        require(
            seek_table(table) is not None,
            "seek_table",
            "this is not a seek curve",
            'give pairs of tracks and ms, ascending from 1 track: "1 0.8, 10 1.2, 1000 3.5"',
        )
    else:
        _check_curve(parameters, require)
    require(
        number(parameters, "sustained_rate_inner") <= number(parameters, "sustained_rate_outer"),
        "sustained_rate_inner",
        "the inner zone is faster than the outer",
        "tracks are shorter towards the spindle: swap the two",
    )
    mean_write = number(parameters, "seek_average_write")
    require(
        not mean_write
        or (not number(parameters, "write_settle") and mean_write >= number(parameters, "seek_average_read")),
        "seek_average_write",
        "the mean seek of writes does not suit the other values",
        "state either this, not below seek_average_read, or write_settle",
    )
    _check_sectors(parameters, require)
    _check_caches(parameters, require)


def _check_curve(parameters: Parameters, require: Require) -> None:
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


def _check_sectors(parameters: Parameters, require: Require) -> None:
    physical = int(number(parameters, "physical_sector"))
    require(
        physical in (512, _BLOCK_BYTES),
        "physical_sector",
        "physical sectors have 512 or 4096 bytes",
        "state one of them",
    )
    require(
        int(number(parameters, "capacity")) % physical == 0,
        "capacity",
        "the capacity is not a multiple of physical_sector",
        "round it down",
    )
    shingled = number(parameters, "shingle_cache") > 0
    require(
        not shingled or (physical == _BLOCK_BYTES and number(parameters, "shingle_band") > 0),
        "shingle_cache",
        "a shingled disk needs bands, and physical sectors of 4096 bytes",
        "state shingle_band and physical_sector",
    )


def _check_caches(parameters: Parameters, require: Require) -> None:
    require(
        (number(parameters, "read_segments") > 0) == (number(parameters, "read_segment_size") >= 4),
        "read_segments",
        "reading ahead needs both segments and their size, of 4 KiB or more",
        "state read_segments and read_segment_size, or neither",
    )
    require(
        (number(parameters, "write_cache") > 0) == (number(parameters, "write_cache_runs") > 0),
        "write_cache",
        "the write cache needs both a size and a number of runs",
        "state write_cache and write_cache_runs, or neither",
    )
