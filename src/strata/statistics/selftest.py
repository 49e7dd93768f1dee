# SPDX-License-Identifier: Apache-2.0
"""The A/A test of the method itself: how often it finds a difference between a stack and that same stack."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from strata.statistics.interval import (
    PRACTICAL_ZONE,
    SEEDS_MIN,
    SKEWED_SEEDS_MIN,
    Floats,
    adjusted,
    skewness_of_mean,
    standard_error,
    student,
)
from strata.statistics.significance import shares_of_sums, signed_rank_p_value, smallest_p_value

SPLITS: Final = 2000
SPLIT_SEED: Final = 20_260_101
SIGNIFICANT: Final = 0.05


Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]


@dataclass(frozen=True)
class Shape:
    """A distribution of logarithms of values, or of ratios, up to place and scale.

    Attributes:
        draw: Draws an array of a size.
        mean: The expectation of the draws.
        means: The description of the shape.
    """

    draw: Draw
    mean: float
    means: str


def _contaminated(rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
    return np.asarray(rng.standard_normal(size) * np.where(rng.random(size) < 0.1, 5.0, 1.0))


SHAPES: Final[Mapping[str, Shape]] = {
    "normal": Shape(lambda rng, size: rng.standard_normal(size), 0.0, "values are log-normal"),
    "skewed": Shape(
        lambda rng, size: np.exp(0.5 * rng.standard_normal(size)),
        float(np.exp(0.125)),
        "log-normal, sigma 0.5: skewness 1.75",
    ),
    "very skewed": Shape(lambda rng, size: rng.exponential(1.0, size), 1.0, "exponential: skewness 2"),
    "heavy tails": Shape(lambda rng, size: rng.standard_t(3, size), 0.0, "Student's t with 3 degrees"),
    "double exponential": Shape(lambda rng, size: rng.laplace(0.0, 1.0, size), 0.0, "Laplace's: kurtosis 6"),
    "outliers": Shape(_contaminated, 0.0, "normal, one in ten five times as wide"),
    "uniform": Shape(lambda rng, size: rng.uniform(-1.0, 1.0, size), 0.0, "no tails"),
}


@dataclass(frozen=True)
class Rate:
    """The frequency of an event in independent tries."""

    count: int
    total: int

    @property
    def share(self) -> float:
        return self.count / self.total

    @property
    def interval(self) -> tuple[float, float]:
        """Its 95 % interval by E. B. Wilson (Journal of the American Statistical Association 22, 1927)."""
        from scipy import stats  # noqa: PLC0415 - takes a second to load, which no other command should pay

        found = stats.binomtest(self.count, self.total).proportion_ci(method="wilson")
        return float(found.low), float(found.high)


@dataclass(frozen=True)
class FalsePositives:
    """The frequencies of a found difference where there is none.

    Attributes:
        n: Seeds on either side.
        by_interval: The 95 % interval excludes 1: it should be one in twenty.
        by_p_value: Wilcoxon's p is below 0.05: at most ``p_value_level``, because p comes in steps.
        by_verdict: The verdict is better or worse: the interval excludes the practical zone as well.
        p_value_level: The long-run frequency of p below 0.05.
    """

    n: int
    by_interval: Rate
    by_p_value: Rate
    by_both: Rate
    by_verdict: Rate
    p_value_level: float


def false_positive_rate(
    values: Mapping[int, float],
    n: int = 6,
    splits: int = SPLITS,
    *,
    zone: float = PRACTICAL_ZONE,
    seed: int = SPLIT_SEED,
) -> FalsePositives:
    """Split the values of one stack at random into A and A', many times, with ``n`` seeds each, and compare.

    Splits of the same values are not wholly independent, so that the rates' intervals are somewhat too
    narrow; four times as many seeds as a split takes are enough.

    Raises ValueError if there are fewer than ``2 n`` values, ``n`` is below three, or one is not positive.
    """
    known = np.array([values[each] for each in sorted(values)], dtype=np.float64)
    if n < SEEDS_MIN or len(known) < 2 * n:
        raise ValueError(f"{len(known)} values cannot be split into twice {n}")
    if not (known > 0).all():
        raise ValueError("a value is not positive, so that there are no ratios")
    rng = np.random.default_rng(seed)
    drawn = rng.permuted(np.tile(np.log(known), (splits, 1)), axis=1)
    return _judged(drawn[:, :n] - drawn[:, n : 2 * n], zone)


def synthetic_false_positive_rate(
    shape: str,
    n: int = 6,
    splits: int = SPLITS,
    *,
    spread: float = 0.02,
    zone: float = PRACTICAL_ZONE,
    seed: int = SPLIT_SEED,
) -> FalsePositives:
    """The same without a lab: logarithms drawn from one of ``SHAPES`` times ``spread`` (0.02: ±2 %)."""
    drawn = SHAPES[shape].draw(np.random.default_rng(seed), (2, splits, n)) * spread
    return _judged(drawn[0] - drawn[1], zone)


def _judged(differences: Floats, zone: float) -> FalsePositives:
    """The method's findings on each row of paired differences of logarithms."""
    total, n = differences.shape
    low, high = interval_of_means(differences)
    excludes = (low > 0) | (high < 0)
    significant = np.array([signed_rank_p_value(row) < SIGNIFICANT for row in differences])
    edge = np.log1p(zone)
    decided = (low > edge) | (high < -edge)

    def rate(found: NDArray[np.bool_]) -> Rate:
        return Rate(int(found.sum()), total)

    return FalsePositives(
        n, rate(excludes), rate(significant), rate(excludes & significant), rate(decided), p_value_level(n)
    )


def interval_of_means(values: Floats) -> tuple[Floats, Floats]:
    """`strata.statistics.level.interval_of` of many means at once, one per row, on the values' own scale."""
    n = values.shape[-1]
    mean, error = np.asarray(values.mean(axis=-1)), standard_error(values)
    if n < SKEWED_SEEDS_MIN:
        return student(mean, error, n - 1)
    return adjusted(mean, error, skewness_of_mean(values), n - 1)


def p_value_level(n: int) -> float:
    """The frequency of the signed-rank test's p below 0.05 where nothing differs."""
    if smallest_p_value(n) >= SIGNIFICANT:
        return 0.0
    levels = 2 * np.cumsum(shares_of_sums(tuple(range(1, n + 1))))
    return float(levels[levels < SIGNIFICANT].max())
