# SPDX-License-Identifier: Apache-2.0
"""A rotating disk: its mechanism, its queue, its caches; optionally shingled."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Final

from strata.devices.kind import DeviceKind, nearest, parameter_table, spread_table
from strata.devices.kinds.mechanism import grown_defects, measured_seeks, mechanism, shingle_cache_bytes
from strata.devices.structure import Structure
from strata.diagnostics.names import Diagnostic
from strata.units import SECTOR_BYTES

if TYPE_CHECKING:
    from strata.devices.device import Device

_BLOCKS_PER_MIB: Final = 256
_FULL_STROKES: Final = (1.89, 2.97)
"""Full stroke over mean seek, both beyond the intercept; a seek curve lies between 15/8 and 3."""


class Rotating(DeviceKind):
    """A disk with one head assembly."""

    name = "rotating"
    title = "Rotating disks"
    introduction = "A disk with one mechanism: seek, rotation, queue, caches; optionally shingled."
    has_write_cache = True
    parameters: ClassVar = parameter_table("""
        capacity              int 2^20..2^60 B  addressable bytes, a multiple of 512
        rotation_speed        1000..60000 rpm   rotational speed
        rotation_tolerance    0..1 % = 0.1      how far the speed of one drive may be off; its platter starts
                                                anywhere. 0: exact and in step
        seek_average_read     0.01..100 ms      mean seek over pairs of random tracks
        seek_average_write    0..100 ms = 0.0   the same for writes; 0: see write_settle
        seek_track_to_track   0..100 ms         seek to the next track
        seek_full_stroke      0.01..200 ms      seek from the first track to the last
        seek_intercept        0..100 ms         the seek curve's value at distance zero
        seek_table            text tracks ms =  a measured curve, which then counts instead of the four values
                                                above: "1 0.8, 10 1.2, ..."
        sustained_rate_outer  0.1..2000 MB/s    sequential rate of the outermost zone
        sustained_rate_inner  0.1..2000 MB/s    sequential rate of the innermost zone
        zone_count            int 1..64         zones of equal sectors per track
        track_skew            0..0.99 rev       angle between the ends of a track and the next
        command_overhead      0..100 ms         time to decode a command [overhead_ns]
        buffer_overhead       0..100 ms = 0.0   the same where only the buffer is needed; 0: as long
                                                [buffer_overhead_ns]
        write_settle          0..100 ms = 0.0   added to the seek of a write
        physical_sector       int 512..4096 B = 512  bytes that are written at once; a smaller write takes one
                                                more turn [physical_block_bytes]
        grown_defects         int 0..512 = 0    bad sectors that live elsewhere
        link_rate             0..1e4 MB/s = 0   data rate to the host; 0: takes no time [link_bytes_per_s]
        queue_depth           int 1..32         commands that the device holds at once
        scheduler_window      int 1..32         oldest commands among which it picks the nearest
        scheduler_wait_limit  0..1e5 ms         age from which the oldest command is overdue: of four that are
                                                served, one is overdue [wait_limit_ns]
        positioning_margin    0..10 ms = 0.0    it leaves out what the head would reach with less time left
                                                [positioning_margin_ns]
        admission_oldest_every  int 1..32 = 1   of as many writes that get room in the full cache, one is the
                                                oldest, the others are the nearest [admission_oldest_every]
        read_segments         int 0..64 = 0     streams that it reads ahead for; 0: none [read_segments]
        read_segment_size     0..2^20 KiB = 0   how far it reads ahead of each [read_segment_bytes]
        write_cache           0..2^20 MiB = 0   volatile write cache; 0: none [write_cache_bytes]
        write_cache_runs      int 0..2^16 = 0   runs of dirty sectors that it can hold [write_cache_extents]
        destage_high          1..100 % = 75     filled to this part, it is emptied whatever else waits
        destage_window        int 1..1024 = 8   nearest dirty runs that it chooses from [destage_window]
        destage_idle          0..1e5 ms = 50    without commands for this long, it is emptied
                                                [destage_idle_ns]
        fua                   int 0..1 = 0      1: takes writes that are to be durable
        discard               int 0..1 = 0      1: takes discards (TRIM) [discard]
        shingle_cache         0..4096 GiB = 0   of a shingled disk: the persistent cache
        shingle_band          0..4096 MiB = 0   tracks that can only be written in order [shingle_band_bytes]
        cleaning_idle         0..1e6 ms = 1000  without commands for this long, bands are cleaned
                                                [cleaning_idle_ns]
    """)
    spreads: ClassVar = spread_table("""
        capacity  fixed  it is the model's
        rotation_speed, rotation_tolerance  fixed  speeds are standard; the tolerance is a range itself
        seek_average_read, seek_average_write  0.95..1.2  data sheets round down: drives were measured up to
                                                1.24 times theirs
        seek_track_to_track  0.5..1.5  stated figures of one class differ threefold
        seek_full_stroke  0.9..1.15  1.9 to 2.2 times the mean on drives that state both
        seek_intercept  0.75..1.3  fits to measured drives: 2 to 2.5 ms desktop, 1.5 to 2 ms nearline
        sustained_rate_outer  0.95..1.05  the outermost zone differs by drive, and tools measure near it
        sustained_rate_inner  0.91..1.1  outer over inner is 1.9 to 2.3
        zone_count  0.7..1.8  drives have 16 to 30, some fewer
        track_skew  0.5..1.6  1/16 to 1/5 revolution
        command_overhead  0.5..2  0.1 to 0.4 ms; not published
        buffer_overhead  0.6..2  30 to 100 us: sequential 4-KiB requests reach 40 to 100 MB/s
        write_settle  0.4..2  write seeks are 0.4 to 2 ms longer
        physical_sector, grown_defects  fixed  a sector is the model's; defects belong to one drive
        link_rate, queue_depth  fixed  the interface's standard
        scheduler_window  0.6..2  drives may choose among all commands that they hold
        scheduler_wait_limit  0.5..2  the longest waits of real drives: 0.8 to 2.9 s
        positioning_margin  0.4..2  real drives gain 1.4 to 1.8 times from 32 commands, ideal ones 2.2 times
        admission_oldest_every  0.5..4  from the order of arrival to waits that real drives show [write_cache]
        read_segments, read_segment_size  0.5..2  drives have 8 to 32 segments of 1 to 2 MiB, the largest more
        write_cache  0.5..1.5  firmware divides its buffer: a quarter to three quarters for writes
        write_cache_runs  0.25..4  not published
        destage_high  0.67..1.2  half to nine tenths; not published [write_cache]
        destage_window  0.5..4  from half of what the queue seems to see to the whole queue [write_cache]
        destage_idle  0.2..4  10 to 200 ms; not published [write_cache]
        fua, discard  fixed  the model has it or not
        shingle_cache  0.5..2  tens of GiB; not published
        shingle_band  0.5..1.6  15 to 40 MB (Aghayev and Desnoyers, 2015)
        cleaning_idle  0.25..4  not published [shingle_cache]
    """)

    together: ClassVar = {
        "seek_average_write": "seek_average_read",
        "seek_full_stroke": "seek_average_read",
    }

    def diagnostics(self, device: Device) -> Iterable[Diagnostic]:
        yield from _seek_diagnostics(device)
        if device.number("sustained_rate_inner") > device.number("sustained_rate_outer"):
            remedy = "tracks are shorter towards the spindle: swap the two"
            yield Diagnostic(
                "the inner zone is faster than the outer", key="sustained_rate_inner", remedy=remedy
            )
        yield from _sector_diagnostics(device)
        if (device.number("read_segments") > 0) != (device.number("read_segment_size") >= 4):
            cause = "reading ahead needs both segments and their size, of 4 KiB or more"
            remedy = "state read_segments and read_segment_size, or neither"
            yield Diagnostic(cause, key="read_segments", remedy=remedy)
        if (device.number("write_cache") > 0) != (device.number("write_cache_runs") > 0):
            cause = "the write cache needs both a size and a number of runs"
            remedy = "state write_cache and write_cache_runs, or neither"
            yield Diagnostic(cause, key="write_cache", remedy=remedy)

    def structures(self, device: Device) -> Iterable[Structure]:
        if cache_bytes := shingle_cache_bytes(device):
            why = "its bands are cleaned in idle time, and the writes do not wait for it"
            yield Structure(
                "media cache of a shingled disk", cache_bytes, why, is_log=True, counter="cleanings"
            )

    def reconciled(self, values: dict[str, float]) -> dict[str, float]:
        """A seek curve has the mean, and writes take no less. Bands are whole blocks.

        The seek to the next track is no longer than the intercept.
        """
        mean, intercept = values["seek_average_read"], values["seek_intercept"]
        least, most = (intercept + (mean - intercept) * factor for factor in _FULL_STROKES)
        write = values["seek_average_write"]
        return values | {
            "seek_full_stroke": min(max(values["seek_full_stroke"], least), most),
            "seek_average_write": max(write, mean) if write else write,
            "seek_track_to_track": min(values["seek_track_to_track"], intercept),
            "shingle_band": nearest(values["shingle_band"] * _BLOCKS_PER_MIB) / _BLOCKS_PER_MIB,
        }

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
            remedy = 'give pairs of tracks and ms, ascending from 1 track: "1 0.8, 10 1.2, 1000 3.5"'
            yield Diagnostic("this is not a seek curve", key="seek_table", remedy=remedy)
    else:
        if device.number("seek_track_to_track") > intercept + 1e-9:
            cause = "the seek to the next track is longer than the seek curve's intercept"
            yield Diagnostic(cause, key="seek_track_to_track", remedy="lower it, or raise seek_intercept")
        if not low < mean < high:
            cause = "no seek curve has this intercept, mean and full stroke"
            remedy = f"with this intercept and full stroke the mean is between {low:.4g} and {high:.4g} ms"
            yield Diagnostic(cause, key="seek_average_read", remedy=remedy)
    if mean_write and (device.number("write_settle") or mean_write < mean):
        cause = "the mean seek of writes does not suit the other values"
        remedy = "state either this, not below seek_average_read, or write_settle"
        yield Diagnostic(cause, key="seek_average_write", remedy=remedy)


def _sector_diagnostics(device: Device) -> Iterable[Diagnostic]:
    physical = device.whole("physical_sector")
    if physical not in (512, 4096):
        cause = "physical sectors have 512 or 4096 bytes"
        yield Diagnostic(cause, key="physical_sector", remedy="state one of them")
    if device.capacity_bytes % physical:
        cause = "the capacity is not a multiple of physical_sector"
        yield Diagnostic(cause, key="capacity", remedy="round it down")
    if device.number("shingle_cache") and (physical != 4096 or not device.number("shingle_band")):
        cause = "a shingled disk needs bands, and physical sectors of 4096 bytes"
        yield Diagnostic(cause, key="shingle_cache", remedy="state shingle_band and physical_sector")
