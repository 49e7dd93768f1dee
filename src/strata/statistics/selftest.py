# SPDX-License-Identifier: Apache-2.0
"""The test of the method itself: how often it finds a difference where there is none, and where there is one.

The logarithms of values are drawn, and judged by the functions that judge the results of studies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from strata.printable import in_json
from strata.statistics.family import family_of
from strata.statistics.interval import (
    CONFIDENCE,
    PRACTICAL_ZONE,
    SEEDS_MIN,
    SKEWED_SEEDS_MIN,
    Floats,
    adjusted,
    confidence_of,
    skewness_of_mean,
    standard_error,
    student,
)

STUDIES: Final = 2000
STUDIES_SEED: Final = 20_260_101
COMPARISONS: Final = 60_000
"""More take over half a minute: of many stacks fewer studies are tried, 200 at least."""
SPREAD: Final = 0.02

Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]


@dataclass(frozen=True)
class DistributionShape:
    """A distribution of logarithms of values, or of ratios, up to place and scale.

    Attributes:
        draw: Draws an array of a size.
        mean: The expectation of the draws, and their standard ``deviation``.
        means: The description of the shape.
    """

    draw: Draw
    mean: float
    deviation: float
    means: str


def _contaminated(rng: np.random.Generator, size: tuple[int, ...]) -> Floats:
    return np.asarray(rng.standard_normal(size) * np.where(rng.random(size) < 0.1, 5.0, 1.0))


SHAPES: Final[Mapping[str, DistributionShape]] = {
    "normal": DistributionShape(
        lambda rng, size: rng.standard_normal(size), 0.0, 1.0, "values are log-normal"
    ),
    "skewed": DistributionShape(
        lambda rng, size: np.exp(0.5 * rng.standard_normal(size)),
        float(np.exp(0.125)),
        float(np.exp(0.125) * np.sqrt(np.expm1(0.25))),
        "log-normal, sigma 0.5: skewness 1.75",
    ),
    "very skewed": DistributionShape(
        lambda rng, size: rng.exponential(1.0, size), 1.0, 1.0, "exponential: skewness 2"
    ),
    "heavy tails": DistributionShape(
        lambda rng, size: rng.standard_t(3, size), 0.0, math.sqrt(3), "Student's t with 3 degrees"
    ),
    "double exponential": DistributionShape(
        lambda rng, size: rng.laplace(0.0, 1.0, size), 0.0, math.sqrt(2), "Laplace's: kurtosis 6"
    ),
    "outliers": DistributionShape(
        _contaminated, 0.0, math.sqrt(3.4), "normal, one in ten five times as wide"
    ),
    "uniform": DistributionShape(
        lambda rng, size: rng.uniform(-1.0, 1.0, size), 0.0, 1 / math.sqrt(3), "no tails"
    ),
}


@dataclass(frozen=True)
class Rate:
    """The frequency of an event in independent tries."""

    count: int
    total: int

    @property
    @in_json
    def share(self) -> float:
        return self.count / self.total

    @property
    @in_json
    def interval(self) -> tuple[float, float]:
        """Its 95 % interval by E. B. Wilson (Journal of the American Statistical Association 22, 1927)."""
        from scipy import stats  # noqa: PLC0415 - takes a second to load, which no other command should pay

        found = stats.binomtest(self.count, self.total).proportion_ci(method="wilson")
        return float(found.low), float(found.high)


@dataclass(frozen=True)
class BestOf:
    """The findings of comparisons with the best stack in many studies, in which all are alike but maybe one.

    Attributes:
        n: Seeds of each stack.
        stacks: Their number; 2: a stack and itself.
        workloads: Workloads of a study.
        by_interval: The workloads of which an interval between any stack and the best leaves out the truth:
            5 % at most.
        by_verdict: The studies in which any verdict is better or worse although nothing differs.
        found: The workloads whose verdicts say which stack is really worse; None if none is.
    """

    n: int
    stacks: int
    workloads: int
    by_interval: Rate
    by_verdict: Rate
    found: Rate | None = None


def best_of(
    values: Mapping[int, float],
    n: int = 6,
    stacks: int = 2,
    workloads: int = 1,
    studies: int | None = None,
    *,
    zone: float = PRACTICAL_ZONE,
) -> BestOf:
    """Draw studies of one stack's values, in which it stands for all stacks, and compare them with the best.

    As long as a study takes no more values than there are, each is drawn once: four times as many are enough
    for studies to be nearly independent. Beyond that values are drawn with replacement.

    Raises ValueError if there are fewer than ``2 n`` values, ``n`` is below three, or one is not positive.
    """
    known = np.array([values[each] for each in sorted(values)], dtype=np.float64)
    if n < SEEDS_MIN or len(known) < 2 * n:
        raise ValueError(f"{len(known)} values cannot be split into twice {n}")
    if not (known > 0).all():
        raise ValueError("a value is not positive, so that there are no ratios")
    repeats = stacks * n > len(known)

    def draw(rng: np.random.Generator) -> Floats:
        return np.asarray(rng.choice(np.log(known), (stacks, n), replace=repeats), dtype=np.float64)

    return _tried(draw, stacks, workloads, studies, zone=zone)


def synthetic_best_of(
    shape: str,
    n: int = 6,
    stacks: int = 2,
    workloads: int = 1,
    studies: int | None = None,
    *,
    spread: float = SPREAD,
    spreads: Sequence[float] = (),
    slower: float = 0.0,
) -> BestOf:
    """The same without a lab: logarithms drawn from one of ``SHAPES`` times ``spread`` (0.02: ±2 %).

    ``spreads`` has one for each stack instead. With ``slower`` the last stack's values are really lower by
    this share.
    """
    drawn, truth = SHAPES[shape], math.log1p(-slower)
    scale = np.array(spreads or [spread] * stacks)[:, np.newaxis]

    def draw(rng: np.random.Generator) -> Floats:
        found = (drawn.draw(rng, (stacks, n)) - drawn.mean) / drawn.deviation * scale
        found[-1] += truth
        return np.asarray(found, dtype=np.float64)

    return _tried(draw, stacks, workloads, studies, truth=truth)


def _tried(
    draw: Callable[[np.random.Generator], Floats],
    stacks: int,
    workloads: int,
    studies: int | None,
    *,
    truth: float = 0.0,
    zone: float = PRACTICAL_ZONE,
) -> BestOf:
    """Studies judged as reports judge theirs, each workload by its ratios to the best stack."""
    rng = np.random.default_rng(STUDIES_SEED)
    count = studies or max(200, min(STUDIES, COMPARISONS // (stacks - 1) // workloads))
    edge, levels = np.log1p(zone), np.append(np.zeros(stacks - 1), truth)
    n = missed = false = found = 0
    for _ in range(count):
        is_false = False
        for _ in range(workloads):
            logs = draw(rng)
            n = logs.shape[1]
            best, low, high = against_best(logs)
            true = levels - levels[best]
            missed += bool(((low > true) | (high < true)).any())
            worse, better = high < -edge, low > edge
            found += bool(better.any()) if best == stacks - 1 else bool(worse[-1])
            is_false |= bool(((worse & (true >= 0)) | (better & (true <= 0))).any())
        false += is_false
    total = count * workloads
    rates = (Rate(missed, total), Rate(false, count), Rate(found, total) if truth else None)
    return BestOf(n, stacks, workloads, *rates)


def against_best(logs: Floats) -> tuple[int, Floats, Floats]:
    """The stack with the highest mean, and the ends of every stack's interval against it, on the logs' scale.

    They are those of `strata.statistics.comparison.compare` in the family of all rows.
    """
    n = logs.shape[1]
    best = int(logs.mean(axis=1).argmax())
    differences = logs - logs[best]
    deviations = logs - logs.mean(axis=1, keepdims=True)
    family = family_of(deviations, np.full(n, 1 / (n - 1) / n), n)
    if family is None:
        return best, *interval_of_means(differences, confidence_of(n))
    means, errors = differences.mean(axis=1), standard_error(differences)
    reach = np.array([family.reach(float(error), n, confidence_of(n)) for error in errors])
    reach[best] = 0.0
    return best, means - reach, means + reach


def interval_of_means(values: Floats, confidence: float = CONFIDENCE) -> tuple[Floats, Floats]:
    """`strata.statistics.level.interval_of` of many means at once, one per row, on the values' own scale."""
    n = values.shape[-1]
    mean, error = np.asarray(values.mean(axis=-1)), standard_error(values)
    if n < SKEWED_SEEDS_MIN:
        return student(mean, error, n - 1, confidence)
    return adjusted(mean, error, skewness_of_mean(values), n - 1)
