# SPDX-License-Identifier: Apache-2.0
"""The demerit figure: how far two distributions of response times are apart.

Ruemmler and Wilkes (IEEE Computer 27(3), 1994) draw both cumulative distributions and take the root mean
square of their horizontal distance, as a part of the real mean::

    sqrt(integral over p of (Q_model(p) - Q_real(p))^2) / mean_real

Published models: 3.9 % (Kotz and others, HP 97560), 0.5 to 2.0 % (DiskSim 4.0 with extracted parameters);
configurations made of data sheets alone are much worse.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


def demerit(
    model_latencies: Any, real_latencies: Any, *, model_counts: Any = None, real_counts: Any = None
) -> float:
    """The demerit figure, exactly: 0 for equal distributions, 0.01 for 1 %.

    Latencies are in any order, but of one unit; counts are of each value, for values of a histogram.

    Raises:
        ValueError: If there are no values, or the real ones have no positive mean.
    """
    model, model_ends = _quantiles(model_latencies, model_counts)
    real, real_ends = _quantiles(real_latencies, real_counts)
    ends = np.union1d(model_ends, real_ends)
    widths = np.diff(ends, prepend=0.0)
    middles = ends - widths / 2
    apart = model[_at(model_ends, middles)] - real[_at(real_ends, middles)]
    mean = float(np.sum(real * np.diff(real_ends, prepend=0.0)))
    if mean <= 0:
        raise ValueError("the real latencies have no positive mean")
    return float(np.sqrt(np.sum(widths * apart**2))) / mean


def _quantiles(values: Any, counts: Any) -> tuple[Floats, Floats]:
    """The ascending values, and their cumulative probabilities."""
    array = np.asarray(values, np.float64).ravel()
    weights = np.ones(len(array)) if counts is None else np.asarray(counts, np.float64).ravel()
    if not len(array) or len(array) != len(weights) or weights.sum() <= 0 or weights.min() < 0:
        raise ValueError("a distribution needs values, and a count for each of them")
    order = np.argsort(array, kind="stable")
    ends = np.cumsum(weights[order]) / weights.sum()
    ends[-1] = 1.0
    return array[order], ends


def _at(ends: Floats, probabilities: Floats) -> npt.NDArray[np.intp]:
    return np.minimum(np.searchsorted(ends, probabilities, side="left"), len(ends) - 1)
