# SPDX-License-Identifier: Apache-2.0
"""One metric of one cell over its seeds: the middle, the spread, and how sure the middle is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

CONFIDENCE: Final = 0.95
RESAMPLES: Final = 10_000
# The same values give the same interval on every machine, so the bootstrap's draws are fixed.
BOOTSTRAP_SEED: Final = 20_260_101
# Two values give only three different resamples: their interval would be the two values themselves.
SEEDS_MIN: Final = 3


@dataclass(frozen=True)
class Interval:
    """The 95 % percentile bootstrap interval of a mean over seeds."""

    low: float
    high: float


@dataclass(frozen=True)
class Summary:
    """A metric over the seeds of one cell, in the metric's unit.

    Attributes:
        values: By seed.
        mean: Geometric, because ratios are what is compared; arithmetic when a value is not positive.
        mean_kind: Which of the two.
        interval: None with fewer than ``SEEDS_MIN`` seeds: too little to say how sure the mean is.
    """

    values: Mapping[int, float]
    mean: float
    mean_kind: Literal["geometric", "arithmetic"]
    minimum: float
    maximum: float
    interval: Interval | None

    @property
    def n(self) -> int:
        """How many seeds."""
        return len(self.values)

    @property
    def spread(self) -> float:
        """Half the distance between the extremes, as a share of the mean; 0 for one seed."""
        return (self.maximum - self.minimum) / 2 / abs(self.mean) if self.mean else 0.0


def summarize(values: Mapping[int, float]) -> Summary:
    """Summarize a metric's values by seed.

    Raises:
        ValueError: If there are no values.
    """
    if not values:
        raise ValueError("nothing to summarize")
    ordered = dict(sorted(values.items()))
    sample = np.array(list(ordered.values()), dtype=np.float64)
    if positive := bool((sample > 0).all()):
        mean = float(stats.gmean(sample))
        interval = bootstrap_mean(np.log(sample))
        interval = interval and Interval(float(np.exp(interval.low)), float(np.exp(interval.high)))
    else:
        mean, interval = float(sample.mean()), bootstrap_mean(sample)
    return Summary(
        values=ordered,
        mean=mean,
        mean_kind="geometric" if positive else "arithmetic",
        minimum=float(sample.min()),
        maximum=float(sample.max()),
        interval=interval,
    )


def bootstrap_mean(sample: NDArray[np.float64]) -> Interval | None:
    """The seeded percentile bootstrap interval of the arithmetic mean (`scipy.stats.bootstrap`).

    Returns:
        None with fewer than ``SEEDS_MIN`` values.
    """
    if len(sample) < SEEDS_MIN:
        return None
    found = stats.bootstrap(
        (sample,),
        np.mean,
        n_resamples=RESAMPLES,
        confidence_level=CONFIDENCE,
        method="percentile",
        rng=np.random.default_rng(BOOTSTRAP_SEED),
    ).confidence_interval
    return Interval(float(found.low), float(found.high))
