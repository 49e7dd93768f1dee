# SPDX-License-Identifier: Apache-2.0
"""Metrics in words: titles from names, values with units that a person can read."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

from strata.statistics.level import Interval

_WORDS: Final = {
    "p50": "median",
    "max": "maximum",
    "min": "minimum",
    "mean": "mean",
    "stddev": "standard deviation",
}
_PERCENTILE: Final = re.compile(r"p(\d\d)(\d*)")
_UNITS_IN_NAMES: Final = {"ns", "s", "ms", "us"}
_SCALES: Final = {
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns")),
    "B/s": ((2.0**30, "GiB/s"), (2.0**20, "MiB/s"), (2.0**10, "KiB/s"), (1.0, "B/s")),
    "B": ((2.0**40, "TiB"), (2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B")),
    "1/s": ((1.0, "per second"),),
    "1": ((1.0, ""),),
}


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
    for divisor, label in scales:
        if abs(magnitude) >= divisor:
            return Scale(divisor, label)
    return Scale(*scales[-1])


def significant(value: float, digits: int = 3) -> str:
    """A number with that many significant digits, never in scientific notation; thousands are grouped.

    Digits before the decimal point are never rounded away: 19740 stays 19,740.
    """
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    magnitude = math.floor(math.log10(abs(float(f"{value:.{digits - 1}e}"))))
    return f"{value:,.{max(0, digits - 1 - magnitude)}f}"


def format_value(value: float, unit: str) -> str:
    """A value with its unit: ``329 /s``, ``12.4 ms``, ``95.3 MiB/s``."""
    scale = scale_for(unit, value)
    label = "/s" if unit == "1/s" else scale.label
    return f"{scale.format(value)} {label}".rstrip()


def metric_title(name: str) -> str:
    """A metric's name in words: ``latency_ns_p99`` is ``latency, 99th percentile``."""
    per = name.endswith("_per_s")
    parts = name.removesuffix("_per_s").split("_")
    words: list[str] = []
    qualifiers: list[str] = []
    for part in parts:
        if match := _PERCENTILE.fullmatch(part):
            if part == "p50":
                qualifiers.append("median")
            else:
                fraction = f".{match[2]}" if match[2] else ""
                qualifiers.append(f"{match[1]}{fraction}th percentile")
        elif part in {"max", "min", "mean", "stddev"}:
            qualifiers.append(_WORDS[part])
        elif part not in _UNITS_IN_NAMES:
            words.append(_WORDS.get(part, part))
    title = " ".join(words) + (" per second" if per else "")
    return ", ".join([title, *qualifiers])


def sentence_case(text: str) -> str:
    """The first letter in upper case, the others as they are."""
    return text[:1].upper() + text[1:]


def coded(text: str) -> Markup:
    """Text for a page, with what stands between backticks set as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped


def times(ratio: float) -> str:
    """A ratio for a sentence: ``4.4 ×``; two digits, because the third is rarely known."""
    return f"{ratio:.2f} ×" if ratio < 1.995 else f"{significant(ratio, 2)} ×"


def interval_words(interval: Interval | None) -> str:
    """The interval of a ratio: ``4.2 to 4.6``, or that there is none."""
    if interval is None:
        return "no interval: fewer than three seeds"
    digits = 3 if interval.low < 1.995 else 2
    low, high = significant(interval.low, digits), significant(interval.high, digits)
    return f"95 % interval {low} to {high}" if low != high else f"95 % interval {low}, all seeds alike"


def percent(share: float) -> str:
    """A share as a percentage: one digit behind the point below ten."""
    return f"{share * 100:.1f} %" if abs(share) < 0.0995 else f"{share * 100:.0f} %"
