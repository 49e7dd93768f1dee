# SPDX-License-Identifier: Apache-2.0
"""Two trials compared, whose traces are small enough to be worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from explanation_factory import ACCOUNTS, ALONG, FAST, OPERATIONS, SCATTERED, SLOW, explained, slow_and_fast

from strata.errors import ResultError
from strata.explanation.comparison import IDLE, compare
from strata.explanation.page import render
from strata.explanation.sentences import sentences
from strata.explanation.tables import tables
from strata.model.metric import Metric
from strata.results.record import (
    ProcessorUse,
)
from strata.traces.table import Trace
from traces import MS, records, request, trace


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


def test_requests_that_a_drive_served_because_of_their_age_name_its_limit() -> None:
    late = request(0, kind="read", queue=30 * MS, seek=8 * MS, flags=("overdue",))
    slow = explained(trace(late, request(40 * MS, kind="read", seek=2 * MS)))
    fast = explained(trace(request(0, kind="read", seek=8 * MS)), operations=20)

    (row,) = (row for table in tables(slow) for row in table.rows if "scheduler_wait_limit" in str(row[0]))
    assert row[1:] == (1, 0.1)
    assert "0.100 requests served at scheduler_wait_limit" in " ".join(sentences(compare(fast, slow)))
    assert not any("scheduler_wait_limit" in str(row[0]) for table in tables(fast) for row in table.rows)


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

    assert "Not explained" not in " ".join(sentences(compare(fast, slow)))


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


def test_trials_that_cannot_be_compared_are_refused() -> None:
    other: dict[str, Any]
    for other, cause in (
        ({"time_domain": "wall"}, "virtual time, the other in wall time"),
        ({"operations": None, "metrics": OPERATIONS}, "no common unit of work"),
        ({"operations": None}, "counts no operations"),
    ):
        with pytest.raises(ResultError, match=cause):
            compare(explained(SLOW), explained(SLOW, **other))


def test_a_trial_without_a_trace_cannot_be_compared() -> None:
    with pytest.raises(ResultError, match="no trace of its requests"):
        compare(explained(SLOW), explained(None))


def test_the_page_of_two_trials_is_one_file_with_its_plots() -> None:
    fast, slow = slow_and_fast()

    page = render([(fast, FAST, (0, 50 * MS)), (slow, SLOW, (0, 100 * MS))], compare(fast, slow))

    assert page.startswith("<!doctype html>")
    assert "ext4 is 2.0 × as fast as btrfs" in page
    assert page.count("<svg") >= 7
    assert 'src="' not in page
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
