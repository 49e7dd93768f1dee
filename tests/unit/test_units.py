# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from strata.units import (
    format_duration,
    format_size,
    format_value,
    parse_duration,
    parse_size,
    significant,
    times,
)


def test_a_size_is_read_in_bytes() -> None:
    for text, size_bytes in (
        ("8GiB", 8 << 30),
        ("1.5 MiB", 3 << 19),
        ("500GB", 500 * 10**9),
        ("512B", 512),
        ("0B", 0),
    ):
        assert parse_size(text) == size_bytes


def test_a_time_is_read_in_nanoseconds() -> None:
    for text, duration_ns in (
        ("60s", 60 * 10**9),
        ("1.5ms", 1_500_000),
        ("2h", 7200 * 10**9),
        ("3 m", 180 * 10**9),
    ):
        assert parse_duration(text) == duration_ns


def test_a_size_without_a_known_unit_is_refused() -> None:
    text: object
    for text in ("8", 8, 8.0, True, None, "8KB", "8P", "GiB", "-1GiB", "1e3MiB", "8 gib", "", "٣GiB"):
        with pytest.raises(ValueError, match=r"8GiB"):
            parse_size(text)


def test_a_size_is_read_as_the_tools_of_the_trade_write_it() -> None:
    for text, size_bytes in (("16k", 16 << 10), ("64K", 64 << 10), ("8G", 8 << 30)):
        assert parse_size(text) == size_bytes


def test_a_part_of_a_byte_or_nanosecond_is_refused() -> None:
    with pytest.raises(ValueError, match="whole number of B"):
        parse_size("0.5B")
    with pytest.raises(ValueError, match="whole number of ns"):
        parse_duration("0.5ns")


def test_what_no_disk_holds_and_no_study_takes_is_refused() -> None:
    with pytest.raises(ValueError, match="too large"):
        parse_size("99999999TiB")
    with pytest.raises(ValueError, match="too large"):
        parse_duration("1000000h")


def test_many_digits_are_not_rounded() -> None:
    assert parse_size("288230376151711745B") == 288230376151711745
    assert parse_duration("1.000000001s") == 1_000_000_001


def test_quantities_are_written_for_people() -> None:
    assert format_size(3 << 29) == "1.5 GiB"
    assert format_size(512) == "512 B"
    assert format_duration(1_500_000) == "1.5 ms"
    assert format_duration(90 * 60 * 10**9) == "1 h 30 min"
    assert format_duration(125 * 10**9) == "2 min 05 s"
    assert format_value(12_400_000, "ns") == "12.4 ms"
    assert format_value(329.13, "1/s") == "329 /s"
    assert format_value(100 * 2**20, "B/s") == "100 MiB/s"
    assert [significant(each) for each in (19740.2, 0.01234, 999.6)] == ["19,740", "0.0123", "1,000"]
    assert (times(4.41), times(1.049)) == ("4.4 ×", "1.05 ×")
