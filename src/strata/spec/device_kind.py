# SPDX-License-Identifier: Apache-2.0
"""A kind of modelled device: its parameters, their relations, and the driver's integers.

The driver's lines must be the same on every machine. Only ``+ - * / sqrt``, which IEEE 754 rounds correctly
everywhere, are used on floats, and `nearest` makes every value an integer.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from strata.spec.names import Diagnostic
from strata.units import NS_PER_MS, NS_PER_US

if TYPE_CHECKING:
    from strata.spec.device import Device

BYTES_PER_MB: Final = 1_000_000
_PPM_PER_PERCENT: Final = 10_000
_DRIVER_SCALES: Final = {
    "1": 1,
    "%": 1,
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "MB/s": BYTES_PER_MB,
    "MiB/s": 1 << 20,
    "us": NS_PER_US,
    "ms": NS_PER_MS,
}


class Parameter(BaseModel):
    """A parameter as a device file states it.

    Attributes:
        source: Where the value was read, or the reason for the assumption.
        estimate: Whether the value was assumed.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: StrictInt | StrictFloat | StrictStr
    unit: StrictStr
    source: StrictStr = Field(min_length=1)
    estimate: StrictBool


@dataclass(frozen=True)
class ParameterSpec:
    """A parameter of a device file: its meaning, its bounds, and the driver's key.

    Attributes:
        default: The value of an optional parameter.
        text: Whether it is a text: one of ``choices``, or any.
        key: The driver's key that holds the value as an integer in ns, bytes, bytes/s or ppm.
    """

    meaning: str
    unit: str
    minimum: float = 0.0
    maximum: float = float("inf")
    default: float | int | str | None = None
    _: KW_ONLY
    key: str = ""
    whole: bool = False
    text: bool = False
    choices: tuple[str, ...] = ()

    def driver_line(self, value: float) -> str:
        """The driver's line for a value in ``unit``."""
        scale = _PPM_PER_PERCENT if self.key.endswith("_ppm") else _DRIVER_SCALES[self.unit]
        return f"{self.key}={nearest(value * scale)}"


def nearest(value: float) -> int:
    """The nearest integer, halves upwards."""
    return math.floor(value + 0.5)


real = ParameterSpec
whole = functools.partial(ParameterSpec, whole=True)


def count(meaning: str, *bounds: int, key: str = "") -> ParameterSpec:
    """A whole number without a unit, with its minimum, maximum and perhaps default."""
    return whole(meaning, "1", *bounds, key=key)


def flag(meaning: str, *default: int, key: str = "") -> ParameterSpec:
    """0 or 1."""
    return count(meaning, 0, 1, *default, key=key)


CAPACITY: Final = whole("addressable bytes, a multiple of 512", "B", 1 << 20, 1 << 60)
QUEUE_DEPTH: Final = count("commands that the device holds at once", 1, 1024)


class DeviceKind:
    """A kind of modelled device: a subclass in a module of `strata.spec.device_kinds` registers itself.

    Attributes:
        name: In device files, and the driver's name of the model.
        title: The heading of its devices in the documentation.
        introduction: One sentence on the model.
        parameters: By name, in the order of `strata devices show`.
        has_write_cache: Whether it has a volatile write cache that a study can switch off.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    introduction: ClassVar[str]
    parameters: ClassVar[Mapping[str, ParameterSpec]]
    has_write_cache: ClassVar[bool] = False

    def diagnostics(self, device: Device) -> Iterable[Diagnostic]:
        """Mistakes in the relations between parameters, each of which is within its bounds."""
        return ()

    def completed(self, device: Device) -> Device:
        """The device with its derived parameters."""
        return device

    def driver_lines(self, device: Device, capacity_sectors: int, queue_depth: int) -> list[str]:
        """The driver's lines for a device whose first ``capacity_sectors`` are used."""
        return [spec.driver_line(device.number(name)) for name, spec in self.parameters.items() if spec.key]

    def member_lines(self, lines: list[str]) -> list[str]:
        """The driver's lines for a member of an array, whose own write cache is off."""
        return [line for line in lines if not line.startswith(("volatile_cache=", "fua="))]


def _iops(what: str) -> ParameterSpec:
    return real(f"rate of random 4-KiB {what}", "IOPS", 0.1, 100e6)


def _rate(meaning: str) -> ParameterSpec:
    return real(meaning, "MB/s", 0.1, 100_000.0)


PUBLISHED: Final[Mapping[str, ParameterSpec]] = {
    "random_read_4k_qd1": _iops("reads, one at a time"),
    **{f"random_read_4k_qd{depth}": _iops(f"reads, {depth} at a time") for depth in (4, 16, 32, 64, 256)},
    "random_write_4k_qd1": _iops("writes, one at a time"),
    "random_write_4k_qd32": _iops("writes, 32 at a time, a fresh device"),
    "random_write_4k_qd32_steady": _iops("writes, 32 at a time, in the steady state"),
    "sequential_read": _rate("sequential reads, wherever the maker measured"),
    "sequential_read_outer": _rate("sequential reads at the first sector"),
    "sequential_read_middle": _rate("sequential reads at half the capacity"),
    "sequential_read_inner": _rate("sequential reads at the last sector"),
    "sequential_write": _rate("sequential writes, wherever the maker measured"),
    "latency_read_4k_qd1": real("latency of random 4-KiB reads, one at a time", "us", 0.01, 1e7),
    "latency_write_4k_qd1": real("latency of random 4-KiB writes, one at a time", "us", 0.01, 1e7),
    "flush_latency": real("latency of a flush after one 4-KiB write", "ms", 0.0, 10_000),
    "flush_rate": real("rate of 4-KiB writes with a flush after each", "1/s", 0.01, 10e6),
}
"""The keys of ``[published]``, each optional, in the order of a data sheet: figures of makers and reviews.

They are compared with the model and never its input."""
