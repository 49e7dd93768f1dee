# SPDX-License-Identifier: Apache-2.0
"""The block devices of a machine, as sysfs and udev describe them. No device is opened."""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from strata.disks.machine import Machine
from strata.machine.reading import chosen, one_line
from strata.units import SECTOR_BYTES

BY_ID: Final = "dev/disk/by-id"

_SERIAL_FILES: Final = ("serial", "device/serial", "device/vpd_pg80", "device/cid")
_WWN_FILES: Final = ("wwid", "device/wwid")
_FIRMWARE_FILES: Final = ("device/firmware_rev", "device/rev", "device/fwrev")
# A part of the path in sysfs tells how a disk is attached, where its name does not.
_ATTACHED: Final = (
    *(("/session", "iscsi"), ("/rport-", "fc"), ("/usb", "usb"), ("/ata", "sata")),
    *(("/end_device", "sas"), ("/virtio", "virtio"), ("/mmc_host", "mmc")),
)
_BY_NAME: Final = (
    *(("dm-", "dm"), ("md", "md"), ("bcache", "bcache"), ("zd", "zvol"), ("loop", "loop")),
    *(("nbd", "nbd"), ("rbd", "rbd"), ("drbd", "drbd"), ("zram", "zram"), ("ram", "ram")),
    *(("sr", "optical"), ("fd", "floppy"), ("vd", "virtio"), ("xvd", "xen"), ("mmcblk", "mmc")),
    *(("pmem", "pmem"), ("nvme", "nvme")),
)


@dataclass(frozen=True)
class DiskPartition:
    name: str
    number: str
    size_bytes: int
    start_bytes: int


@dataclass(frozen=True)
class Backing:
    """The file behind a loop device."""

    file: str
    filesystem: str = ""  # the device number of its filesystem, MAJOR:MINOR
    inode: int = 0  # 0 if unknown


@dataclass(frozen=True)
class Disk:
    """A block device, or a partition used by itself; unknown texts are empty."""

    name: str  # the kernel's, such as sda, which may pass to another disk at the next start
    number: str  # MAJOR:MINOR
    path: str | None = None  # its permanent name: a link in /dev/disk/by-id; a loop device's own
    links: tuple[str, ...] = ()  # in /dev/disk/by-id
    model: str = ""
    serial: str = ""
    wwn: str = ""  # worldwide name
    firmware: str = ""
    size_bytes: int = 0
    logical_sector_bytes: int = SECTOR_BYTES
    physical_sector_bytes: int = SECTOR_BYTES
    rotational: bool = False
    removable: bool = False
    hidden: bool = False
    read_only: bool = False
    write_cache: str = ""  # "write back" (volatile) or "write through", as the kernel assumes
    transport: str = ""  # connection (sata, nvme, usb, …) or driver (dm, md, zvol, loop, nbd, …)
    scheduler: str = ""  # the active one
    discard_bytes_max: int = 0  # of one TRIM; 0 for none
    zoned: str = "none"  # or host-aware, host-managed
    sequence: str = ""  # the kernel's number for each disk it meets (diskseq)
    partitions: tuple[DiskPartition, ...] = field(default=())
    backing: Backing | None = None
    whole: str | None = None  # a partition's disk

    @property
    def node(self) -> Path:
        """Its device node, valid until the disk goes or the machine restarts."""
        return Path("/dev") / self.name

    @property
    def erase_name(self) -> str:
        """The word for ``--erase``: its serial number, its worldwide name, or the name of its link."""
        return self.serial or self.wwn or (Path(self.path).name if self.path else "")

    def identity(self) -> dict[str, Any]:
        """The properties that distinguish this disk, as attached now, from any other, as JSON types."""
        names = ("name", "number", "model", "serial", "wwn", "size_bytes", "sequence")
        return {name: getattr(self, name) for name in names}


def disks(machine: Machine) -> list[Disk]:
    """All block devices except partitions and unattached loop devices, by name."""
    backings = _backings(machine)
    links = _links(machine)
    found = (_disk(machine, name, links, backings) for name in machine.names("sys/block"))
    return [disk for disk in found if disk.transport != "loop" or disk.backing is not None]


def disk_at(machine: Machine, number: str) -> Disk | None:
    name = name_of(machine, number)
    if name is None:
        return None
    whole = whole_of(machine, name)
    disk = _disk(machine, whole, _links(machine), _backings(machine))
    return disk if name == whole else _as_disk(machine, disk, name)


def name_of(machine: Machine, number: str) -> str | None:
    for whole in machine.names("sys/block"):
        for name in (whole, *_partition_names(machine, whole)):
            if machine.line(f"{place_of(machine, name)}/dev") == number:
                return name
    return None


def whole_of(machine: Machine, name: str) -> str:
    if (machine.root / "sys/block" / name).exists():
        return name
    return next(
        (each for each in machine.names("sys/block") if name in _partition_names(machine, each)), name
    )


def place_of(machine: Machine, name: str) -> str:
    whole = whole_of(machine, name)
    return f"sys/block/{whole}" if whole == name else f"sys/block/{whole}/{name}"


def _disk(machine: Machine, name: str, links: dict[str, list[str]], backings: dict[str, Backing]) -> Disk:
    place = f"sys/block/{name}"
    number = machine.line(f"{place}/dev")
    udev = udev_of(machine, number)
    queue = f"{place}/queue"
    backing = backings.get(name)
    serial = _first(machine, place, _SERIAL_FILES) or udev.get("ID_SERIAL_SHORT", "")
    if backing is not None:
        serial = f"loop:{backing.filesystem}:{backing.inode}" if backing.inode else ""
    disk = Disk(
        name=name,
        number=number,
        links=tuple(links.get(name, ())),
        model=machine.line(f"{place}/device/model") or udev.get("ID_MODEL", ""),
        serial=serial,
        wwn=_first(machine, place, _WWN_FILES) or udev.get("ID_WWN_WITH_EXTENSION", udev.get("ID_WWN", "")),
        firmware=_first(machine, place, _FIRMWARE_FILES) or udev.get("ID_REVISION", ""),
        size_bytes=machine.number(f"{place}/size") * SECTOR_BYTES,  # whatever the disk's own sectors are
        logical_sector_bytes=machine.number(f"{queue}/logical_block_size") or SECTOR_BYTES,
        physical_sector_bytes=machine.number(f"{queue}/physical_block_size") or SECTOR_BYTES,
        rotational=machine.line(f"{queue}/rotational") == "1",
        removable=machine.line(f"{place}/removable") == "1",
        hidden=machine.line(f"{place}/hidden") == "1",
        read_only=machine.line(f"{place}/ro") == "1",
        write_cache=machine.line(f"{queue}/write_cache"),
        transport=_transport(machine, name),
        scheduler=chosen(machine.line(f"{queue}/scheduler")),
        discard_bytes_max=machine.number(f"{queue}/discard_max_bytes"),
        zoned=machine.line(f"{queue}/zoned") or "none",
        sequence=machine.line(f"{place}/diskseq"),
        partitions=tuple(_partition(machine, name, each) for each in _partition_names(machine, name)),
        backing=backing,
    )
    return replace(disk, path=_lasting_path(disk))


def _as_disk(machine: Machine, disk: Disk, name: str) -> Disk:
    """A partition used by itself: its disk's properties, its own size and names."""
    own = next(each for each in disk.partitions if each.name == name)
    index = machine.line(f"{place_of(machine, name)}/partition")
    part = replace(
        disk,
        name=name,
        number=own.number,
        links=tuple(_links(machine).get(name, ())),
        serial=f"{disk.serial}-part{index}" if disk.serial else "",
        wwn=f"{disk.wwn}-part{index}" if disk.wwn else "",
        size_bytes=own.size_bytes,
        read_only=machine.line(f"{place_of(machine, name)}/ro") == "1",
        partitions=(),
        whole=disk.name,
    )
    return replace(part, path=_lasting_path(part))


def _lasting_path(disk: Disk) -> str | None:
    if disk.transport == "loop":
        return str(disk.node)
    usable = [link for link in disk.links if names_disk(link, disk)]
    # People know the serial from the label on the disk; the worldwide name only programs.
    best = sorted(
        usable, key=lambda link: (link.startswith(("wwn-", "nvme-eui", "nvme-nvme")), len(link), link)
    )
    return f"/{BY_ID}/{best[0]}" if best else None


def names_disk(link: str, disk: Disk) -> bool:
    """Whether the name of a link in /dev/disk/by-id has the disk's serial or worldwide name."""
    bare = _bare(re.sub(r"-part[0-9]+$", "", link))
    own = (re.sub(r"-part[0-9]+$", "", each) for each in (disk.serial, disk.wwn.rpartition(".")[2]))
    return any(_bare(each) in bare for each in own if _bare(each))


def _bare(text: str) -> str:
    """A serial number without the characters that udev replaces in link names."""
    return re.sub(r"[^0-9a-z]", "", text.lower().removeprefix("0x"))


def _first(machine: Machine, place: str, files: tuple[str, ...]) -> str:
    for file in files:
        content = machine.content(f"{place}/{file}")
        # A page of vital product data begins with four bytes of its own.
        text = one_line(content[4 if file.endswith("vpd_pg80") else 0 :].decode(errors="replace"))
        if text:
            return text
    return ""


def udev_of(machine: Machine, number: str) -> dict[str, str]:
    lines = machine.content(f"run/udev/data/b{number}").decode(errors="replace").splitlines()
    pairs = (line[2:].partition("=") for line in lines if line.startswith("E:"))
    return {name: one_line(value) for name, _, value in pairs}


def _transport(machine: Machine, name: str) -> str:
    place = machine.root / "sys/block" / name
    driver = next((kind for start, kind in _BY_NAME if name.startswith(start)), None)
    if driver == "nvme":
        # With multipath, the device is the subsystem, and its controllers are below it.
        above = f"sys/block/{name}/device"
        over = {machine.line(f"{above}/{each}/transport") for each in (".", *machine.names(above))}
        return next((f"nvme-{each}" for each in sorted(over - {"", "pcie"})), "nvme")
    if driver is not None:
        return driver
    path = "".join(str(each) for each in (os.path.realpath(place), os.path.realpath(place / "device")))
    path = path.replace(str(machine.root), "")
    return next((kind for part, kind in _ATTACHED if part in path), "scsi" if name.startswith("sd") else "")


def _partition_names(machine: Machine, name: str) -> list[str]:
    place = machine.root / "sys/block" / name
    return [each for each in machine.names(f"sys/block/{name}") if (place / each / "partition").exists()]


def _partition(machine: Machine, whole: str, name: str) -> DiskPartition:
    place = f"sys/block/{whole}/{name}"
    size, start = (machine.number(f"{place}/{each}") * SECTOR_BYTES for each in ("size", "start"))
    return DiskPartition(name, machine.line(f"{place}/dev"), size_bytes=size, start_bytes=start)


def _links(machine: Machine) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for link in machine.names(BY_ID):
        target = Path(os.path.realpath(machine.root / BY_ID / link))
        if target.parent == Path(os.path.realpath(machine.root / "dev")):
            found.setdefault(target.name, []).append(link)
    return found


def _backings(machine: Machine) -> dict[str, Backing]:
    listed: dict[str, Any] = {}
    done = machine.call("losetup", "--list", "--json", "--output", "NAME,BACK-INO,BACK-MAJ:MIN")
    with suppress(ValueError, KeyError, TypeError):
        listed = {Path(each["name"]).name: each for each in json.loads(done.stdout)["loopdevices"]}
    backings = {}
    for name in machine.names("sys/block"):
        if file := machine.content(f"sys/block/{name}/loop/backing_file").rstrip(b"\n"):
            row = listed.get(name, {})
            number, inode = str(row.get("back-maj:min") or "").strip(), int(row.get("back-ino") or 0)
            backings[name] = Backing(os.fsdecode(file), number, inode)
    return backings
