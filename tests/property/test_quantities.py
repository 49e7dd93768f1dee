# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.units import (
    describe_duration,
    describe_size,
    format_duration,
    format_share,
    format_size,
    format_value,
    parse_duration,
    parse_size,
    parse_value,
)

_UNITS = ["ns", "B", "B/s", "1/s", "1"]


@given(st.sampled_from(_UNITS), st.floats(0.01, 1e15))
def test_a_written_value_is_read_back_to_three_digits(unit: str, value: float) -> None:
    assert parse_value(format_value(value, unit), unit) == pytest.approx(value, rel=0.005)


@given(st.floats(1e-3, 1000.0))
def test_a_written_share_is_read_back(share: float) -> None:
    assert parse_value(format_value(share, "share"), "share") == pytest.approx(share, rel=0.05, abs=0.0005)
    assert parse_value(format_share(share), "share") == pytest.approx(share, rel=0.001)


@given(st.floats(1e-6, 1e6))
def test_a_written_ratio_is_read_back_and_a_bound_as_the_bound(ratio: float) -> None:
    read = parse_value(format_value(ratio, "ratio"), "ratio")
    assert read == pytest.approx(min(max(ratio, 0.01), 100), rel=0.06, abs=0.005)


@given(st.integers(0, 366 * 24 * 3600 * 10**9))
def test_sizes_and_times_in_a_sentence_are_read_back(value: int) -> None:
    assert parse_value(format_duration(value), "ns") == pytest.approx(value, rel=0.009, abs=0.5)
    assert parse_value(format_size(value), "B") == pytest.approx(value, rel=0.005)
    assert parse_duration(describe_duration(value)) == value
    assert parse_size(describe_size(value)) == value


@given(st.sampled_from(_UNITS), st.floats(0.01, 1e15))
def test_no_value_is_written_with_a_thousand_of_a_smaller_unit(unit: str, value: float) -> None:
    number, _, label = format_value(value, unit).partition(" ")
    if label in {"ns", "µs", "ms"}:
        assert float(number.replace(",", "")) < 1000
