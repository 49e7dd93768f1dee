# SPDX-License-Identifier: Apache-2.0
"""From a controller's parameters to the integers of ``kernel/disk/controller.c``."""

from __future__ import annotations

from typing import Final

from strata.lab.models import flash, network, rotating
from strata.lab.models.integers import nearest
from strata.spec.device import Device
from strata.units import NS_PER_MS, NS_PER_US, SECTOR_BYTES

_BYTES_PER_MB: Final = 1_000_000
_MEMBER_LINES: Final = {
    "rotating": rotating.driver_lines,
    "flash": flash.driver_lines,
    "network": network.driver_lines,
}


def driver_lines(device: Device, capacity_sectors: int, queue_depth: int) -> list[str]:
    """The driver's keys of a controller of which the first ``capacity_sectors`` are used."""
    member = _member_lines(device)
    return [
        *(line for line in member if line.startswith("physical_block_bytes=")),
        f"level={device.parameters['level'].value}",
        f"members={int(device.number('members'))}",
        f"stripe_bytes={int(device.number('stripe_size')) * 1024}",
        f"cache_bytes={nearest(device.number('cache_size') * (1 << 20))}",
        f"battery={int(device.number('battery'))}",
        f"overhead_ns={nearest(device.number('command_overhead') * NS_PER_US)}",
        f"interval_ns={nearest(device.number('command_interval') * NS_PER_US)}",
        f"link_bytes_per_s={nearest(device.number('link_rate') * _BYTES_PER_MB)}",
        f"high_percent={int(device.number('high_water'))}",
        f"low_percent={int(device.number('low_water'))}",
        f"destage_depth={int(device.number('destage_depth'))}",
        f"destage_bytes={int(device.number('destage_size')) * 1024}",
        f"idle_ns={nearest(device.number('idle_time') * NS_PER_MS)}",
        *(f"member.{line}" for line in member),
    ]


def _member_lines(device: Device) -> list[str]:
    member = device.member
    assert member is not None, "a controller's file names its member"
    sectors = member.capacity_bytes // SECTOR_BYTES
    lines = [
        "name=member",
        f"capacity_sectors={sectors}",
        "backing_fd=0",
        f"model={member.kind}",
        f"queue_depth={member.queue_depth}",
    ]
    if member.kind != "null":
        lines += _MEMBER_LINES[member.kind](member, sectors, member.queue_depth)
    return [line for line in lines if not line.startswith(("volatile_cache=", "fua="))] + _safe(member, lines)


def _safe(member: Device, lines: list[str]) -> list[str]:
    """What keeps a member's own cache out of it: a disk's is off, a flash drive's is passed by with FUA."""
    if member.kind == "flash" and "volatile_cache=1" in lines:
        return ["volatile_cache=1", "fua=1"]
    return []
