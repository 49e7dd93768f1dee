# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strata.units import (
    _SCALES,
    _SIZE_BYTES,
    _TIME_NS,
    DURATION_NS_MAX,
    SIZE_BYTES_MAX,
    describe_duration,
    describe_size,
    format_duration,
    format_share,
    format_size,
    format_value,
    parse_duration,
    parse_size,
)

_WRITTEN = re.compile(r"([<>]? ?-?[\d,]+(?:\.\d+)?) ?(\D*)")
_UNITS = ["ns", "B", "B/s", "1/s", "1"]


def read_back(text: str, unit: str) -> float:
    """Text of `strata.units` as a number: ``"78.4 ms"`` in ns, ``"2 min 05 s"``; a bound is its value."""
    labels = {label: divisor for divisor, label in _SCALES[unit]}
    labels |= {"ns": _TIME_NS, "B": _SIZE_BYTES}.get(unit, {})
    total, sign = 0.0, -1 if text.startswith("-") else 1
    for number, label in _WRITTEN.findall(text):
        total += sign * abs(float(number.lstrip("<> ").replace(",", ""))) * labels[label.strip()]
    return total


@given(st.sampled_from(_UNITS), st.floats(0.01, 1e15))
def test_a_written_value_is_read_back_to_three_digits(unit: str, value: float) -> None:
    assert read_back(format_value(value, unit), unit) == pytest.approx(value, rel=0.005)


@given(st.floats(1e-3, 1000.0))
def test_a_written_share_is_read_back(share: float) -> None:
    assert read_back(format_value(share, "share"), "share") == pytest.approx(share, rel=0.05, abs=0.0005)
    assert read_back(format_share(share), "share") == pytest.approx(share, rel=0.001)


@given(st.floats(1e-6, 1e6))
def test_a_written_ratio_is_read_back_and_a_bound_as_the_bound(ratio: float) -> None:
    read = read_back(format_value(ratio, "ratio"), "ratio")
    assert read == pytest.approx(min(max(ratio, 0.01), 100), rel=0.06, abs=0.005)


@given(st.integers(0, 366 * 24 * 3600 * 10**9))
def test_sizes_and_times_in_a_sentence_are_read_back(value: int) -> None:
    assert read_back(format_duration(value), "ns") == pytest.approx(value, rel=0.009, abs=0.5)
    assert read_back(format_size(value), "B") == pytest.approx(value, rel=0.005)


@given(st.sampled_from(_UNITS), st.floats(0.01, 1e15))
def test_no_value_is_written_with_a_thousand_of_a_smaller_unit(unit: str, value: float) -> None:
    number, _, label = format_value(value, unit).partition(" ")
    if label in {"ns", "µs", "ms"}:
        assert float(number.replace(",", "")) < 1000


@given(st.integers(0, SIZE_BYTES_MAX))
def test_a_size_written_exactly_is_read_back(size_bytes: int) -> None:
    assert parse_size(describe_size(size_bytes)) == size_bytes


@given(st.integers(0, DURATION_NS_MAX))
def test_a_time_written_exactly_is_read_back(duration_ns: int) -> None:
    assert parse_duration(describe_duration(duration_ns)) == duration_ns


@given(st.integers(0, 8191), st.sampled_from(["KiB", "MiB", "GiB", "TiB"]))
def test_a_multiple_of_a_unit_is_written_shorter_or_equal(count: int, unit: str) -> None:
    text = f"{count}{unit}"

    assert len(describe_size(parse_size(text))) <= max(len(text), 2)


@given(st.one_of(st.text(), st.integers(), st.floats(), st.none()))
def test_anything_else_is_refused_with_a_value_error(junk: object) -> None:
    for parse in (parse_size, parse_duration):
        with contextlib.suppress(ValueError):
            assert parse(junk) >= 0
