# SPDX-License-Identifier: Apache-2.0
"""The content of a modelled disk, which outlives a boot of the lab, and the power cut that ends one."""

from __future__ import annotations

import fcntl
import os
import re
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strata.errors import LabError
from strata.lab.integrity import data_extents, data_hash

POWER_CUT_STATUS: Final = 86
"""The exit status of a lab whose power was cut."""

_CHUNK_BYTES: Final = 1 << 20
_FICLONE: Final = 0x40049409  # linux/fs.h
# Whole lines as the driver writes them: programs in the lab can write to its console, too.
_COUNTS: Final = (
    *("writes_acknowledged", "volatile", "kept", "lost", "torn", "lost_acknowledged", "settled_blocks"),
    *("marks_lost", "error"),
)
_REPORT: Final = re.compile(
    r"strata: power cut at (?P<at_ns>\d{1,20}) ns: disk=(?P<disk>[a-z0-9]{1,31}) "
    + " ".join(rf"{name}=(?P<{name}>\d{{1,20}})" for name in _COUNTS)
    + r"\r?\n"
)
_LEFT_OUT: Final = re.compile(r"strata: trace: (\d{1,20}) requests left out\r?\n")


def nameless_file(folder: Path) -> int:
    """An empty file that nothing can leave behind, on the filesystem of ``folder``."""
    with suppress(OSError):  # not every filesystem can
        return os.open(folder, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
    descriptor, path = tempfile.mkstemp(dir=folder)
    Path(path).unlink()
    return descriptor


class DiskImage:
    """The content of one modelled disk: a sparse file that several boots use in turn.

    A lab leaves it complete when it powers off and when its power is cut. A killed or panicking lab does not,
    and a later boot refuses the image. Use it as a context, or close it.

    After a power-off it also holds the state of the disk's model that outlives one (see `Power`). A disk's
    faults begin anew at each boot: their times count from it, and sectors that were written again are bad
    again.
    """

    def __init__(self, folder: Path, descriptor: int | None = None) -> None:
        """An empty image without a name, on the filesystem of ``folder``; or an open file."""
        self._folder = folder
        self.descriptor = nameless_file(folder) if descriptor is None else descriptor

    @classmethod
    def at(cls, path: Path, *, new: bool = False) -> DiskImage:
        """The image in a file, which is for reading unless it is ``new``."""
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL if new else os.O_RDONLY
        return cls(path.parent, os.open(path, flags | os.O_CLOEXEC, 0o600))

    def copy(self, folder: Path | None = None) -> DiskImage:
        """Another image with the same content, without a name, in ``folder`` or on the same filesystem.

        Where the filesystem can, both share their blocks until one is written.
        """
        other = DiskImage(folder or self._folder)
        try:
            fcntl.ioctl(other.descriptor, _FICLONE, self.descriptor)
        except OSError:
            self._copy_data(other)
        return other

    def _copy_data(self, other: DiskImage) -> None:
        try:
            for start, end in data_extents(self.descriptor, os.fstat(self.descriptor).st_size):
                at = start
                os.lseek(other.descriptor, at, os.SEEK_SET)
                while at < end:
                    at += os.sendfile(other.descriptor, self.descriptor, at, min(_CHUNK_BYTES, end - at))
            os.ftruncate(other.descriptor, os.fstat(self.descriptor).st_size)
        except OSError:
            other.close()
            raise

    def sha256(self) -> str:
        """The hash of its file, independent of holes.

        Images with the same history, command for command, have equal hashes. Images that merely hold the same
        content need not: the file has stale blocks, too, and the place of a block depends on its history.
        """
        return data_hash(self.descriptor)

    @property
    def stored_bytes(self) -> int:
        """The space of the file on the host's disk."""
        return os.fstat(self.descriptor).st_blocks * 512

    def close(self) -> None:
        """Give the content up."""
        os.close(self.descriptor)

    def __enter__(self) -> DiskImage:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


@dataclass(frozen=True)
class PowerCut:
    """When a lab loses its power: one of the two, or, with neither, when a step of the plan cuts it."""

    at_ns: int | None = None  # virtual time since the lab's boot
    # The number of commands (reads, writes, flushes, discards) that the lab's modelled disks accept, all
    # together, before the cut. The last is still in flight.
    after_ios: int | None = None
    seed: int = 0  # decides which parts of volatile writes survive

    def __post_init__(self) -> None:
        assert self.at_ns is None or self.after_ios is None, "a cut has one place"

    @property
    def value(self) -> str:
        """As the driver reads it."""
        if self.at_ns is not None:
            return f"time:{self.at_ns}"
        return "manual" if self.after_ios is None else f"ios:{self.after_ios}"


@dataclass(frozen=True)
class PowerCutDamage:
    """The effect of a power cut on one disk's writes."""

    disk: str  # the block device's name in the lab
    at_ns: int  # when the power was cut, in virtual time since the boot
    writes_acknowledged: int  # writes whose completion was reported
    # Writes, acknowledged or in flight, that were not wholly durable: the sum of the next three.
    volatile: int
    kept: int  # volatile writes that were destaged in time
    lost: int  # volatile writes without a surviving volatile unit
    torn: int  # volatile writes of which some units survived. A unit itself is never torn.
    lost_acknowledged: int  # acknowledged writes that are lost or torn
    # Blocks (of 4 KiB, or the unit if that is larger) that counted as durable because the driver keeps at
    # most 2 GiB of a disk volatile.
    settled_blocks: int


def damage_in(console: str) -> list[PowerCutDamage]:
    """The power cut's damage to each modelled disk, from the lab's console.

    The driver writes it as the lab's last output, so a disk's last line counts.
    """
    found = []
    for disk, match in {match["disk"]: match for match in _REPORT.finditer(console)}.items():
        counts = {name: int(match[name]) for name in ("at_ns", *_COUNTS)}
        # The host's file failed, or the model reported more marks than there is room for.
        if counts.pop("error") or counts.pop("marks_lost"):
            raise LabError(
                f"at the cut of the power the content of {disk} could not be made what the medium held",
                remedy="see console.log; free some space in the lab's cache if the host's disk is full",
            )
        found.append(PowerCutDamage(disk=disk, **counts))
    return found


def trace_left_out(console: str) -> int:
    """The number of requests that came when the trace was full."""
    said = _LEFT_OUT.findall(console)
    return int(said[-1]) if said else 0
