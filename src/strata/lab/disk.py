# SPDX-License-Identifier: Apache-2.0
"""A lab's disks: their descriptions to the driver in ``kernel/disk``, and the descriptors of its process."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strata.devices.device import Device
from strata.errors import LabError
from strata.lab.disk_image import DiskImage, nameless_file
from strata.lab.inputs import ProvidedInput, input_disk
from strata.lab.lab import Lab
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

    ``name`` is the block device's in the lab, ``backing_fd`` the open file with its content, and
    ``capacity_bytes`` the used part of the device, from its first sector on; the mechanism stays. The model's
    random draws derive from ``seed``.
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


ROOT_DISK: Final = "rootimage"
DISK_FD: Final = 64
"""The number of the first disk's descriptors; each has two: its description and its content."""
_DISKS_MAX: Final = 26  # sda to sdz
_INPUTS_MAX: Final = 5  # with these and the root image the driver has no more disks


@dataclass(frozen=True)
class LabDisk:
    """A modelled disk of a lab, by its block device's name there.

    ``capacity_bytes`` counts from the first sector; None for the whole device. The model's random draws
    derive from ``seed``.
    """

    name: str
    device: Device
    capacity_bytes: int | None = None
    seed: int = 0


def check_counts(disks: Sequence[LabDisk], inputs: Sequence[ProvidedInput]) -> None:
    """Refuse more disks than a lab can have, by a `LabError`."""
    if len(disks) > _DISKS_MAX:
        raise LabError(f"a lab has at most {_DISKS_MAX} disks", remedy="declare fewer devices")
    if len(inputs) > _INPUTS_MAX:
        raise LabError(
            f"a lab has at most {_INPUTS_MAX} inputs", remedy="let the tenants read the same archives"
        )


def disk_files(  # noqa: PLR0917
    lab: Lab,
    disks: Sequence[LabDisk],
    inputs: Sequence[ProvidedInput],
    images: Sequence[DiskImage] | None,
    folder: Path,
    owned: ExitStack,
) -> dict[int, int]:
    """Open every disk's content and description; by their numbers in the lab."""
    if images is not None:
        contents = [image.descriptor for image in images]
    else:
        contents = [owned_by(nameless_file(folder), owned) for _ in disks]
    found = [_plain_disk(0, ROOT_DISK, lab.image.path, owned)]
    found += zip(disk_texts(disks), contents, strict=True)
    for index, each in enumerate(inputs):
        found.append(_plain_disk(len(found), input_disk(index), each.path, owned))
    descriptors: dict[int, int] = {}
    for index, (text, content) in enumerate(found):
        descriptors[DISK_FD + 2 * index] = text_file(text, owned)
        descriptors[DISK_FD + 2 * index + 1] = content
    return descriptors


def _plain_disk(index: int, name: str, path: Path, owned: ExitStack) -> tuple[str, int]:
    """A file as a read-only disk without latency: its description and its content."""
    content = owned_by(os.open(path, os.O_RDONLY | os.O_CLOEXEC), owned)
    sectors = os.fstat(content).st_size // SECTOR_BYTES
    return plain_config(name, sectors, backing_fd=DISK_FD + 2 * index + 1), content


def owned_by(descriptor: int, owned: ExitStack) -> int:
    """Let a descriptor be closed with ``owned``."""
    owned.callback(os.close, descriptor)
    return descriptor


def disk_texts(disks: Sequence[LabDisk]) -> list[str]:
    """The driver's description of each modelled disk, in the lab's order."""
    return [
        driver_config(
            disk.device,
            name=disk.name,
            backing_fd=DISK_FD + 2 * index + 1,
            capacity_bytes=disk.capacity_bytes,
            seed=disk.seed,
        )
        for index, disk in enumerate(disks, start=1)
    ]


def root_text(sectors: int) -> str:
    """The driver's description of the root image."""
    return plain_config(ROOT_DISK, sectors, backing_fd=DISK_FD + 1)


def text_file(text: str, owned: ExitStack) -> int:
    descriptor = owned_by(os.memfd_create("strata-text", os.MFD_CLOEXEC), owned)
    os.pwrite(descriptor, text.encode(), 0)
    return descriptor
