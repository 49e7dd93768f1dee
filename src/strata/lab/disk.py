# SPDX-License-Identifier: Apache-2.0
"""The text that describes a modelled disk to the driver in ``kernel/disk``."""

from __future__ import annotations

import re
from typing import Final

from strata.errors import LabError
from strata.spec.device import Device
from strata.units import SECTOR_BYTES

_DISK_NAME: Final = re.compile(r"[a-z0-9]{1,31}")
_SEED_BITS: Final = (1 << 62) - 1


def driver_config(
    device: Device,
    *,
    name: str,
    backing_fd: int,
    read_only: bool = False,
    queue_depth: int | None = None,
    capacity_bytes: int | None = None,
    seed: int = 0,
) -> str:
    """The text that describes one disk to the driver.

    Args:
        device: The device to model.
        name: The block device's name in the lab, such as ``sda``.
        backing_fd: The open file with the disk's content.
        read_only: Whether writes fail.
        queue_depth: Instead of the device's own.
        capacity_bytes: The used part of the device, from its first sector on; the mechanism stays.
        seed: The seed of the model's random draws.

    Raises:
        LabError: If the name or the capacity does not suit the driver.
    """
    if _DISK_NAME.fullmatch(name) is None:
        raise LabError(f'a disk cannot be called "{name}"', remedy="use lower-case letters and digits")
    capacity_bytes = device.capacity_bytes if capacity_bytes is None else capacity_bytes
    if not 0 < capacity_bytes <= device.capacity_bytes or capacity_bytes % SECTOR_BYTES:
        raise LabError(
            f"{device.name} cannot be used with {capacity_bytes} bytes",
            remedy=f"use a multiple of 512 up to {device.capacity_bytes}",
        )
    depth = queue_depth or device.queue_depth
    lines = [
        f"name={name}",
        f"capacity_sectors={capacity_bytes // SECTOR_BYTES}",
        f"read_only={int(read_only)}",
        f"backing_fd={backing_fd}",
        f"model={device.kind}",
        f"queue_depth={depth}",
        f"seed={seed & _SEED_BITS}",
        *device.model.driver_lines(device, capacity_bytes // SECTOR_BYTES, depth),
    ]
    if not device.write_cache:
        lines.append("write_through=1")
    lines += [f"fault={','.join([fault.fault, *map(str, fault.numbers)])}" for fault in device.faults]
    return "\n".join(lines) + "\n"


def plain_config(name: str, sectors: int, *, backing_fd: int) -> str:
    """The text for a file of the machine as a read-only disk without latency, which is in no trace."""
    return (
        f"name={name}\ncapacity_sectors={sectors}\nread_only=1\nbacking_fd={backing_fd}\n"
        "model=null\nqueue_depth=64\n"
    )
