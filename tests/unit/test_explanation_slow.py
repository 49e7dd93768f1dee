# SPDX-License-Identifier: Apache-2.0
"""What the slow operations waited for, of traces small enough to be worked out by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from explanation_factory import explained

from present import present
from strata.explanation.slow import slow_operations, slow_sentences
from strata.results.record import ProcessorUse
from strata.traces.table import Trace, read_parquet, write_parquet
from traces import MS, records, request, trace

WINDOW = (0, 1000 * MS)
# Nine operations of 10 ms with a flush of 4 ms each, then one of 100 ms that waits 80 ms for two flushes.
SPANS = [(at * MS, (at + 10) * MS) for at in range(0, 180, 20)] + [(500 * MS, 600 * MS)]
FLUSHES = trace(
    *(request((at + 2) * MS, kind="flush", sectors=0, flush=4 * MS) for at in range(0, 180, 20)),
    request(510 * MS, kind="flush", sectors=0, queue=10 * MS, flush=30 * MS),
    request(560 * MS, kind="flush", sectors=0, flush=40 * MS),
)


def test_the_time_of_slow_operations_is_divided_and_compared_with_that_of_all() -> None:
    found = present(slow_operations(FLUSHES, ["disk0"], WINDOW, SPANS, 95))
    slow, usual = present(found.slow), present(found.usual)

    assert (found.number, found.threshold_ns, slow.length_ns) == (1, 100 * MS, 100 * MS)
    assert slow.kinds_ns == {"flush": 80 * MS}
    assert slow.parts_ns == {"flush": 70 * MS, "queue": 10 * MS}
    assert (slow.idle_ns, slow.requests) == (20 * MS, {"flush": 2.0})
    assert usual.length_ns == 19 * MS
    assert usual.kinds_ns["flush"] == pytest.approx((9 * 4 + 80) / 10 * MS)


def test_the_sentences_name_requests_flushes_sessions_and_processors() -> None:
    processor = ProcessorUse.model_validate(
        {
            "name": "p",
            "processors": 1,
            "window_ns": 1000 * MS,
            "counts": {},
            "time_ns": {},
            "busy_ns": 120 * MS,
            "queued_ns": 30 * MS,
        }
    )
    trial = explained(FLUSHES, operations=10, processor=processor)

    said = slow_sentences(present(slow_operations(FLUSHES, ["disk0"], WINDOW, SPANS, 95)), trial)

    assert said == [
        "1 transaction took 100 ms (p95) or more, on average 100 ms; the mean of all is 19.0 ms.",
        "In the time of a slow one the disks served flushes for 80.0 ms (all: 11.6 ms), 2.00 complete "
        "(1.10).",
        "Their time went into emptying the write cache 70.0 ms and waiting behind the disk's own work "
        "10.0 ms.",
        "For 20.0 ms (20 %; all: 39 %) no disk had a request: programs computed, or sessions waited for one "
        "another.",
        "Processors: 12 % busy over the window; per transaction, work waits 3.00 ms for one.",
    ]


def test_without_a_log_the_slowest_requests_stand_for_the_operations() -> None:
    fast = [request(at * MS, kind="read", transfer=MS) for at in range(0, 198, 2)]
    slow = request(500 * MS, kind="read", queue=30 * MS, seek=10 * MS)
    behind = request(600 * MS, kind="write", seek=900 * MS)  # nobody waits for it

    found = present(slow_operations(trace(*fast, slow, behind), ["disk0"], WINDOW, [], 99.5))

    assert (found.number, found.threshold_ns, found.slow) == (1, 40 * MS, None)
    assert found.kinds == {"read": 1.0}
    said = slow_sentences(found, explained(FLUSHES))
    assert said[1].startswith("1 request took 40.0 ms (p99.5) or more: 100 % reads of data.")
    assert "waiting behind the disk's own work 30.0 ms and seeking 10.0 ms" in said[1]
    assert slow_operations(trace(), ["disk0"], WINDOW, [], 99) is None


def test_a_table_of_a_driver_with_fewer_flags_is_read(tmp_path: Path) -> None:
    import duckdb  # noqa: PLC0415

    found = Trace(records(request(0, seek=MS, flags=["fua"])), ("rootimage", "disk0"))
    write_parquet(tmp_path / "new.parquet", found)
    older = tmp_path / "older.parquet"
    with duckdb.connect() as connection:
        notes = "trace_version: '1', disks: '[\"rootimage\", \"disk0\"]'"
        connection.execute(
            f"copy (select * exclude (overdue) from '{tmp_path}/new.parquet') to '{older}' "
            f"(format parquet, kv_metadata {{{notes}}})"
        )

    assert (read_parquet(older).records == found.records).all()
