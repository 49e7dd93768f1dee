# SPDX-License-Identifier: Apache-2.0
"""Quantities: sizes, times, rates, shares and ratios, read from text and written for people.

Sizes are bytes (``KiB MiB GiB TiB`` are powers of 1024, and so are the ``k m g t`` that mdadm, mkfs, LVM and
ZFS write in either case; ``kB MB GB TB`` are powers of 1000), times nanoseconds, shares (``"2.5%"``) and
ratios plain numbers. Text without a unit is refused: ``8`` is a different size to every reader.
``describe_*`` write a value exactly, as a study file has it; everything else writes three significant digits
or fewer.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from itertools import pairwise
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

NS_PER_US: Final = 1_000
NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000
SECTOR_BYTES: Final = 512
MIB: Final = 1 << 20
GIB: Final = 1 << 30

_SIZE_BYTES: Final = {
    "B": 1,
    **{unit: 1 << 10 * power for power, unit in enumerate(("KiB", "MiB", "GiB", "TiB"), 1)},
    **{unit: 1000**power for power, unit in enumerate(("kB", "MB", "GB", "TB"), 1)},
}
_TIME_NS: Final = {
    "ns": 1,
    "us": NS_PER_US,
    "µs": NS_PER_US,
    "ms": NS_PER_MS,
    "s": NS_PER_S,
    "m": 60 * NS_PER_S,
    "min": 60 * NS_PER_S,
    "h": 3600 * NS_PER_S,
}
_TOOLS_BYTES: Final = {
    letter: 1 << 10 * power for power, pair in enumerate(("kK", "mM", "gG", "tT"), 1) for letter in pair
}
# The scales of each unit, the largest first: divisor and label.
_SCALES: Final = {
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")),
    "B": ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
    "B/s": ((2.0**30, "GiB/s"), (2.0**20, "MiB/s"), (2.0**10, "KiB/s"), (1.0, "B/s")),
    "1/s": ((1.0, "/s"),),
    "1": ((1.0, ""),),
    "share": ((0.01, "%"),),
    "ratio": ((1.0, "×"),),
}
# The digits are bounded, so that 50 digits hold every product exactly.
_EXACT: Final = Context(prec=50)
_QUANTITY: Final = re.compile(r"\s*(\d{1,19}(?:\.\d{1,9})?)\s*([A-Za-zµ]+(?:/s)?|%)\s*", re.ASCII)
_PERCENT: Final = {"%": 1}
# Larger than any disk, memory or study: a mistake, and arithmetic on it may overflow.
SIZE_BYTES_MAX: Final = 1 << 59
DURATION_NS_MAX: Final = 366 * 24 * 3600 * NS_PER_S
MEMORY_BYTES_MAX: Final = 16 << 40
SHARE_MAX: Final = 1000.0
RATIO_MAX: Final = 100.0  # larger ratios are written "> 100"


def _quantity(text: object, scale: dict[str, int], kind: str, example: str, maximum: float) -> Decimal:
    if not isinstance(text, str):
        raise ValueError(f'a {kind} needs a unit, such as "{example}"')
    text = text if len(text) < 60 else text[:57] + "..."
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2] not in scale:
        units = f" (units: {', '.join(scale)})" if len(scale) > 1 else ""
        raise ValueError(f'{text!r} is not a {kind}, such as "{example}"{units}')
    value = _EXACT.multiply(Decimal(match[1]), Decimal(scale[match[2]]))
    if value > maximum:
        raise ValueError(f"{text!r} is too large a {kind}")
    return value


def _whole(text: object, scale: dict[str, int], kind: str, example: str, maximum: int) -> int:
    value = _quantity(text, scale, kind, example, maximum)
    if value != value.to_integral_value():
        raise ValueError(f"{text!r} is not a whole number of {next(iter(scale))}")
    return int(value)


def parse_size(text: object) -> int:
    """Read a size such as ``"8GiB"``, or ``"64k"`` as tools write it, in whole bytes, up to 512 PiB.

    Raises ValueError.
    """
    return _whole(text, _SIZE_BYTES | _TOOLS_BYTES, "size", "8GiB", SIZE_BYTES_MAX)


def parse_rate(text: object) -> int:
    """Read a rate such as ``"250MB/s"``, in whole bytes a second. Raises ValueError."""
    scale = {f"{unit}/s": size for unit, size in _SIZE_BYTES.items()}
    return _whole(text, scale, "rate", "250MB/s", SIZE_BYTES_MAX)


def parse_duration(text: object) -> int:
    """Read a time such as ``"60s"``, ``"1.5ms"`` or ``"2h"``, in ns, up to a year. Raises ValueError."""
    return _whole(text, _TIME_NS, "time", "60s", DURATION_NS_MAX)


def parse_share(text: object) -> float:
    """Read a share such as ``"2.5%"`` as a fraction: 0.025. Raises ValueError."""
    return float(_EXACT.divide(_quantity(text, _PERCENT, "share", "2.5%", SHARE_MAX * 100), Decimal(100)))


def is_power_of_two(number: int) -> bool:
    return number > 0 and number & (number - 1) == 0


def whole_mib(size_bytes: float) -> int:
    """The size in whole MiB, rounded down, one at least."""
    return max(1, int(size_bytes) // MIB) * MIB


def describe_size(size_bytes: int) -> str:
    """Write a size exactly, so that `parse_size` reads it back, in the largest unit that divides it."""
    return _exact(size_bytes, _SIZE_BYTES, ("TiB", "GiB", "MiB", "KiB", "B"))


def describe_duration(duration_ns: int) -> str:
    """Write a time exactly, so that `parse_duration` reads it back, in the largest unit that divides it."""
    return _exact(duration_ns, _TIME_NS, ("h", "m", "s", "ms", "µs", "ns"))


def _exact(value: int, scale: dict[str, int], units: tuple[str, ...]) -> str:
    unit = next((each for each in units if value and value % scale[each] == 0), units[-1])
    return f"{value // scale[unit]}{unit}"


@dataclass(frozen=True)
class Scale:
    """A unit for people: divide a value by ``divisor`` and write ``label`` behind it."""

    divisor: float
    label: str

    def format(self, value: float) -> str:
        """The value with three significant digits in this unit, without the label."""
        return significant(value / self.divisor)


def scale_for(unit: str, magnitude: float) -> Scale:
    """The unit in which values up to ``magnitude`` read best."""
    scales = _SCALES.get(unit, ((1.0, unit),))
    for (divisor, label), (smaller, _) in pairwise(scales):
        # A value that rounds to the next unit is written in it: 1.00 s, not 1,000 ms.
        if abs(magnitude) >= divisor - smaller / 2:
            return Scale(divisor, label)
    return Scale(*scales[-1])


def unit_label(unit: str) -> str:
    return "µs" if unit == "us" else unit


def significant(value: float, digits: int = 3) -> str:
    """A number with three significant digits, never in scientific notation; thousands are grouped.

    Digits before the decimal point are never rounded away: 19740 stays 19,740.
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    magnitude = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    return f"{value:,.{max(0, digits - 1 - magnitude)}f}"


def format_value(value: float, unit: str) -> str:
    """A measured value with its unit: ``329 /s``, ``12.4 ms``, ``95.0 MiB/s``, ``2.5 %``, ``1.8 ×``."""
    if unit in {"share", "ratio"}:
        return percent(value) if unit == "share" else times(value)
    scale = scale_for(unit, value)
    return f"{scale.format(value)} {scale.label}".rstrip()


def _short(value: float, unit: str) -> str:
    """Without zeros at the end: ``1.5 GiB``, ``5 s``."""
    scale = scale_for(unit, value)
    number = scale.format(value) if scale.divisor > 1 else f"{value:.0f}"
    return f"{_trimmed(number)} {scale.label}"


def _trimmed(number: str) -> str:
    return number.rstrip("0").rstrip(".") if "." in number else number


def format_size(size_bytes: float) -> str:
    return _short(size_bytes, "B")


def format_duration(duration_ns: float) -> str:
    """A time for a sentence: ``1.5 ms``, ``5 s``; from two minutes on ``2 min 05 s``, ``1 h 30 min``."""
    if abs(duration_ns) >= 120 * NS_PER_S:
        minutes, seconds = divmod(round(duration_ns / NS_PER_S), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s"
    return _short(duration_ns, "ns")


def times(ratio: float) -> str:
    """A ratio for a sentence: ``4.4 ×``; two digits, because the third is rarely known."""
    return f"{ratio:.2f} ×" if 1 / RATIO_MAX <= ratio < 1.995 else f"{ratio_digits(ratio, 2)} ×"


def ratio_digits(ratio: float, digits: int = 3) -> str:
    """A ratio without its sign, bounded by ``< 0.01`` and ``> 100``."""
    if ratio > RATIO_MAX:
        return f"> {RATIO_MAX:g}"
    return significant(ratio, digits) if ratio >= 1 / RATIO_MAX else f"< {1 / RATIO_MAX:g}"


def percent(share: float, *, signed: bool = False) -> str:
    """A measured share: one digit behind the point below ten, ``2.5 %``, ``15 %``; ``signed``: ``+15 %``."""
    if not share:
        return "0 %"
    sign = "+" if signed else ""
    return f"{share * 100:{sign}.1f} %" if abs(share) < 0.0995 else f"{share * 100:{sign}.0f} %"


def percentile(quantile: float) -> str:
    """A quantile in hundredths: ``99``, ``99.9``."""
    return f"{quantile * 100:.6g}"


def format_share(share: float) -> str:
    """A declared share, without zeros at the end: ``3 %``, ``2.5 %``, ``0.25 %``."""
    return f"{_trimmed(significant(share * 100, 4))} %"


def _read_by(parse: Callable[[object], float]) -> BeforeValidator:
    """Read a user's text; in JSON, which Strata writes, the number stands itself."""
    return BeforeValidator(lambda value, info: value if info.mode == "json" else parse(value))


def _text_with_unit(units: str, example: str) -> WithJsonSchema:
    units = f"({units})" if "|" in units else units
    pattern = rf"^\s*\d+(\.\d+)?\s*{units}\s*$"
    return WithJsonSchema({"type": "string", "pattern": pattern, "examples": [example]})


Size = Annotated[int, _read_by(parse_size), _text_with_unit("B|[KMGT]iB|kB|[MGT]B|[kmgtKMGT]", "8GiB")]
"""A pydantic field read from text such as ``"8GiB"``, held in bytes."""


Rate = Annotated[int, _read_by(parse_rate), _text_with_unit("(B|[KMGT]iB|kB|[MGT]B)/s", "250MB/s")]
"""A pydantic field read from text such as ``"250MB/s"``, held in bytes a second."""


def _check_memory(size_bytes: int) -> int:
    if size_bytes > MEMORY_BYTES_MAX:
        raise ValueError(f"no machine has more than {describe_size(MEMORY_BYTES_MAX)} of memory")
    return size_bytes


MemorySize = Annotated[Size, AfterValidator(_check_memory)]
"""A `Size` that something takes of memory."""

Duration = Annotated[int, _read_by(parse_duration), _text_with_unit("ns|us|µs|ms|s|m|min|h", "60s")]
"""A pydantic field read from text such as ``"60s"``, held in nanoseconds."""

Share = Annotated[float, _read_by(parse_share), _text_with_unit("%", "2.5%")]
"""A pydantic field read from text such as ``"2.5%"``, held as a fraction of 1."""
