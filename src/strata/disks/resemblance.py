# SPDX-License-Identifier: Apache-2.0
"""The modelled drives that a machine's disks resemble most: of the same kind, and the nearest in capacity."""

from __future__ import annotations

from typing import Final

from strata.devices.device import Device, find_device
from strata.disks.inventory import Disk, disks
from strata.disks.judgement import of_kind
from strata.disks.machine import Machine

_ROTATING: Final = (
    "generic-laptop-hdd",
    "generic-desktop-hdd",
    "generic-nearline-hdd-4tb",
    "generic-nearline-hdd",
)
_NVME: Final = ("generic-nvme-consumer", "generic-nvme-data-centre")
_SOLID: Final = ("generic-sata-ssd",)


def resembling(machine: Machine) -> list[tuple[Disk, Device]]:
    """Each fixed disk of a machine, with the generic drive that resembles it."""
    fixed = (
        disk
        for disk in disks(machine)
        if disk.size_bytes and disk.transport != "loop" and not disk.removable and not [*of_kind(disk)]
    )
    return [(disk, _nearest(disk)) for disk in fixed]


def _nearest(disk: Disk) -> Device:
    names = _ROTATING if disk.rotational else _NVME if disk.transport.startswith("nvme") else _SOLID
    return min(map(find_device, names), key=lambda each: _ratio(each.capacity_bytes, disk.size_bytes))


def _ratio(one: int, other: int) -> float:
    return max(one, other) / min(one, other)
