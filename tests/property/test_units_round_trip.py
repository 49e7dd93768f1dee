# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from strata.units import (
    DURATION_NS_MAX,
    SIZE_BYTES_MAX,
    describe_duration,
    describe_size,
    parse_duration,
    parse_size,
)


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
