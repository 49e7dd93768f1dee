# SPDX-License-Identifier: Apache-2.0
"""The disk models of ``kernel/disk`` in user space: their library, bound by ctypes, and texts to feed it.

The configuration text is generated here from plain numbers, apart from ``strata.lab.disk``, so that a mistake
in either shows as a difference.
"""

from __future__ import annotations

import ctypes
import functools
import math
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

READ, WRITE, FLUSH, DISCARD = range(4)
KEYS = 13
PARTS = ("queue_ns", "overhead_ns", "seek_ns", "rotation_ns", "transfer_ns", "flush_ns")

Counts = npt.NDArray[np.uint64]

_ROOT = Path(__file__).resolve().parent.parent


class _List(ctypes.Structure):
    _fields_ = [
        ("count", ctypes.c_uint64),
        ("op", ctypes.c_void_p),
        ("sector", ctypes.c_void_p),
        ("sectors", ctypes.c_void_p),
        ("arrival_ns", ctypes.c_void_p),
        ("complete_ns", ctypes.c_void_p),
        ("parts", ctypes.c_void_p),
        ("order", ctypes.c_void_p),
    ]


@functools.cache
def library() -> ctypes.CDLL:
    """The library, built when a source is newer."""
    subprocess.run(["make", "-s", "-C", str(_ROOT / "kernel" / "disk")], check=True, capture_output=True)
    loaded = ctypes.CDLL(str(_ROOT / "build" / "disk" / "libstratadisk.so"))
    pointer, u64 = ctypes.c_void_p, ctypes.c_uint64
    loaded.strata_disk_open.restype = pointer
    loaded.strata_disk_open.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p]
    loaded.strata_disk_close.argtypes = [pointer]
    loaded.strata_disk_account.argtypes = [pointer, pointer]
    loaded.strata_disk_closed_loop.restype = ctypes.c_int64
    loaded.strata_disk_closed_loop.argtypes = [pointer, pointer, u64, u64]
    loaded.strata_disk_open_list.restype = ctypes.c_int64
    loaded.strata_disk_open_list.argtypes = [pointer, pointer]
    loaded.strata_disk_seek_ns.restype = u64
    loaded.strata_disk_seek_ns.argtypes = [pointer, u64]
    loaded.strata_grid_distance.restype = u64
    loaded.strata_grid_distance.argtypes = [ctypes.c_uint32]
    loaded.strata_account_name.restype = ctypes.c_char_p
    loaded.strata_account_name.argtypes = [ctypes.c_uint32]
    return loaded


def account_names() -> list[str]:
    """The names of the counters, in the order of the driver's sysfs file."""
    return [library().strata_account_name(i).decode() for i in range(KEYS)]


def grid_distance(index: int) -> int:
    """The distance in tracks of a point of the seek table, as the C code has it."""
    return int(library().strata_grid_distance(index))


@dataclass(frozen=True)
class Trace:
    """What became of a list of I/O. Times in ns of virtual time; one row of ``parts`` per I/O."""

    arrival_ns: Counts
    complete_ns: Counts
    parts: Counts
    order: Counts

    @property
    def latency_ns(self) -> Counts:
        """Completion minus arrival."""
        return self.complete_ns - self.arrival_ns

    def part(self, name: str) -> Counts:
        """One counter of every I/O."""
        column: Counts = self.parts[:, account_names().index(name)]
        return column

    @property
    def sum_ns(self) -> Counts:
        """The parts of every I/O's time, added up."""
        total: Counts = np.sum([self.part(name) for name in PARTS], axis=0, dtype=np.uint64)
        return total


class ModelledDisk:
    """A disk made from a configuration text.

    Raises:
        ValueError: With the reader's message, if the text is refused.
    """

    def __init__(self, text: str) -> None:
        message = ctypes.create_string_buffer(160)
        encoded = text.encode()
        self._handle = library().strata_disk_open(encoded, len(encoded), message)
        if not self._handle:
            raise ValueError(message.value.decode())

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            library().strata_disk_close(self._handle)

    def seek_ns(self, distance: int) -> int:
        """Seek time over a distance in tracks."""
        return int(library().strata_disk_seek_ns(self._handle, distance))

    def account(self) -> dict[str, int]:
        """The cumulative counters."""
        values = np.zeros(KEYS, np.uint64)
        library().strata_disk_account(self._handle, values.ctypes.data)
        return dict(zip(account_names(), map(int, values), strict=True))

    def closed_loop(self, ops: Any, sectors: Any, lengths: Any, *, depth: int, start_ns: int = 0) -> Trace:
        """Keeps ``depth`` I/Os outstanding until the list is used up."""
        arrival = np.zeros(len(sectors), np.uint64)
        return self._run(ops, sectors, lengths, arrival, start_ns=start_ns, depth=depth)

    def arrivals(self, ops: Any, sectors: Any, lengths: Any, arrival_ns: Any) -> Trace:
        """Submits each I/O at its time, whatever has completed."""
        return self._run(ops, sectors, lengths, np.array(arrival_ns, np.uint64), start_ns=0, depth=0)

    def _run(
        self, ops: Any, sectors: Any, lengths: Any, arrival: Counts, *, start_ns: int, depth: int
    ) -> Trace:
        count = len(arrival)
        op, length = np.array(ops, np.uint32), np.array(lengths, np.uint32)
        sector = np.array(sectors, np.uint64)
        if op.ndim == 0:
            op = np.full(count, op, np.uint32)
        if length.ndim == 0:
            length = np.full(count, length, np.uint32)
        complete = np.zeros(count, np.uint64)
        parts = np.zeros((count, KEYS), np.uint64)
        order = np.full(count, 2**64 - 1, np.uint64)
        arrays = (op, sector, length, arrival, complete, parts, order)
        io = _List(count, *(array.ctypes.data for array in arrays))
        if depth:
            done = library().strata_disk_closed_loop(self._handle, ctypes.byref(io), start_ns, depth)
        else:
            done = library().strata_disk_open_list(self._handle, ctypes.byref(io))
        if done < 0:
            raise ValueError("the queue was full")
        return Trace(arrival, complete, parts, order[:done])


@dataclass(frozen=True)
class Geometry:
    """A rotating disk in plain numbers, and what theory says about it.

    ``zones`` holds (tracks, sectors per track), outermost first. Seek time in ns at d tracks of N,
    x = d/N: a + b sqrt(x) up to x = k, then c + e x with value and slope continuous (Ruemmler and Wilkes).
    """

    rotation_ns: int = 8_333_333
    track_skew_ns: int = 1_041_667
    overhead_ns: int = 200_000
    write_settle_ns: int = 500_000
    window: int = 8
    wait_limit_ns: int = 500_000_000
    queue_depth: int = 32
    zones: tuple[tuple[int, int], ...] = ((20_000, 2344), (20_000, 1730), (20_000, 1117))
    seek: tuple[float, float, float] = field(default=(2.0e6, 12.13e6, 0.233))

    @property
    def tracks(self) -> int:
        return sum(tracks for tracks, _ in self.zones)

    @property
    def capacity_sectors(self) -> int:
        return sum(tracks * sectors for tracks, sectors in self.zones)

    def first_sector(self, zone: int) -> int:
        """The first sector of a zone."""
        return sum(tracks * sectors for tracks, sectors in self.zones[:zone])

    def curve_ns(self, distance: float) -> float:
        """The seek curve itself, not its table."""
        a, b, k = self.seek
        x = distance / self.tracks
        root = math.sqrt(k)
        return a + b * math.sqrt(x) if x <= k else a + b * root / 2 + b / (2 * root) * x

    def text(self, **changed: object) -> str:
        """The configuration text; keywords replace or, with None, remove keys."""
        points = [round(self.curve_ns(1))]
        while _grid(len(points) - 1) < self.tracks - 1:
            points.append(round(self.curve_ns(_grid(len(points)))))
        values: dict[str, object] = {
            "name": "sda",
            "capacity_sectors": self.capacity_sectors,
            "read_only": 0,
            "backing_fd": 3,
            "model": "rotating",
            "queue_depth": self.queue_depth,
            "overhead_ns": self.overhead_ns,
            "rotation_ns": self.rotation_ns,
            "track_skew_ns": self.track_skew_ns,
            "write_settle_ns": self.write_settle_ns,
            "window": self.window,
            "wait_limit_ns": self.wait_limit_ns,
            "tracks": self.tracks,
            "seek_curve_ns": ",".join(map(str, points)),
        }
        values.update(changed)
        lines = [f"{key}={value}" for key, value in values.items() if value is not None]
        track = 0
        for index, (tracks, sectors) in enumerate(self.zones):
            lines.append(f"zone={self.first_sector(index)},{track},{sectors}")
            track += tracks
        return "\n".join(lines) + "\n"

    def mean_random_read_ns(self, sectors: int) -> float:
        """Overhead + E[seek] + rotation/2 + transfer, for reads uniform over all sectors."""
        return (
            self.overhead_ns + self._mean_seek_ns() + self.rotation_ns / 2 + self._mean_transfer_ns(sectors)
        )

    def sustained_bytes_per_s(self, zone: int) -> float:
        """Sectors per track * 512 / (rotation + skew)."""
        return self.zones[zone][1] * 512 / (self.rotation_ns + self.track_skew_ns) * 1e9

    def _mean_seek_ns(self) -> float:
        """Over all pairs of tracks, weighted by their sectors; a step to the next track costs the skew."""
        weight = np.concatenate([np.full(tracks, float(sectors)) for tracks, sectors in self.zones])
        weight /= weight.sum()
        size = 1 << (2 * len(weight)).bit_length()
        spectrum = np.fft.rfft(weight, size)
        pairs = np.fft.irfft(spectrum * np.conj(spectrum), size)[: len(weight)]
        cost = np.array([self.curve_ns(d) for d in range(len(weight))])
        if len(weight) < 2:
            return 0.0
        back_and_forth = 2 * float((pairs[2:] * cost[2:]).sum())
        return back_and_forth + float(pairs[1]) * (float(cost[1]) + self.track_skew_ns)

    def _mean_transfer_ns(self, sectors: int) -> float:
        """Media time, and the crossings that a read of this length meets on average."""
        share = [tracks * per / self.capacity_sectors for tracks, per in self.zones]
        return sum(
            part * (sectors * self.rotation_ns + (sectors - 1) * self.track_skew_ns) / per
            for part, (_, per) in zip(share, self.zones, strict=True)
        )


def _grid(index: int) -> int:
    if index < 16:
        return index + 1
    octave, step = divmod(index - 16, 16)
    return (16 << octave) + ((step + 1) << octave)


NULL_TEXT = "name=sdb\ncapacity_sectors=2048\nbacking_fd=4\nmodel=null\n"
