# SPDX-License-Identifier: Apache-2.0
"""The current uses of a machine's disks, and the disks under a folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

from strata.disks.inventory import Disk, disks, name_of, place_of, whole_of
from strata.disks.machine import Machine, Mount, mount_of, mounts_in, name_in
from strata.machine.reading import one_line
from strata.words import grouped

UseKind = Literal[
    "mount", "swap", "dm", "md", "bcache", "zfs", "btrfs", "loop", "holder", "file", "process", "exclusive"
]
_NAMED_MAX: Final = 3
_MD_MEMBER: Final = re.compile(r"([A-Za-z0-9_-]+)\[[0-9]+\]")


@dataclass(frozen=True)
class DiskUse:
    kind: UseKind
    device: str  # the kernel's name
    clause: str  # the use, as half a sentence after that name

    def __str__(self) -> str:
        return f"{self.device} {self.clause}"


@dataclass
class Usage:
    """The uses of a machine's disks, read once; make a new object to read again."""

    machine: Machine
    own: frozenset[int] = field(
        default_factory=lambda: frozenset({os.getpid()})
    )  # whose open files are ignored
    _known: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    def of(self, disk: Disk) -> list[DiskUse]:
        """The uses of a disk, its partitions and all above them; for a partition, those of its whole disk."""
        found = [use for name in self._family(disk) for use in self._of_name(name)]
        if disk.backing is not None:
            found += self._of_file(disk)
        if not found and (refused := self.machine.opened_alone(disk.node)):
            found.append(
                DiskUse("exclusive", disk.name, f"cannot be opened by one process alone ({refused})")
            )
        return list(dict.fromkeys(found))

    def below(self, folder: Path) -> set[str]:
        """The names of all disks and partitions under a folder, through all layers."""
        mount = mount_of(folder, self._own_mounts)
        found: set[str] = set()
        for name in self._devices_of(mount) if mount is not None else ():
            self._descend(name, found)
        return found

    def _family(self, disk: Disk) -> list[str]:
        whole = disk.whole or disk.name
        names = self.machine.names(f"sys/block/{whole}")
        place = self.machine.root / "sys/block" / whole
        return [whole, *(each for each in names if (place / each / "partition").exists())]

    def _of_name(self, name: str) -> Iterator[DiskUse]:
        if points := self._points.get(name):
            yield DiskUse("mount", name, f"is mounted at {_first(points)}")
        if name in self._swaps:
            yield DiskUse("swap", name, "is a swap area in use")
        for holder in self.machine.names(f"{place_of(self.machine, name)}/holders"):
            yield self._held(name, holder)
        for array in self._arrays.get(name, ()):
            yield DiskUse("md", name, f"belongs to the MD array {array}")
        if (self.machine.root / place_of(self.machine, name) / "bcache").exists():
            yield DiskUse("bcache", name, "is registered with bcache")
        for uuid in self._btrfs.get(name, ()):
            yield DiskUse("btrfs", name, f"belongs to the mounted btrfs {uuid}")
        if any(name in names for names in self._pools_by_name.values()):
            yield DiskUse("zfs", name, "belongs to an imported ZFS pool")
        for loop in self._looped.get(name, ()):
            yield DiskUse("loop", name, f"is behind the loop device {loop}")
        if opened := self._opened.get(f"/dev/{name}"):
            yield DiskUse("process", name, f"is open in the {_processes(opened)}")

    def _held(self, name: str, holder: str) -> DiskUse:
        kind: UseKind = "holder"
        what = holder
        if holder.startswith("dm-"):
            place = f"sys/block/{holder}/dm"
            label, uuid = self.machine.line(f"{place}/name"), self.machine.line(f"{place}/uuid")
            makers = {"LVM": "LVM", "CRYPT": "dm-crypt", "mpath": "multipath"}
            kind, what = "dm", f"{holder} ({makers.get(uuid.partition('-')[0], 'device mapper')} {label})"
        elif holder.startswith("md"):
            kind, what = "md", f"the MD array {holder}"
        elif holder.startswith("bcache"):
            kind, what = "bcache", f"the bcache device {holder}"
        above = next((use for use in self._of_name(holder) if use.kind in ("mount", "swap")), None)
        return DiskUse(kind, name, f"is held by {what}" + (f", which {above.clause}" if above else ""))

    def _of_file(self, disk: Disk) -> Iterator[DiskUse]:
        assert disk.backing is not None
        file, number, inode = disk.backing.file, disk.backing.filesystem, disk.backing.inode
        for other in self._loops:
            same = inode and self._loops[other] == (number, inode)
            if other != disk.name and (same or self._loop_files.get(other) == file):
                yield DiskUse("file", disk.name, f"shares its file {file} with {other}")
        if file in self._swap_files:
            yield DiskUse("file", disk.name, f"has a file behind it that is a swap area in use ({file})")
        if opened := self._opened.get(file):
            yield DiskUse("file", disk.name, f"has a file behind it that is open in the {_processes(opened)}")

    def _descend(self, name: str, found: set[str]) -> None:
        if name in found:
            return
        found.add(name)
        lower = [whole_of(self.machine, name), *self.machine.names(f"{place_of(self.machine, name)}/slaves")]
        if file := self._loop_files.get(name):
            mount = mount_of(Path(file), self._own_mounts)
            lower += self._devices_of(mount) if mount else []
        for each in lower:
            self._descend(each, found)

    def _devices_of(self, mount: Mount) -> list[str]:
        key = (mount.number, mount.source)
        if key not in self._known:
            self._known[key] = self._find_devices(mount)
        return self._known[key]

    def _find_devices(self, mount: Mount) -> list[str]:
        names = [name_of(self.machine, mount.number), self._name_at(mount.source)]
        direct = [name for name in names if name]
        if mount.filesystem == "btrfs":
            uuids = {uuid for name in direct for uuid in self._btrfs.get(name, ())}
            direct += [name for name, own in self._btrfs.items() if uuids.intersection(own)]
        if mount.filesystem == "zfs":
            direct += self._pools_by_name.get(mount.source.partition("/")[0], [])
        return list(dict.fromkeys(direct))

    def _name_at(self, path: str) -> str | None:
        """The kernel's name of the device that a path leads to."""
        if not path.startswith("/dev/"):
            return None
        node = self.machine.node(Path(path))
        return name_of(self.machine, node.number) if node.kind == "block" else None

    @cached_property
    def groups(self) -> set[str]:
        """The UUIDs, without hyphens, of the volume groups with an active volume."""
        uuids = (self.machine.line(f"sys/block/{name}/dm/uuid") for name in self.machine.names("sys/block"))
        return {uuid[4:36] for uuid in uuids if uuid.startswith("LVM-")}

    @cached_property
    def _own_mounts(self) -> list[Mount]:
        return mounts_in(self.machine.content("proc/self/mountinfo"))

    @cached_property
    def _points(self) -> dict[str, list[str]]:
        pids = [each for each in self.machine.names("proc") if each.isdigit()]
        lists = {self.machine.content(f"proc/{each}/mountinfo") for each in ("self", *pids)}
        mounted = dict.fromkeys(mount for each in sorted(lists) for mount in mounts_in(each))
        pairs = ((name, one_line(str(each.point))) for each in mounted for name in self._devices_of(each))
        return {name: list(dict.fromkeys(points)) for name, points in grouped(pairs).items()}

    @cached_property
    def _swap_files(self) -> list[str]:
        lines = self.machine.content("proc/swaps").splitlines()[1:]
        return [name_in(line.split()[0]) for line in lines if line.split()]

    @cached_property
    def _swaps(self) -> set[str]:
        return set(filter(None, map(self._name_at, self._swap_files)))

    @cached_property
    def _arrays(self) -> dict[str, list[str]]:
        """The arrays that MD lists, running or not."""
        lines = self.machine.content("proc/mdstat").decode(errors="replace").splitlines()
        arrays = (line.partition(" : ") for line in lines)
        return grouped((member, array) for array, _, rest in arrays for member in _MD_MEMBER.findall(rest))

    @cached_property
    def _btrfs(self) -> dict[str, list[str]]:
        place = "sys/fs/btrfs"
        pairs = (
            (name, uuid)
            for uuid in self.machine.names(place)
            for name in self.machine.names(f"{place}/{uuid}/devices")
        )
        return grouped(pairs)

    @cached_property
    def _pools_by_name(self) -> dict[str, list[str]]:
        pools: dict[str, list[str]] = {}
        if not self.machine.names("proc/spl/kstat/zfs"):
            return pools  # the module is not loaded, so no pool is imported
        done = self.machine.call("zpool", "list", "-vHPL")
        pool = ""
        for line in done.stdout.splitlines():
            words = line.split("\t")
            if words[0]:
                pool = words[0]
            elif len(words) > 1 and (name := self._name_at(words[1])):
                pools.setdefault(pool, []).append(name)
        return pools

    @cached_property
    def _loop_files(self) -> dict[str, str]:
        names = self.machine.names("sys/block")
        pairs = ((name, self.machine.content(f"sys/block/{name}/loop/backing_file")) for name in names)
        return {name: os.fsdecode(file.rstrip(b"\n")) for name, file in pairs if file}

    @cached_property
    def _loops(self) -> dict[str, tuple[str, int]]:
        backed = ((disk.name, disk.backing) for disk in disks(self.machine))
        return {name: (each.filesystem, each.inode) for name, each in backed if each is not None}

    @cached_property
    def _looped(self) -> dict[str, list[str]]:
        pairs = ((self._name_at(file), loop) for loop, file in self._loop_files.items())
        return grouped((name, loop) for name, loop in pairs if name)

    @cached_property
    def _opened(self) -> dict[str, list[str]]:
        """The processes that have a file open, by its path: several processes may open one device."""
        found: dict[str, list[str]] = {}
        for pid in self.machine.names("proc"):
            if not pid.isdigit() or int(pid) in self.own:
                continue
            named = f"{pid} ({self.machine.line(f'proc/{pid}/comm')})"
            for number in self.machine.names(f"proc/{pid}/fd"):
                with suppress(OSError):  # closed meanwhile
                    path = os.readlink(self.machine.root / "proc" / pid / "fd" / number)  # noqa: PTH115
                    if named not in found.setdefault(path, []):
                        found[path].append(named)
        return found


def _first(names: list[str]) -> str:
    """The first of several names, and the number of the others."""
    more = len(names) - _NAMED_MAX
    return ", ".join(names[:_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")


def _processes(names: list[str]) -> str:
    return f"process{'es' if len(names) > 1 else ''} {_first(names)}"
