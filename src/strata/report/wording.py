# SPDX-License-Identifier: Apache-2.0
"""Metrics and ratios in words."""

from __future__ import annotations

import re
from typing import Final

from markupsafe import Markup, escape

from strata.statistics.comparison import Comparison, Verdict
from strata.statistics.level import Interval
from strata.units import format_value, ratio_digits, times

SIGNS: Final[dict[Verdict, str]] = {
    "better": "▲",
    "equal": "=",
    "worse": "▼",
    "undecided": "?",
    "too few seeds": "·",
}
"""A verdict beside a number; it must not depend on colour."""
_QUALIFIERS: Final = {
    "max": "maximum",
    "min": "minimum",
    "mean": "mean",
    "stddev": "standard deviation",
    "p50": "median",
}
_PERCENTILE: Final = re.compile(r"p(\d\d)(\d*)")
_UNITS_IN_NAMES: Final = {"ns", "s", "ms", "us"}


def metric_title(name: str) -> str:
    """A metric's name in words: ``latency_ns_p99`` is ``latency, 99th percentile``."""
    words: list[str] = []
    qualifiers: list[str] = []
    for part in name.removesuffix("_per_s").split("_"):
        if part in _QUALIFIERS:
            qualifiers.append(_QUALIFIERS[part])
        elif match := _PERCENTILE.fullmatch(part):
            qualifiers.append(f"{match[1]}{f'.{match[2]}' if match[2] else ''}th percentile")
        elif part not in _UNITS_IN_NAMES:
            words.append(part)
    title = " ".join(words) + (" per second" if name.endswith("_per_s") else "")
    return ", ".join([title, *qualifiers])


def coded(text: str) -> Markup:
    """Text for a page, with what stands between backticks set as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))  # noqa: S704 - escaped


def between(low: float, high: float, unit: str, word: str = "–") -> str:
    """Two values as a range: ``347 – 351 /s``, the unit once where both have it."""
    first, last = format_value(low, unit), format_value(high, unit)
    if first.rpartition(" ")[2] == last.rpartition(" ")[2]:
        first = first.rpartition(" ")[0]
    return f"{first} {word} {last}"


def interval_ends(interval: Interval, word: str = "to") -> str:
    """The ends of a ratio's interval: ``4.2 to 4.6``, three digits below two."""
    low, high = (ratio_digits(end, 3 if interval.low < 1.995 else 2) for end in (interval.low, interval.high))
    return f"{low} {word} {high}" if low != high else low


def interval_words(interval: Interval | None) -> str:
    """The interval of a ratio in a sentence, or that there is none."""
    if interval is None:
        return "no interval: fewer than three seeds"
    ends = interval_ends(interval)
    return f"95 % interval {ends}" + ("" if " to " in ends else ", all seeds alike")


def gain_words(comparison: Comparison | None) -> str:
    """How many times as good a stack is, with the interval, and whether that is undecided."""
    if comparison is None:
        return "–"
    if comparison.gain_interval is None:
        return times(comparison.gain)
    note = f", {comparison.verdict}" if comparison.verdict in {"equal", "undecided"} else ""
    return f"{times(comparison.gain)} ({interval_ends(comparison.gain_interval, '–')}{note})"
