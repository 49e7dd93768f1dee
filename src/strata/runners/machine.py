# SPDX-License-Identifier: Apache-2.0
"""The disk and the programs of a host, as results state them."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strata.disks.machine import call, mount_of, mounts
from strata.machine.reading import SystemFiles

_OWN_FILES: Final = SystemFiles()
_VERSION_LIMIT_S: Final = 10.0
# The first that a program accepts; mkfs.* know only the second, and many take it for something else.
_VERSION_OPTIONS: Final = ("--version", "-V")
_PACKAGES: Final = {
    "acl": ("getfacl", "setfacl"),
    "attr": ("getfattr", "setfattr"),
    "bcache-tools": ("bcache", "bcache-super-show", "make-bcache"),
    "btrfs-progs": ("btrfs", "mkfs.btrfs"),
    "cryptsetup-bin": ("cryptsetup", "integritysetup"),
    "dmsetup": ("dmsetup",),
    "e2fsprogs": (
        *("chattr", "debugfs", "e2fsck", "mkfs.ext2", "mkfs.ext3", "mkfs.ext4", "resize2fs", "tune2fs"),
    ),
    "f2fs-tools": ("fsck.f2fs", "mkfs.f2fs", "resize.f2fs"),
    "fdisk": ("sfdisk",),
    "fio": ("fio",),
    "lvm2": (
        *("lvchange", "lvconvert", "lvcreate", "lvextend", "lvreduce", "lvremove", "lvresize", "lvs"),
        *("pvcreate", "pvremove", "vgchange", "vgcreate", "vgextend", "vgreduce", "vgremove"),
    ),
    "mdadm": ("mdadm",),
    "nbd-client": ("nbd-client",),
    "openssh-client": ("ssh", "ssh-keygen"),
    "postgresql": ("initdb", "pg_isready", "pgbench", "postgres", "psql"),
    "python3-minimal": ("python3",),
    "qemu-system-x86": ("qemu-system-x86_64",),
    "qemu-utils": ("qemu-img", "qemu-nbd", "qemu-storage-daemon"),
    "quota": ("quotacheck", "quotaoff", "quotaon", "repquota", "setquota"),
    "systemd-container": ("systemd-nspawn",),
    "udev": ("udevadm",),
    "xfsprogs": ("mkfs.xfs", "xfs_growfs", "xfs_io", "xfs_quota", "xfs_repair", "xfs_scrub"),
    "zfsutils-linux": ("zfs", "zpool"),
}
"""Debian's packages of what layers and workloads run and a plain system lacks."""


@dataclass(frozen=True)
class Scratch:
    """The filesystem and disk under a folder."""

    filesystem: str
    device: str  # the disk's model, serial number and size, as far as known; else the mount's source
    disk: str | None = None  # the kernel's name


def scratch_of(folder: Path) -> Scratch:
    """The filesystem and disk under an existing folder."""
    mount = mount_of(folder, mounts())
    if mount is None:
        return Scratch("unknown", "unknown")
    place = _place_of(mount.source)
    if place is None:
        return Scratch(mount.filesystem, mount.source)
    disk = place.parent if (place / "partition").exists() else place
    return Scratch(mount.filesystem, _disk_identity(disk, _OWN_FILES.line(place / "partition")), disk.name)


def _place_of(source: str) -> Path | None:
    """The sysfs folder of a block device; None for anything else."""
    try:
        number = os.stat(source).st_rdev  # noqa: PTH116  a source need not be a path
    except OSError:
        return None
    place = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}")
    return place.resolve() if number and place.exists() else None


def _disk_identity(disk: Path, part: str) -> str:
    """The disk's own description, and the partition's number."""
    said = [_OWN_FILES.line(disk / name) for name in ("device/model", "device/serial", "wwid", "device/wwid")]
    known = list(dict.fromkeys(each for each in said if each)) or [disk.name]
    return ", ".join(
        [*known, f"{_OWN_FILES.line(disk / 'size')} sectors", *([f"partition {part}"] if part else [])]
    )


def missing_tools(tools: Iterable[str], environment: Mapping[str, str]) -> Iterator[str]:
    """The missing programs, each as half a sentence with Debian's package."""
    for tool in tools:
        if not shutil.which(tool, path=environment["PATH"]):
            package = next((name for name, programs in _PACKAGES.items() if tool in programs), None)
            yield f"{tool} is not installed" + (f" (Debian's package {package})" if package else "")


def tool_versions(tools: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    """The first line of each program's version; programs that state none are left out."""
    found = {}
    for tool, option in itertools.product(tools, _VERSION_OPTIONS):
        if tool in found:
            continue
        done = call(tool, option, limit_s=_VERSION_LIMIT_S, environment=environment)
        if done.returncode == 0 and (text := (done.stdout or done.stderr).strip()):
            found[tool] = text.splitlines()[0]
    return found
