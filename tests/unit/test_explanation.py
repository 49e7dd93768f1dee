# SPDX-License-Identifier: Apache-2.0
"""Explanations of traces small enough to be worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from results_factory import FINGERPRINT, S, plan_of

from strata.errors import ResultError
from strata.explanation.analysis import Explanation, explain
from strata.explanation.comparison import IDLE, compare
from strata.explanation.page import address_map, render
from strata.explanation.sentences import sentences
from strata.explanation.source import Source
from strata.explanation.tables import explanation_plain, tables
from strata.results.record import (
    Charges,
    ProcessorUse,
    RealTime,
    ResultRecord,
    TraceSummary,
    Validity,
    Versions,
)
from strata.results.store import Attempt
from strata.spec.metric import Metric
from strata.traces.attribution import attribute
from strata.traces.kinds import KINDS, TIME_PARTS
from strata.traces.table import RECORD, Trace
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
    attempt = Attempt(plan.trial.key, 1, Path())
    return explain(Source(plan.trial.id, attempt, record, plan, (0, window_ms * MS), workload), found, tenant)


OPERATIONS = (Metric(name="operations", value=10, unit="1", better="higher"),)


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


def slow_and_fast() -> tuple[Explanation, Explanation]:
    slow = explained(SLOW, stack="btrfs", operations=2, account=ACCOUNTS["slow"], application_bytes=2048)
    fast = explained(
        FAST, stack="ext4", operations=2, window_ms=50, account=ACCOUNTS["fast"], application_bytes=2048
    )
    return fast, slow


def test_the_contributions_add_up_to_the_difference() -> None:
    found = compare(*slow_and_fast())

    # 100 ms / 2 against 50 ms / 2; journal 20 ms / 2 against 4 ms / 2; flushes 8 / 2 against 4 / 2.
    by_kind = {each.kind: each for each in found.contributions}
    assert (found.first.stack, found.second.stack, found.difference_ns) == ("ext4", "btrfs", 25 * MS)
    assert by_kind["write_journal"].difference_ns == 8 * MS
    assert by_kind["flush"].difference_ns == 2 * MS
    assert by_kind[IDLE].difference_ns == 15 * MS
    assert sum(each.difference_ns for each in found.contributions) == pytest.approx(found.difference_ns)


def test_a_load_of_a_studys_own_programs_is_one_operation_where_nothing_counts_them() -> None:
    took = (Metric(name="load_ns", value=1e8, unit="ns", better="lower"),)
    slow = explained(SLOW, stack="btrfs", operations=None, metrics=took)
    fast = explained(FAST, stack="ext4", operations=None, window_ms=50, metrics=took)

    found = compare(fast, slow)

    assert found.difference_ns == 50 * MS
    assert "ext4 is 2.0 × as fast as btrfs: 50.0 ms per load against 100 ms" in sentences(found)[0]
    assert tables(slow)[0].note == "1 load"


def test_a_contribution_is_of_number_and_of_cost() -> None:
    journal = next(each for each in compare(*slow_and_fast()).contributions if each.kind == "write_journal")

    # 2 at 5 ms against 0.5 at 4 ms: 1.5 more at 4.5 ms on average, 1 ms longer at 1.25 on average.
    assert journal.by_count_ns == pytest.approx(6.75 * MS)
    assert journal.by_cost_ns == pytest.approx(1.25 * MS)
    assert list(journal.parts_ns.items())[:2] == [("seek", 4 * MS), ("rotation", 4 * MS)]


def test_the_sentences_name_the_causes_with_their_figures() -> None:
    said = sentences(compare(*slow_and_fast()))

    assert said == [
        "ext4 is 2.0 × as fast as btrfs: 25.0 ms per transaction against 50.0 ms of the measured window.",
        "Of the 25.0 ms that btrfs takes more, its disks spend 8.00 ms (32 %) on journal writes and commits "
        "and 2.00 ms (8.0 %) on flushes.",
        "Journal writes and commits: ext4 makes 0.500 per transaction (4.00 ms of the disk's time each), "
        "btrfs 2.00 (5.00 ms each). Under btrfs, that there are more costs 6.75 ms, that each takes longer "
        "costs 1.25 ms; the difference is seeking +4.00 ms and rotation +4.00 ms.",
        "Flushes: ext4 makes 0.500 per transaction (4.00 ms of the disk's time each), btrfs 1.00 (4.00 ms "
        "each). Under btrfs, that there are more costs 2.00 ms; the difference is emptying the write cache "
        "+2.00 ms.",
        "Per transaction ext4 and btrfs make 0.500 and 2.00 writes, 0.500 and 1.00 flushes, 0 and 2.00 seeks "
        "that requests waited for and 0.500 and 2.00 journal writes.",
        "Written to the disks per transaction: ext4 2.00 KiB for 1.00 KiB by the application (2.0 ×) and "
        "btrfs 8.00 KiB for 1.00 KiB by the application (8.0 ×).",
        "Not explained by the disks: per transaction they stand idle 15.0 ms more under btrfs (60 % of the "
        "difference), while programs compute, sleep or wait for each other.",
    ]


def test_the_processors_time_is_said_where_it_makes_a_difference() -> None:
    def computing(busy_ms: int, checksums_ms: int) -> ProcessorUse:
        time_ns = {"system": (busy_ms - checksums_ms) * MS, "checksums": checksums_ms * MS}
        numbers = {"processors": 1, "window_ns": 100 * MS, "busy_ns": busy_ms * MS, "queued_ns": 0}
        return ProcessorUse.model_validate({"name": "p", "counts": {}, "time_ns": time_ns, **numbers})

    fast, slow = slow_and_fast()
    said = sentences(
        compare(replace(fast, processor=computing(8, 2)), replace(slow, processor=computing(30, 18)))
    )

    assert said[-1] == (
        "Per transaction the processors compute for 4.00 ms under ext4 and 15.0 ms under btrfs; "
        'the part "checksums" differs most (+8.00 ms).'
    )
    alike = [replace(each, processor=computing(8, 2)) for each in (fast, slow)]
    assert not any("compute for" in each for each in sentences(compare(alike[0], alike[1])))


def test_how_much_a_flush_has_to_do_is_said_where_it_is_counted() -> None:
    slow = explained(SLOW, stack="btrfs", operations=2, account={"flushes": 2, "destages": 9})
    fast = explained(FAST, stack="ext4", operations=2, window_ms=50, account={"flushes": 1, "destages": 1})

    said = sentences(compare(fast, slow))

    words = "1.00 times per flush under ext4 and 4.50 times per flush under btrfs"
    assert f"The disks write from their caches to the medium {words}." in said


SCATTERED = {
    "destages": 6,
    "destage_work_ns": 40 * MS,
    "destage_seeks": 6,
    "destage_seek_ns": 20 * MS,
    "destage_rotation_ns": 16 * MS,
    "destage_transfer_ns": 4 * MS,
}
ALONG = SCATTERED | {"destage_seeks": 2, "destage_seek_ns": 4 * MS, "destage_rotation_ns": 2 * MS}


def test_seeks_are_counted_whether_a_request_or_the_write_cache_needed_them() -> None:
    found = explained(SLOW, operations=2, account=SCATTERED)

    rows = {row[0]: row[1:] for row in tables(found)[0].rows}
    assert found.seeks == 4 + 6
    assert rows["seeks, of both kinds"] == (10, 5.0)
    assert rows["seeks that requests waited for"] == (4, 2.0)
    assert rows["seeks to empty the write caches"] == (6, 3.0)
    assert explanation_plain(found)["seeks"] == 10


def test_emptying_the_write_cache_divides_into_what_the_head_does() -> None:
    found = explained(None, account=SCATTERED)

    window = next(table for table in tables(found) if table.title == "disk0: the window")
    names = [row[0] for row in window.rows]
    at = names.index("mechanism: emptying the write cache")
    assert [row[1] for row in window.rows[at : at + 4]] == [40 * MS, 20 * MS, 16 * MS, 4 * MS]
    assert names[at + 1 : at + 4] == ["  of which seek", "  of which rotation", "  of which transfer"]
    parts = explanation_plain(found)["disks"][0]["destage_parts_ns"]
    assert parts == {"seek": 20 * MS, "rotation": 16 * MS, "transfer": 4 * MS}


def test_emptying_a_cache_without_a_head_is_not_divided() -> None:
    found = explained(None, account={"destages": 3, "destage_work_ns": MS, "destage_seek_ns": 0})

    assert found.disks[0].destage_parts_ns == {}
    assert not any("of which" in row[0] for table in tables(found) for row in table.rows)


def test_the_sentences_divide_the_emptying_of_the_caches() -> None:
    slow = explained(SLOW, stack="btrfs", operations=2, account={"flushes": 2, **SCATTERED})
    fast = explained(FAST, stack="ext4", operations=2, window_ms=50, account={"flushes": 1, **ALONG})

    said = sentences(compare(fast, slow))

    assert (
        "Emptying the caches takes the heads, per transaction, 5.00 ms under ext4 (2.00 ms seeking, 1.00 ms "
        "rotation and 2.00 ms transfer) and 20.0 ms under btrfs (10.0 ms seeking, 8.00 ms rotation and "
        "2.00 ms transfer)." in said
    )
    assert "1.00 and 3.00 seeks to empty their caches" in " ".join(said)


def test_idleness_that_is_no_part_of_the_difference_is_not_mentioned() -> None:
    slow = explained(trace(request(0, seek=90 * MS)), stack="btrfs", operations=1)
    fast = explained(trace(request(0, seek=40 * MS)), operations=1, window_ms=50)

    assert "Not explained" not in " ".join(sentences(compare(slow, fast)))


def test_the_trial_that_is_named_first_comes_first_in_every_sentence() -> None:
    fast, slow = slow_and_fast()

    for one, other in ((fast, slow), (slow, fast)):
        said = sentences(compare(one, other))
        ranking, others = said[1], [said[0], *said[2:-1]]  # the last names the second alone
        assert all(each.index(one.stack) < each.index(other.stack) for each in others), said
        assert ranking.startswith("Of the 25.0 ms that btrfs takes more, its disks spend 8.00 ms (32 %) on")
    assert said[0].startswith("btrfs is 0.50 × as fast as ext4: 50.0 ms per transaction against 25.0 ms")
    assert "they stand idle 15.0 ms less under ext4" in said[-1]


def test_parts_larger_than_the_difference_are_said_in_absolute_time_alone() -> None:
    slow = explained(trace(request(0, seek=60 * MS)), stack="btrfs", operations=1, window_ms=70)
    fast = explained(trace(request(0, kind="read", seek=50 * MS)), operations=1, window_ms=60)

    said = sentences(compare(fast, slow))

    assert said[1] == (
        "Of the 10.0 ms that btrfs takes more, its disks spend 60.0 ms on synchronous writes; they save "
        "50.0 ms on reads of data."
    )
    assert not any("%" in each for each in said)


def test_trials_of_other_workloads_with_a_common_unit_are_explained_with_what_differs() -> None:
    fast, _ = slow_and_fast()
    other = explained(SLOW, workload="random-mix", operations=2, account=ACCOUNTS["slow"])
    differing = ['without → with: before_measure: none → ["snapshot"]', *(f"key{n}: 1 → 2" for n in range(9))]

    said = sentences(compare(fast, other, differing))

    assert said[0].startswith("ext4.oltp.s1 is 2.0 × as fast as ext4.random-mix.s1")
    assert said[-1].startswith(
        'They are declared otherwise in: without → with: before_measure: none → ["snap'
    )
    assert said[-1].endswith("key6: 1 → 2; and in 2 further keys.")


def of_tenants(**values: float) -> tuple[Metric, ...]:
    return tuple(
        Metric(name=f"{tenant}_operations", value=value, unit="1", better="higher", tenant=tenant)
        for tenant, value in values.items()
    )


def test_the_work_of_tenants_is_theirs_together_or_that_of_one() -> None:
    both = explained(SLOW, operations=None, metrics=of_tenants(probe=2, writer=8))
    one = explained(SLOW, operations=None, metrics=of_tenants(probe=2, writer=8), tenant="probe")
    other = explained(FAST, operations=None, window_ms=50, metrics=of_tenants(probe=2), tenant="probe")

    assert (both.unit, both.operations) == ("operation of all tenants", 10)
    assert (one.unit, one.operations) == ("operation of probe", 2)
    assert tables(one)[0].note == "2 operations of probe"
    assert "50.0 ms per operation of probe against 25.0 ms" in sentences(compare(one, other))[0]
    with pytest.raises(ResultError, match='no tenant "web"') as caught:
        explained(SLOW, operations=None, metrics=of_tenants(probe=2), tenant="web")
    assert caught.value.remedy == "there are: probe"


def test_equal_trials_are_said_to_be_equal() -> None:
    _, slow = slow_and_fast()

    assert "equally fast" in sentences(compare(slow, slow))[0]


def test_a_trace_that_was_full_within_the_window_explains_nothing() -> None:
    fast, _ = slow_and_fast()
    cut = explained(SLOW, operations=2, account={"writes": 1000, "flushes": 240}, left_out=5000)
    later = explained(SLOW, operations=2, account=ACCOUNTS["slow"], left_out=5000)

    assert (cut.missing, later.missing) == (1240 - 6, 0)
    with pytest.raises(ResultError, match="the trace was full before 1,234 requests"):
        compare(cut, fast)
    assert compare(fast, later).difference_ns == 25 * MS


def test_of_two_disks_the_shares_are_means() -> None:
    requests = [request(0, seek=10 * MS), request(0, seek=30 * MS, disk=2)]
    found = Trace(records(*requests), ("rootimage", "disk0", "disk1"))
    disks = {"disk0": {"writes": 1}, "disk1": {"writes": 1}}
    slow = explained(found, stack="mirror", operations=1, disks=disks)
    fast = explained(Trace(found.records[:0], found.disks), operations=1, window_ms=60, disks=disks)

    by_kind = {each.kind: each.difference_ns for each in compare(fast, slow).contributions}

    assert by_kind == {"write_sync": 20 * MS, IDLE: 20 * MS}


@pytest.mark.parametrize(
    ("other", "cause"),
    [
        ({"time_domain": "wall"}, "virtual time, the other in wall time"),
        ({"operations": None, "metrics": OPERATIONS}, "no common unit of work"),
        ({"operations": None}, "counts no operations"),
    ],
)
def test_trials_that_cannot_be_compared_are_refused(other: dict[str, Any], cause: str) -> None:
    with pytest.raises(ResultError, match=cause):
        compare(explained(SLOW), explained(SLOW, **other))


def test_a_trial_without_a_trace_cannot_be_compared() -> None:
    with pytest.raises(ResultError, match="no trace of its requests"):
        compare(explained(SLOW), explained(None))


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


def test_the_page_of_two_trials_is_one_file_with_its_plots() -> None:
    fast, slow = slow_and_fast()

    page = render([(fast, FAST, (0, 50 * MS)), (slow, SLOW, (0, 100 * MS))], compare(fast, slow))

    assert page.startswith("<!doctype html>")
    assert "ext4 is 2.0 × as fast as btrfs" in page
    assert page.count("<svg") >= 7
    assert 'src="' not in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
