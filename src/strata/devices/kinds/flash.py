# SPDX-License-Identifier: Apache-2.0
"""A flash drive: SATA, NVMe, or 3D XPoint, which needs neither map nor cleaning."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise, product
from typing import TYPE_CHECKING, ClassVar, Final

from strata.devices.kind import ASKED, DeviceKind, Parameter, nearest, parameter_table, spread_table
from strata.diagnostics.names import Diagnostic
from strata.units import NS_PER_S, NS_PER_US

if TYPE_CHECKING:
    from strata.devices.device import Device

PAGE_TYPES: Final = ("lower", "middle", "upper", "top")
"""The pages of a word line, by their bit of each cell: SLC has one, QLC four."""

_DAY_NS: Final = 86_400 * NS_PER_S
PRECONDITIONS: Final = {"fresh": 0, "steady": 1, "filled": 2, "used": 3}
READ_ALIKE: Final = (PRECONDITIONS["steady"], PRECONDITIONS["filled"])
"""The states in which every unit was written."""
"""The states in which a study can start a drive."""


class Flash(DeviceKind):
    """A drive of flash or 3D XPoint."""

    name = "flash"
    title = "Flash drives"
    introduction = "Dies behind channels behind a link, a write buffer, a map and its cleaning."
    has_write_cache = True
    parameters: ClassVar = parameter_table("""
        capacity                  int 2^20..2^60 B  addressable bytes, a multiple of 512
        over_provisioning         0.1..1000 %       cells above the capacity, as a part of it [spare_ppm]
        dies                      int 1..512        dies that work at the same time, planes taken as one
                                                    [dies]
        channels                  int 1..64         channels between the dies and the controller [channels]
        page_size                 0.5..1024 KiB     what a die reads or programs at once [page_bytes]
        mapping_unit              0.5..64 KiB = 4   unit of the map [mapping_unit_bytes]
        pages_per_block           int 1..2^16       pages that a die erases at once [pages_per_block]
        page_read_time_lower      0.001..1e6 us     time to read a lower page
        page_read_time_middle     0..1e6 us = 0     time to read a middle page; 0: none
        page_read_time_upper      0..1e6 us = 0     time to read an upper page; 0: none
        page_read_time_top        0..1e6 us = 0     time to read a top page; 0: none
        page_program_time_lower   0.001..1e6 us     time to program a lower page
        page_program_time_middle  0..1e6 us = 0     time to program a middle page; 0: none
        page_program_time_upper   0..1e6 us = 0     time to program an upper page; 0: none
        page_program_time_top     0..1e6 us = 0     time to program a top page; 0: none
        erase_time                0..1000 ms        time to erase a block [erase_ns]
        read_spread               0..100 % = 0      by how much a page's reading time differs from its
                                                    type's, at most [read_spread_ppm]
        read_retry_share          0..100 % = 0      part of the page reads that fail at first and are repeated
                                                    [read_retry_ppm]
        read_retry_time           0..1e5 us = 0     time of one repetition [read_retry_ns]
        read_retry_again          0..100 % = 25     part of the repetitions that fail, too
                                                    [read_retry_again_ppm]
        refresh_period            0..1e4 days = 0   time in which the drive rewrites all its cells, against
                                                    loss of charge and for even wear; 0: never
        housekeeping_interval     0..1e6 ms = 0     mean time between pauses of the firmware; 0: none
                                                    [housekeeping_interval_ns]
        housekeeping_time         0..1e5 ms = 0     length of such a pause [housekeeping_ns]
        cleaning_burst            0..2^20 KiB = 0   data of the host for which it cleans at once; 0: for each
                                                    page [cleaning_burst_bytes]
        program_suspend_time      0..1e6 us = 0     until a read interrupts a program; 0: never
                                                    [program_suspend_ns]
        erase_suspend_time        0..1e6 us = 0     until a read interrupts an erase; 0: never
                                                    [erase_suspend_ns]
        link_rate                 1..1e5 MB/s       data rate to the host [link_bytes_per_s]
        link_rate_write           0..1e5 MB/s = 0   the same from the host; 0: equal [link_write_bytes_per_s]
        link_duplex               int 0..1 = 0      1: both directions at once (PCIe) [link_duplex]
        channel_rate              0..1e5 MB/s = 0   data rate of a channel; 0: never the limit
                                                    [channel_bytes_per_s]
        command_time              0..1e4 us         time of the link that a command takes [command_ns]
        interface_latency_read    0..1e4 us         firmware and interface, of a read [interface_read_ns]
        interface_latency_write   0..1e4 us         firmware and interface, of other commands
                                                    [interface_write_ns]
        write_buffer              0.01..2^16 MiB    data that are complete before they are programmed
                                                    [buffer_bytes]
        power_loss_protection     int 0..1          1: nothing acknowledged is lost
        flush_time                0..1e6 us         what a flush takes besides the programs [flush_ns]
        flush_queued              int 0..1 = 0      0: waits for all, and all wait (SATA) [flush_queued]
        fua                       int 0..1 = 0      1: takes writes that are to be durable
        discard                   int 0..1 = 1      1: takes discards (TRIM) [discard]
        slc_cache                 0..4096 GiB = 0   data that is programmed fast before it is folded
                                                    [slc_bytes]
        slc_program_time          0..1e6 us = 0     time to program a page of it [slc_program_ns]
        slc_idle_time             0..1e6 ms = 0     idleness after which it is folded [slc_idle_ns]
        in_place                  int 0..1 = 0      1: overwrites in place (3D XPoint) [in_place]
        precondition              int 0..3 = 3      at the start: 0 fresh, 1 steady, 2 filled, 3 used
                                                    [precondition]
        used_filled               0..100 % = 75     part of the capacity that a used drive takes for data
                                                    [used_filled_ppm]
        used_scattered            0..100 % = 50     part of these data that was overwritten at random
                                                    [used_scattered_ppm]
        used_collected            0..100 % = 50     part of the remaining cells that a pause has made free
                                                    [used_collected_ppm]
        hardware_queues           int 1..128 = 1    submission queues; more than one: no I/O scheduler (the
                                                    lab has one CPU) [hardware_queues]
        queue_depth               int 1..1024       commands that the device holds at once
    """)

    spreads: ClassVar = spread_table("""
        capacity, in_place, precondition  fixed  the model's, or the study's choice
        dies, channels, page_size  fixed  powers of two that follow from the capacity; the times of a die vary
        mapping_unit, pages_per_block  fixed  they hardly change a rate
        over_provisioning  0.85..1.2  a published steady rate leaves 15 %, and it is nearly proportional
        page_read_time_lower, page_read_time_middle  0.88..1.14  NAND of one generation differs by 15 %
        page_read_time_upper, page_read_time_top  0.88..1.14  NAND of one generation differs by 15 %
        page_program_time_lower, page_program_time_middle  0.88..1.14  NAND of one generation differs by 15 %
        page_program_time_upper, page_program_time_top  0.88..1.14  NAND of one generation differs by 15 %
        erase_time  0.5..2.6  MQSim has 3.8 ms, FEMU 3 ms, data sheets up to 10 ms
        read_spread  0.3..2  layers of a word line's stack differ by a few per cent
        read_retry_share  0.2..5  from new cells to cells near the end of their life
        read_retry_time  0.5..2  a second sensing, without or with soft decoding
        read_retry_again  0.4..2  depends on the age of the data
        refresh_period  0.2..6  from a week to the half year for which unpowered cells keep their charge
        housekeeping_interval  0.3..4  not published
        housekeeping_time  0.3..3  not published
        cleaning_burst  0.25..8  a page or several of every plane of every die
        program_suspend_time  0.2..2  ublk-disksim has 20 us, MQSim 100 us
        erase_suspend_time  0.1..1.5  ublk-disksim has 20 us, MQSim 700 us
        link_rate, link_rate_write  0.96..1.03  sequential rates of reviews differ by some per cent
        channel_rate  0.75..1.5  ONFI's grades: 400 to 1600 MB/s
        command_time  0.85..1.2  what rates at full depth leave
        interface_latency_read, interface_latency_write  0.8..1.25  a published latency leaves 10 %, shared
                                                with the cells
        write_buffer  0.25..2  not published: a part of the DRAM, or SRAM of the controller
        flush_time  0.8..1.3  rates of fsync differ by this between firmwares of one model
        slc_cache  0.8..1.25  depends on the free space
        slc_program_time  0.7..1.4  a third to a fifth of a TLC page's
        slc_idle_time  0.2..5  not published
        used_filled  0.67..1.25  50 to 94 %: from an ample drive to one that is nearly full
        used_scattered  0.5..1.5  25 to 75 %: from files to databases and images
        used_collected  0.2..1.8  10 to 90 %: firmware collects little in a pause, or nearly everything
        power_loss_protection, flush_queued, fua, discard, link_duplex  fixed  the model has it or not
        hardware_queues, queue_depth  fixed  the interface's
    """)

    together: ClassVar = {
        **{f"page_read_time_{kind}": "page_read_time_lower" for kind in PAGE_TYPES},
        **{f"page_program_time_{kind}": "page_program_time_lower" for kind in PAGE_TYPES},
        "read_retry_time": "page_read_time_lower",
        "interface_latency_write": "interface_latency_read",
    }

    def diagnostics(self, device: Device) -> Iterable[Diagnostic]:
        page, unit = device.number("page_size") * 1024, device.number("mapping_unit") * 1024
        for name, size in (("page_size", page), ("mapping_unit", unit)):
            if size != int(size) or int(size) & (int(size) - 1):
                remedy = "take 4 KiB, 16 KiB and so on; count the pages of several planes as one"
                yield Diagnostic("this is not a power of two of bytes", key=name, remedy=remedy)
        if not unit <= page <= 64 * unit:
            cause = "a page does not hold 1 to 64 mapping units"
            yield Diagnostic(cause, key="page_size", remedy="change page_size or mapping_unit")
        yield from _page_time_diagnostics(device)
        if device.number("channels") > device.number("dies"):
            cause = "there are more channels than dies"
            yield Diagnostic(cause, key="channels", remedy="a die is on one channel")
        if device.number("write_buffer") * (1 << 20) < 2 * page:
            cause = "the buffer holds less than two pages"
            yield Diagnostic(cause, key="write_buffer", remedy="raise it, or lower page_size")
        if device.number("slc_cache") and not device.number("slc_program_time"):
            cause = "an SLC cache needs the time to program its pages"
            yield Diagnostic(cause, key="slc_program_time", remedy="state it, or leave slc_cache out")
        if device.number("housekeeping_time") > device.number("housekeeping_interval") / 2:
            cause = "the pauses take more than half of the time"
            yield Diagnostic(
                cause, key="housekeeping_time", remedy="lower it, or raise housekeeping_interval"
            )
        if device.number("in_place") and page != unit:
            cause = "pages that are overwritten in place must be mapping units"
            yield Diagnostic(cause, key="in_place", remedy="set page_size to mapping_unit")

    def driver_lines(self, device: Device, capacity_sectors: int, queue_depth: int) -> list[str]:
        """With power-loss protection nothing is volatile, so the block layer sends neither flushes nor FUA.

        A unit of the map is never torn: it is in its old place or in its new one.
        """
        volatile = not device.number("power_loss_protection")
        return [
            *super().driver_lines(device, capacity_sectors, queue_depth),
            *(f"{what}_ns=" + ",".join(map(str, _times_ns(device, what))) for what in ("read", "program")),
            f"refresh_page_ns={_refresh_page_ns(device)}",
            f"volatile_cache={int(volatile)}",
            f"fua={int(volatile and device.number('fua') > 0)}",
            f"atomic_unit_bytes={nearest(device.number('mapping_unit') * 1024)}",
        ]

    def member_lines(self, lines: list[str]) -> list[str]:
        """A controller bypasses the cache of a flash drive with FUA."""
        fua = ["volatile_cache=1", "fua=1"] if "volatile_cache=1" in lines else []
        return super().member_lines(lines) + fua


def _page_time_diagnostics(device: Device) -> Iterable[Diagnostic]:
    for what, (before, kind) in product(("read", "program"), pairwise(PAGE_TYPES)):
        key, needed = (f"page_{what}_time_{each}" for each in (kind, before))
        if device.number(key) and not device.number(needed):
            yield Diagnostic(f"there is no {before} page", key=key, remedy=f"state {needed}, too")


def precondition(state: str) -> Parameter:
    return Parameter(value=PRECONDITIONS[state], unit="1", source=ASKED, estimate=False)


def _refresh_page_ns(device: Device) -> int:
    """The time from the refresh of a page to that of the next one; 0 if nothing is refreshed."""
    cells_bytes = device.capacity_bytes * (1 + device.number("over_provisioning") / 100)
    period_ns = device.number("refresh_period") * _DAY_NS
    return nearest(period_ns / cells_bytes * device.number("page_size") * 1024)


def _times_ns(device: Device, what: str) -> list[int]:
    times = (device.number(f"page_{what}_time_{kind}") for kind in PAGE_TYPES)
    return [max(1, nearest(time * NS_PER_US)) for time in times if time]
