# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from strata.model.histogram import (
    LATENCY_NS_MAX,
    QUANTILES,
    decode,
    empty_histogram,
    encode,
    latency_metrics,
    record,
)

LATENCIES = st.lists(st.integers(1, LATENCY_NS_MAX), min_size=1, max_size=200)


@given(LATENCIES)
def test_a_histogram_is_read_back_with_every_count(latencies_ns: list[int]) -> None:
    histogram = empty_histogram()
    for latency_ns in latencies_ns:
        record(histogram, latency_ns)

    read = decode(encode(histogram))

    assert read.get_total_count() == len(latencies_ns)
    for percentile in (1, 50, 99.9, 100):
        assert read.get_value_at_percentile(percentile) == histogram.get_value_at_percentile(percentile)


@given(LATENCIES)
def test_percentiles_lie_in_order_within_a_thousandth_of_a_latency(latencies_ns: list[int]) -> None:
    histogram = empty_histogram()
    for latency_ns in latencies_ns:
        record(histogram, latency_ns)
    mean, *percentiles, maximum = latency_metrics(
        histogram,
        latency_ns_mean=sum(latencies_ns) / len(latencies_ns),
        latency_ns_max=float(max(latencies_ns)),
    )
    values = [metric.value for metric in percentiles]

    assert values == [
        min(histogram.get_value_at_percentile(round(quantile * 100, 6)), max(latencies_ns))
        for _, quantile in QUANTILES
    ]
    assert values == sorted(values)
    assert values[-1] <= maximum.value
    assert min(latencies_ns) <= mean.value <= maximum.value
    for value in values:
        assert min(abs(value - latency_ns) / latency_ns for latency_ns in latencies_ns) <= 1e-3
