# SPDX-License-Identifier: Apache-2.0
"""Measurements for a data sheet, each on a new device, with fixed seeds: equal everywhere; curves of them."""

from __future__ import annotations

from bisect import bisect, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from strata.devices.device import Device
from strata.errors import LabError
from strata.lab.disk import driver_config
from strata.lab.model import FLUSH, READ, WRITE, ModelledDisk, ModelTrace
from strata.seeds import derive_seed
from strata.units import NS_PER_S, SECTOR_BYTES

BLOCK_BYTES: Final = 4096
_BLOCK_SECTORS: Final = BLOCK_BYTES // SECTOR_BYTES
_SEED: Final = 1
_SEQUENTIAL_BYTES: Final = 1 << 18
_OUT_OF_TURN: Final = 0.2
_DESCRIPTOR: Final = 3  # of a backing file, which the library never uses

Sectors = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class Subject:
    """A device and its used capacity, to which a model scales a flash drive's map and spare room."""

    device: Device
    capacity_bytes: int | None = None

    @property
    def sectors(self) -> int:
        return (self.capacity_bytes or self.device.capacity_bytes) // SECTOR_BYTES

    def text(self, seed: int | None = None) -> str:
        size, seed = self.capacity_bytes, derive_seed(_SEED, "model") if seed is None else seed
        return driver_config(self.device, name="sda", backing_fd=_DESCRIPTOR, capacity_bytes=size, seed=seed)

    def open(self, seed: int | None = None) -> ModelledDisk:
        """A new disk of this kind; raises `LabError` if the model refuses the parameters."""
        try:
            return ModelledDisk(self.text(seed))
        except ValueError as error:
            cause, remedy = f"the model refuses the device: {error}", "change the parameters that it names"
            raise LabError(cause, place=self.device.name, remedy=remedy) from error

    def random(self, op: int, *, depth: int, count: int, flags: int = 0) -> ModelTrace:
        """Random 4-KiB reads or writes, ``depth`` at a time, on a new disk."""
        return random_trace(self.open(), op, self.sectors, depth=depth, count=count, flags=flags)

    @property
    def is_volatile(self) -> bool:
        """Whether a power cut loses acknowledged writes, so that the block layer sends flushes."""
        return "volatile_cache=1" in self.text().splitlines()

    def with_values(self, values: Mapping[str, float]) -> Subject:
        """The same with other values of some parameters."""
        stated = self.device.parameters
        changed = {name: stated[name].model_copy(update={"value": value}) for name, value in values.items()}
        return replace(self, device=replace(self.device, parameters={**stated, **changed}))


def random_blocks(sectors: int, count: int, name: str) -> Sectors:
    """Uniformly random 4-KiB blocks of a device: their first sectors. ``name`` names the seed."""
    rng = np.random.default_rng(derive_seed(_SEED, name))
    return rng.integers(0, sectors // _BLOCK_SECTORS, count).astype(np.uint64) * np.uint64(_BLOCK_SECTORS)


def random_trace(
    disk: ModelledDisk, op: int, sectors: int, *, depth: int, count: int, flags: int = 0, name: str = "random"
) -> ModelTrace:
    blocks = random_blocks(sectors, count, name)
    return disk.closed_loop(op, blocks, _BLOCK_SECTORS, depth=depth, flags=flags)


PATTERNS: Final[Mapping[str, tuple[int, bool]]] = {
    "randread": (READ, True),
    "randwrite": (WRITE, True),
    "read": (READ, False),
    "write": (WRITE, False),
}
"""fio's ``rw``: the operation, and whether its places are random."""
MIXES: Final = ("randrw", "rw", "readwrite")
"""fio's ``rw`` of a job that reads and writes at once."""


@dataclass(frozen=True)
class Pattern:
    """A load: ``rw`` of `PATTERNS`, ``depth`` requests at a time.

    Attributes:
        flush_every: Writes between two flushes; 0: no flushes. The latencies are of the writes.
        span_bytes: It keeps to so much from the first sector on; 0: the whole device.
        beside_percent: So many of a hundred requests are of the other direction (fio's ``randrw``); the
            figures are of ``rw``'s alone.
    """

    rw: str
    block_bytes: int
    depth: int
    flush_every: int = 0
    span_bytes: int = 0
    beside_percent: int = 0

    @property
    def is_write(self) -> bool:
        return PATTERNS[self.rw][0] == WRITE

    @property
    def is_pure(self) -> bool:
        return not self.beside_percent

    @property
    def job(self) -> str:
        """The ``rw`` of fio's whole job: ``randrw`` or ``rw`` of a mix."""
        return self.rw if self.is_pure else "randrw" if PATTERNS[self.rw][1] else "rw"

    def own(self, count: int, seed: int = _SEED) -> npt.NDArray[np.bool_]:
        """Which requests are of ``rw``'s direction: of both halves of a mix the same requests."""
        reads = 100 - self.beside_percent if not self.is_write else self.beside_percent
        is_read = np.random.default_rng(derive_seed(seed, "mix")).random(count) < reads / 100
        return ~is_read if self.is_write else is_read

    def fits(self, subject: Subject) -> bool:
        return 0 < self.block_bytes // SECTOR_BYTES <= subject.sectors // 2


def measure(  # noqa: PLR0917
    subject: Subject, disk: ModelledDisk, pattern: Pattern, count: int, kept_back: int = 0, seed: int = _SEED
) -> ModelTrace:
    """The pattern on an open disk of the subject.

    The host keeps ``kept_back`` requests from the disk and hands them over in order. If the disk's queue
    holds fewer than ``depth``, the host's scheduler sorts the requests that wait. A request arrives when the
    host takes it, as a program sees it; the parts of its time begin at the disk.
    """
    operation, at_random = PATTERNS[pattern.rw]
    other = READ if operation == WRITE else WRITE
    length = pattern.block_bytes // SECTOR_BYTES
    span_sectors = min(subject.sectors, pattern.span_bytes // SECTOR_BYTES or subject.sectors)
    blocks = max(1, span_sectors // length)
    places = np.arange(count) % blocks
    if at_random:
        rng = np.random.default_rng(derive_seed(seed, "measured", pattern.job, str(pattern.depth)))
        places = rng.integers(0, blocks, count)
    held = max(1, min(pattern.depth - kept_back, subject.device.queue_depth))
    every = pattern.flush_every or count
    after = np.arange(every, count, every)
    ops = np.insert(np.where(pattern.own(count, seed), operation, other), after, FLUSH)
    sectors, lengths = (np.insert(each, after, 0) for each in (places * length, np.full(count, length)))
    trace = disk.closed_loop(ops, sectors, lengths, depth=held)
    if held < pattern.depth:
        is_sorted = pattern.depth > subject.device.queue_depth
        depth = pattern.depth
        arrival_ns = _sorted_arrivals(trace, held, depth, seed) if is_sorted else _arrivals(trace, depth)
        trace = replace(trace, arrival_ns=arrival_ns)
    return _without_flushes(trace, ops) if len(after) else trace


def _arrivals(trace: ModelTrace, depth: int) -> npt.NDArray[np.uint64]:
    """When a program issued each request, if a host hands over in order what the disk does not hold."""
    arrival = np.full(len(trace.arrival_ns), trace.arrival_ns[0], np.uint64)
    arrival[depth:] = np.sort(trace.complete_ns)[: max(0, len(arrival) - depth)]
    return arrival


def _sorted_arrivals(trace: ModelTrace, held: int, depth: int, seed: int) -> npt.NDArray[np.uint64]:
    """The same if the host's scheduler (deadline) sorts by place, in one direction over and over.

    Some are taken out of turn. Of real SATA drives at depth 64 the 99th percentile was 2.5 times the median
    behind AHCI and 1.6 times behind a host bus adapter (devices/real); all in turn make 1.5, and these 2.
    """
    arrival = _arrivals(trace, depth)
    count, begin = len(arrival), int(arrival[0])
    rng = np.random.default_rng(seed)
    place, chance = rng.random(count + depth), rng.random(count)
    waiting = sorted((place[count + number], begin) for number in range(depth - held))
    at = 0.0
    for number, end in enumerate(np.sort(trace.complete_ns)[: max(0, count - held)].tolist()):
        insort(waiting, (place[number], end))
        if chance[number] < _OUT_OF_TURN:
            index = int(chance[number] / _OUT_OF_TURN * len(waiting))
            arrival[held + number] = waiting.pop(index)[1]
        else:
            at, arrival[held + number] = waiting.pop(bisect(waiting, (at, 0)) % len(waiting))
    return arrival


def _without_flushes(trace: ModelTrace, ops: npt.NDArray[Any]) -> ModelTrace:
    """The writes alone, at the rate that the flushes leave them."""
    is_write = ops != FLUSH
    order = np.arange(np.count_nonzero(is_write), dtype=np.uint64)
    return ModelTrace(trace.arrival_ns[is_write], trace.complete_ns[is_write], trace.parts[is_write], order)


def sequential_trace(
    disk: ModelledDisk, op: int, sectors: int, *, first_byte: int = 0, total_bytes: int, depth: int
) -> ModelTrace:
    """256-KiB reads or writes in order, ``depth`` at a time; past the end of the device they wrap around."""
    length = _SEQUENTIAL_BYTES // SECTOR_BYTES
    count = max(depth + 2, total_bytes // _SEQUENTIAL_BYTES)
    first = max(0, first_byte) // BLOCK_BYTES * _BLOCK_SECTORS
    places = (first + length * np.arange(count, dtype=np.int64)) % (sectors - length + 1)
    return disk.closed_loop(op, places, length, depth=depth)


def sequential_bytes_per_s(trace: ModelTrace, depth: int) -> float:
    # The first third fills a cache or a bucket, where there is one.
    return rate_per_s(trace, depth=depth, warm_up=1 / 3) * _SEQUENTIAL_BYTES


def rate_per_s(trace: ModelTrace, *, depth: int, warm_up: float = 0.0) -> float:
    """Completions per second, without the warm-up and without the end, when the queue drains."""
    ends = np.sort(trace.complete_ns)
    first = min(int(len(ends) * warm_up), len(ends) - 2)
    last = max(first + 1, len(ends) - depth)
    begin_ns = int(ends[first - 1]) if first else int(trace.arrival_ns.min())
    spent_ns = int(ends[last - 1]) - begin_ns
    return (last - first) * NS_PER_S / spent_ns if spent_ns > 0 else float("inf")


def flush_trace(disk: ModelledDisk, sectors: int, *, writes: int, rounds: int) -> tuple[Any, Any]:
    """The latencies of flushes after scattered 4-KiB writes, and the durations of such rounds, in ns."""
    each = writes + 1
    ops = np.tile([WRITE] * writes + [FLUSH], rounds)
    blocks = random_blocks(sectors, rounds * each, f"flush-{writes}")
    is_flush = ops == FLUSH
    blocks[is_flush] = 0
    lengths = np.where(is_flush, 0, _BLOCK_SECTORS)
    trace = disk.closed_loop(ops, blocks, lengths, depth=1)
    ends = trace.complete_ns.astype(np.int64)[is_flush]
    starts = trace.arrival_ns.astype(np.int64)[::each]
    return trace.latency_ns.astype(np.int64)[is_flush], ends - starts


_WINDOWS: Final = 80


@dataclass(frozen=True)
class Curve:
    """One curve; of ``steps``, a value holds until the next."""

    name: str
    points: tuple[tuple[float, float], ...]
    style: Literal["line", "dots", "steps", "theory"] = "line"


@dataclass(frozen=True)
class Picture:
    title: str
    x: str
    y: str
    curves: tuple[Curve, ...]
    x_log: bool = False
    y_log: bool = False


def rates(trace: ModelTrace, windows: int) -> tuple[Sequence[float], Sequence[float]]:
    """Completions per second in windows of equally many I/Os: the windows' ends as indices, and rates."""
    ends = np.sort(trace.complete_ns).astype(np.float64)
    edges = np.linspace(0, len(ends) - 1, windows + 1).astype(int)
    found = np.diff(edges) * NS_PER_S / np.maximum(np.diff(ends[edges]), 1.0)
    return edges.tolist(), found.tolist()


def rate_over_writes(trace: ModelTrace, used_bytes: int) -> list[tuple[float, float]]:
    """The rate of 4-KiB writes over the written bytes, in units of ``used_bytes``."""
    edges, found = rates(trace, _WINDOWS)
    middles = ((first + last) / 2 * BLOCK_BYTES / used_bytes for first, last in pairwise(edges))
    return list(zip(middles, found, strict=True))
