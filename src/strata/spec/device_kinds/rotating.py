# SPDX-License-Identifier: Apache-2.0
"""A rotating disk: its mechanism, its queue, its caches; optionally shingled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Final

from strata.spec.device_kind import CAPACITY, DeviceKind, ParameterSpec, count, flag, nearest, real, whole
from strata.spec.device_kinds.mechanism import grown_defects, measured_seeks, mechanism, shingle_cache_bytes
from strata.spec.names import Diagnostic
from strata.units import SECTOR_BYTES

if TYPE_CHECKING:
    from strata.spec.device import Device

_SECTOR_BYTES: Final = (512, 4096)


class Rotating(DeviceKind):
    """A disk with one head assembly."""

    name = "rotating"
    title = "Rotating disks"
    introduction = "A disk with one mechanism: seek, rotation, queue, caches; optionally shingled."
    has_write_cache = True
    parameters: ClassVar = {
        "capacity": CAPACITY,
        "rotation_speed": real("rotational speed", "rpm", 1000, 60_000),
        "rotation_tolerance": real(
            "how far the speed of one drive may be off; its platter starts anywhere. 0: exact and in step",
            "%",
            0.0,
            1.0,
            0.1,
        ),
        "seek_average_read": real("mean seek over pairs of random tracks", "ms", 0.01, 100),
        "seek_average_write": real("the same for writes; 0: see write_settle", "ms", 0.0, 100, 0.0),
        "seek_track_to_track": real("seek to the next track", "ms", 0.0, 100),
        "seek_full_stroke": real("seek from the first track to the last", "ms", 0.01, 200),
        "seek_intercept": real("the seek curve's value at distance zero", "ms", 0.0, 100),
        "seek_table": ParameterSpec(
            'a measured curve, which then counts instead of the four values above: "1 0.8, 10 1.2, ..."',
            "tracks ms",
            text=True,
            default="",
        ),
        "sustained_rate_outer": real("sequential rate of the outermost zone", "MB/s", 0.1, 2000),
        "sustained_rate_inner": real("sequential rate of the innermost zone", "MB/s", 0.1, 2000),
        "zone_count": count("zones of equal sectors per track", 1, 64),
        "track_skew": real("angle between the ends of a track and the next", "rev", 0.0, 0.99),
        "command_overhead": real("time to decode a command", "ms", 0.0, 100, key="overhead_ns"),
        "buffer_overhead": real(
            "the same where only the buffer is needed; 0: as long",
            "ms",
            0.0,
            100,
            0.0,
            key="buffer_overhead_ns",
        ),
        "write_settle": real("added to the seek of a write", "ms", 0.0, 100, 0.0),
        "physical_sector": whole(
            "bytes that are written at once; a smaller write takes one more turn",
            "B",
            512,
            4096,
            512,
            key="physical_block_bytes",
        ),
        "grown_defects": count("bad sectors that live elsewhere", 0, 512, 0),
        "link_rate": real(
            "data rate to the host; 0: takes no time", "MB/s", 0, 10_000, 0, key="link_bytes_per_s"
        ),
        "queue_depth": count("commands that the device holds at once", 1, 32),
        "scheduler_window": count("oldest commands among which it picks the nearest", 1, 32),
        "scheduler_wait_limit": real(
            "age from which the oldest command goes first", "ms", 0.0, 100_000, key="wait_limit_ns"
        ),
        "read_segments": count("streams that it reads ahead for; 0: none", 0, 64, 0, key="read_segments"),
        "read_segment_size": real(
            "how far it reads ahead of each", "KiB", 0, 1 << 20, 0, key="read_segment_bytes"
        ),
        "write_cache": real("volatile write cache; 0: none", "MiB", 0, 1 << 20, 0, key="write_cache_bytes"),
        "write_cache_runs": count(
            "runs of dirty sectors that it can hold", 0, 65_536, 0, key="write_cache_extents"
        ),
        "destage_high": real("filled to this part, it is emptied whatever else waits", "%", 1, 100, 75),
        "destage_window": count("nearest dirty runs that it chooses from", 1, 1024, 8, key="destage_window"),
        "destage_idle": real(
            "without commands for this long, it is emptied", "ms", 0, 100_000, 50, key="destage_idle_ns"
        ),
        "fua": flag("1: takes writes that are to be durable", 0),
        "discard": flag("1: takes discards (TRIM)", 0, key="discard"),
        "shingle_cache": real("of a shingled disk: the persistent cache", "GiB", 0, 4096, 0),
        "shingle_band": real(
            "tracks that can only be written in order", "MiB", 0, 4096, 0, key="shingle_band_bytes"
        ),
        "cleaning_idle": real(
            "without commands for this long, bands are cleaned", "ms", 0, 1e6, 1000, key="cleaning_idle_ns"
        ),
    }

    def diagnostics(self, device: Device) -> Iterable[Diagnostic]:
        yield from _seek_diagnostics(device)
        if device.number("sustained_rate_inner") > device.number("sustained_rate_outer"):
            yield Diagnostic(
                "the inner zone is faster than the outer",
                key="sustained_rate_inner",
                remedy="tracks are shorter towards the spindle: swap the two",
            )
        yield from _sector_diagnostics(device)
        if (device.number("read_segments") > 0) != (device.number("read_segment_size") >= 4):
            yield Diagnostic(
                "reading ahead needs both segments and their size, of 4 KiB or more",
                key="read_segments",
                remedy="state read_segments and read_segment_size, or neither",
            )
        if (device.number("write_cache") > 0) != (device.number("write_cache_runs") > 0):
            yield Diagnostic(
                "the write cache needs both a size and a number of runs",
                key="write_cache",
                remedy="state write_cache and write_cache_runs, or neither",
            )

    def driver_lines(self, device: Device, capacity_sectors: int, queue_depth: int) -> list[str]:
        """With the mechanism, and its zones and defects in the used part."""
        disk = mechanism(device)
        ring_bytes = shingle_cache_bytes(device)
        places = capacity_sectors + ring_bytes // SECTOR_BYTES
        volatile = device.number("write_cache") > 0
        cache_bytes = nearest(device.number("write_cache") * (1 << 20))
        zones = (zone for zone in disk.zones if zone.first_sector < places)
        return [
            *super().driver_lines(device, capacity_sectors, queue_depth),
            f"rotation_ns={disk.rotation_ns}",
            f"speed_tolerance_ppm={nearest(device.number('rotation_tolerance') * 10_000)}",
            f"track_skew_ns={disk.track_skew_ns}",
            f"write_settle_ns={disk.write_settle_ns}",
            f"window={min(device.whole('scheduler_window'), queue_depth)}",
            f"tracks={disk.tracks}",
            f"volatile_cache={int(volatile)}",
            f"fua={int(volatile and device.number('fua') > 0)}",
            f"destage_high_bytes={nearest(cache_bytes * device.number('destage_high') / 100)}",
            f"shingle_cache_bytes={ring_bytes}",
            "seek_curve_ns=" + ",".join(map(str, disk.seek_curve_ns)),
            *(f"zone={zone.first_sector},{zone.first_track},{zone.sectors_per_track}" for zone in zones),
            *(f"defect={sector},{spare}" for sector, spare in grown_defects(device, disk, places)),
        ]


def _seek_diagnostics(device: Device) -> Iterable[Diagnostic]:
    intercept, full = device.number("seek_intercept"), device.number("seek_full_stroke")
    mean, mean_write = device.number("seek_average_read"), device.number("seek_average_write")
    # From a straight line, with the mean a + (full-a)/3, to a square root, with the mean a + 8(full-a)/15.
    low, high = intercept + (full - intercept) / 3, intercept + (full - intercept) * 8 / 15
    if table := device.text("seek_table"):
        if measured_seeks(table) is None:
            yield Diagnostic(
                "this is not a seek curve",
                key="seek_table",
                remedy='give pairs of tracks and ms, ascending from 1 track: "1 0.8, 10 1.2, 1000 3.5"',
            )
    else:
        if device.number("seek_track_to_track") > intercept + 1e-9:
            yield Diagnostic(
                "the seek to the next track is longer than the seek curve's intercept",
                key="seek_track_to_track",
                remedy="lower it, or raise seek_intercept",
            )
        if not low < mean < high:
            yield Diagnostic(
                "no seek curve has this intercept, mean and full stroke",
                key="seek_average_read",
                remedy=f"with this intercept and full stroke the mean is between {low:.4g} and {high:.4g} ms",
            )
    if mean_write and (device.number("write_settle") or mean_write < mean):
        yield Diagnostic(
            "the mean seek of writes does not suit the other values",
            key="seek_average_write",
            remedy="state either this, not below seek_average_read, or write_settle",
        )


def _sector_diagnostics(device: Device) -> Iterable[Diagnostic]:
    physical = device.whole("physical_sector")
    if physical not in _SECTOR_BYTES:
        cause = "physical sectors have 512 or 4096 bytes"
        yield Diagnostic(cause, key="physical_sector", remedy="state one of them")
    if device.capacity_bytes % physical:
        cause = "the capacity is not a multiple of physical_sector"
        yield Diagnostic(cause, key="capacity", remedy="round it down")
    if device.number("shingle_cache") and (physical != 4096 or not device.number("shingle_band")):
        yield Diagnostic(
            "a shingled disk needs bands, and physical sectors of 4096 bytes",
            key="shingle_cache",
            remedy="state shingle_band and physical_sector",
        )
