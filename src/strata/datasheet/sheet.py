# SPDX-License-Identifier: Apache-2.0
"""The data sheet of a model, figure by figure beside the published ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from strata.datasheet.measure import (
    Curve,
    Picture,
    Subject,
    flush_trace,
    rate_per_s,
    sequential_bytes_per_s,
    sequential_trace,
)
from strata.devices.device import Device
from strata.devices.kind import Parameter
from strata.lab.model import READ, WRITE, ModelTrace
from strata.printable import in_json
from strata.units import NS_PER_MS, NS_PER_S, NS_PER_US, SECTOR_BYTES

WRITES: Final = 200_000
STEADY_WRITES: Final = "random_write_4k_qd32_steady"  # a key of [published]
_QUICK: Final = 8
_WARM_UP: Final = 0.1  # of a measurement is left out, for a bucket or a buffer to empty
_FLUSH_WRITES: Final = (1, 32)
_CURVE_DEPTHS: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256)
_MB: Final = 1_000_000
PERCENTILES: Final = ("50", "99", "99.9", "99.99", "99.999")
_BEYOND: Final = 10  # latencies beyond a percentile: fewer say nothing
_OPERATIONS: Final = {READ: "read", WRITE: "write"}


@dataclass(frozen=True)
class Rating:
    """One line of a data sheet; ``name`` is a key of ``[published]`` or another one."""

    name: str
    title: str
    unit: str
    value: float
    published: Parameter | None = None

    @property
    @in_json
    def ratio(self) -> float | None:
        if self.published is None or isinstance(self.published.value, str) or not self.published.value:
            return None
        return self.value / self.published.value


Found = Iterator[tuple[str, str, str, float]]


@dataclass(frozen=True)
class Measurement:
    """A measurement; ``run`` yields the ``(name, title, unit, value)`` of some ratings."""

    title: str
    run: Callable[[], Found]


class DataSheet:
    """The measurements of a device: a subclass in a module of `strata.datasheet.kinds` registers itself.

    ``quick`` means fewer I/Os, and figures some per cent off.
    """

    kind: ClassVar[str]
    depths: ClassVar[tuple[int, ...]] = (1, 4, 16, 32, 64, 256)
    """Queue depths of random reads."""
    latency_depths: ClassVar[tuple[int, ...]] = (1,)
    """Those with a distribution of latencies."""

    def __init__(self, device: Device, *, quick: bool = False) -> None:
        self.device, self.quick = device, quick
        self.divisor = _QUICK if quick else 1

    def ratings(
        self, *, begin: Callable[[int], None] = lambda _: None, step: Callable[[str], None] = lambda _: None
    ) -> tuple[Rating, ...]:
        """Measure everything, calling ``begin`` with the number of measurements and ``step`` with each title.

        Raises LabError if the model refuses the device, ToolError without a compiler for the models.
        """
        measurements, published = self.measurements(), self.device.published
        begin(len(measurements))
        found = []
        for measurement in measurements:
            step(measurement.title)
            for figure in measurement.run():
                name, general = figure[0], figure[0].removesuffix("_outer")
                found.append(Rating(*figure, published.get(name) or published.get(general)))
        return tuple(found)

    def readable(self) -> Subject:
        return Subject(self.device)

    def in_state(self, state: str) -> Subject:
        """The device after a past of `PRECONDITIONS`, where its kind has one."""
        return Subject(self.device)

    def measurements(self) -> list[Measurement]:
        subject = Subject(self.device)
        return [
            *self.reads(40_000),
            *self.fresh_writes(subject, WRITES),
            self.sequential(subject, READ, 1 << 30),
            self.sequential(subject, WRITE, 1 << 30),
            *self.flushes(200),
        ]

    def pictures(self) -> tuple[Picture, ...]:
        subject, count = self.readable(), 2_000 if self.quick else 20_000
        points = (
            (float(depth), rate_per_s(subject.random(READ, depth=depth, count=count), depth=depth))
            for depth in self.up_to_queue_depth(_CURVE_DEPTHS)
        )
        curves = (Curve("reads", tuple(points)),)
        return (Picture("Random 4-KiB reads", "queue depth", "per second", curves, x_log=True),)

    @property
    def note(self) -> str:
        return ""

    def up_to_queue_depth(self, depths: Sequence[int]) -> list[int]:
        return [depth for depth in depths if depth <= self.device.queue_depth]

    def reads(self, count: int, for_latencies: int = 0) -> list[Measurement]:
        """Random reads, ``for_latencies`` of them at the depths whose latencies are shown."""
        found = []
        for depth in self.up_to_queue_depth(self.depths):
            latencies = depth in self.latency_depths
            number = (latencies and for_latencies) or count
            found.append(
                self.random(self.readable(), READ, depth, number // self.divisor, latencies=latencies)
            )
        return found

    def fresh_writes(self, subject: Subject, most: int, how: str = "") -> list[Measurement]:
        """At most ``most`` random writes to an empty drive, or to an empty cache."""
        counts = {1: min(most, WRITES // 10), 32: min(most, WRITES)}
        return [
            self.random(subject, WRITE, depth, counts[depth] // self.divisor, how=how, latencies=depth == 1)
            for depth in self.up_to_queue_depth((1, 32))
        ]

    def random(
        self,
        subject: Subject,
        op: int,
        depth: int,
        count: int,
        *,
        how: str = "",
        warm_up: float = _WARM_UP,
        flags: int = 0,
        name: str = "",
        latencies: bool = False,
    ) -> Measurement:
        """The rate of random 4-KiB I/O, and if wanted its latencies; ``how`` ends the title."""
        what = _OPERATIONS[op]
        title = f"random 4-KiB {what}s{how}, QD {depth}"

        def run() -> Found:
            trace = subject.random(op, depth=depth, count=count, flags=flags)
            rate = rate_per_s(trace, depth=depth, warm_up=warm_up)
            yield name or f"random_{what}_4k_qd{depth}", title, "IOPS", rate
            if latencies:
                yield from _latencies(trace, what, depth)

        return Measurement(title, run)

    def sequential(
        self,
        subject: Subject,
        op: int,
        total_bytes: int,
        *,
        how: str = "",
        depth: int = 32,
        place: str = "",
        first_byte: int = 0,
    ) -> Measurement:
        """The rate of sequential I/O at a place, by default from the first sector on."""
        what = _OPERATIONS[op]
        title, name = f"sequential {what}s{how}", f"sequential_{what}" + (f"_{place}" if place else "")
        at_once = min(depth, self.device.queue_depth)
        total = min(total_bytes, subject.sectors * SECTOR_BYTES // 2)

        def run() -> Found:
            trace = sequential_trace(
                subject.open(), op, subject.sectors, first_byte=first_byte, total_bytes=total, depth=at_once
            )
            yield name, title, "MB/s", sequential_bytes_per_s(trace, at_once) / _MB

        return Measurement(title, run)

    def flushes(self, rounds: int) -> list[Measurement]:
        """Flushes after some writes, of a device with a volatile cache."""
        subject = self.readable()
        return [self._flush(subject, n, rounds // self.divisor) for n in _FLUSH_WRITES if subject.is_volatile]

    def _flush(self, subject: Subject, writes: int, rounds: int) -> Measurement:
        suffix, plural = ("", "") if writes == 1 else (f"_{writes}_writes", "s")
        title = f"flush after {writes} scattered 4-KiB write{plural}"

        def run() -> Found:
            flushes, whole = flush_trace(subject.open(), subject.sectors, writes=writes, rounds=rounds)
            yield f"flush_latency{suffix}", title, "ms", float(flushes.mean()) / NS_PER_MS
            if writes == 1:
                rate = NS_PER_S / float(whole.mean())
                yield "flush_rate", "4-KiB writes with a flush after each", "1/s", rate

        return Measurement(title, run)


def _latencies(trace: ModelTrace, what: str, depth: int) -> Found:
    """The mean, and the percentiles beyond which there are enough of the latencies."""
    title, name = f"random 4-KiB {what} latency, QD {depth}", f"latency_{what}_4k_qd{depth}"
    values = trace.latency_ns.astype(np.float64) / NS_PER_US
    yield name, f"{title}, mean", "us", float(values.mean())
    for text in PERCENTILES:
        if len(values) * (1 - float(text) / 100) > _BEYOND:
            key = f"{name}_p{text.replace('.', '')}"
            yield key, f"{title}, p{text}", "us", float(np.percentile(values, float(text)))
