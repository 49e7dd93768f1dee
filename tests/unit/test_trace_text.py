# SPDX-License-Identifier: Apache-2.0
"""A trace as blkparse's default text, compared field by field with what blkparse(1) documents and prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from strata.traces.blkparse import blkparse_lines, rwbs
from traces import MS, request, trace

GOLDEN = Path(__file__).parents[1] / "golden" / "blkparse.txt"
REQUESTS = (
    request(1002 * MS, kind="read", sector=2048, sectors=256, flags=["read_ahead"], seek=4 * MS, transfer=MS),
    request(1003 * MS, kind="write_journal", sector=1_953_525_160, flags=["fua"], queue=4 * MS, rotation=MS),
    request(1010 * MS, kind="flush", sectors=0, flush=9 * MS),
    request(1019 * MS, kind="read_metadata", sector=8, seek=MS, fault=MS, flags=["failed"]),
    request(1030 * MS, kind="discard", sector=4096, sectors=1024, overhead=20),
    request(1031 * MS, kind="write", disk=2),
)
# %D %2c %8s %5T.%9t %5p %2a %3d, as in the man page and in blkparse's own process_default().
LINE = re.compile(
    r" {0,2}(?P<major>\d+),(?P<minor>\d+) *  ?(?P<cpu>\d+) +(?P<sequence>\d+) +"
    r"(?P<seconds>\d+)\.(?P<nanoseconds>\d{9}) +(?P<pid>\d+) +(?P<action>[QDC]) +(?P<rwbs>[FRWDNASM]+) "
    r"(?:(?P<sector>\d+)(?: \+ (?P<sectors>\d+))? )?\[(?P<last>[^\]]+)\]"
)


def read(line: str) -> re.Match[str]:
    found = LINE.fullmatch(line.rstrip("\n"))
    assert found, line
    return found


def lines(window: tuple[int, int] | None = (1000 * MS, 2000 * MS)) -> list[str]:
    found = trace(*REQUESTS)
    return list(blkparse_lines(type(found)(found.records, ("rootimage", "disk0", "disk1")), window))


def test_the_text_is_the_golden_one(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--update-golden"):
        GOLDEN.write_text("".join(lines()))

    assert "".join(lines()) == GOLDEN.read_text()


def test_every_field_is_where_blkparse_puts_it() -> None:
    for line in lines():
        assert line.startswith(("  8,0    0 ", "  8,16   0 "))
        assert read(line)["pid"] == read(line)["cpu"] == "0"
        assert line[20:25].strip().isdigit()
        assert (line[25], line[35], line[41], line[44]) == (".", " ", " ", " ")


def test_a_request_is_queued_issued_and_completed() -> None:
    of_read = [match for match in map(read, lines()) if match["sector"] == "2048"]

    assert [match["action"] for match in of_read] == ["Q", "D", "C"]
    assert [f"{match['seconds']}.{match['nanoseconds']}" for match in of_read] == [
        "0.002000000",
        "0.002000000",
        "0.007000000",
    ]
    assert {(match["rwbs"], match["sectors"]) for match in of_read} == {("RA", "256")}
    assert [match["last"] for match in of_read] == ["strata", "strata", "0"]


def test_a_flush_has_no_place_and_a_failed_request_an_error() -> None:
    assert [line[49:].rstrip() for line in lines() if " FN " in line] == ["[strata]", "[strata]", "0 [0]"]
    assert next(line for line in lines() if " C  RM " in line).endswith("8 + 8 [-5]\n")


def test_kinds_are_blkparses_letters() -> None:
    for kind, flags, letters in (
        (0, 0, "R"),
        (1, 2, "RAM"),
        (2, 0, "W"),
        (3, 0, "WS"),
        (4, 0, "WM"),
        (5, 1, "WFSM"),
        (6, 0, "FN"),
    ):
        assert rwbs(kind, flags) == letters


def test_only_events_of_the_window_are_there() -> None:
    # Its own arrival lies before the window: blktrace, started then, would have seen its end alone.
    inside = lines((1005 * MS, 1009 * MS))

    assert [line[42:44].strip() + " " + line[20:35].strip() for line in inside] == [
        "C 0.002000000",
        "C 0.003000000",
    ]
    assert len(lines(None)) == 3 * len(REQUESTS)


def test_at_one_instant_completions_come_before_arrivals() -> None:
    at_19 = [line for line in lines() if " 0.019000000 " in line]

    assert [line[42:44].strip() for line in at_19] == ["C", "Q", "D"]
