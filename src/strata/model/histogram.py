# SPDX-License-Identifier: Apache-2.0
"""Latency distributions: HdrHistograms of nanoseconds, and the metrics read from them."""

from __future__ import annotations

import base64
import struct
import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from hdrh.codec import HdrCookieException, HdrHistogramSettingsException, HdrLengthException
from hdrh.histogram import HdrHistogram

from strata.model.metric import Metric
from strata.units import NS_PER_S

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LATENCY_NS_MAX: Final = 3600 * NS_PER_S
SIGNIFICANT_DIGITS: Final = 3
QUANTILES: Final = (("p50", 0.5), ("p95", 0.95), ("p99", 0.99), ("p999", 0.999))

_EXTERNAL_HEADER_BYTES: Final = 8
_STORED_BLOCK_BYTES: Final = 65_535
# 2048 bins for each power of two up to 2^63, nine bytes each at most, take half of it.
_CONTENT_BYTES_MAX: Final = 1 << 20
# The header of the content: cookie, length, offset (4 bytes each), digits, lowest and highest value, a ratio.
_DIGITS: Final = slice(12, 16)
_HIGHEST: Final = slice(24, 32)
# As many as numbers of 64 bits hold when the histograms of a study are added up.
_COUNT_MAX: Final = 1 << 48
_UNDECODABLE: Final = (
    *(ValueError, TypeError, IndexError, OverflowError, AssertionError, RuntimeError, zlib.error),
    *(HdrCookieException, HdrHistogramSettingsException, HdrLengthException),
)


class BadHistogram(ValueError):  # noqa: N818  it is what a text holds, not what happened
    """A text that is no histogram."""


def empty_histogram() -> Any:
    """An empty histogram from 1 ns to 1 hour. Such histograms can be added to one another."""
    return HdrHistogram(1, LATENCY_NS_MAX, SIGNIFICANT_DIGITS)


def record(histogram: Any, latency_ns: int, count: int = 1) -> None:
    """Count a latency ``count`` times; a value outside the range counts at its end."""
    histogram.record_value(min(max(latency_ns, 1), LATENCY_NS_MAX), count)


def encode(histogram: Any) -> str:
    """The histogram in the V2 format of HdrHistogram, in base64; `HdrHistogram.decode` reads it.

    The format compresses with zlib, whose output differs between versions and implementations, while a result
    must be the same on every machine. So the content is wrapped in deflate blocks that are merely stored.
    """
    wire = base64.b64decode(histogram.encode())
    content = zlib.decompress(wire[_EXTERNAL_HEADER_BYTES:])
    blocks = bytearray(b"\x78\x01")
    for start in range(0, max(len(content), 1), _STORED_BLOCK_BYTES):
        block = content[start : start + _STORED_BLOCK_BYTES]
        is_last = start + _STORED_BLOCK_BYTES >= len(content)
        blocks += struct.pack("<?HH", is_last, len(block), len(block) ^ 0xFFFF) + block
    blocks += zlib.adler32(content).to_bytes(4, "big")
    header = wire[:4] + len(blocks).to_bytes(4, "big")
    return base64.b64encode(header + bytes(blocks)).decode("ascii")


def decode(text: str) -> Any:
    """The histogram that `encode` or another program wrote, of at most `SIGNIFICANT_DIGITS` digits.

    A small text can inflate to gigabytes, so its size is checked first; `BadHistogram` says why it is none.
    """
    try:
        _check_content(base64.b64decode(text, validate=True)[_EXTERNAL_HEADER_BYTES:])
        histogram = HdrHistogram.decode(text)
        if not 0 <= histogram.total_count <= _COUNT_MAX:
            raise BadHistogram(f"it counts {histogram.total_count} values")
    except _UNDECODABLE as error:
        raise BadHistogram(str(error) or type(error).__name__) from error
    return histogram


def _check_content(deflated: bytes) -> None:
    inflating = zlib.decompressobj()
    content = inflating.decompress(deflated, _CONTENT_BYTES_MAX)
    if inflating.unconsumed_tail or not inflating.eof:
        raise BadHistogram("it is cut off, or inflates to more than any histogram takes")
    digits, highest = (int.from_bytes(content[part], "big") for part in (_DIGITS, _HIGHEST))
    # Both together say how much memory its bins take.
    if not 1 <= digits <= SIGNIFICANT_DIGITS or not 2 <= highest < 1 << 63:
        raise BadHistogram(f"its range is wrong: {digits} digits up to {highest}")


# Every percentile of a cell needs the same histograms, and reading a result has decoded them before.
@lru_cache(maxsize=1 << 14)
def bins(encoded: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The highest value that counts in each bin in use, and how many values it has."""
    import numpy as np  # noqa: PLC0415  workloads need this module; other commands should not pay for it

    histogram = decode(encoded)
    try:
        ends = (histogram.min_value, histogram.max_value) if histogram.total_count else ()
        first, last = (int(histogram.get_counts_array_index(each)) for each in ends) if ends else (0, -1)
        counts = np.frombuffer(histogram.counts, dtype=np.int64)[first : last + 1]
        used = np.flatnonzero(counts)
        # A value below the unit counts as one, as in `record`: 0 has no logarithm.
        return np.maximum(_highest(histogram, first + used), 1.0), counts[used]
    except _UNDECODABLE as error:
        raise BadHistogram(str(error) or type(error).__name__) from error


def _highest(histogram: Any, indices: NDArray[np.int64]) -> NDArray[np.float64]:
    """The highest value that counts in each bin, as in HdrHistogram, which computes one at a time.

    A report of 500 cells needs half a million bins.
    """
    import numpy as np  # noqa: PLC0415  as above

    half = 1 << histogram.sub_bucket_half_count_magnitude
    bucket = (indices >> histogram.sub_bucket_half_count_magnitude) - 1
    position = np.where(bucket < 0, indices & (half - 1), (indices & (half - 1)) + half)
    shift = np.maximum(bucket, 0) + histogram.unit_magnitude
    return np.asarray(((position + 1) << shift) - 1, dtype=np.float64)


def _quantiles(histogram: Any) -> Callable[[float], float]:
    """A histogram's `get_value_at_percentile`, which adds up all counts anew, one by one, at each call."""
    import numpy as np  # noqa: PLC0415  as above

    total = np.cumsum(np.frombuffer(histogram.counts, dtype=np.int64))

    def value_at(quantile: float) -> float:
        index = int(
            np.searchsorted(total, histogram.get_target_count_at_percentile(round(quantile * 100, 6)))
        )
        if index == len(total):
            return 0.0
        return float(histogram.get_highest_equivalent_value(histogram.get_value_from_index(index)))

    return value_at


def latency_metrics(
    histogram: Any, *, latency_ns_mean: float, latency_ns_max: float, family: str = "latency_ns"
) -> list[Metric]:
    """Mean, quantiles and maximum of a distribution of times, as metrics named ``<family>_p99``.

    Mean and maximum are exact, and so given. The histogram lets quantiles be merged over trials.
    """

    def metric(label: str, value: float, **fields: Any) -> Metric:
        name = f"{family}_{label}"
        return Metric(name=name, value=value, unit="ns", better="lower", family=family, **fields)

    encoded, value_at = encode(histogram), _quantiles(histogram)
    metrics = [metric("mean", latency_ns_mean)]
    for label, quantile in QUANTILES:
        # The highest value of the last bin may lie beyond the largest latency.
        value = min(value_at(quantile), latency_ns_max)
        metrics.append(metric(label, value, quantile=quantile, histogram=encoded))
    metrics.append(metric("max", latency_ns_max))
    return metrics
