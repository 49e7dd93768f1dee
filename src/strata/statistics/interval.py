# SPDX-License-Identifier: Apache-2.0
"""95 % intervals of means: Student's t, extended on the side to which the values are skewed.

docs/explanation/statistics.md has the coverage of these and of other methods; `python -m bench.coverage`
makes its table.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

CONFIDENCE: Final = 0.95
# Of three or four seeds, Student's interval at 95 % of skewed values or unequal stacks keeps less than that;
# at 99 % it keeps 95 (docs/explanation/statistics.md has the shapes that this was shown for).
CONFIDENCE_OF_FEW: Final = 0.99
# A smaller difference is of no practical consequence, however sure it is.
PRACTICAL_ZONE: Final = 0.03
HALF_WIDTH_TARGET: Final = 0.015
SEEDS_WANTED: Final = 6
# Two values give no idea of the spread: their interval would be useless or wrong.
SEEDS_MIN: Final = 3
# The skewness of three or four values is noise.
SKEWED_SEEDS_MIN: Final = 5

STUDENT: Final = "Student's t"
SIMULTANEOUS: Final = "simultaneous t"
ADJUSTED: Final = "skewness-adjusted t"
BOOTSTRAPPED: Final = "bootstrapped t"
BOOTSTRAPPED_ADJUSTED: Final = "skewness-adjusted bootstrapped t"


@dataclass(frozen=True)
class Interval:
    """A 95 % interval over seeds; ``method`` such as ``skewness-adjusted t``, or empty if unknown."""

    low: float
    high: float
    method: str = ""


def half_width(interval: Interval | None) -> float:
    """Half an interval's width in logarithms (0.025: about ±2.5 %); infinite without one above zero."""
    if interval is None or interval.low <= 0 or math.isinf(interval.high):
        return math.inf
    return math.log(interval.high / interval.low) / 2


def standard_error(values: Floats) -> Floats:
    """Of each row's mean."""
    return np.asarray(values.std(axis=-1, ddof=1) / np.sqrt(values.shape[-1]), dtype=np.float64)


def skewness_of_mean(values: Floats) -> Floats:
    """The skewness of each row's mean: that of the values over the root of one less than their number."""
    deviations = values - values.mean(axis=-1, keepdims=True)
    # Scaled, because the cubes of small deviations vanish.
    scale = np.abs(deviations).max(axis=-1, keepdims=True)
    scaled = deviations / np.where(scale > 0, scale, 1.0)
    variance = (scaled**2).mean(axis=-1)
    skewness = (scaled**3).mean(axis=-1) / np.where(variance > 0, variance, 1.0) ** 1.5
    return np.asarray(skewness / np.sqrt(values.shape[-1] - 1), dtype=np.float64)


def adjusted(estimate: Floats, error: Floats, skewness: Floats, freedom: float) -> tuple[Floats, Floats]:
    """Low and high ends of intervals of estimates that have a standard error and a skewness.

    Hall's transformation (P. Hall, "On the removal of skewness by transformation", Journal of the Royal
    Statistical Society B 54, 1992) with Student's quantiles moves both ends of Student's interval towards the
    long tail. That covers skewed values well, but symmetric ones with heavy tails too rarely, because their
    samples look skewed by chance. So the end that it would draw in is drawn in by half only: our choice, by
    the table in docs/explanation/statistics.md. ``skewness`` is the estimate's, not that of its values.
    """
    quantile = student_quantile(freedom)
    below, above = _transformed(quantile, skewness), -_transformed(-quantile, skewness)
    below, above = (np.maximum(end, (end + quantile) / 2) for end in (below, above))
    return estimate - error * below, estimate + error * above


def student(
    estimate: Floats, error: Floats, freedom: float, confidence: float = CONFIDENCE
) -> tuple[Floats, Floats]:
    quantile = student_quantile(freedom, confidence)
    return estimate - error * quantile, estimate + error * quantile


def prediction(values: Floats) -> tuple[Floats, Floats]:
    """Low and high ends between which another value lies in 95 of 100 cases, for each row of normal values.

    The variances of a new value and of the mean add up (G. Hahn, W. Meeker, "Statistical Intervals", 1991).
    """
    n = values.shape[-1]
    return student(np.asarray(values.mean(axis=-1)), standard_error(values) * np.sqrt(n + 1), n - 1)


def _transformed(quantile: float, skewness: Floats) -> Floats:
    # As the skewness goes to zero, the limit is the quantile, while the formula becomes 0/0.
    none = np.abs(skewness) < 1e-6
    known = np.where(none, 1.0, skewness)
    moved = 3 / known * (np.cbrt(1 + known * (quantile - known / 6)) - 1)
    return np.asarray(np.where(none, quantile, moved))


@lru_cache(maxsize=256)
def student_quantile(freedom: float, confidence: float = CONFIDENCE) -> float:
    """Student's t that is exceeded on either side in half of the cases that the interval may miss."""
    from scipy import special  # noqa: PLC0415 - takes a while to load, which no other command should pay

    return float(special.stdtrit(freedom, (1 + confidence) / 2))


def confidence_of(seeds: int) -> float:
    """The confidence of the quantile for a comparison over this number of seeds."""
    return CONFIDENCE_OF_FEW if seeds < SKEWED_SEEDS_MIN else CONFIDENCE
