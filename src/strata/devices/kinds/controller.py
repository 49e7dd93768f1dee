# SPDX-License-Identifier: Apache-2.0
"""A RAID controller with a battery-backed write cache in front of member disks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar, Final

from strata.devices.kind import DeviceKind, Parameter, parameter_table, spread_table
from strata.diagnostics.names import Diagnostic
from strata.units import SECTOR_BYTES

if TYPE_CHECKING:
    from strata.devices.device import Device

_MEMBERS_MIN: Final = {"single": 1, "raid0": 1, "raid10": 2, "raid5": 3, "raid6": 4}


class Controller(DeviceKind):
    """A controller in front of disks that are all alike."""

    name = "controller"
    title = "Controllers with a battery-backed cache"
    introduction = (
        "A battery-backed write cache in front of member disks. `member` names another device, as a study "
        "does; `capacity` follows from level and members."
    )
    # The largest link_rate is the driver's: 2^34 bytes/s.
    parameters: ClassVar = parameter_table("""
        capacity          int 0..2^60 B = 0  addressable bytes; by default what the members give
        member            text              device file of each member disk
        members           int 1..32         member disks [members]
        level             single|raid0|raid10|raid5|raid6  how data lie on the members
        stripe_size       int 4..2^16 KiB   data of one member in a row (strip, chunk) [stripe_bytes]
        cache_size        0..2^20 MiB       write cache that the battery keeps [cache_bytes]
        battery           int 0..1 = 1      whether the battery is good; 0: writes go through [battery]
        command_overhead  0..1e6 us         time of a command in the controller, overlapping [overhead_ns]
        command_interval  0..1e6 us         least time between two commands' starts [interval_ns]
        link_rate         0..17000 MB/s     host to controller; 0: takes no time [link_bytes_per_s]
        high_water        int 1..100 %      dirty part of the cache at which destaging starts [high_percent]
        low_water         int 0..100 %      dirty part of the cache at which it stops [low_percent]
        destage_depth     int 1..64         destages at once, for each member [destage_depth]
        destage_size      int 4..2^20 KiB   largest destage, for each member [destage_bytes]
        idle_time         0..1e6 ms         pause of the host after which all is destaged [idle_ns]
        queue_depth       int 1..1024       commands that the device holds at once
    """)

    spreads: ClassVar = spread_table("""
        capacity, members, stripe_size, cache_size, battery  fixed  the configuration; members vary as drives
        command_overhead  0.7..1.45  acknowledged writes take 50 to 100 us
        command_interval  0.5..2  40 000 to 160 000 commands/s
        link_rate  0.75..1.6  PCIe 2.0 x8 has 4000 MB/s, less what the memory allows
        high_water  0.8..1.12  from two thirds full to nearly full
        low_water  0.6..1.2  a third to six tenths
        destage_depth  0.5..2  2 to 8 of a member's queue
        destage_size  0.25..2  from a few strips to two tracks
        idle_time  0.2..10  10 to 500 ms; not published
        queue_depth  fixed  more than the members can serve
    """)

    def diagnostics(self, device: Device) -> Iterable[Diagnostic]:
        level, members = device.text("level"), device.whole("members")
        if members < _MEMBERS_MIN[level]:
            cause = f"{level} needs at least {_MEMBERS_MIN[level]} members"
            yield Diagnostic(cause, key="members", remedy="add some, or choose another level")
        elif level == "raid10" and members % 2:
            cause = "raid10 needs an even number of members"
            yield Diagnostic(cause, key="members", remedy="they are pairs of mirrors")
        elif device.member is not None and device.capacity_bytes not in (0, array_bytes(device)):
            cause = (
                f"the capacity is {device.capacity_bytes} bytes, but the members hold {array_bytes(device)}"
            )
            remedy = "leave it out: it follows from level, members, stripe_size and the member's capacity"
            yield Diagnostic(cause, key="capacity", remedy=remedy)
        if device.number("low_water") > device.number("high_water"):
            remedy = "destaging goes from high_water down to low_water"
            yield Diagnostic("the low water mark is above the high one", key="low_water", remedy=remedy)

    def reconciled(self, values: dict[str, float]) -> dict[str, float]:
        return values | {"low_water": min(values["low_water"], values["high_water"])}

    def completed(self, device: Device) -> Device:
        assert device.member is not None, "a controller's file names its member"
        source = f"derived: {device.text('level')} over {device.whole('members')} x {device.text('member')}"
        estimate = device.member.parameters["capacity"].estimate
        capacity = Parameter(value=array_bytes(device), unit="B", source=source, estimate=estimate)
        return replace(device, parameters={**device.parameters, "capacity": capacity})

    def driver_lines(self, device: Device, capacity_sectors: int, queue_depth: int) -> list[str]:
        """The controller's own, and the member's with a prefix."""
        member = device.member
        assert member is not None, "a controller's file names its member"
        sectors = member.capacity_bytes // SECTOR_BYTES
        lines = [
            "name=member",
            f"capacity_sectors={sectors}",
            "backing_fd=0",
            f"model={member.kind}",
            f"queue_depth={member.queue_depth}",
            *member.model.member_lines(member.model.driver_lines(member, sectors, member.queue_depth)),
        ]
        return [
            *(line for line in lines if line.startswith("physical_block_bytes=")),
            *super().driver_lines(device, capacity_sectors, queue_depth),
            f"level={device.text('level')}",
            *(f"member.{line}" for line in lines),
        ]


def array_bytes(device: Device) -> int:
    """The capacity of all members: whole strips of each, less mirrors and parity."""
    assert device.member is not None, "a controller's file names its member"
    members, stripe_bytes = device.whole("members"), device.whole("stripe_size") * 1024
    without = {"raid10": members // 2, "raid5": 1, "raid6": 2}.get(device.text("level"), 0)
    return device.member.capacity_bytes // stripe_bytes * stripe_bytes * (members - without)
