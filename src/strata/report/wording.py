# SPDX-License-Identifier: Apache-2.0
"""Metrics and ratios in words.

A ratio that is shown is turned so that above 1 is better, whatever the metric: times as good. Sentences that
compare times, and claims, which have their sources' ratios, say what theirs are of. In data ``ratio`` is the
metric's own, and ``gain`` is turned.
"""

from __future__ import annotations

from typing import Any, Final

from strata.model.metric import metric_title
from strata.model.study_record import StudyRecord
from strata.statistics.comparison import Comparison, MetricKind, Verdict
from strata.statistics.interval import Interval
from strata.units import format_value, ratio_digits
from strata.words import listed

SIGNS: Final[dict[Verdict, str]] = {
    "better": "▲",
    "equal": "=",
    "worse": "▼",
    "undecided": "?",
    "marginal": "≈",
    "doubtful": "!",
    "too few seeds": "·",
    "not ranked": "∅",
}
"""A verdict beside a number; it must not depend on colour."""
ARROWS: Final = {"higher": "↑", "lower": "↓"}


def covered_words(study: StudyRecord) -> str:
    """The circumstances that the intervals of a study in virtual time cover."""
    named = ["other layouts and accesses", "other angles of the platters"]
    if study.phases == "drawn":
        named.append("other phases of the kernel's periodic work")
    if study.drives == "plausible":
        named.append(
            "other drives that may be of these models (each seed draws one, the same for all stacks)"
        )
        if not study.processor.is_free:
            named.append("other processors of this kind (each seed draws prices)")
    return (
        f"An interval is of the mean over {listed(named)}. A single one of them may lie outside: the range"
        " for another seed says how far. Neither covers what the models leave out."
    )


def heading(kind: MetricKind) -> str:
    """A metric's title with an arrow to the better values."""
    return f"{metric_title(kind)} {ARROWS[kind.better]}"


def picked(record: object, *names: str) -> dict[str, Any]:
    """Fields and properties of a record, for data."""
    return {name: getattr(record, name) for name in names}


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
    alike = ", all seeds alike" if interval.low == interval.high else ""
    return f"95 % interval {interval_ends(interval)}{alike}"


def gain_cells(comparison: Comparison) -> tuple[float, str | None]:
    """For two columns of a table: how many times as good, and the interval."""
    interval = comparison.gain_interval
    return comparison.gain, None if interval is None else interval_ends(interval, "–").replace(" – ", "–")
