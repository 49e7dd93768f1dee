# SPDX-License-Identifier: Apache-2.0
"""Distributions over seeds: histograms are added up, percentiles are never averaged."""

from __future__ import annotations

import binascii
import zlib
from collections.abc import Iterable
from typing import Final

from hdrh.histogram import HdrHistogram

from strata.errors import ResultError

# Where a latency chart looks: evenly spaced in the number of nines.
CURVE_PERCENTILES: Final = (
    *(1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 75.0, 80.0, 85.0, 90.0, 92.5, 95.0, 96.5, 98.0),
    *(99.0, 99.25, 99.5, 99.65, 99.8, 99.9, 99.95, 99.99),
)


def merge(encoded: Iterable[str]) -> HdrHistogram | None:
    """Add up encoded histograms.

    Returns:
        None when there are none.

    Raises:
        ResultError: If one cannot be decoded.
    """
    merged: HdrHistogram | None = None
    for text in encoded:
        try:
            histogram = HdrHistogram.decode(text)
        except (ValueError, TypeError, binascii.Error, zlib.error, IndexError) as error:
            raise ResultError(
                f"a result's histogram cannot be decoded: {error}",
                remedy="run the trial again with `strata run --fresh`",
            ) from error
        if merged is None:
            merged = histogram
        else:
            merged.add(histogram)
    return merged


def percentile_curve(histogram: HdrHistogram) -> list[tuple[float, float]]:
    """The merged distribution as ``(percentile, value)`` in the histogram's unit.

    It goes as far as its count supports: at least ten recorded values lie above each percentile given.
    """
    count = histogram.get_total_count()
    return [
        (percentile, float(histogram.get_value_at_percentile(percentile)))
        for percentile in CURVE_PERCENTILES
        if count * (100 - percentile) / 100 >= 10
    ]
