# SPDX-License-Identifier: Apache-2.0
"""Loop devices and network block devices for a trial on a host.

Loop devices are attached to an open file, identified and detached by the kernel's own calls: a path would be
resolved again, and another user may have replaced the file by then. A trial's loop device carries a mark that
only root can set; the file's name proves little, since files can be renamed.

Each free network block device serves one trial. Numbers are soon reused: a trial recognises its own
connection by the process that made it, which is noted in its folder while it runs.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from strata.errors import LabError
from strata.files import closing, create, explained
from strata.lab.folder import PrivateFolder
from strata.machine.reading import SystemFiles
from strata.units import format_size

_DEV: Final = Path("/dev")
# linux/loop.h
_GET_FREE: Final = 0x4C82
_CONFIGURE: Final = 0x4C0A
_GET_STATUS: Final = 0x4C05
_SET_DIRECT_IO: Final = 0x4C08
_CLEAR: Final = 0x4C01
_DIRECT_IO: Final = 16
_NAME_BYTES: Final = 63
# struct loop_info64: device, inode, three of sizes; number, two of encryption, flags; names, key, two more.
_INFO: Final = struct.Struct("=5Q4I64s64s32s2Q")
# struct loop_config: descriptor, block size, the info, reserved.
_CONFIG: Final = struct.Struct(f"=2I{_INFO.size}s8Q")
# Between the kernel's naming of a free one and its use, another program may take it.
_TRIES: Final = 64


@dataclass(frozen=True)
class Attached:
    """The file that a loop device is attached to."""

    mark: str  # the file name that its maker set; on Strata's devices it begins with `mark_of`
    device: int  # the number of the file's filesystem (st_dev)
    inode: int


def mark_of(folder: Path) -> str:
    """The prefix of the marks of a private folder's loop devices. A path would begin with a slash."""
    return f"{folder.name}/"


def attach_images(folder: PrivateFolder, sizes_bytes: Mapping[str, int]) -> dict[str, str]:
    """Make sparse files in a private folder and attach a loop device to each.

    Returns the loop devices' paths by name. Raises LabError if a file or a loop device cannot be made.
    """
    loops = {}
    for name, size_bytes in sizes_bytes.items():
        file = f"{name}.img"
        try:
            with closing(_image(folder, file, size_bytes)) as image:
                loops[name] = attach(image, f"{mark_of(folder.path)}{file}")
        except OSError as error:
            raise LabError(
                f"no loop device for {name}: {error.strerror}",
                place=str(error.filename or folder.path / file),
                remedy="--scratch must be on a filesystem with direct I/O, such as ext4 or XFS on a disk; "
                "the kernel must be 5.8 or newer",
            ) from error
    return loops


def _image(folder: PrivateFolder, file: str, size_bytes: int) -> int:
    try:
        image = create(file, folder.descriptor, 0o600)
        os.ftruncate(image, size_bytes)
    except OSError as error:
        raise LabError(
            f"a file of {format_size(size_bytes)} cannot be made: {error.strerror}",
            place=str(folder.path / file),
            remedy='use a filesystem with larger files, or give the device a `capacity` like "50GiB"',
        ) from error
    return image


def attach(image: int, mark: str) -> str:
    """Attach a free loop device to an open file, with direct I/O, and return its path.

    ``mark`` is cut to 63 bytes. Raises OSError, with nothing attached, if no device is free or the file's
    filesystem has no direct I/O.
    """
    info = _INFO.pack(*[0] * 8, _DIRECT_IO, mark.encode()[:_NAME_BYTES], b"", b"", 0, 0)
    config = _CONFIG.pack(image, 0, info, *[0] * 8)
    for _ in range(_TRIES):
        with _opened(_DEV / "loop-control") as control:
            node = _DEV / f"loop{fcntl.ioctl(control, _GET_FREE)}"
        with _opened(node) as loop:
            try:
                fcntl.ioctl(loop, _CONFIGURE, config)
            except OSError as error:
                if error.errno == errno.EBUSY:
                    continue
                raise
            try:
                fcntl.ioctl(loop, _SET_DIRECT_IO, 1)  # set at configuration, a failure would be ignored
            except OSError:
                fcntl.ioctl(loop, _CLEAR)
                raise
            return str(node)
    raise OSError(errno.EBUSY, "other programs take every free one", str(_DEV / "loop-control"))


def attached(node: Path) -> Attached | None:
    """The file that a loop device is attached to; None if none, or the device cannot be opened."""
    with suppress(OSError), _opened(node, os.O_RDONLY) as loop:
        return _status(loop)
    return None


def detach(node: Path, expected: Attached) -> str | None:
    """Detach a loop device that is still attached to this file; it is free once nothing uses it.

    Returns the reason if that is impossible.
    """
    try:
        with _opened(node) as loop:
            if _status(loop) != expected:
                return "it has been given another file meanwhile"
            fcntl.ioctl(loop, _CLEAR)
    except OSError as error:
        return None if error.errno == errno.ENXIO else error.strerror
    return None


def _status(loop: int) -> Attached:
    fields = _INFO.unpack(fcntl.ioctl(loop, _GET_STATUS, bytes(_INFO.size)))
    device, inode, mark = fields[0], fields[1], fields[9]
    return Attached(mark.rstrip(b"\0").decode(errors="replace"), device, inode)


def _opened(node: Path, flags: int = os.O_RDWR) -> AbstractContextManager[int]:
    return closing(os.open(node, flags | os.O_CLOEXEC | os.O_NOFOLLOW))


CONNECTIONS_NAME: Final = "connections.json"
"""The file of a private folder that holds the process that connected each of the trial's devices."""

_NAME = re.compile(r"nbd[0-9]+")


@contextmanager
def network_devices(wanted: Sequence[str], root: Path = Path("/")) -> Iterator[dict[str, str]]:
    """A free device for each variable, kept from other trials inside the context.

    Raises LabError if too few are free.
    """
    with ExitStack() as taken:
        found: list[str] = []
        for device in _devices(root):
            if len(found) == len(wanted):
                break
            if _is_free(root, device) and (lock := take(device)) is not None:
                taken.enter_context(lock)
                if _is_free(root, device):  # check again, now that it is reserved
                    found.append(device)
        if len(found) < len(wanted):
            raise LabError(
                f"{len(wanted)} network block devices are needed, and only {len(found)} are free",
                place="/sys/block/nbd*",
                remedy="load the driver with more: `modprobe -r nbd; modprobe nbd nbds_max=64`",
            )
        yield {name: f"/dev/{device}" for name, device in zip(wanted, found, strict=True)}


def _devices(root: Path) -> list[str]:
    names = [path.name for path in (root / "sys/block").glob("nbd*") if _NAME.fullmatch(path.name)]
    return sorted(names, key=lambda name: int(name.removeprefix("nbd")))


def _is_free(root: Path, device: str) -> bool:
    # A connected device has the file; whether it can be read must not matter.
    return not (root / "sys/block" / device / "pid").exists()


def take(device: str) -> socket.socket | None:
    """Reserve a device until the returned socket is closed; None if another trial has it.

    An abstract address can be bound once, and becomes free whenever its owner ends.
    """
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        lock.bind(f"\0strata/{device}")
    except OSError:
        lock.close()
        return None
    return lock


@dataclass
class Connections:
    """The connections of a trial's devices, noted in its private folder."""

    folder: Path
    devices: Sequence[str]
    root: Path = Path("/")
    _recorded: dict[str, str] = field(default_factory=dict)

    def record(self) -> None:
        """Note who has connected them; not durably, since a restart ends the connections. Raises LabError."""
        names = [device.removeprefix("/dev/") for device in self.devices]
        now = {name: pid for name in names if (pid := _connected_by(self.root, name))}
        if now == self._recorded:
            return
        part = self.folder / f"{CONNECTIONS_NAME}.part"
        with explained(part, "note the network block devices", LabError):
            part.write_text(json.dumps(now))
            part.replace(self.folder / CONNECTIONS_NAME)
        self._recorded = now


def connections_left(folder: Path, root: Path) -> set[str]:
    """The devices that are still connected as noted in a trial's folder."""
    with suppress(OSError, ValueError, AttributeError):
        recorded = json.loads((folder / CONNECTIONS_NAME).read_text())
        return {name for name, pid in recorded.items() if pid and pid == _connected_by(root, name)}
    return set()


def _connected_by(root: Path, device: str) -> str:
    return SystemFiles(root).text(f"sys/block/{device}/pid")
