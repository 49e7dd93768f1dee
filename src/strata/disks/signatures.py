# SPDX-License-Identifier: Apache-2.0
"""The content of a disk: filesystems, partition tables, members of arrays, groups and pools."""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from strata.disks.inventory import Disk
from strata.disks.machine import Machine
from strata.errors import LabError
from strata.machine.reading import one_line
from strata.units import format_size

_COLUMNS: Final = "DEVICE,TYPE,USAGE,LABEL,UUID"
_TABLES: Final = ("gpt", "PMBR", "dos", "atari", "mac", "sun", "sgi", "bsd", "minix", "dasd")
_MEMBERS: Final = {
    "LVM2_member": "a physical volume of LVM",
    "linux_raid_member": "a member of an MD array",
    "zfs_member": "a disk of a ZFS pool",
    "bcache": "a device of bcache",
    "drbd": "a replica of DRBD",
    "mpath_member": "a path of a multipath device",
    "crypto_LUKS": "an encrypted volume (LUKS)",
    "swap": "a swap area",
    "ddf_raid_member": "a member of a controller's array",
    "isw_raid_member": "a member of a controller's array",
}
# LVM keeps the text that names a physical volume's group in an area with a header (format_text/layout.h).
_LVM_AREA_BYTES: Final = 2 << 20
_LVM_HEADER_AT: Final = 4096
_LVM_MAGIC: Final = b" LVM2 x[5A%r0N*>"
_LVM_GROUP: Final = re.compile(rb'([A-Za-z0-9+_.-]+) \{\nid = "([A-Za-z0-9-]{38})"\nseqno')


@dataclass(frozen=True)
class Signature:
    """A filesystem, table or membership on a disk or a partition; unreadable values are empty, 0 or None."""

    device: str  # the kernel's name
    kind: str  # libblkid's name: ext4, gpt, LVM2_member, linux_raid_member, …
    label: str = ""  # for members the name of the array or pool
    uuid: str = ""
    group: str = ""  # the volume group of a physical volume
    group_id: str = ""  # the group's UUID without hyphens
    size_bytes: int = 0  # of a filesystem, by its own account
    used_bytes: int | None = None
    members: int = 1  # the number of a filesystem's devices

    def __str__(self) -> str:
        if self.kind in _TABLES:
            what = f"a partition table ({'gpt' if self.kind == 'PMBR' else self.kind})"
        else:
            what = _MEMBERS.get(self.kind, f"a filesystem {self.kind}")
        facts = [
            f"of the group {self.group}" if self.group else "",
            f'"{self.label}"' if self.label else "",
            f"UUID {self.uuid}" if self.uuid else "",
            f"one of {self.members} devices" if self.members > 1 else "",
            format_size(self.size_bytes) if self.size_bytes else "",
            f"{format_size(self.used_bytes)} used" if self.used_bytes is not None else "",
        ]
        return ", ".join([f"{self.device}: {what}", *filter(None, facts)])


def signatures(machine: Machine, disk: Disk) -> list[Signature]:
    """The content of a disk and its partitions. Reading wakes a sleeping disk.

    Raises LabError if it cannot be determined: unknown content must not be overwritten.
    """
    names = (disk.name, *(each.name for each in disk.partitions))
    return [found for name in names for found in _signatures_of(machine, name)]


def _signatures_of(machine: Machine, name: str) -> list[Signature]:
    done = machine.call("wipefs", "--json", "--output", _COLUMNS, f"/dev/{name}")
    try:
        if done.returncode != 0:
            raise ValueError(done.stderr.strip())
        listed = json.loads(done.stdout or '{"signatures": []}')["signatures"]
        # ZFS and GPT write their signature several times.
        kinds = {(each["type"], each["label"], each["uuid"]): each for each in listed}
    except (ValueError, KeyError, TypeError) as error:
        raise LabError(
            f"its content cannot be determined: {str(error) or 'wipefs gave no answer'}",
            place=f"/dev/{name}",
            remedy="install util-linux 2.36 or newer, and see whether the disk can be read",
        ) from error
    return [_signature(machine, name, each) for each in kinds.values()]


def _signature(machine: Machine, name: str, listed: dict[str, Any]) -> Signature:
    kind, node = one_line(str(listed["type"])), Path("/dev") / name
    size_bytes, used_bytes, members = _filled(machine, node, kind)
    group, group_id = _group(machine, node) if kind == "LVM2_member" else ("", "")
    label, uuid = (one_line(str(listed[key] or "")) for key in ("label", "uuid"))
    return Signature(name, kind, label, uuid, group, group_id, size_bytes, used_bytes, members)


def _filled(machine: Machine, node: Path, kind: str) -> tuple[int, int | None, int]:
    """A filesystem's size, used bytes and number of devices, from its superblock."""
    if kind in ("ext2", "ext3", "ext4"):
        block = machine.read(node, 1024, 1024)
        if len(block) == 1024:
            (count, _, free), (log,) = (
                struct.unpack_from("<3I", block, 4),
                struct.unpack_from("<I", block, 24),
            )
            (high, _, free_high) = struct.unpack_from("<3I", block, 0x150)
            if not struct.unpack_from("<I", block, 0x60)[0] & 0x80:  # the upper halves need the feature 64bit
                high = free_high = 0
            unit = 1024 << min(log, 16)
            total, left = (count + (high << 32)) * unit, (free + (free_high << 32)) * unit
            return total, max(0, total - left), 1
    if kind == "xfs":
        block = machine.read(node, 0, 512)
        if len(block) == 512:
            unit, count = struct.unpack_from(">IQ", block, 4)
            (free,) = struct.unpack_from(">Q", block, 144)
            return unit * count, max(0, unit * (count - free)), 1
    if kind == "btrfs":
        block = machine.read(node, 0x10000, 4096)
        if len(block) == 4096:
            total, used = struct.unpack_from("<QQ", block, 0x70)
            (members,) = struct.unpack_from("<Q", block, 0x88)
            return total, used, members
    return 0, None, 1


def _group(machine: Machine, node: Path) -> tuple[str, str]:
    """Name and UUID of a physical volume's group, or empty strings."""
    area, text_at = machine.read(node, 0, _LVM_AREA_BYTES), 0
    if area[_LVM_HEADER_AT + 4 :].startswith(_LVM_MAGIC):
        # Where the area begins, how large it is, and where in it the newest text begins; older ones remain.
        begin, _, newest = struct.unpack_from("<3Q", area, _LVM_HEADER_AT + 24)
        if not newest:
            return "", ""
        text_at = begin + newest
    found = _LVM_GROUP.search(area, text_at)
    return (found[1].decode(), found[2].decode().replace("-", "")) if found else ("", "")
