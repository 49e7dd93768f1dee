# SPDX-License-Identifier: Apache-2.0
"""Explanations of traces small enough to be worked out by hand.

tests/golden/explanations.txt has their tables and sentences.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from results_factory import FINGERPRINT, S, plan_of

from golden_text import Golden
from present import present
from strata.errors import ResultError
from strata.explanation.analysis import Explanation, explain
from strata.explanation.comparison import IDLE, compare
from strata.explanation.page import address_map, render
from strata.explanation.sentences import sentences
from strata.explanation.slow import slow_operations, slow_sentences
from strata.explanation.source import Source
from strata.explanation.tables import tables
from strata.model.metric import Metric
from strata.report.table import markdown
from strata.results.record import (
    Charges,
    ProcessorUse,
    RealTime,
    ResultRecord,
    TraceSummary,
    Validity,
    Versions,
)
from strata.results.records import Attempt
from strata.traces.attribution import attribute
from strata.traces.kinds import KINDS, TIME_PARTS
from strata.traces.table import RECORD, Trace, read_parquet, write_parquet
from traces import MS, records, request, trace


def explained(
    found: Trace | None,
    *,
    stack: str = "ext4",
    workload: str = "oltp",
    operations: float | None = 10,
    window_ms: int = 100,
    account: dict[str, int] | None = None,
    application_bytes: int | None = None,
    **changed: Any,
) -> Explanation:
    """A trial with this trace, whose window goes from 0 on."""
    plan, tenant = plan_of(stack, workload, 1), changed.pop("tenant", None)
    metrics = [Metric(name="transactions", value=operations, unit="1", better="higher")] if operations else []
    record = ResultRecord(
        trial=plan.trial,
        spec_sha256="0" * 64,
        fingerprint=FINGERPRINT,
        time_domain="virtual",
        runner="lab",
        validity=Validity(valid=True),
        metrics=tuple(metrics),
        disks={"disk0": account or {}},
        filesystems={"disk0": {"writes": 4, "write_bytes": application_bytes, "syncs": 7}}
        if application_bytes is not None
        else {},
        trace=TraceSummary(kept=1, left_out=changed.pop("left_out", 0), trace_sha256="0" * 64)
        if found is not None
        else None,
        versions=Versions(strata="0", kernel="0", agent="0"),
        charges=Charges(),
        real_time=RealTime(started_at="", duration_s=1.0),
    ).model_copy(update=changed)
    attempt = Attempt(1, Path())
    return explain(Source(plan.trial.id, attempt, record, plan, (0, window_ms * MS), workload), found, tenant)


OPERATIONS = (Metric(name="operations", value=10, unit="1", better="higher"),)
SLOW = trace(
    *(request(at * MS, kind="write_journal", seek=2 * MS, rotation=3 * MS) for at in (0, 10, 20, 30)),
    request(40 * MS, kind="flush", sectors=0, flush=4 * MS),
    request(50 * MS, kind="flush", sectors=0, flush=4 * MS),
)
FAST = trace(
    request(0, kind="write_journal", rotation=4 * MS),
    request(10 * MS, kind="flush", sectors=0, flush=4 * MS),
)
ACCOUNTS: dict[str, dict[str, int]] = {
    "slow": {"writes": 4, "write_bytes": 16384, "flushes": 2},
    "fast": {"writes": 1, "write_bytes": 4096, "flushes": 1},
}
SCATTERED = {
    "destages": 6,
    "destage_work_ns": 40 * MS,
    "destage_seeks": 6,
    "destage_seek_ns": 20 * MS,
    "destage_rotation_ns": 16 * MS,
    "destage_transfer_ns": 4 * MS,
}
ALONG = SCATTERED | {"destage_seeks": 2, "destage_seek_ns": 4 * MS, "destage_rotation_ns": 2 * MS}
WINDOW = (0, 1000 * MS)
SPANS = [(at * MS, (at + 10) * MS) for at in range(0, 180, 20)] + [(500 * MS, 600 * MS)]
FLUSHES = trace(
    *(request((at + 2) * MS, kind="flush", sectors=0, flush=4 * MS) for at in range(0, 180, 20)),
    request(510 * MS, kind="flush", sectors=0, queue=10 * MS, flush=30 * MS),
    request(560 * MS, kind="flush", sectors=0, flush=40 * MS),
)
READS = [request(number * MS, kind="read", transfer=number * 1000) for number in range(1, 100)]
TWO_DISKS = Trace(
    records(request(0, seek=10 * MS), request(0, seek=30 * MS, disk=2)), ("rootimage", "disk0", "disk1")
)


def slow_and_fast() -> tuple[Explanation, Explanation]:
    slow = explained(SLOW, stack="btrfs", operations=2, account=ACCOUNTS["slow"], application_bytes=2048)
    fast = explained(
        FAST, stack="ext4", operations=2, window_ms=50, account=ACCOUNTS["fast"], application_bytes=2048
    )
    return fast, slow


def of_tenants(**values: float) -> tuple[Metric, ...]:
    return tuple(
        Metric(name=f"{tenant}_operations", value=value, unit="1", better="higher", tenant=tenant)
        for tenant, value in values.items()
    )


def computing(busy_ms: int, checksums_ms: int, queued_ms: int = 0) -> ProcessorUse:
    time_ns = {"system": (busy_ms - checksums_ms) * MS, "checksums": checksums_ms * MS}
    numbers = {"processors": 1, "window_ns": 100 * MS, "busy_ns": busy_ms * MS, "queued_ns": queued_ms * MS}
    return ProcessorUse.model_validate({"name": "p", "counts": {}, "time_ns": time_ns, **numbers})


def single() -> dict[str, Explanation]:
    """Trials on their own."""
    inside = {"ext4": {"writes": 5, "syncs": 3}, "disk": {"writes": 7, "flushes": 6, "write_ns": 9 * MS}}
    outside = {"writes": 8, "flushes": 6, "queue_ns": MS, "flush_ns": 6 * MS}
    amplified = {"writes": 9, "write_bytes": 30_000, "media_write_bytes": 60_000}
    flush = request(50 * MS, kind="flush", sectors=0, flush=3 * MS)
    return {
        "latencies by kind": explained(trace(*READS, flush)),
        "a request's mean latency by part": explained(
            trace(request(0, kind="read", queue=MS, seek=3 * MS), request(9 * MS, kind="read", queue=2 * MS))
        ),
        "only what completes in the window": explained(
            trace(request(0, seek=MS), request(99 * MS, seek=5 * MS), request(98 * MS, seek=MS))
        ),
        "amplification through the layers": explained(None, account=amplified, application_bytes=10_000),
        "through both kernels": explained(None, account=outside, machines={"vm": inside}),
        "without a trace": explained(
            None, account={"busy_ns": 40 * MS, "command_work_ns": 30 * MS, "destage_work_ns": MS}
        ),
        "seeks of requests and of the cache": explained(SLOW, operations=2, account=SCATTERED),
        "a cache without a head": explained(None, account={"destages": 3, "destage_work_ns": MS}),
    }


def pairs() -> dict[str, tuple[Explanation, Explanation, list[str]]]:
    """Two trials, and what they are declared otherwise in."""
    fast, slow = slow_and_fast()
    took = (Metric(name="load_ns", value=1e8, unit="ns", better="lower"),)
    late = request(0, kind="read", queue=30 * MS, seek=8 * MS, flags=("overdue",))

    def reading(ms: int, **given: Any) -> Explanation:
        return explained(trace(request(0, kind="read", seek=ms * MS)), **given)

    def seeking(ms: int, **given: Any) -> Explanation:
        return explained(trace(request(0, seek=ms * MS)), operations=1, **given)

    return {
        "journal and flushes": (fast, slow, []),
        "the other way round": (slow, fast, []),
        "equal": (slow, slow, []),
        "a load of programs that nothing counts": (
            explained(FAST, operations=None, window_ms=50, metrics=took),
            explained(SLOW, stack="btrfs", operations=None, metrics=took),
            [],
        ),
        "served because of its age": (
            reading(8, operations=20),
            explained(trace(late, request(40 * MS, kind="read", seek=2 * MS))),
            [],
        ),
        "the processor makes a difference": (
            replace(fast, processor=computing(8, 2)),
            replace(slow, processor=computing(30, 18)),
            [],
        ),
        "and none": (
            replace(fast, processor=computing(8, 2)),
            replace(slow, processor=computing(8, 2)),
            [],
        ),
        "emptying the caches": (
            explained(FAST, operations=2, window_ms=50, account={"flushes": 1, **ALONG}),
            explained(SLOW, stack="btrfs", operations=2, account={"flushes": 2, **SCATTERED}),
            [],
        ),
        "idleness is no part of the difference": (seeking(40, window_ms=50), seeking(90, stack="btrfs"), []),
        "parts larger than the difference": (
            reading(50, operations=1, window_ms=60),
            seeking(60, stack="btrfs", window_ms=70),
            [],
        ),
    }


def unlike_pairs() -> dict[str, tuple[Explanation, Explanation, list[str]]]:
    """Two trials that differ in more than their stacks."""
    fast, _ = slow_and_fast()
    two = {"disk0": {"writes": 1}, "disk1": {"writes": 1}}
    of_probe: dict[str, Any] = {"operations": None, "metrics": of_tenants(probe=2), "tenant": "probe"}
    return {
        "workloads that differ": (
            fast,
            explained(SLOW, workload="random-mix", operations=2, account=ACCOUNTS["slow"]),
            ['without → with: before_measure: none → ["snapshot"]', *(f"key{n}: 1 → 2" for n in range(9))],
        ),
        "one of the tenants": (
            explained(SLOW, **{**of_probe, "metrics": of_tenants(probe=2, writer=8)}),
            explained(FAST, window_ms=50, **of_probe),
            [],
        ),
        "two disks": (
            explained(Trace(TWO_DISKS.records[:0], TWO_DISKS.disks), operations=1, window_ms=60, disks=two),
            explained(TWO_DISKS, stack="mirror", operations=1, disks=two),
            [],
        ),
        "a trace that was full after the window": (
            fast,
            explained(SLOW, operations=2, account=ACCOUNTS["slow"], left_out=5000),
            [],
        ),
    }


def slow_ones() -> Iterator[tuple[str, list[str]]]:
    """What slow operations, or without a log the slowest requests, waited for."""
    trial = explained(FLUSHES, processor=computing(12, 0, 30))
    yield (
        "slow operations",
        slow_sentences(present(slow_operations(FLUSHES, ["disk0"], WINDOW, SPANS, 95)), trial),
    )
    fast = [request(at * MS, kind="read", transfer=MS) for at in range(0, 198, 2)]
    behind = request(600 * MS, kind="write", seek=900 * MS)  # nobody waits for it
    found = trace(*fast, request(500 * MS, kind="read", queue=30 * MS, seek=10 * MS), behind)
    without_log = present(slow_operations(found, ["disk0"], WINDOW, [], 99.5))
    yield "slow requests", slow_sentences(without_log, trial)


def test_tables_and_sentences_are_those_that_were_worked_out(golden: Golden) -> None:
    lines: list[str] = []
    for name, found in single().items():
        lines += [f"# {name}", "", *map(markdown, tables(found))]
    for name, (one, other, differing) in (pairs() | unlike_pairs()).items():
        compared = compare(one, other, differing)
        parts = [each.difference_ns for each in compared.contributions]
        assert sum(parts) == pytest.approx(compared.difference_ns, abs=1), name
        lines += [f"# {name}", "", *sentences(compared), tables(other)[0].note or "–", ""]
    for name, said in slow_ones():
        lines += [f"# {name}", "", *said, ""]
    golden("explanations.txt", "\n".join(lines))


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


def test_the_map_of_many_requests_is_a_small_drawing() -> None:
    count = 200_000
    made = np.zeros(count, RECORD)
    draw = np.random.default_rng(1)
    made["arrival_ns"] = np.sort(draw.integers(0, 60 * S, count))
    made["sector"] = draw.integers(0, 1 << 30, count)
    made["kind"] = draw.integers(0, 6, count)

    drawing = address_map(made, (0, 60 * S), "disk0")

    assert len(drawing.svg) < 1_000_000
    assert "200,000 requests" in drawing.alternative


def test_the_contributions_add_up_to_the_difference() -> None:
    found = compare(*slow_and_fast())

    # 100 ms / 2 against 50 ms / 2; journal 20 ms / 2 against 4 ms / 2; flushes 8 / 2 against 4 / 2.
    by_kind = {each.kind: each for each in found.contributions}
    assert (found.first.stack, found.second.stack, found.difference_ns) == ("ext4", "btrfs", 25 * MS)
    assert by_kind["write_journal"].difference_ns == 8 * MS
    assert by_kind["flush"].difference_ns == 2 * MS
    assert by_kind[IDLE].difference_ns == 15 * MS
    assert sum(each.difference_ns for each in found.contributions) == pytest.approx(found.difference_ns)


def test_trials_that_cannot_be_compared_are_refused() -> None:
    other: dict[str, Any]
    for other, cause in (
        ({"time_domain": "wall"}, "virtual time, the other in wall time"),
        ({"operations": None, "metrics": OPERATIONS}, "no common unit of work"),
        ({"operations": None}, "counts no operations"),
        ({"found": None}, "no trace of its requests"),
    ):
        given: dict[str, Any] = {"found": SLOW, **other}
        with pytest.raises(ResultError, match=cause):
            compare(explained(SLOW), explained(**given))


def test_the_page_of_two_trials_is_one_file_with_its_plots() -> None:
    fast, slow = slow_and_fast()

    page = render([(fast, FAST, (0, 50 * MS)), (slow, SLOW, (0, 100 * MS))], compare(fast, slow))

    assert page.startswith("<!doctype html>")
    assert page.count("<svg") >= 7
    assert 'src="' not in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_a_trace_that_was_full_within_the_window_explains_nothing() -> None:
    cut = explained(SLOW, operations=2, account={"writes": 1000, "flushes": 240}, left_out=5000)

    assert cut.missing == 1240 - 6
    with pytest.raises(ResultError, match="the trace was full before 1,234 requests"):
        compare(cut, slow_and_fast()[0])


def test_the_work_of_tenants_is_theirs_together_unless_one_is_named() -> None:
    both = explained(SLOW, operations=None, metrics=of_tenants(probe=2, writer=8))

    assert (both.unit, both.operations) == ("operation of all tenants", 10)
    with pytest.raises(ResultError, match='no tenant "web"') as caught:
        explained(SLOW, operations=None, metrics=of_tenants(probe=2), tenant="web")
    assert caught.value.remedy == "there are: probe"


def test_the_time_of_slow_operations_is_divided_and_compared_with_that_of_all() -> None:
    found = present(slow_operations(FLUSHES, ["disk0"], WINDOW, SPANS, 95))
    slow, usual = present(found.slow), present(found.usual)

    assert (found.number, found.threshold_ns, slow.length_ns) == (1, 100 * MS, 100 * MS)
    assert slow.kinds_ns == {"flush": 80 * MS}
    assert slow.parts_ns == {"flush": 70 * MS, "queue": 10 * MS}
    assert (slow.idle_ns, slow.requests) == (20 * MS, {"flush": 2.0})
    assert usual.length_ns == 19 * MS
    assert usual.kinds_ns["flush"] == pytest.approx((9 * 4 + 80) / 10 * MS)


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
