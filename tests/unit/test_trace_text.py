# SPDX-License-Identifier: Apache-2.0
"""A trace as blkparse's default text, compared field by field with what blkparse(1) documents and prints."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from strata.traces.blkparse import blkparse_lines
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
