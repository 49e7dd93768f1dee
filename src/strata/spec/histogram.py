# SPDX-License-Identifier: Apache-2.0
"""Latency distributions: HdrHistograms of nanoseconds, and the metrics read from them."""

from __future__ import annotations

import base64
import zlib
from typing import Any, Final

from hdrh.histogram import HdrHistogram

from strata.spec.metric import Metric
from strata.spec.step import Phase
from strata.units import NS_PER_S

LATENCY_NS_MAX: Final = 3600 * NS_PER_S
SIGNIFICANT_DIGITS: Final = 3
PERCENTILES: Final = (("p50", 50.0), ("p95", 95.0), ("p99", 99.0), ("p999", 99.9))

_EXTERNAL_HEADER_BYTES: Final = 8
_STORED_BLOCK_BYTES: Final = 65_535


def empty_histogram() -> Any:
    """An empty histogram from 1 ns to 1 hour. Such histograms can be added to one another."""
    return HdrHistogram(1, LATENCY_NS_MAX, SIGNIFICANT_DIGITS)


def record(histogram: Any, latency_ns: int, count: int = 1) -> None:
    """Count a latency ``count`` times; what lies out of the range counts at its end."""
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
        size = len(block)
        blocks += (
            bytes([is_last]) + size.to_bytes(2, "little") + (size ^ 0xFFFF).to_bytes(2, "little") + block
        )
    blocks += zlib.adler32(content).to_bytes(4, "big")
    header = wire[:4] + len(blocks).to_bytes(4, "big")
    return base64.b64encode(header + bytes(blocks)).decode("ascii")


def decode(text: str) -> Any:
    """The histogram that `encode` wrote."""
    return HdrHistogram.decode(text)


def latency_metrics(
    histogram: Any,
    *,
    latency_ns_mean: float,
    latency_ns_max: float,
    prefix: str = "",
    phase: Phase = "measure",
) -> list[Metric]:
    """Mean, percentiles and maximum, as metrics named ``<prefix>latency_ns_p99``.

    The percentiles carry the histogram, because they can be merged over trials through it alone; mean and
    maximum are exact, and so given.
    """
    name = f"{prefix}latency_ns"
    encoded = encode(histogram)
    metrics = [Metric(name=f"{name}_mean", value=latency_ns_mean, unit="ns", better="lower", phase=phase)]
    for label, percentile in PERCENTILES:
        # The highest value of the last bin may lie beyond the largest latency.
        value = min(float(histogram.get_value_at_percentile(percentile)), latency_ns_max)
        metrics.append(
            Metric(
                name=f"{name}_{label}", value=value, unit="ns", better="lower", phase=phase, histogram=encoded
            )
        )
    metrics.append(Metric(name=f"{name}_max", value=latency_ns_max, unit="ns", better="lower", phase=phase))
    return metrics
