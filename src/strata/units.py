# SPDX-License-Identifier: Apache-2.0
"""Sizes and times with units: read from text, written for people, carried as integers.

Sizes are bytes (``KiB MiB GiB TiB`` are powers of 1024, ``kB MB GB TB`` powers of 1000);
times are nanoseconds; shares (``"2.5%"``) are fractions of 1. A number without a unit is refused, because
``8`` is a different size to every reader.
"""

from __future__ import annotations

import re
from decimal import Context, Decimal
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, WithJsonSchema

NS_PER_US: Final = 1_000
NS_PER_MS: Final = 1_000_000
NS_PER_S: Final = 1_000_000_000
SECTOR_BYTES: Final = 512

_SIZE_BYTES: Final = {
    "B": 1,
    "KiB": 1 << 10,
    "MiB": 1 << 20,
    "GiB": 1 << 30,
    "TiB": 1 << 40,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
}
_TIME_NS: Final = {
    "ns": 1,
    "us": NS_PER_US,
    "ms": NS_PER_MS,
    "s": NS_PER_S,
    "m": 60 * NS_PER_S,
    "h": 3600 * NS_PER_S,
}
# The digits are bounded, so that 50 digits hold every product exactly.
_EXACT: Final = Context(prec=50)
_QUANTITY: Final = re.compile(r"\s*(\d{1,19}(?:\.\d{1,9})?)\s*([A-Za-z]+)\s*", re.ASCII)
_SHARE: Final = re.compile(r"\s*(\d{1,9}(?:\.\d{1,9})?)\s*%\s*", re.ASCII)
# What no disk, memory or study has: beyond it a number is a mistake, and what follows from it may overflow.
SIZE_BYTES_MAX: Final = 1 << 59
DURATION_NS_MAX: Final = 366 * 24 * 3600 * NS_PER_S
MEMORY_BYTES_MAX: Final = 16 << 40
SHARE_MAX: Final = 1000.0


def _quantity(text: object, scale: dict[str, int], kind: str, example: str, maximum: int) -> int:
    if not isinstance(text, str):
        raise ValueError(f'a {kind} needs a unit, such as "{example}"')
    text = text if len(text) < 60 else text[:57] + "..."
    match = _QUANTITY.fullmatch(text)
    if match is None or match[2] not in scale:
        units = ", ".join(scale)
        raise ValueError(f'{text!r} is not a {kind}; write for example "{example}" (units: {units})')
    value = _EXACT.multiply(Decimal(match[1]), Decimal(scale[match[2]]))
    if value != value.to_integral_value():
        smallest = next(iter(scale))
        raise ValueError(f"{text!r} is not a whole number of {smallest}")
    if value > maximum:
        raise ValueError(f"{text!r} is too large a {kind}")
    return int(value)


def parse_size(text: object) -> int:
    """Read a size such as ``"8GiB"``.

    Returns:
        The size in bytes.

    Raises:
        ValueError: If the unit is missing or unknown, the size is not a whole number of bytes, or it is above
            512 PiB.
    """
    return _quantity(text, _SIZE_BYTES, "size", "8GiB", SIZE_BYTES_MAX)


def parse_duration(text: object) -> int:
    """Read a time such as ``"60s"``, ``"1.5ms"`` or ``"2h"``.

    Returns:
        The time in nanoseconds.

    Raises:
        ValueError: If the unit is missing or unknown, the time is not a whole number of nanoseconds, or it is
            longer than a year.
    """
    return _quantity(text, _TIME_NS, "time", "60s", DURATION_NS_MAX)


def parse_share(text: object) -> float:
    """Read a share such as ``"2.5%"``.

    Returns:
        The share as a fraction: 0.025.

    Raises:
        ValueError: If it is not a number with a per cent sign.
    """
    if not isinstance(text, str):
        raise ValueError('a share needs its unit, such as "2.5%"')
    match = _SHARE.fullmatch(text)
    if match is None:
        shown = text if len(text) < 60 else text[:57] + "..."
        raise ValueError(f'{shown!r} is not a share; write for example "2.5%"')
    share = float(_EXACT.divide(Decimal(match[1]), Decimal(100)))
    if share > SHARE_MAX:
        raise ValueError(f"{text!r} is too large a share")
    return share


def is_power_of_two(number: int) -> bool:
    """Whether it is 1, 2, 4, 8, ..."""
    return number > 0 and number & (number - 1) == 0


def describe_size(size_bytes: int) -> str:
    """Write a size exactly, so that `parse_size` reads it back: the largest binary unit that divides it."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size_bytes and size_bytes % _SIZE_BYTES[unit] == 0:
            return f"{size_bytes // _SIZE_BYTES[unit]}{unit}"
    return f"{size_bytes}B"


def describe_duration(duration_ns: int) -> str:
    """Write a time exactly, so that `parse_duration` reads it back: the largest unit that divides it."""
    for unit in ("h", "m", "s", "ms", "us"):
        if duration_ns and duration_ns % _TIME_NS[unit] == 0:
            return f"{duration_ns // _TIME_NS[unit]}{unit}"
    return f"{duration_ns}ns"


def format_size(size_bytes: float) -> str:
    """Write a size for a person: three significant digits, binary units."""
    value, unit = float(size_bytes), "B"
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if abs(value) < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.3g} {unit}"


def format_duration(duration_ns: float) -> str:
    """Write a time for a person: three significant digits below two minutes, else minutes and hours."""
    if abs(duration_ns) >= 120 * NS_PER_S:
        minutes, seconds = divmod(round(duration_ns / NS_PER_S), 60)
        hours, minutes = divmod(minutes, 60)
        return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {seconds:02d} s"
    for unit, scale in (("s", NS_PER_S), ("ms", NS_PER_MS), ("us", NS_PER_US)):
        if abs(duration_ns) >= scale:
            return f"{duration_ns / scale:.3g} {unit}"
    return f"{duration_ns:.0f} ns"


def _text_with_unit(pattern: str, example: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": pattern, "examples": [example]})


Size = Annotated[
    int,
    BeforeValidator(parse_size),
    _text_with_unit(r"^\s*\d+(\.\d+)?\s*(B|[KMGT]iB|kB|[MGT]B)\s*$", "8GiB"),
]
"""A pydantic field read from text such as ``"8GiB"``, held in bytes."""


def _check_memory(size_bytes: int) -> int:
    if size_bytes > MEMORY_BYTES_MAX:
        raise ValueError(f"no machine has more than {describe_size(MEMORY_BYTES_MAX)} of memory")
    return size_bytes


MemorySize = Annotated[Size, AfterValidator(_check_memory)]
"""A `Size` that something takes of memory."""

Duration = Annotated[
    int,
    BeforeValidator(parse_duration),
    _text_with_unit(r"^\s*\d+(\.\d+)?\s*(ns|us|ms|s|m|h)\s*$", "60s"),
]
"""A pydantic field read from text such as ``"60s"``, held in nanoseconds."""

Share = Annotated[
    float,
    BeforeValidator(parse_share),
    _text_with_unit(r"^\s*\d+(\.\d+)?\s*%\s*$", "2.5%"),
]
"""A pydantic field read from text such as ``"2.5%"``, held as a fraction of 1."""
