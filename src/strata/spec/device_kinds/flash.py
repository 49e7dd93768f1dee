# SPDX-License-Identifier: Apache-2.0
"""A flash drive: SATA, NVMe, or 3D XPoint, which needs neither map nor cleaning."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise, product
from typing import TYPE_CHECKING, ClassVar, Final

from strata.spec.device_kind import DeviceKind, Parameter, nearest, parameter_table
from strata.spec.names import Diagnostic
from strata.units import NS_PER_US

if TYPE_CHECKING:
    from strata.spec.device import Device

PAGE_TYPES: Final = ("lower", "middle", "upper", "top")
"""The pages of a word line, by their bit of each cell: SLC has one, QLC four."""

PRECONDITIONS: Final = {"none": 0, "steady": 1, "filled": 2}
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
        precondition              int 0..2 = 0      at the start: 0 empty, 1 steady, 2 filled [precondition]
        hardware_queues           int 1..128 = 1    submission queues; more than one: no I/O scheduler (the
                                                    lab has one CPU) [hardware_queues]
        queue_depth               int 1..1024       commands that the device holds at once
    """)

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
    return Parameter(value=PRECONDITIONS[state], unit="1", source="the study", estimate=False)


def _times_ns(device: Device, what: str) -> list[int]:
    times = (device.number(f"page_{what}_time_{kind}") for kind in PAGE_TYPES)
    return [max(1, nearest(time * NS_PER_US)) for time in times if time]
