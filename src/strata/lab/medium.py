# SPDX-License-Identifier: Apache-2.0
"""What of a modelled disk outlives a boot of the lab, and the cut of its power that ends one."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from strata.errors import LabError

POWER_CUT_STATUS: Final = 86
"""The exit status of a lab whose power was cut."""

_BLOCK_BYTES: Final = 4096
_CHUNK_BYTES: Final = 1 << 20
_REPORT: Final = re.compile(r"strata: power cut at (\d+) ns: disk=(\S+) (.*)")
_LEFT_OUT: Final = re.compile(r"strata: trace: (\d+) requests left out")


def nameless_file(folder: Path) -> int:
    """An empty file that nothing can leave behind, on the filesystem of ``folder``."""
    with suppress(OSError):  # not every filesystem can
        return os.open(folder, os.O_RDWR | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
    descriptor, path = tempfile.mkstemp(dir=folder)
    Path(path).unlink()
    return descriptor


class Medium:
    """The content of one modelled disk: a sparse file without a name that several boots use in turn.

    A lab that gets it leaves it complete when it powers off and when its power is cut. One that is killed or
    panics does not, and a later boot refuses such a medium. Use it as a context, or close it.

    Attributes:
        descriptor: The open file. It belongs to the medium.
    """

    def __init__(self, folder: Path) -> None:
        """An empty medium, whose file lies on the filesystem of ``folder``."""
        self._folder = folder
        self.descriptor = nameless_file(folder)

    def copy(self) -> Medium:
        """Another medium with the same content: to cut the power twice at the same place, for example."""
        other = Medium(self._folder)
        size_bytes = os.fstat(self.descriptor).st_size
        for start, end in self._data():
            at = start
            while at < end:
                part = os.pread(self.descriptor, min(_CHUNK_BYTES, end - at), at)
                os.pwrite(other.descriptor, part, at)
                at += len(part)
        os.ftruncate(other.descriptor, size_bytes)
        return other

    def sha256(self) -> str:
        """The hash of what it holds, wherever its file has holes: equal media have equal hashes."""
        digest = hashlib.sha256()
        zeros = bytes(_BLOCK_BYTES)
        for start, end in self._data():
            for at in range(start - start % _BLOCK_BYTES, end, _CHUNK_BYTES):
                chunk = os.pread(self.descriptor, min(_CHUNK_BYTES, end - at), at)
                for offset in range(0, len(chunk), _BLOCK_BYTES):
                    block = chunk[offset : offset + _BLOCK_BYTES]
                    if block != zeros[: len(block)]:
                        digest.update((at + offset).to_bytes(8, "little") + block)
        return digest.hexdigest()

    @property
    def stored_bytes(self) -> int:
        """What the file takes of the host's disk."""
        return os.fstat(self.descriptor).st_blocks * 512

    def close(self) -> None:
        """Give the content up."""
        os.close(self.descriptor)

    def __enter__(self) -> Medium:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _data(self) -> Iterator[tuple[int, int]]:
        at, size_bytes = 0, os.fstat(self.descriptor).st_size
        while at < size_bytes:
            try:
                start = os.lseek(self.descriptor, at, os.SEEK_DATA)
            except OSError as error:
                if error.errno == errno.ENXIO:  # only a hole is left
                    return
                raise
            at = os.lseek(self.descriptor, start, os.SEEK_HOLE)
            yield start, at


@dataclass(frozen=True)
class PowerCut:
    """When a lab loses its power: one of the two, or, with neither, when a step of the plan cuts it.

    Attributes:
        at_ns: Virtual time since the lab's boot.
        after_ios: When the lab's modelled disks, all together, have accepted so many commands (reads,
            writes, flushes, discards). The last of them is still in flight.
        seed: Decides what survives of the writes that were not durable.
    """

    at_ns: int | None = None
    after_ios: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        assert self.at_ns is None or self.after_ios is None, "a cut has one place"

    @property
    def value(self) -> str:
        """As the driver is told it."""
        if self.at_ns is not None:
            return f"time:{self.at_ns}"
        return "manual" if self.after_ios is None else f"ios:{self.after_ios}"


@dataclass(frozen=True)
class Loss:
    """What a cut of the power left of one disk's writes.

    Attributes:
        disk: The block device's name in the lab.
        at_ns: When the power was cut, in virtual time since the boot.
        writes_acknowledged: Writes that were told to be complete.
        volatile: Writes, acknowledged or in flight, of which a part was not durable yet; they are the
            sum of the next three.
        kept: Of these, destaged in time after all.
        lost: Nothing survived of what was not durable.
        torn: Some units survived, some did not. A unit itself is never torn.
        lost_acknowledged: Writes that are lost or torn though their completion had been told.
        settled: Writes that counted as durable because more was volatile than the driver keeps (2 GiB).
    """

    disk: str
    at_ns: int
    writes_acknowledged: int
    volatile: int
    kept: int
    lost: int
    torn: int
    lost_acknowledged: int
    settled: int


def losses_in(console: str) -> list[Loss]:
    """What the lab said on its console when its power was cut, for each of its modelled disks.

    Raises:
        LabError: If a disk's file could not be made what the medium held.
    """
    found = []
    for at_ns, disk, rest in _REPORT.findall(console):
        pairs = (pair.split("=", 1) for pair in rest.split())
        counts = {name: int(value) for name, value in pairs}
        # The host's file failed, or the model has told of more than there is room for.
        if counts.pop("error") or counts.pop("marks_lost"):
            raise LabError(
                f"at the cut of the power the content of {disk} could not be made what the medium held",
                remedy="see console.log; free some space in the lab's cache if the host's disk is full",
            )
        found.append(Loss(disk=disk, at_ns=int(at_ns), **counts))
    return found


def trace_left_out(console: str) -> int:
    """How many requests came when the trace was full."""
    return sum(int(count) for count in _LEFT_OUT.findall(console))
