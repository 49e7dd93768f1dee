# SPDX-License-Identifier: Apache-2.0
"""Percentiles of merged histograms, whichever way they are looked for."""

from __future__ import annotations

import numpy as np

from strata.statistics.level import Distribution, PercentileLevel
from strata.statistics.resampling import resamples

_PERCENTILES = (0.0, 1.0, 50.0, 99.0, 99.9, 100.0)


def _distribution() -> Distribution:
    """Six seeds over more bins than can be added up for all resamples at once; one of them is empty."""
    counts = np.random.default_rng(1).poisson(0.7, (6, 400))
    counts[3] = 0
    return Distribution(np.arange(400.0), counts)


def test_all_resamples_at_once_give_the_percentiles_that_each_gives_alone() -> None:
    drawn = resamples(6).positions
    for percentile in _PERCENTILES:
        level = PercentileLevel(_distribution(), percentile)
        alone = [float(level.at(row[np.newaxis])[0]) for row in drawn]
        assert level.at(drawn).tolist() == alone
