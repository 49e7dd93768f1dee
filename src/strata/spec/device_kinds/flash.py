# SPDX-License-Identifier: Apache-2.0
"""A flash drive: SATA, NVMe, or 3D XPoint, which needs neither map nor cleaning."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise, product
from typing import TYPE_CHECKING, ClassVar, Final

from strata.spec.device_kind import (
    CAPACITY,
    QUEUE_DEPTH,
    DeviceKind,
    Parameter,
    ParameterSpec,
    count,
    flag,
    nearest,
    real,
)
from strata.spec.names import Diagnostic
from strata.units import NS_PER_US

if TYPE_CHECKING:
    from strata.spec.device import Device

PAGE_TYPES: Final = ("lower", "middle", "upper", "top")
"""The pages of a word line, by their bit of each cell: SLC has one, QLC four."""

PRECONDITIONS: Final = {"none": 0, "steady": 1, "filled": 2}
"""The states in which a study can start a drive."""

_US: Final = 1e6


def _times(what: str) -> dict[str, ParameterSpec]:
    times = {f"page_{what}_time_lower": real(f"time to {what} a lower page", "us", 0.001, _US)}
    for kind in PAGE_TYPES[1:]:
        meaning = f"time to {what} {'an' if kind == 'upper' else 'a'} {kind} page; 0: none"
        times[f"page_{what}_time_{kind}"] = real(meaning, "us", 0, _US, 0)
    return times


class Flash(DeviceKind):
    """A drive of flash or 3D XPoint."""

    name = "flash"
    title = "Flash drives"
    introduction = "Dies behind channels behind a link, a write buffer, a map and its cleaning."
    has_write_cache = True
    parameters: ClassVar = {
        "capacity": CAPACITY,
        "over_provisioning": real(
            "cells above the capacity, as a part of it", "%", 0.1, 1000, key="spare_ppm"
        ),
        "dies": count("dies that work at the same time, planes taken as one", 1, 512, key="dies"),
        "channels": count("channels between the dies and the controller", 1, 64, key="channels"),
        "page_size": real("what a die reads or programs at once", "KiB", 0.5, 1024, key="page_bytes"),
        "mapping_unit": real("unit of the map", "KiB", 0.5, 64, 4, key="mapping_unit_bytes"),
        "pages_per_block": count("pages that a die erases at once", 1, 65_536, key="pages_per_block"),
        **_times("read"),
        **_times("program"),
        "erase_time": real("time to erase a block", "ms", 0, 1000, key="erase_ns"),
        "program_suspend_time": real(
            "until a read interrupts a program; 0: never", "us", 0, _US, 0, key="program_suspend_ns"
        ),
        "erase_suspend_time": real(
            "until a read interrupts an erase; 0: never", "us", 0, _US, 0, key="erase_suspend_ns"
        ),
        "link_rate": real("data rate to the host", "MB/s", 1, 100_000, key="link_bytes_per_s"),
        "link_rate_write": real(
            "the same from the host; 0: equal", "MB/s", 0, 100_000, 0, key="link_write_bytes_per_s"
        ),
        "link_duplex": flag("1: both directions at once (PCIe)", 0, key="link_duplex"),
        "channel_rate": real(
            "data rate of a channel; 0: never the limit", "MB/s", 0, 100_000, 0, key="channel_bytes_per_s"
        ),
        "command_time": real("time of the link that a command takes", "us", 0, 10_000, key="command_ns"),
        "interface_latency_read": real(
            "firmware and interface, of a read", "us", 0, 10_000, key="interface_read_ns"
        ),
        "interface_latency_write": real(
            "firmware and interface, of other commands", "us", 0, 10_000, key="interface_write_ns"
        ),
        "write_buffer": real(
            "data that are complete before they are programmed", "MiB", 0.01, 65_536, key="buffer_bytes"
        ),
        "power_loss_protection": flag("1: nothing acknowledged is lost"),
        "flush_time": real("what a flush takes besides the programs", "us", 0, _US, key="flush_ns"),
        "flush_queued": flag("0: waits for all, and all wait (SATA)", 0, key="flush_queued"),
        "fua": flag("1: takes writes that are to be durable", 0),
        "discard": flag("1: takes discards (TRIM)", 1, key="discard"),
        "slc_cache": real(
            "data that is programmed fast before it is folded", "GiB", 0, 4096, 0, key="slc_bytes"
        ),
        "slc_program_time": real("time to program a page of it", "us", 0, _US, 0, key="slc_program_ns"),
        "slc_idle_time": real("idleness after which it is folded", "ms", 0, _US, 0, key="slc_idle_ns"),
        "in_place": flag("1: overwrites in place (3D XPoint)", 0, key="in_place"),
        "precondition": count("at the start: 0 empty, 1 steady, 2 filled", 0, 2, 0, key="precondition"),
        "hardware_queues": count(
            "submission queues; more than one: no I/O scheduler (the lab has one CPU)",
            1,
            128,
            1,
            key="hardware_queues",
        ),
        "queue_depth": QUEUE_DEPTH,
    }

    def diagnostics(self, device: Device) -> Iterable[Diagnostic]:
        """The relations between parameters that the driver needs."""
        page, unit = device.number("page_size") * 1024, device.number("mapping_unit") * 1024
        for name, size in (("page_size", page), ("mapping_unit", unit)):
            if size != int(size) or int(size) & (int(size) - 1):
                yield Diagnostic(
                    "this is not a power of two of bytes",
                    key=name,
                    remedy="take 4 KiB, 16 KiB and so on; count the pages of several planes as one",
                )
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
    """The parameter for a study's choice of `PRECONDITIONS`."""
    return Parameter(value=PRECONDITIONS[state], unit="1", source="the study", estimate=False)


def _times_ns(device: Device, what: str) -> list[int]:
    """The times to ``read`` or ``program`` each type of page that the drive has."""
    times = (device.number(f"page_{what}_time_{kind}") for kind in PAGE_TYPES)
    return [max(1, nearest(time * NS_PER_US)) for time in times if time]
