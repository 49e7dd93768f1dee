# SPDX-License-Identifier: Apache-2.0
"""Explanations of traces small enough to be worked out by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from explanation_factory import SCATTERED, SLOW, explained
from results_factory import S

from strata.explanation.page import address_map
from strata.explanation.tables import tables
from strata.printable import plain
from strata.traces.attribution import attribute
from strata.traces.kinds import KINDS, TIME_PARTS
from strata.traces.table import RECORD
from traces import MS, records, request, trace


def share(found: Any, kind: str, part: str) -> float:
    return float(found.shares_ns[KINDS.index(kind), TIME_PARTS.index(f"{part}_ns")])


def test_one_requests_time_is_all_its_own() -> None:
    found = attribute(records(request(10 * MS, seek=4 * MS, rotation=2 * MS)), (0, 100 * MS))

    assert share(found, "write_sync", "seek") == 4 * MS
    assert share(found, "write_sync", "rotation") == 2 * MS
    assert (found.busy_ns, found.idle_ns) == (6 * MS, 94 * MS)


def test_who_waits_for_another_has_no_part_in_its_time() -> None:
    # The second arrives 1 ms after the first and waits for the 5 ms that the first still takes.
    found = attribute(
        records(
            request(0, kind="read", seek=6 * MS),
            request(1 * MS, kind="flush", queue=5 * MS, flush=2 * MS),
        ),
        (0, 10 * MS),
    )

    assert share(found, "read", "seek") == 6 * MS
    assert share(found, "flush", "queue") == 0
    assert share(found, "flush", "flush") == 2 * MS
    assert found.idle_ns == 2 * MS


def test_who_is_served_at_once_with_another_shares_the_instant() -> None:
    # Two dies: 4 ms and 8 ms from the same instant on. The first 4 ms are shared, the rest is the second's.
    found = attribute(
        records(request(0, kind="read", cell=4 * MS), request(0, cell=6 * MS, transfer=2 * MS)), (0, 8 * MS)
    )

    assert share(found, "read", "cell") == 2 * MS
    assert share(found, "write_sync", "cell") == pytest.approx(6 * MS * 6 / 8)
    assert share(found, "write_sync", "transfer") == pytest.approx(6 * MS * 2 / 8)
    assert found.idle_ns == 0


def test_time_in_which_all_wait_is_theirs_together() -> None:
    # Both wait for the disk's own work until 3 ms, then one is served and the other goes on waiting.
    found = attribute(
        records(
            request(0, kind="read", queue=3 * MS, transfer=MS),
            request(0, queue=4 * MS, transfer=MS),
        ),
        (0, 5 * MS),
    )

    assert share(found, "read", "queue") == 1.5 * MS
    assert share(found, "write_sync", "queue") == 1.5 * MS
    assert share(found, "read", "transfer") == share(found, "write_sync", "transfer") == MS
    assert found.busy_ns == 5 * MS


def test_a_request_across_the_windows_edge_counts_for_what_lies_within() -> None:
    found = attribute(records(request(0, seek=10 * MS), request(95 * MS, seek=10 * MS)), (8 * MS, 100 * MS))

    assert share(found, "write_sync", "seek") == 2 * MS + 5 * MS
    assert found.idle_ns == 85 * MS


def test_latencies_are_explained_by_kind() -> None:
    requests = [request(number * MS, kind="read", transfer=number * 1000) for number in range(1, 100)]
    found = explained(trace(*requests, request(50 * MS, kind="flush", sectors=0, flush=3 * MS)))

    reads, flushes = found.disks[0].kind("read"), found.disks[0].kind("flush")
    assert reads is not None
    assert flushes is not None
    assert (reads.requests, reads.bytes, reads.seeks) == (99, 99 * 4096, 0)
    assert (reads.latency_ns_p50, reads.latency_ns_p99, reads.latency_ns_max) == (50_000, 99_000, 99_000)
    assert (flushes.requests, flushes.latency_ns_max, flushes.parts_ns) == (1, 3 * MS, {"flush": 3 * MS})
    assert found.disks[0].kind("discard") is None


def test_a_requests_mean_latency_is_explained_by_part() -> None:
    found = explained(
        trace(request(0, kind="read", queue=MS, seek=3 * MS), request(9 * MS, kind="read", queue=2 * MS))
    )

    table = next(table for table in tables(found) if table.title == "disk0: what a request waited for")

    assert [column.title for column in table.columns] == ["", "latency", "queue", "seek"]
    assert table.rows == [("reads of data", 3.0 * MS, 1.5 * MS, 1.5 * MS)]


def test_only_what_completed_in_the_window_is_counted() -> None:
    found = explained(trace(request(-0, seek=MS), request(99 * MS, seek=5 * MS), request(98 * MS, seek=MS)))

    assert found.count("requests") == found.count("seeks") == 2
    assert found.disks[0].traced == 2


def test_amplification_goes_through_the_layers() -> None:
    account = {"writes": 9, "write_bytes": 30_000, "media_write_bytes": 60_000}
    found = explained(None, account=account, application_bytes=10_000)

    layers = {layer.name: layer for layer in found.layers}
    assert layers["filesystem"].write_bytes == 10_000
    assert (layers["disk"].writes, layers["disk"].of_application, layers["disk"].of_above) == (9, 3.0, 3.0)
    assert (layers["medium"].of_application, layers["medium"].of_above) == (6.0, 2.0)
    assert found.syncs == 7


def test_requests_are_followed_through_both_kernels() -> None:
    inside = {"ext4": {"writes": 5, "syncs": 3}, "disk": {"writes": 7, "flushes": 6, "write_ns": 9 * MS}}
    outside = {"writes": 8, "flushes": 6, "queue_ns": MS, "flush_ns": 6 * MS}
    found = explained(None, account=outside, machines={"vm": inside})

    (table,) = (each for each in tables(found) if each.title == "Through both kernels")
    rows = [(*row[:4], row[-1]) for row in map(tuple, table.rows)]
    assert rows == [
        ("applications in vm to ext4", None, 5, 3, None),
        ("vm to its virtual disk", None, 7, 6, 9 * MS),
        ("outside, to disk0", None, 8, 6, 7 * MS),
    ]


def test_without_a_trace_the_disks_own_counts_remain() -> None:
    found = explained(None, account={"busy_ns": 40 * MS, "command_work_ns": 30 * MS, "destage_work_ns": MS})

    assert (found.disks[0].busy_ns, found.disks[0].idle_ns) == (40 * MS, 60 * MS)
    assert found.disks[0].work_ns == {"command": 30 * MS, "destage": MS}
    assert found.left_out is None
    titles = [table.title for table in tables(found)]
    assert "disk0: the window" in titles
    assert "disk0: by kind" not in titles


def test_seeks_are_counted_whether_a_request_or_the_write_cache_needed_them() -> None:
    found = explained(SLOW, operations=2, account=SCATTERED)

    rows = {row[0]: row[1:] for row in tables(found)[0].rows}
    assert found.seeks == 4 + 6
    assert rows["seeks, of both kinds"] == (10, 5.0)
    assert rows["seeks that requests waited for"] == (4, 2.0)
    assert rows["seeks to empty the write caches"] == (6, 3.0)
    assert plain(found)["seeks"] == 10


def test_emptying_the_write_cache_divides_into_what_the_head_does() -> None:
    found = explained(None, account=SCATTERED)

    window = next(table for table in tables(found) if table.title == "disk0: the window")
    names = [row[0] for row in window.rows]
    at = names.index("mechanism: emptying the write cache")
    assert [row[1] for row in window.rows[at : at + 4]] == [40 * MS, 20 * MS, 16 * MS, 4 * MS]
    assert names[at + 1 : at + 4] == ["  of which seek", "  of which rotation", "  of which transfer"]
    parts = plain(found)["disks"][0]["destage_parts_ns"]
    assert parts == {"seek": 20 * MS, "rotation": 16 * MS, "transfer": 4 * MS}


def test_emptying_a_cache_without_a_head_is_not_divided() -> None:
    found = explained(None, account={"destages": 3, "destage_work_ns": MS, "destage_seek_ns": 0})

    assert found.disks[0].destage_parts_ns == {}
    assert not any("of which" in row[0] for table in tables(found) for row in table.rows)


def test_the_map_of_a_million_requests_is_a_small_drawing() -> None:
    count = 1_000_000
    made = np.zeros(count, RECORD)
    draw = np.random.default_rng(1)
    made["arrival_ns"] = np.sort(draw.integers(0, 60 * S, count))
    made["sector"] = draw.integers(0, 1 << 30, count)
    made["kind"] = draw.integers(0, 6, count)

    drawing = address_map(made, (0, 60 * S), "disk0")

    assert len(drawing.svg) < 1_000_000
    assert "1,000,000 requests" in drawing.alternative
