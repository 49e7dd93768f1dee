# SPDX-License-Identifier: Apache-2.0
"""Whether a study may use a disk: what forbids it, and whether its name is unambiguous."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strata.disks.inventory import BY_ID, Disk, disk_at, disks, names_disk
from strata.disks.machine import Machine
from strata.disks.signatures import Signature
from strata.disks.usage import DiskUse, Usage, UseKind

_PATTERN: Final = re.compile(r"[*?\[\]{}]")
_MADE: Final = {"dm": "by the device mapper", "md": "by MD", "bcache": "by bcache", "zvol": "by ZFS"}
_IN_MEMORY: Final = ("zram", "ram")
_LIST_REMEDY: Final = "name one disk as /dev/disk/by-id/…; `strata list disks` lists them"
_FILE_REMEDY: Final = (
    "for files, leave --disk out and use --scratch; or attach it yourself (`losetup --find --show`)"
)
_NO_DISK: Final = {
    "missing": "there is no such device",
    "character": "this is a character device, not a disk",
    "file": "this is a file, not a disk",
    "folder": "this is a folder, not a disk",
}
_NETWORK: Final = ("nbd", "rbd", "drbd", "iscsi", "fc", "nvme-tcp", "nvme-rdma", "nvme-fc")
_OTHER_LINKS: Final = {
    "by-path": "names a place where a disk is plugged in, and after the next start another disk can be there",
    "by-uuid": "names a filesystem, and a copy of it has the same name",
    "by-label": "names a filesystem, and another one can have the same label",
    "by-partuuid": "names a partition, and a copy of it has the same name",
    "by-partlabel": "names a partition, and another one can have the same label",
    "by-diskseq": "counts the disks that the kernel has met, anew at each start",
    "by-loop-ref": "names a loop device by a text that anybody can give to another one",
}
_REMEDIES: Final[Mapping[UseKind, str]] = {
    "mount": "unmount it (`umount`) and take it out of /etc/fstab; or name another disk",
    "swap": "switch it off (`swapoff`) and take it out of /etc/fstab; or name another disk",
    "dm": "deactivate it (`vgchange -an`, `cryptsetup close`, `dmsetup remove`); or name another disk",
    "md": "stop the array (`mdadm --stop`); or name another disk",
    "bcache": "stop it (`echo 1 > /sys/block/NAME/bcache/stop`); or name another disk",
    "zfs": "export the pool (`zpool export`); or name another disk",
    "btrfs": "unmount the filesystem; or name another disk",
    "loop": "detach the loop device (`losetup --detach`); or name another disk",
    "holder": "end what holds it; or name another disk",
    "file": "end that use, or attach another file",
    "process": "end that process, or wait for it; or name another disk",
    "exclusive": "end what holds it (`lsof`, `zpool status`, `cat /proc/mdstat`); or name another disk",
}


@dataclass(frozen=True)
class Reason:
    """Why a disk is refused: cause and remedy, without full stops."""

    cause: str
    remedy: str


def judged(
    machine: Machine,
    disk: Disk,
    usage: Usage,
    holding: Mapping[str, Path],
    uses: Iterable[DiskUse] | None = None,
) -> list[Reason]:
    """Everything that forbids a disk to any study, whatever its content.

    `holding` names folders that must not be on the disk, such as ``the results``; `uses` are the disk's uses,
    if known already.
    """
    uses = usage.of(disk) if uses is None else uses
    below = {what: usage.below(folder) for what, folder in holding.items()}
    return [
        *(
            Reason(f"{disk.name} holds {what} ({holding[what]})", "name a disk without data of yours")
            for what, names in below.items()
            if not names.isdisjoint({disk.name, disk.whole})
        ),
        *(Reason(str(use), _REMEDIES[use.kind]) for use in uses),
        *of_kind(disk),
        *_of_state(disk),
        *_of_names(machine, disk),
    ]


def judged_groups(found: Iterable[Signature], usage: Usage) -> list[Reason]:
    """The physical volumes whose volume group is in use, though none of its active volumes lies on them."""
    return [
        Reason(
            f"{each.device} belongs to the volume group {each.group}, which is in use",
            "take it out of the group (`vgreduce`, then `pvremove`); or name another disk",
        )
        for each in found
        if each.group_id in usage.groups
    ]


def judged_members(found: Iterable[Signature]) -> list[Reason]:
    """The devices of multi-device filesystems, which erasing some but not all would damage."""
    return [
        Reason(
            f"{each.device} is one of {each.members} devices of the btrfs {each.uuid}, which it would damage",
            "take it out of that filesystem (`btrfs device remove`); or name all "
            "its devices; or erase them with `wipefs --all`",
        )
        for each in found
        if each.members > 1
    ]


def of_kind(disk: Disk) -> Iterator[Reason]:
    """Why it is no disk of this machine."""
    kind = disk.transport
    if kind in _MADE:
        yield Reason(
            f"{disk.name} is no disk: it is made {_MADE[kind]} of other devices",
            "name the disks themselves; what stands between them and the filesystem are layers of the study",
        )
    elif kind in _IN_MEMORY:
        yield Reason(f"{disk.name} is no disk: it lies in memory", "name a disk")
    elif kind in _NETWORK:
        yield Reason(
            f"{disk.name} is a disk across the network ({kind}), which other machines may be using",
            "run the study on the machine that the disk is in",
        )
    elif kind in ("optical", "floppy"):
        yield Reason(f"{disk.name} is a drive for {kind} media", "name a disk")
    if disk.hidden:
        yield Reason(f"{disk.name} is one path of a disk that has several", "name the disk that joins them")


def _of_state(disk: Disk) -> Iterator[Reason]:
    if disk.size_bytes == 0:
        what = "has no medium in it" if disk.removable else "has a size of 0"
        yield Reason(f"{disk.name} {what}", "insert a medium; or name another disk")
    if disk.read_only:
        yield Reason(
            f"{disk.name} is read-only", "see why (a switch, `blockdev --getro`); or name another disk"
        )
    if disk.zoned == "host-managed":
        yield Reason(
            f"{disk.name} must be written zone by zone (host-managed), which layers do not",
            "name another disk",
        )
    if disk.backing is not None and disk.backing.file.endswith(" (deleted)"):
        yield Reason(f"the file behind {disk.name} has been deleted", "attach a file that is there")
    if disk.backing is not None and disk.backing.file.startswith("/dev/"):
        yield Reason(
            f"{disk.name} stands on a block device ({disk.backing.file})", "name that disk itself, by its id"
        )


def _of_names(machine: Machine, disk: Disk) -> Iterator[Reason]:
    if disk.transport in (*_MADE, *_IN_MEMORY, "nbd", "rbd", "drbd", "optical", "floppy"):
        return
    if disk.path is None or not disk.erase_name:
        yield Reason(
            f"{disk.name} has no name that stays: no link in /{BY_ID} carries its serial number",
            "give a virtual disk a serial number (QEMU: `serial=`); else see whether udev runs",
        )
    twins = [each.name for each in disks(machine) if _is_twin(each, disk)]
    if twins:
        yield Reason(
            f"{disk.name} states the same serial number as {', '.join(twins)}, so its name can mean either",
            "detach the other one; or give them serial numbers of their own",
        )


def _is_twin(other: Disk, disk: Disk) -> bool:
    serial, wwn = (re.sub(r"-part[0-9]+$", "", each) for each in (disk.serial, disk.wwn))
    if other.name in (disk.name, disk.whole) or not (serial or wwn):
        return False
    return (other.serial, other.wwn) == (serial, wwn)


def named(machine: Machine, path: str) -> tuple[Disk | None, list[Reason]]:
    """The disk that a user's path means, None if there is none, and why the path is unsuitable."""
    if _PATTERN.search(path):
        return None, [Reason("a pattern can mean any number of disks", _LIST_REMEDY)]
    given = Path(path)
    if not given.is_absolute() or ".." in given.parts:
        return None, [Reason("this is not a plain absolute path", _LIST_REMEDY)]
    node = machine.node(given)
    if node.kind != "block":
        remedy = _FILE_REMEDY if node.kind == "file" else _LIST_REMEDY
        return None, [Reason(_NO_DISK.get(node.kind, "this is not a disk"), remedy)]
    target = Path(os.path.realpath(machine.root / given.relative_to("/")))
    devices = Path(os.path.realpath(machine.root / "dev"))
    disk = disk_at(machine, node.number)
    if disk is None or not target.is_relative_to(devices):
        return None, [Reason("it leads to no device of /dev that the kernel has", _LIST_REMEDY)]
    return disk, list(_of_given(given, disk))


def _of_given(given: Path, disk: Disk) -> Iterator[Reason]:
    own = f"name it as {disk.path}" if disk.path else "give it a serial number; see `strata list disks`"
    if given.parent == Path("/dev/disk/by-id"):
        if disk.transport not in _MADE and not names_disk(given.name, disk):
            yield Reason("the name of this link is not the serial number of the disk that it leads to", own)
    elif given.parent.parent == Path("/dev/disk"):
        why = _OTHER_LINKS.get(given.parent.name, "is not a name by the disk's own serial number")
        yield Reason(f"{given.parent.name} {why}", own)
    elif given.parent != Path("/dev"):
        yield Reason("this is a link outside /dev/disk/by-id, which can be made to mean another disk", own)
    elif disk.transport != "loop" or disk.node != given:
        yield Reason(f"the kernel gives the name {given.name} anew at each start, maybe to another disk", own)
