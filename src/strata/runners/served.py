# SPDX-License-Identifier: Apache-2.0
"""A modelled disk served to this machine's kernel in real time: a FUSE file, and as root a loop device on it.

The server is ``kernel/serve/serve.c``, in a thread of this process.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import random
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np

from strata.devices.device import Device
from strata.errors import LabError, ToolError
from strata.files import explained
from strata.lab.disk import driver_config
from strata.lab.folder import PrivateFolder, delete, opened_place, private_folder, run_root, stale_folders
from strata.lab.model import ModelledDisk
from strata.runners.block_devices import attach, mark_of
from strata.runners.leftovers import remove_leftovers
from strata.units import NS_PER_MS, NS_PER_US

OPERATIONS: Final = ("read", "write", "flush", "discard")
"""In the order of ``enum disk_op``."""

PERCENTS: Final = (50, 95, 99, 99.9)

_DISK: Final = "disk"
_DEV_FUSE: Final = Path("/dev/fuse")
_MOUNT_FLAGS: Final = 2 | 4  # MS_NOSUID, MS_NODEV
_CONTENT_FOLDER: Final = Path("/dev/shm")  # noqa: S108  memory; the file has no name
_LATE_US: Final = 65536
_SPIN_NS: Final = 20_000
_TRIES: Final = 300
_PATIENCE_S: Final = 5.0
_CALM_NS: Final = 200_000  # of serve.c
_BLOCK_BYTES: Final = 4096
_REQUEST_MOST_KIB: Final = 1024  # through FUSE
_SYS_BLOCK: Final = Path("/sys/block")


class _Served(ctypes.Structure):
    """``struct strata_served`` of ``serve.c``."""

    _fields_ = [
        *((name, ctypes.c_int) for name in ("fuse", "store")),
        *((name, ctypes.c_uint64) for name in ("size_bytes", "spin_ns", "lead_ns", "live")),
        *((name, ctypes.c_uint64 * len(OPERATIONS)) for name in ("requests", "bytes", "model_ns")),
        *((name, ctypes.c_uint64) for name in ("failed", "late_ns_max")),
        ("late_us", ctypes.c_uint64 * _LATE_US),
    ]


@dataclass(frozen=True)
class ServedCounts:
    """The requests that a served disk has answered, and how late.

    Attributes:
        requests: By `OPERATIONS`.
        model_ns: The mean latency in the model's time, by `OPERATIONS`; waits in the kernel are not in it.
        late_ns: By `PERCENTS`: between the instant that the model computed and the answer.
        kernel_ns: The mean latency that the kernel saw on the loop device, by `OPERATIONS`.
    """

    requests: dict[str, int]
    bytes: dict[str, int]
    model_ns: dict[str, int]
    failed: int
    late_ns: dict[str, int]
    late_ns_max: int
    kernel_ns: dict[str, int] = field(default_factory=dict)


class DiskServer:
    """A modelled disk behind a FUSE connection, or a socket that behaves as one; it closes both descriptors.

    Every request takes the same time, `_CALM_NS`, until `go_live`.
    """

    def __init__(self, disk: ModelledDisk, connection: int, store: int) -> None:
        os.set_blocking(connection, False)
        self._disk = disk
        self._served = _Served(connection, store, os.fstat(store).st_size, _SPIN_NS)
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        _schedule(os.SCHED_FIFO, 1)
        self._disk.serve(ctypes.byref(self._served))
        os.close(self._served.fuse)
        os.close(self._served.store)

    def go_live(self, lead_ns: int = 0) -> None:
        """Begin the model's time. ``lead_ns`` is the time that a request spends outside of the model."""
        self._served.lead_ns = lead_ns
        self._served.live = 1

    def join(self) -> None:
        """Wait until the other end is gone; not for a mount that another namespace has a copy of."""
        self._thread.join(_PATIENCE_S)

    def counts(self) -> ServedCounts:
        served, late = self._served, np.cumsum(np.array(self._served.late_us))
        at = np.searchsorted(late, [late[-1] * percent / 100 for percent in PERCENTS])
        requests, sizes, sums_ns = (
            dict(zip(OPERATIONS, map(int, values), strict=True))
            for values in (served.requests, served.bytes, served.model_ns)
        )
        model_ns = {name: sums_ns[name] // count for name, count in requests.items() if count}
        late_ns = {f"p{percent}": int(us) * NS_PER_US for percent, us in zip(PERCENTS, at, strict=True)}
        return ServedCounts(requests, sizes, model_ns, served.failed, late_ns, served.late_ns_max)


@dataclass(frozen=True)
class ServedDisk:
    """A disk that is being served.

    Attributes:
        path: The loop device, or without root the file.
        way_ns: What a request takes on the way to the server and back.
        room_bytes: To what its content can grow.
    """

    path: Path
    size_bytes: int
    way_ns: int
    room_bytes: int
    server: DiskServer
    began: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def counts(self) -> ServedCounts:
        """The requests so far."""
        seen = {
            name: (total_ns - self.began[name][1]) // (count - self.began[name][0])
            for name, (count, total_ns) in _seen_by_kernel(self.path).items()
            if count > self.began[name][0]
        }
        return replace(self.server.counts(), kernel_ns=seen)


@contextmanager
def served_disk(
    device: Device,
    *,
    seed: int = 1,
    size_bytes: int | None = None,
    content: Path | None = None,
    as_file: bool = False,
) -> Iterator[ServedDisk]:
    """Serve a modelled disk until the context ends; its content, sparse, lies in a nameless file.

    Without root, or ``as_file``, there is no loop device.

    Raises ToolError if the machine lacks what it takes, LabError if the file is too large for its filesystem,
    RunError if somebody still uses the disk at the end.
    """
    size_bytes = size_bytes or device.capacity_bytes
    config = driver_config(device, name="sda", backing_fd=3, capacity_bytes=size_bytes, seed=seed)
    try:
        modelled = ModelledDisk(config)
    except ValueError as error:
        cause, remedy = f"the model refuses the device: {error}", "change the parameters that it names"
        raise LabError(cause, place=device.name, remedy=remedy) from error
    place = content or _CONTENT_FOLDER
    with explained(place, f"keep a disk of {size_bytes} bytes", LabError):
        store = os.open(place, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        os.ftruncate(store, size_bytes)
        space = os.fstatvfs(store)
    server = None
    try:
        with private_folder(served_root(), remove=remove_served) as folder:
            server = DiskServer(modelled, _mounted(folder), store)
            file = folder.path / _DISK
            is_file = as_file or os.geteuid() != 0
            with nullcontext(file) if is_file else _looped(folder, file, device) as path:
                way_ns = _way_ns(path, size_bytes)
                server.go_live(way_ns)
                room_bytes = space.f_bavail * space.f_frsize
                yield ServedDisk(path, size_bytes, way_ns, room_bytes, server, _seen_by_kernel(path))
    finally:
        if server is None:
            os.close(store)
    server.join()


def served_root() -> Path:
    """Where the folders of served disks lie."""
    return run_root() / "served"


def clean_served() -> list[str]:
    """Remove the disks of killed servers; a line for each removal."""
    return [line for path in stale_folders(served_root()) for line in remove_served(path)]


def remove_served(path: Path) -> list[str]:
    """Detach, unmount and delete a served disk. Raises RunError if it is still in use."""
    if os.geteuid() == 0:
        return remove_leftovers(path)
    with suppress(OSError):  # without it there was no mount
        subprocess.run(["fusermount3", "-u", path / _DISK], capture_output=True, check=False)
    with opened_place(path.parent) as place:
        delete(path.name, place)
    return [f"deleted {path}"]


def _mounted(folder: PrivateFolder) -> int:
    """Mount the filesystem, which is one file, on a file in the folder: its open connection."""
    folder.write(_DISK, b"", 0o600)
    point = folder.path / _DISK
    if not _DEV_FUSE.exists():
        raise ToolError(
            "the kernel has no FUSE",
            place=str(_DEV_FUSE),
            remedy="modprobe fuse; a container must be given this device",
        )
    if os.geteuid() != 0:
        return _mounted_by_fusermount(point)
    connection = os.open(_DEV_FUSE, os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={connection},rootmode=100600,user_id=0,group_id=0,default_permissions"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"strata", os.fsencode(point), b"fuse.strata", _MOUNT_FLAGS, options.encode()):
        os.close(connection)
        cause = f"a FUSE filesystem cannot be mounted: {os.strerror(ctypes.get_errno())}"
        raise ToolError(cause, place=str(point), remedy="a container must be allowed to mount")
    return connection


def _mounted_by_fusermount(point: Path) -> int:
    if shutil.which("fusermount3") is None:
        remedy = "apt-get install --no-install-recommends fuse3; or run it as root"
        raise ToolError("without root, fusermount3 is needed", place=str(point), remedy=remedy)
    ours, its = socket.socketpair()
    with ours, its:
        done = subprocess.run(
            ["fusermount3", "-o", "nosuid,nodev,fsname=strata,subtype=strata", "--", point],
            env={**os.environ, "_FUSE_COMMFD": str(its.fileno())},
            pass_fds=[its.fileno()],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ToolError(
                done.stderr.strip(), place=str(point), remedy="see /etc/fuse.conf; or run it as root"
            )
        return socket.recv_fds(ours, 1, 1)[1][0]


@contextmanager
def _looped(folder: PrivateFolder, path: Path, device: Device) -> Iterator[Path]:
    """A loop device on the file, with the queue that the lab gives such a disk."""
    file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    try:
        loop = Path(attach(file, f"{mark_of(folder.path)}{_DISK}"))
    except OSError as error:
        place, cause = str(error.filename or path), f"no loop device: {error.strerror}"
        raise ToolError(cause, place=place, remedy="modprobe loop; a container must be given them") from error
    finally:
        os.close(file)
    several = "hardware_queues" in device.parameters and device.whole("hardware_queues") > 1
    values = {
        "nr_requests": device.queue_depth,  # without a scheduler, of the driver's queue
        "max_sectors_kb": _REQUEST_MOST_KIB,
        "rotational": int((device.member or device).kind == "rotating"),
        "scheduler": "none" if several else "mq-deadline",
    }
    before = _set_queue(loop, values)
    try:
        yield loop
    finally:
        _set_queue(loop, before)


def _set_queue(loop: Path, values: Mapping[str, object]) -> dict[str, str]:
    """Set what the kernel lets be set of a device's queue; the values before."""
    queue, before = _SYS_BLOCK / loop.name / "queue", dict[str, str]()
    for name in values:
        with suppress(OSError):
            words = (queue / name).read_text().split()
            before[name] = next((word.strip("[]") for word in words if word.startswith("[")), words[0])
    for name, value in (("scheduler", "none"), *values.items()):
        with suppress(OSError):
            (queue / name).write_text(f"{value}\n")
    return before


def _seen_by_kernel(path: Path) -> dict[str, tuple[int, int]]:
    """Of a block device the completed requests and their time in ns, by `OPERATIONS`; of a file nothing."""
    try:
        numbers = [*map(int, (_SYS_BLOCK / path.name / "stat").read_text().split())]
    except OSError:
        return {}
    return {
        name: (numbers[at], numbers[at + after] * NS_PER_MS)
        for name, at, after in zip(OPERATIONS, (0, 4, 15, 11), (3, 3, 1, 3), strict=True)
    }


def _way_ns(path: Path, size_bytes: int) -> int:
    """The lower quartile of the times of reads beyond `_CALM_NS`: on a busy machine the others waited."""
    taken_ns = []
    with mmap.mmap(-1, _BLOCK_BYTES) as buffer:
        disk = os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC)
        _schedule(os.SCHED_FIFO, 1)
        try:
            for _ in range(_TRIES):
                offset = random.randrange(max(1, size_bytes // _BLOCK_BYTES)) * _BLOCK_BYTES  # noqa: S311
                begin_ns = time.perf_counter_ns()
                os.preadv(disk, [buffer], offset)
                taken_ns.append(time.perf_counter_ns() - begin_ns)
        finally:
            _schedule(os.SCHED_OTHER, 0)
            os.close(disk)
    return max(0, sorted(taken_ns)[_TRIES // 4] - _CALM_NS)


def _schedule(policy: int, priority: int) -> None:
    """Set how this thread is scheduled; without root it waits its turn."""
    with suppress(OSError):
        os.sched_setscheduler(0, policy, os.sched_param(priority))
