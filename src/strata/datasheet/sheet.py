# SPDX-License-Identifier: Apache-2.0
"""The data sheet that a model produces, figure by figure beside the published ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

from strata.datasheet.measure import (
    BLOCK_BYTES,
    FUA,
    READ,
    WRITE,
    Subject,
    flush_trace,
    random_trace,
    rate_per_s,
    sequential_bytes_per_s,
    sequential_trace,
)
from strata.lab.model import Trace
from strata.spec.device import Device
from strata.spec.device_kind import Parameter
from strata.spec.device_kinds.flash import PRECONDITIONS
from strata.units import NS_PER_MS, NS_PER_S, NS_PER_US

IOPS: Final = "IOPS"
MB_PER_S: Final = "MB/s"
DEPTHS: Final = (1, 4, 16, 32, 64, 256)
_DEPTHS_ROTATING: Final = (1, 4, 16, 32)
_QUICK: Final = 8
_WRITES: Final = 200_000
_WARM_UP: Final = 0.1  # of a measurement is left out: what a bucket or a buffer gives at first
_FLUSH_WRITES: Final = (1, 32)
_MB: Final = 1_000_000
# Of a flash drive so much is used, with its own share of spare room: its map would otherwise take seconds.
_FLASH_BYTES: Final = 8 << 30


@dataclass(frozen=True)
class Figure:
    """One line of a data sheet.

    Attributes:
        name: The key of ``[published]`` that it is compared with, or one of its own.
        title: In words.
        unit: As of ``[published]``.
        value: What the model does.
        published: What is published, if anything is.
    """

    name: str
    title: str
    unit: str
    value: float
    published: Parameter | None = None

    @property
    def ratio(self) -> float | None:
        """Model over published."""
        if self.published is None or isinstance(self.published.value, str) or not self.published.value:
            return None
        return self.value / self.published.value

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        published = self.published.model_dump(mode="json") if self.published else None
        return {
            "name": self.name,
            "title": self.title,
            "unit": self.unit,
            "value": self.value,
            "published": published,
            "ratio": self.ratio,
        }


@dataclass(frozen=True)
class Measurement:
    """What gives some figures: ``run`` yields ``(name, title, unit, value)``."""

    title: str
    run: Callable[[], Iterator[tuple[str, str, str, float]]]


def data_sheet(
    device: Device,
    *,
    quick: bool = False,
    begin: Callable[[int], None] = lambda _: None,
    step: Callable[[str], None] = lambda _: None,
) -> tuple[Figure, ...]:
    """The data sheet of a device; empty for one without latency.

    Args:
        device: The device.
        quick: Whether fewer I/Os will do: figures are then some per cent off.
        begin: Told how many measurements there are.
        step: Told each measurement's title before it is made.

    Raises:
        LabError: If the model refuses the device.
        ToolError: If the models must be compiled, and there is no compiler.
    """
    if device.kind == "null":
        return ()
    measurements = _measurements(device, _QUICK if quick else 1)
    begin(len(measurements))
    figures = []
    for measurement in measurements:
        step(measurement.title)
        for name, title, unit, value in measurement.run():
            figures.append(Figure(name, title, unit, value, _published(device, name)))
    return tuple(figures)


def _published(device: Device, name: str) -> Parameter | None:
    """What is published under the figure's name, or under the more general one that it stands for."""
    general = {"sequential_read_outer": "sequential_read", "sequential_write_outer": "sequential_write"}
    return device.published.get(name) or device.published.get(general.get(name, ""))


def _measurements(device: Device, divisor: int) -> list[Measurement]:
    plain = Subject(device)
    if device.kind == "flash":
        empty, full, steady = (_in_state(device, state) for state in ("none", "filled", "steady"))
        return [
            *_reads(full, 50_000 // divisor),
            *_fresh_writes(empty, divisor),
            _steady_writes(steady, 400_000 // divisor),
            _sequential(full, READ, "sequential_read", "sequential reads", total_bytes=2 << 30, depth=32),
            _sequential(
                empty, WRITE, "sequential_write", "sequential writes, fresh", total_bytes=4 << 30, depth=32
            ),
            *_flushes(full, 200 // divisor),
        ]
    if device.kind == "rotating":
        return [
            *_reads(plain, 16_000 // divisor),
            *_rotating_writes(plain, divisor),
            *_zones(plain, (64 << 20) if divisor > 1 else (256 << 20)),
            *_flushes(plain, 400 // divisor),
        ]
    cache_bytes = _cache_bytes(device)
    written = max(1 << 30, 4 * cache_bytes)
    return [
        *_reads(plain, 40_000 // divisor),
        *_fresh_writes(plain, divisor),
        *([_full_cache_writes(plain, cache_bytes)] if cache_bytes else []),
        _sequential(plain, READ, "sequential_read", "sequential reads", total_bytes=1 << 30, depth=32),
        _sequential(plain, WRITE, "sequential_write", "sequential writes", total_bytes=written, depth=32),
        *_flushes(plain, 200 // divisor),
    ]


def _cache_bytes(device: Device) -> int:
    """The write cache of a controller that takes writes into it; 0 of every other device."""
    if device.kind != "controller" or not device.number("battery"):
        return 0
    return int(device.number("cache_size") * (1 << 20))


def filled(device: Device) -> Subject:
    """A part of a flash drive, written once in order: what its reads are measured on."""
    return _in_state(device, "filled")


def _in_state(device: Device, state: str) -> Subject:
    used_bytes = min(device.capacity_bytes, _FLASH_BYTES)
    values: dict[str, float] = {"precondition": PRECONDITIONS[state]}
    if state == "steady":
        values["slc_cache"] = device.number("slc_cache") * used_bytes / device.capacity_bytes
    return Subject(device, capacity_bytes=used_bytes).with_values(values)


def _reads(subject: Subject, count: int) -> list[Measurement]:
    def at(depth: int) -> Iterator[tuple[str, str, str, float]]:
        trace = random_trace(subject.open(), READ, subject.sectors, depth=depth, count=count)
        rate = rate_per_s(trace, depth=depth, warm_up=_WARM_UP)
        yield f"random_read_4k_qd{depth}", f"random 4-KiB reads, QD {depth}", IOPS, rate
        if depth == 1:
            yield from _latencies(trace, "read")

    depths = _DEPTHS_ROTATING if subject.device.kind == "rotating" else DEPTHS
    return [
        Measurement(f"random reads, queue depth {depth}", partial(at, depth))
        for depth in depths
        if depth <= subject.device.queue_depth
    ]


def _latencies(trace: Trace, what: str) -> Iterator[tuple[str, str, str, float]]:
    title = f"random 4-KiB {what} latency, QD 1"
    values = trace.latency_ns.astype(np.float64) / NS_PER_US
    yield f"latency_{what}_4k_qd1", f"{title}, mean", "us", float(values.mean())
    for percentile in (50, 99):
        name = f"latency_{what}_4k_qd1_p{percentile}"
        yield name, f"{title}, p{percentile}", "us", float(np.percentile(values, percentile))


def _fresh_writes(subject: Subject, divisor: int) -> list[Measurement]:
    """With an empty drive, or with a controller's cache while it has room."""
    cache_bytes = _cache_bytes(subject.device)
    most = cache_bytes // BLOCK_BYTES // 4 if cache_bytes else _WRITES
    fresh = ", fresh" if subject.device.kind == "flash" else ", cache empty" if cache_bytes else ""

    def at(depth: int, count: int) -> Iterator[tuple[str, str, str, float]]:
        trace = random_trace(subject.open(), WRITE, subject.sectors, depth=depth, count=count)
        title = f"random 4-KiB writes{fresh}, QD {depth}"
        yield f"random_write_4k_qd{depth}", title, IOPS, rate_per_s(trace, depth=depth, warm_up=_WARM_UP)
        if depth == 1:
            yield from _latencies(trace, "write")

    return [
        Measurement(f"random writes, queue depth {depth}", partial(at, depth, count))
        for depth, count in ((1, min(most, _WRITES // 10) // divisor), (32, min(most, _WRITES) // divisor))
        if depth <= subject.device.queue_depth
    ]


def _full_cache_writes(subject: Subject, cache_bytes: int) -> Measurement:
    def run() -> Iterator[tuple[str, str, str, float]]:
        depth = min(32, subject.device.queue_depth)
        count = 3 * cache_bytes // BLOCK_BYTES
        trace = random_trace(subject.open(), WRITE, subject.sectors, depth=depth, count=count)
        title = f"random 4-KiB writes, cache full, QD {depth}"
        yield "random_write_4k_qd32_steady", title, IOPS, rate_per_s(trace, depth=depth, warm_up=0.7)

    return Measurement("random writes with the cache full", run)


def _steady_writes(subject: Subject, count: int) -> Measurement:
    def run() -> Iterator[tuple[str, str, str, float]]:
        depth = min(32, subject.device.queue_depth)
        trace = random_trace(subject.open(), WRITE, subject.sectors, depth=depth, count=count)
        title = f"random 4-KiB writes, steady state, QD {depth}"
        yield "random_write_4k_qd32_steady", title, IOPS, rate_per_s(trace, depth=depth, warm_up=0.5)

    return Measurement("random writes in the steady state", run)


def _rotating_writes(subject: Subject, divisor: int) -> list[Measurement]:
    """With the write cache as it settles when it is full, and past it."""

    def at(depth: int, flags: int) -> Iterator[tuple[str, str, str, float]]:
        count = (16_000 if flags else 40_000) // divisor
        trace = random_trace(subject.open(), WRITE, subject.sectors, depth=depth, count=count, flags=flags)
        suffix, how = ("_uncached", "cache off") if flags else ("", "cache full")
        title = f"random 4-KiB writes, {how}, QD {depth}"
        rate = rate_per_s(trace, depth=depth, warm_up=0.0 if flags else 0.6)
        yield f"random_write_4k_qd{depth}{suffix}", title, IOPS, rate

    cached = (0, FUA) if subject.is_volatile else (FUA,)
    return [
        Measurement(f"random writes, queue depth {depth}", partial(at, depth, flags))
        for flags in cached
        for depth in (1, 32)
        if depth <= subject.device.queue_depth
    ]


def _zones(subject: Subject, read_bytes: int) -> list[Measurement]:
    end = subject.device.capacity_bytes
    cache_bytes = int(subject.device.number("write_cache")) << 20
    found = []
    for op, what, total_bytes in ((READ, "read", read_bytes), (WRITE, "write", read_bytes + 4 * cache_bytes)):
        places = {"outer": 0, "middle": end // 2, "inner": end - 2 * total_bytes}
        for place, first in places.items():
            title = f"sequential {what}s, {place} tracks"
            name = f"sequential_{what}_{place}"
            found.append(
                _sequential(subject, op, name, title, first_byte=first, total_bytes=total_bytes, depth=2)
            )
    return found


def _sequential(
    subject: Subject, op: int, name: str, title: str, *, first_byte: int = 0, total_bytes: int, depth: int
) -> Measurement:
    def run() -> Iterator[tuple[str, str, str, float]]:
        at_once = min(depth, subject.device.queue_depth)
        total = min(total_bytes, subject.sectors * 512 // 2)
        trace = sequential_trace(
            subject.open(), op, subject.sectors, first_byte=first_byte, total_bytes=total, depth=at_once
        )
        yield name, title, MB_PER_S, sequential_bytes_per_s(trace, at_once) / _MB

    return Measurement(title, run)


def _flushes(subject: Subject, rounds: int) -> list[Measurement]:
    def after(writes: int) -> Iterator[tuple[str, str, str, float]]:
        flushes, whole = flush_trace(subject.open(), subject.sectors, writes=writes, rounds=rounds)
        suffix, plural = ("", "") if writes == 1 else (f"_{writes}_writes", "s")
        title = f"flush after {writes} scattered 4-KiB write{plural}"
        yield f"flush_latency{suffix}", title, "ms", float(flushes.mean()) / NS_PER_MS
        if writes == 1:
            rate = NS_PER_S / float(whole.mean())
            yield "flush_rate", "4-KiB writes with a flush after each", "1/s", rate

    if not subject.is_volatile:
        return []
    return [Measurement(f"flushes after {n} writes", partial(after, n)) for n in _FLUSH_WRITES]


def worst(figures: Sequence[Figure]) -> Figure | None:
    """The figure furthest from what is published, as a ratio."""
    compared = [figure for figure in figures if figure.ratio]
    return max(compared, key=lambda figure: abs(np.log(figure.ratio or 1.0)), default=None)
