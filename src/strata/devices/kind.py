# SPDX-License-Identifier: Apache-2.0
"""A kind of modelled device: its parameters, their relations, and the driver's integers.

The driver's lines must be the same on every machine. Only ``+ - * / sqrt``, which IEEE 754 rounds correctly
everywhere, are used on floats, and `nearest` makes every value an integer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr

from strata.devices.structure import Structure
from strata.diagnostics.names import Diagnostic
from strata.units import NS_PER_MS, NS_PER_US

if TYPE_CHECKING:
    from strata.devices.device import Device

BYTES_PER_MB: Final = 1_000_000
PPM_PER_PERCENT: Final = 10_000
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


ASKED: Final = "the study"
"""The source of a parameter that a study sets."""


class Parameter(BaseModel):
    """A parameter as a device file states it: read in the source, or assumed for the reason given there.

    ``low`` and ``high`` are the ends of its plausible values, and ``range`` is the reason for them. Without
    them a value that was read is exact, and an estimate has the range of its kind.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: StrictInt | StrictFloat | StrictStr
    low: StrictInt | StrictFloat | None = None
    high: StrictInt | StrictFloat | None = None
    unit: StrictStr
    source: StrictStr = Field(min_length=1)
    range: StrictStr | None = Field(None, min_length=1)
    estimate: StrictBool

    @property
    def ends(self) -> str:
        """The range for a reader: ``8.5 to 10.7``; empty without one."""
        return "" if self.low is None or self.high is None else f"{self.low:.4g} to {self.high:.4g}"


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
        scale = PPM_PER_PERCENT if self.key.endswith("_ppm") else _DRIVER_SCALES[self.unit]
        return f"{self.key}={nearest(value * scale)}"


@dataclass(frozen=True)
class Spread:
    """How an estimate of a parameter varies between plausible drives if its file does not say.

    Attributes:
        low: The lower end, as a factor of the value; so is ``high``. None for a parameter that never varies.
        reason: Of the range, or of its absence.
        needs: A parameter without which, at zero, this one has no effect and does not vary.
    """

    low: float | None
    high: float | None
    reason: str
    needs: str = ""

    def around(self, value: float, spec: ParameterSpec) -> tuple[float, float] | None:
        """The ends of the range of a value. A zero stands for a thing that is absent, and does not vary."""
        if self.low is None or self.high is None or value == 0:
            return None
        low, high = max(spec.minimum, value * self.low), min(spec.maximum, value * self.high)
        return (math.ceil(low), math.floor(high)) if spec.whole else (low, high)


def spread_table(table: str) -> dict[str, Spread]:
    """Spreads from a table: names, ``LOW..HIGH`` as factors or ``fixed``, reason [and needed parameter].

    The columns are two spaces or more apart.
    """
    read: dict[str, Spread] = {}
    for row in re.sub(r"\n {30,}", " ", table).strip().splitlines():
        names, factors, last = re.split(r" {2,}", row.strip(), maxsplit=2)
        reason, _, needs = last.rstrip("]").partition(" [")
        low, dots, high = factors.partition("..")
        spread = Spread(float(low), float(high), reason, needs) if dots else Spread(None, None, reason)
        read |= dict.fromkeys(names.split(", "), spread)
    return read


def nearest(value: float) -> int:
    """The nearest integer, halves upwards."""
    return math.floor(value + 0.5)


def parameter_table(table: str) -> dict[str, ParameterSpec]:
    """Parameters from a table: name, values, meaning and the driver's ``[key]``, two spaces or more apart.

    Values are ``int MINIMUM..MAXIMUM UNIT = DEFAULT``, without ``int`` if they are real numbers; ``text``; or
    words with ``|`` between them. A parameter without a default must be stated.
    """
    read = {}
    for row in re.sub(r"\n {30,}", " ", table).strip().splitlines():
        name, values, last = re.split(r" {2,}", row.strip(), maxsplit=2)
        meaning, _, key = last.rstrip("]").partition(" [")
        stated, equals, default = values.partition(" =")
        bounds, _, unit = stated.removeprefix("int ").partition(" ")
        low, dots, high = bounds.partition("..")
        if dots:
            limits = _number(low), _number(high), _number(default.strip()) if equals else None
            is_whole = stated.startswith("int ")
            read[name] = ParameterSpec(meaning, unit or "1", *limits, key=key, whole=is_whole)
        else:
            words = tuple(bounds.split("|")) if "|" in bounds else ()
            text = default.strip() if equals else None
            read[name] = ParameterSpec(meaning, unit, default=text, text=True, choices=words)
    return read


def _number(text: str) -> float:
    base, _, power = text.partition("^")
    return int(base) ** int(power or 1) if base.isdigit() else float(text)


class DeviceKind:
    """A kind of modelled device: a subclass in a module of `strata.devices.kinds` registers itself.

    Attributes:
        name: In device files, and the driver's name of the model.
        title: The heading of its devices in the documentation.
        introduction: One sentence on the model.
        parameters: By name, in the order of `strata list devices`.
        spreads: Of each numeric parameter, how it varies between plausible drives.
        together: Parameters that the draw of another one decides: one design makes them low or high.
        has_write_cache: Whether it has a volatile write cache that a study can switch off.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    introduction: ClassVar[str]
    parameters: ClassVar[Mapping[str, ParameterSpec]]
    spreads: ClassVar[Mapping[str, Spread]]
    together: ClassVar[Mapping[str, str]] = {}
    has_write_cache: ClassVar[bool] = False

    def diagnostics(self, device: Device) -> Iterable[Diagnostic]:
        """Mistakes in the relations between parameters, each of which is within its bounds."""
        return ()

    def structures(self, device: Device) -> Iterable[Structure]:
        """Its structures whose cost small data do not meet."""
        return ()

    def reconciled(self, values: dict[str, float]) -> dict[str, float]:
        """Adjust drawn values that depend on each other until they agree."""
        return values

    def completed(self, device: Device) -> Device:
        """The device with its derived parameters."""
        return device

    def driver_lines(self, device: Device, capacity_sectors: int, queue_depth: int) -> list[str]:
        """The driver's lines for a device whose first ``capacity_sectors`` are used."""
        return [spec.driver_line(device.number(name)) for name, spec in self.parameters.items() if spec.key]

    def member_lines(self, lines: list[str]) -> list[str]:
        """The driver's lines for a member of an array, whose own write cache is off."""
        return [line for line in lines if not line.startswith(("volatile_cache=", "fua="))]


PUBLISHED: Final[Mapping[str, ParameterSpec]] = parameter_table("""
    random_read_4k_qd1           0.1..1e8 IOPS  rate of random 4-KiB reads, one at a time
    random_read_4k_qd4           0.1..1e8 IOPS  rate of random 4-KiB reads, 4 at a time
    random_read_4k_qd16          0.1..1e8 IOPS  rate of random 4-KiB reads, 16 at a time
    random_read_4k_qd32          0.1..1e8 IOPS  rate of random 4-KiB reads, 32 at a time
    random_read_4k_qd64          0.1..1e8 IOPS  rate of random 4-KiB reads, 64 at a time
    random_read_4k_qd256         0.1..1e8 IOPS  rate of random 4-KiB reads, 256 at a time
    random_write_4k_qd1          0.1..1e8 IOPS  rate of random 4-KiB writes, one at a time
    random_write_4k_qd32         0.1..1e8 IOPS  rate of random 4-KiB writes, 32 at a time, a fresh device
    random_write_4k_qd32_steady  0.1..1e8 IOPS  rate of random 4-KiB writes, 32 at a time, in the steady state
    sequential_read              0.1..1e5 MB/s  sequential reads, wherever the maker measured
    sequential_read_outer        0.1..1e5 MB/s  sequential reads at the first sector
    sequential_read_middle       0.1..1e5 MB/s  sequential reads at half the capacity
    sequential_read_inner        0.1..1e5 MB/s  sequential reads at the last sector
    sequential_write             0.1..1e5 MB/s  sequential writes, wherever the maker measured
    latency_read_4k_qd1          0.01..1e7 us   latency of random 4-KiB reads, one at a time: mean
    latency_read_4k_qd1_p50      0.01..1e7 us   latency that half of them have at most
    latency_read_4k_qd1_p99      0.01..1e7 us   latency that 99 % of them have at most
    latency_read_4k_qd1_p999     0.01..1e7 us   latency that 99.9 % of them have at most
    latency_read_4k_qd1_p9999    0.01..1e7 us   latency that 99.99 % of them have at most
    latency_read_4k_qd1_p99999   0.01..1e7 us   latency that 99.999 % of them have at most
    latency_read_4k_qd16         0.01..1e7 us   latency of random 4-KiB reads, 16 at a time: mean
    latency_read_4k_qd16_p50     0.01..1e7 us   latency that half of them have at most
    latency_read_4k_qd16_p99     0.01..1e7 us   latency that 99 % of them have at most
    latency_read_4k_qd16_p999    0.01..1e7 us   latency that 99.9 % of them have at most
    latency_read_4k_qd16_p9999   0.01..1e7 us   latency that 99.99 % of them have at most
    latency_read_4k_qd16_p99999  0.01..1e7 us   latency that 99.999 % of them have at most
    latency_write_4k_qd1         0.01..1e7 us   latency of random 4-KiB writes, one at a time
    flush_latency                0..1e4 ms      latency of a flush after one 4-KiB write
    flush_rate                   0.01..1e7 1/s  rate of 4-KiB writes with a flush after each
""")
"""The keys of ``[published]``, each optional, in the order of a data sheet: figures of makers and reviews.

They are compared with the model and never its input."""
