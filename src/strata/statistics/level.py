# SPDX-License-Identifier: Apache-2.0
"""A metric's level over a set of seeds: a mean of values, or a percentile of merged histograms.

Both are functions of which seeds are in the set, so that one jackknife and one bootstrap serve both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Final, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from strata.errors import ResultError
from strata.spec.histogram import BadHistogram, bins
from strata.statistics.interval import (
    ADJUSTED,
    BOOTSTRAPPED,
    BOOTSTRAPPED_ADJUSTED,
    SEEDS_MIN,
    SKEWED_SEEDS_MIN,
    STUDENT,
    Floats,
    Interval,
    adjusted,
    skewness_of_mean,
    student,
)
from strata.statistics.resampling import Positions, influences, leave_one_out, resamples

# Up to this many sums of counts are computed at once; beyond it bisection computes only the needed ones.
_SUMS_MAX: Final = 20_000
# Enough for a standard error: its own error is then 2 %. Of up to seven seeds there are fewer resamples.
ERROR_DRAWS: Final = 2_000

Method = Literal["geometric mean", "arithmetic mean", "merged histogram"]


class Level(Protocol):
    """A metric's level as a function of the seeds drawn."""

    @property
    def method(self) -> Method:
        """How the level is made."""
        ...

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
        counts: Values counted, one row per seed, one column per bin.
    """

    bounds: Floats
    counts: NDArray[np.int64]

    def percentile(self, percentile: float, weights: NDArray[np.int64]) -> float:
        """A percentile of the histograms added up, each ``weights`` times; HdrHistogram's definition."""
        return float(self.percentiles(percentile, weights[np.newaxis])[0])

    def percentiles(self, percentile: float, weights: NDArray[np.int64]) -> Floats:
        """The percentile for each row of ``weights``."""
        totals = weights @ self._cumulative[-1]
        wanted = np.maximum((percentile / 100 * totals + 0.5).astype(np.int64), 1)
        few = len(weights) * len(self.bounds) <= _SUMS_MAX
        places = self._among_all(weights, wanted) if few else self._bisected(weights, wanted)
        return np.asarray(self.bounds[places], dtype=np.float64)

    def _among_all(self, weights: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        """Each row's first bin up to which this many values were counted."""
        below = (weights @ self._cumulative.T < wanted[:, np.newaxis]).sum(axis=1)
        return np.asarray(np.minimum(below, len(self.bounds) - 1))

    def _bisected(self, weights: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.int64]:
        """The same, by bisection for all rows at once, which reads a few bins of each."""
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
    def total(self) -> int:
        """The number of values counted over all seeds."""
        return int(self.counts.sum())


@dataclass(frozen=True)
class PercentileLevel:
    """A percentile of merged histograms; percentiles themselves are never averaged."""

    distribution: Distribution
    percentile: float
    method: Method = "merged histogram"
    _known: dict[int, tuple[Positions, Floats]] = field(default_factory=dict, repr=False, compare=False)

    def at(self, positions: Positions) -> Floats:
        """The percentile of each row's histograms added up.

        Kept by array, since every ratio to a stack needs its percentiles of the same resamples.
        """
        if id(positions) not in self._known:
            # The array is kept with the answer, so that no other array gets its id.
            self._known[id(positions)] = (positions, self._at(positions))
        return self._known[id(positions)][1]

    def _at(self, positions: Positions) -> Floats:
        seeds = len(self.distribution.counts)
        rows = np.atleast_2d(positions)
        places = rows + seeds * np.arange(len(rows))[:, np.newaxis]
        weights = np.bincount(places.ravel(), minlength=seeds * len(rows)).reshape(-1, seeds)
        return self.distribution.percentiles(self.percentile, weights).reshape(positions.shape[:-1])


def distribution_of(encoded: Mapping[int, str]) -> Distribution:
    """Encoded histograms, by seed, over common bins.

    Raises:
        ResultError: If one cannot be decoded, or all are empty.
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
    return Distribution(bounds, counts)


def _bins(encoded: str) -> tuple[Floats, NDArray[np.int64]]:
    try:
        return bins(encoded)
    except BadHistogram as error:
        raise ResultError(
            f"a result's histogram cannot be decoded: {error}",
            remedy="run the trial again with `strata run --fresh`",
        ) from error


def interval_of(seeds: int, upper: Level, lower: Level | None = None) -> Interval | None:
    """The 95 % interval of ``upper``, or of ``upper / lower`` with seeds in pairs; None below ``SEEDS_MIN``.

    It is made on the scale of logarithms where the level is always positive. A mean's standard error follows
    from its values; a merged percentile's comes from the bootstrap, because leaving one seed out changes a
    percentile in steps. The skewness is the jackknife's.
    """
    return _interval(_account(seeds, upper, lower)) if seeds >= SEEDS_MIN else None


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
    if error == 0:
        return _interval(replace(above, value=above.value / below.value))
    parts = [each.error**4 / each.freedom for each in (above, below)]
    return _interval(
        _Account(
            seeds=min(above.seeds, below.seeds),
            value=above.value / below.value,
            logarithmic=True,
            merged=above.merged or below.merged,
            error=error,
            skewness=(above.skewness * above.error**3 - below.skewness * below.error**3) / error**3,
            freedom=error**4 / sum(parts),
        )
    )


@dataclass(frozen=True)
class _Account:
    """The sources of an interval.

    Attributes:
        value: The level, or the ratio of two.
        logarithmic: Whether ``error`` and ``skewness`` are of its logarithm.
        merged: Whether it comes from merged histograms.
        freedom: Degrees of freedom.
    """

    seeds: int
    value: float
    logarithmic: bool
    merged: bool
    error: float
    skewness: float
    freedom: float


def _account(seeds: int, upper: Level, lower: Level | None = None) -> _Account:
    at, logarithmic = _scaled(upper, lower)
    moved = influences(at(leave_one_out(seeds)))
    merged = "merged histogram" in {upper.method, lower.method if lower is not None else ""}
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
    skewness = float(skewness_of_mean(moved))
    return _Account(seeds, value, logarithmic, merged, error, skewness, seeds - 1)


def _interval(account: _Account) -> Interval:
    few = account.seeds < SKEWED_SEEDS_MIN
    methods = (BOOTSTRAPPED, BOOTSTRAPPED_ADJUSTED) if account.merged else (STUDENT, ADJUSTED)
    method = methods[not few]
    if account.error == 0:
        return Interval(account.value, account.value, method)
    value = np.array(math.log(account.value) if account.logarithmic else account.value)
    error, skewness = np.array(account.error), np.array(account.skewness)
    if few:
        ends = student(value, error, account.freedom)
    else:
        ends = adjusted(value, error, skewness, account.freedom)
    low, high = (_back(float(end), account.logarithmic) for end in ends)
    return Interval(low, high, method)


@lru_cache(maxsize=64)
def once(seeds: int) -> Positions:
    """All seeds, each once."""
    return np.arange(seeds)[np.newaxis]


def estimate(level: Level, seeds: int) -> float:
    """The level over all seeds, each once."""
    return float(level.at(once(seeds))[0])


def _scaled(upper: Level, lower: Level | None) -> tuple[Callable[[Positions], Floats], bool]:
    """The level, or the ratio of two, as a function of the seeds, and whether its scale is logarithmic."""
    logarithmic = "arithmetic mean" not in {upper.method, lower.method if lower is not None else ""}

    def at(positions: Positions) -> Floats:
        levels = upper.at(positions) if lower is None else upper.at(positions) / lower.at(positions)
        return np.asarray(np.log(levels) if logarithmic else levels, dtype=np.float64)

    return at, logarithmic


def _back(level: float, logarithmic: bool) -> float:
    # Even a very wide interval has finite ends above 0.
    return math.exp(max(-700.0, min(level, 700.0))) if logarithmic else level
