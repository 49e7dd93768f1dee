# SPDX-License-Identifier: Apache-2.0
"""A metric's level over a set of seeds: a mean of values, or a percentile of merged histograms.

Both are functions of which seeds are in the set, so that one jackknife and one bootstrap serve both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, wraps
from itertools import combinations_with_replacement
from typing import Any, Concatenate, Final, Literal, ParamSpec, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from strata.errors import ResultError
from strata.model.histogram import BadHistogram, bins
from strata.statistics.family import Family, family_of
from strata.statistics.interval import (
    ADJUSTED,
    BOOTSTRAPPED,
    BOOTSTRAPPED_ADJUSTED,
    CONFIDENCE,
    SEEDS_MIN,
    SIMULTANEOUS,
    SKEWED_SEEDS_MIN,
    STUDENT,
    Floats,
    Interval,
    adjusted,
    confidence_of,
    skewness_of_mean,
    student,
)

Positions = NDArray[np.int64]

RESAMPLES: Final = 10_000
# The same values give the same interval on every machine, so the draws are fixed.
BOOTSTRAP_SEED: Final = 20_260_101
# Up to this many sums of counts are computed at once; beyond it bisection computes only the needed ones.
_SUMS_MAX: Final = 20_000
# Enough for a standard error: its own error is then 2 %. Of up to seven seeds there are fewer resamples.
ERROR_DRAWS: Final = 2_000

P = ParamSpec("P")
T = TypeVar("T")
Method = Literal["geometric mean", "arithmetic mean", "merged histogram"]


@dataclass(frozen=True, eq=False)
class Resamples:
    """Sets of seeds drawn with replacement.

    Attributes:
        positions: Indices into the seeds, one resample per row.
        shares: The probability of each row.
        exact: Whether these are all possible resamples, with their probabilities, and not draws.
    """

    positions: Positions
    shares: Floats
    exact: bool

    def deviation(self, levels: Floats) -> float:
        mean = float(self.shares @ levels)
        return math.sqrt(float(self.shares @ (levels - mean) ** 2))


@lru_cache(maxsize=64)
def resamples(seeds: int, draws: int = RESAMPLES) -> Resamples:
    """All resamples of this many seeds, if there are at most ``draws``; else ``draws`` seeded ones.

    All of them make the ideal bootstrap, which has no error of its own (B. Efron, R. Tibshirani, "An
    Introduction to the Bootstrap", 1993, sections 6.2 and 12). There are 462 of six seeds, 6435 of eight.
    """
    if math.comb(2 * seeds - 1, seeds) > draws:
        rng = np.random.default_rng(BOOTSTRAP_SEED)
        return Resamples(rng.integers(0, seeds, (draws, seeds)), np.full(draws, 1 / draws), exact=False)
    rows = np.array(list(combinations_with_replacement(range(seeds), seeds)), dtype=np.int64)
    ways = [math.factorial(seeds) / math.prod(map(math.factorial, np.bincount(row))) for row in rows.tolist()]
    return Resamples(rows, np.array(ways) / float(seeds) ** seeds, exact=True)


@lru_cache(maxsize=64)
def leave_one_out(seeds: int) -> Positions:
    """The jackknife's resamples: all seeds but one, one per row."""
    rows = [[at for at in range(seeds) if at != left] for left in range(seeds)]
    return np.array(rows, dtype=np.int64)


def influences(jackknife: Floats) -> Floats:
    """Each seed's effect on a level, by the levels of `leave_one_out`; for a mean, the value's deviation."""
    return np.asarray((len(jackknife) - 1) * (jackknife.mean() - jackknife), dtype=np.float64)


def cached_method(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[Any, P], T]:
    """Keep a method's values in its object, by the arguments, which are hashable."""

    @wraps(method)
    def cached(self: Any, /, *args: P.args, **options: P.kwargs) -> T:
        known: dict[Any, T] = self.__dict__.setdefault("_known", {})
        key = (method.__name__, args, *options.items())
        if key not in known:
            known[key] = method(self, *args, **options)
        return known[key]

    return cached


class Level(Protocol):
    """A metric's level as a function of the seeds drawn."""

    @property
    def method(self) -> Method: ...

    def at(self, positions: Positions) -> Floats:
        """One level per row of ``positions``, which are indices into the seeds, repeats allowed."""
        ...


@dataclass(frozen=True)
class MeanLevel:
    """The mean of a metric's values: geometric where all are positive, because ratios are compared."""

    values: Floats

    @cached_property
    def method(self) -> Method:
        return "geometric mean" if bool((self.values > 0).all()) else "arithmetic mean"

    @cached_property
    def _alike(self) -> bool:
        return bool((self.values == self.values[0]).all())

    def at(self, positions: Positions) -> Floats:
        """The mean of each row's values; the mean of equal values is exact, to the last digit."""
        if self._alike:
            return np.full(positions.shape[:-1], self.values[0])
        if self.method == "arithmetic mean":
            return np.asarray(self.values[positions].mean(axis=-1), dtype=np.float64)
        return np.asarray(np.exp(np.log(self.values)[positions].mean(axis=-1)), dtype=np.float64)


@dataclass(frozen=True)
class Distribution:
    """Histograms by seed over common bins.

    Attributes:
        bounds: The highest value that each bin holds, rising, in the metric's unit.
        counts: Values counted, one row per seed, one column per bin; scaled to the same total for each seed,
            because a seed that stalls counts few values in a closed loop, and is no less a seed.
        recorded: The unscaled totals by seed; empty if ``counts`` are not scaled.
    """

    bounds: Floats
    counts: NDArray[np.int64]
    recorded: tuple[int, ...] = ()

    def percentile(self, percentile: float, weights: NDArray[np.int64]) -> float:
        """A percentile of the histograms added up, each ``weights`` times; HdrHistogram's definition."""
        return float(self.percentiles(percentile, weights[np.newaxis])[0])

    def percentiles(self, percentile: float, weights: NDArray[np.int64]) -> Floats:
        totals = weights @ self._cumulative[-1]
        wanted = np.maximum((percentile / 100 * totals + 0.5).astype(np.int64), 1)
        if len(weights) * len(self.bounds) <= _SUMS_MAX:
            below = (weights @ self._cumulative.T < wanted[:, np.newaxis]).sum(axis=1)
            places = np.minimum(below, len(self.bounds) - 1)
        else:
            places = self._bisected(weights, wanted)
        return np.asarray(self.bounds[places], dtype=np.float64)

    def _bisected(self, weights: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        """Each row's first bin up to which this many were counted, by bisection, which reads few bins."""
        low, high = np.zeros_like(wanted), np.full_like(wanted, len(self.bounds) - 1)
        for _ in range((len(self.bounds) - 1).bit_length()):
            middle = (low + high) >> 1
            enough = np.einsum("ij,ij->i", weights, self._cumulative[middle]) >= wanted
            low, high = np.where(enough, low, np.minimum(middle + 1, high)), np.where(enough, middle, high)
        return low

    @cached_property
    def _cumulative(self) -> NDArray[np.int64]:
        """Values counted up to each bin, one row per bin."""
        return np.ascontiguousarray(np.cumsum(self.counts, axis=1).T)

    @property
    def totals(self) -> tuple[int, ...]:
        """Values recorded, by seed."""
        return self.recorded or tuple(self.counts.sum(axis=1).tolist())

    @property
    def total(self) -> int:
        return sum(self.totals)


@dataclass(frozen=True)
class PercentileLevel:
    """A percentile of merged histograms; percentiles themselves are never averaged."""

    distribution: Distribution
    percentile: float
    method: Method = "merged histogram"
    # By the array's id; the array is kept with the answer, so that no other array gets its id.
    _known: dict[int, tuple[Positions, Floats]] = field(default_factory=dict, repr=False, compare=False)

    def at(self, positions: Positions) -> Floats:
        """The percentile of each row's histograms added up.

        Kept by array, since every ratio to a stack needs its percentiles of the same resamples.
        """
        if id(positions) not in self._known:
            self._known[id(positions)] = positions, self._at(positions)
        return self._known[id(positions)][1]

    def _at(self, positions: Positions) -> Floats:
        seeds = len(self.distribution.counts)
        rows = np.atleast_2d(positions)
        places = rows + seeds * np.arange(len(rows))[:, np.newaxis]
        weights = np.bincount(places.ravel(), minlength=seeds * len(rows)).reshape(-1, seeds)
        return self.distribution.percentiles(self.percentile, weights).reshape(positions.shape[:-1])


def distribution_of(encoded: Mapping[int, str]) -> Distribution:
    """Encoded histograms, by seed, over common bins.

    Raises ResultError if one cannot be decoded, or all are empty.
    """
    return _distribution(tuple(encoded[seed] for seed in sorted(encoded)))


# All percentiles of a cell share its histograms.
@lru_cache(maxsize=64)
def _distribution(encoded: tuple[str, ...]) -> Distribution:
    histograms = [_bins(each) for each in encoded]
    bounds = np.unique(np.concatenate([each[0] for each in histograms]))
    if not len(bounds):
        raise ResultError(
            "the results' histograms hold no values", remedy="run the trials again with `strata run --fresh`"
        )
    counts = np.zeros((len(histograms), len(bounds)), dtype=np.int64)
    for row, (values, times) in zip(counts, histograms, strict=True):
        np.add.at(row, np.searchsorted(bounds, values), times)
    totals = counts.sum(axis=1, keepdims=True)
    if (counts.sum(axis=1) != totals.max()).any():
        counts = _weighted_alike(counts, totals)
    return Distribution(bounds, counts, tuple(totals[:, 0].tolist()))


def _weighted_alike(counts: NDArray[np.int64], totals: NDArray[np.int64]) -> NDArray[np.int64]:
    """Counts scaled to the highest total, rounded so that none is lost."""
    cumulative = np.cumsum(counts, axis=1)
    scaled = np.rint(cumulative / np.maximum(totals, 1) * totals.max()).astype(np.int64)
    return np.asarray(np.diff(scaled, axis=1, prepend=0), dtype=np.int64)


def _bins(encoded: str) -> tuple[Floats, NDArray[np.int64]]:
    try:
        return bins(encoded)
    except BadHistogram as error:
        cause = f"a result's histogram cannot be decoded: {error}"
        raise ResultError(cause, remedy="run the trial again with `strata run --fresh`") from error


def interval_of(
    seeds: int,
    upper: Level,
    lower: Level | None = None,
    family: Family | None = None,
    confidence: float = CONFIDENCE,
) -> Interval | None:
    """The interval of ``upper``, or of ``upper / lower`` with seeds in pairs; None below ``SEEDS_MIN``.

    In a ``family`` it is one of the intervals of all pairs, which hold together.

    It is made on the scale of logarithms where the level is always positive. A mean's standard error follows
    from its values; a merged percentile's comes from the bootstrap, because leaving one seed out changes a
    percentile in steps. The skewness is the jackknife's.
    """
    return _account(seeds, upper, lower).interval(confidence, family) if seeds >= SEEDS_MIN else None


def interval_between(upper: tuple[int, Level], lower: tuple[int, Level]) -> Interval | None:
    """The 95 % interval of the ratio of two positive levels over independent seeds, each with their number.

    B. L. Welch's standard error and degrees of freedom ("The generalization of 'Student's' problem when
    several different population variances are involved", Biometrika 34, 1947), and the skewness of the
    difference. None with fewer than ``SEEDS_MIN`` seeds on either side.
    """
    if min(upper[0], lower[0]) < SEEDS_MIN:
        return None
    above, below = _account(*upper), _account(*lower)
    error = math.hypot(above.error, below.error)
    confidence = confidence_of(min(above.seeds, below.seeds))
    if error == 0:
        return replace(above, value=above.value / below.value).interval(confidence)
    parts = [each.error**4 / each.freedom for each in (above, below)]
    skewness = (above.skewness * above.error**3 - below.skewness * below.error**3) / error**3
    return _Account(
        seeds=min(above.seeds, below.seeds),
        value=above.value / below.value,
        logarithmic=True,
        merged=above.merged or below.merged,
        error=error,
        skewness=skewness,
        freedom=error**4 / sum(parts),
    ).interval(confidence)


def family_among(seeds: int, levels: Sequence[Level]) -> Family | None:
    """The family of several positive levels over the same seeds; None if they are no more than a pair."""
    if seeds < SEEDS_MIN:
        return None
    if any(each.method == "merged histogram" for each in levels):
        drawn = resamples(seeds, ERROR_DRAWS)
        logs = np.log([each.at(drawn.positions) for each in levels])
        return family_of(logs - logs @ drawn.shares[:, np.newaxis], drawn.shares * seeds / (seeds - 1), seeds)
    moved = np.array([influences(np.log(each.at(leave_one_out(seeds)))) for each in levels])
    return family_of(moved, np.full(seeds, 1 / (seeds - 1) / seeds), seeds)


@dataclass(frozen=True)
class _Account:
    """The sources of the interval of a level or of the ratio of two: ``value`` with its standard error.

    If it is logarithmic, ``error`` and ``skewness`` are of its logarithm.
    """

    seeds: int
    value: float
    logarithmic: bool
    merged: bool
    error: float
    skewness: float
    freedom: float

    def interval(self, confidence: float, family: Family | None = None) -> Interval:
        few = self.seeds < SKEWED_SEEDS_MIN
        method = ((BOOTSTRAPPED, BOOTSTRAPPED_ADJUSTED) if self.merged else (STUDENT, ADJUSTED))[not few]
        if self.error == 0 and (family is None or self.value == 1):
            return Interval(self.value, self.value, method)
        value = np.array(math.log(self.value) if self.logarithmic else self.value)
        error, skewness = np.array(self.error), np.array(self.skewness)
        if family is not None:
            reach = family.reach(self.error, self.seeds, confidence)
            ends, method = (value - reach, value + reach), SIMULTANEOUS
        elif few:
            ends = student(value, error, self.freedom, confidence)
        else:
            ends = adjusted(value, error, skewness, self.freedom)
        low, high = map(float, ends)
        if self.logarithmic:
            # Even a very wide interval has finite ends above 0.
            low, high = (math.exp(max(-700.0, min(end, 700.0))) for end in (low, high))
        return Interval(low, high, method)


def _account(seeds: int, upper: Level, lower: Level | None = None) -> _Account:
    methods = {each.method for each in (upper, lower) if each is not None}
    logarithmic, merged = "arithmetic mean" not in methods, "merged histogram" in methods

    def at(positions: Positions) -> Floats:
        levels = upper.at(positions) if lower is None else upper.at(positions) / lower.at(positions)
        return np.asarray(np.log(levels) if logarithmic else levels, dtype=np.float64)

    moved = influences(at(leave_one_out(seeds)))
    if merged:
        drawn = resamples(seeds, ERROR_DRAWS)
        error = drawn.deviation(at(drawn.positions)) * math.sqrt(seeds / (seeds - 1))
    else:
        error = math.sqrt(float((moved**2).sum()) / (seeds - 1) / seeds)
    value = estimate(upper, seeds) / (1.0 if lower is None else estimate(lower, seeds))
    # Differences by rounding alone are none.
    size = abs(math.log(value)) if logarithmic else abs(value)
    if error <= 1e-13 * max(1.0 if logarithmic else 0.0, size):
        error = 0.0
    return _Account(seeds, value, logarithmic, merged, error, float(skewness_of_mean(moved)), seeds - 1)


@lru_cache(maxsize=64)
def once(seeds: int) -> Positions:
    return np.arange(seeds)[np.newaxis]


def estimate(level: Level, seeds: int) -> float:
    """The level over all seeds, each once."""
    return float(level.at(once(seeds))[0])
