# SPDX-License-Identifier: Apache-2.0
"""A metric's level over a set of seeds: a mean of values, or a percentile of merged histograms.

Both are functions of which seeds are in the set, so that one bootstrap, which draws seeds, serves both.
"""

from __future__ import annotations

import binascii
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, Literal, Protocol

import numpy as np
from hdrh.codec import HdrCookieException, HdrHistogramSettingsException, HdrLengthException
from numpy.typing import NDArray

from strata.errors import ResultError
from strata.spec.histogram import decode

Floats = NDArray[np.float64]
Positions = NDArray[np.int64]
Method = Literal["geometric mean", "arithmetic mean", "merged histogram"]

CONFIDENCE: Final = 0.95
RESAMPLES: Final = 10_000
# The same values give the same interval on every machine, so the bootstrap's draws are fixed.
BOOTSTRAP_SEED: Final = 20_260_101
# Two values give only three different resamples: their interval would be the two values themselves.
SEEDS_MIN: Final = 3


_UNDECODABLE: Final = (
    *(ValueError, TypeError, IndexError, binascii.Error, zlib.error),
    *(HdrCookieException, HdrHistogramSettingsException, HdrLengthException),
)


@dataclass(frozen=True)
class Interval:
    """A 95 % percentile bootstrap interval over seeds."""

    low: float
    high: float


class Level(Protocol):
    """A metric's level as a function of the seeds drawn."""

    @property
    def method(self) -> Method:
        """What the level is."""
        ...

    def at(self, positions: Positions) -> Floats:
        """One level per row of ``positions``, which are indices into the seeds, repeats allowed."""
        ...


@dataclass(frozen=True)
class MeanLevel:
    """The mean of a metric's values: geometric where all are positive, because ratios are compared."""

    values: Floats

    @property
    def method(self) -> Method:
        """Which mean."""
        return "geometric mean" if bool((self.values > 0).all()) else "arithmetic mean"

    def at(self, positions: Positions) -> Floats:
        """The mean of each row's values."""
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
        """The same for many ``weights``, one per row, by bisection of the bins for all rows at once."""
        cumulative = self._cumulative
        wanted = np.maximum((percentile / 100 * (weights @ cumulative[:, -1]) + 0.5).astype(np.int64), 1)
        low, high = np.zeros_like(wanted), np.full_like(wanted, len(self.bounds) - 1)
        while (low < high).any():
            middle = (low + high) // 2
            enough = (weights * cumulative[:, middle].T).sum(axis=-1) >= wanted
            low, high = np.where(enough, low, middle + 1), np.where(enough, middle, high)
        return np.asarray(self.bounds[low], dtype=np.float64)

    @cached_property
    def _cumulative(self) -> NDArray[np.int64]:
        return np.cumsum(self.counts, axis=1)

    @property
    def all_seeds(self) -> NDArray[np.int64]:
        """The weights that take each seed once."""
        return np.ones(len(self.counts), dtype=np.int64)

    @property
    def total(self) -> int:
        """How many values were counted over all seeds."""
        return int(self.counts.sum())


@dataclass(frozen=True)
class PercentileLevel:
    """A percentile of merged histograms; percentiles themselves are never averaged."""

    distribution: Distribution
    percentile: float
    method: Method = "merged histogram"

    def at(self, positions: Positions) -> Floats:
        """The percentile of each row's histograms added up."""
        seeds = len(self.distribution.counts)
        rows = np.atleast_2d(positions)
        weights = np.stack([(rows == seed).sum(axis=-1) for seed in range(seeds)], axis=-1)
        return self.distribution.percentiles(self.percentile, weights).reshape(positions.shape[:-1])


def distribution_of(encoded: Mapping[int, str]) -> Distribution:
    """Bring encoded histograms, by seed, to common bins.

    Raises:
        ResultError: If one cannot be decoded.
    """
    histograms = [_bins(encoded[seed]) for seed in sorted(encoded)]
    bounds = np.unique(np.concatenate([each[0] for each in histograms]))
    counts = np.zeros((len(histograms), len(bounds)), dtype=np.int64)
    for row, (values, times) in zip(counts, histograms, strict=True):
        row[np.searchsorted(bounds, values)] = times
    return Distribution(bounds, counts)


@lru_cache(maxsize=1024)
def _bins(encoded: str) -> tuple[Floats, NDArray[np.int64]]:
    try:
        histogram = decode(encoded)
        counts = np.array(histogram.counts, dtype=np.int64)
    except _UNDECODABLE as error:
        raise ResultError(
            f"a result's histogram cannot be decoded: {error or type(error).__name__}",
            remedy="run the trial again with `strata run --fresh`",
        ) from error
    used = np.flatnonzero(counts)
    bounds = [
        histogram.get_highest_equivalent_value(histogram.get_value_from_index(int(index))) for index in used
    ]
    return np.array(bounds, dtype=np.float64), counts[used]


def bootstrap(seeds: int, upper: Level, lower: Level | None = None) -> Interval | None:
    """The seeded percentile bootstrap interval of ``upper``, or of ``upper / lower`` with seeds in pairs.

    `scipy.stats.bootstrap` draws the seeds.

    Returns:
        None with fewer than ``SEEDS_MIN`` seeds.
    """
    if seeds < SEEDS_MIN:
        return None
    from scipy import stats  # noqa: PLC0415 - takes a second to load, which no other command should pay

    def statistic(positions: Positions, axis: int = -1) -> Floats:
        levels = upper.at(positions)
        return levels if lower is None else levels / lower.at(positions)

    found = stats.bootstrap(
        (np.arange(seeds),),
        statistic,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        vectorized=True,
        axis=-1,
        rng=np.random.default_rng(BOOTSTRAP_SEED),
    ).confidence_interval
    return Interval(float(found.low), float(found.high))
