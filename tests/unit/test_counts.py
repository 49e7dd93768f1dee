# SPDX-License-Identifier: Apache-2.0
"""Counts per operation: the work of disks and processors, as metrics that a gate can watch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from command_line import shown, shown_json
from made_results import made_results
from present import present
from strata.model.metric import PER_OPERATION
from strata.results.counts import COUNT_NAMES, count_of, counts_of, unit_of_work
from strata.results.record import ResultRecord, TraceSummary
from strata.results.store import ResultsFolder
from strata.statistics.study import gather

FLUSHES = "flushes_per_operation"


def made(path: Path, change: Callable[[dict[str, int]], dict[str, int]] | None = None, **given: Any) -> Path:
    """A stack under PostgreSQL with three seeds; ``change`` gives what disk0 did otherwise."""
    folder = made_results(path, stacks=["ext4"], workloads=["postgresql"], seeds=3, checks=(), **given)
    for trial in folder.study().trials:
        if change is None:
            break
        attempt = folder.attempts(trial)[-1]
        record = attempt.read_result()
        disks = {**record.disks, "disk0": {**record.disks["disk0"], **change(record.disks["disk0"])}}
        attempt.write_result(record.model_copy(update={"disks": disks}))
    return folder.path


def a_record(path: Path) -> ResultRecord:
    return gather(ResultsFolder.open(path)).records[0]


def flushed(account: Mapping[str, int]) -> dict[str, int]:
    return {"flushes": account["flushes"] * 3 // 2}


def test_an_operation_is_what_the_load_counts(tmp_path: Path) -> None:
    record = a_record(made(tmp_path / "r"))
    transactions = present(record.metric("transactions")).value

    assert unit_of_work(record) == ("transaction", transactions)
    flushes = sum(account["flushes"] for account in record.disks.values())
    assert present(count_of(record, FLUSHES)).value == flushes / transactions
    assert count_of(record, "transactions_per_s") is None


def test_a_load_that_counts_nothing_is_one_operation(tmp_path: Path) -> None:
    record = a_record(made(tmp_path / "r"))
    uncounted = record.model_copy(update={"metrics": record.metrics[:1]})

    assert unit_of_work(uncounted) == ("load", 1.0)
    assert present(count_of(uncounted, "reads_per_operation")).value == 4 * record.disks["disk0"]["reads"]


def test_seeks_and_writes_of_a_journal_come_from_the_trace(tmp_path: Path) -> None:
    record = a_record(made(tmp_path / "r", lambda _: {"destage_seeks": 10}))
    operations = unit_of_work(record)[1]

    def traced(left_out: int, **window: int) -> dict[str, float]:
        trace = TraceSummary(kept=9, left_out=left_out, trace_sha256="0" * 64, window=window)
        return {
            each.name: each.value * operations
            for each in counts_of(record.model_copy(update={"trace": trace}))
        }

    found = traced(0, seeks=5, write_journal=7)
    assert found["seeks_per_operation"] == pytest.approx(15)
    assert found["journal_writes_per_operation"] == pytest.approx(7)
    # A trace that was full, an older result and a trial without a trace have counted only a part, or nothing.
    for unknown in (
        traced(1, seeks=5, write_journal=7),
        traced(0),
        {each.name: 0.0 for each in counts_of(record)},
    ):
        assert not {"seeks_per_operation", "journal_writes_per_operation"} & unknown.keys()


def test_every_count_is_declared_with_its_unit(tmp_path: Path) -> None:
    trace = TraceSummary(kept=1, left_out=0, trace_sha256="0" * 64, window={"seeks": 1, "write_journal": 1})
    record = a_record(made(tmp_path / "r")).model_copy(update={"trace": trace})

    assert all(any(spec.covers(each) for spec in PER_OPERATION) for each in counts_of(record))
    assert all(any(spec.is_called(name) for spec in PER_OPERATION) for name in COUNT_NAMES)


def test_a_gate_goes_red_when_a_fsync_flushes_once_more(tmp_path: Path) -> None:
    before, after = made(tmp_path / "a"), made(tmp_path / "b", flushed)

    said = shown("compare", before, after, "--fail-on", "changed", exit_code=1)
    found = shown_json("compare", before, after)

    assert "exactly 1" in said  # of the headline
    assert "+12 %" in said or "+13 %" in said
    assert "Counts per operation that differ" in said
    [change] = found["changes"]
    assert (change["kind"]["name"], change["is_count"]) == (FLUSHES, True)
    assert change["second"] / change["first"] == pytest.approx(1.125, abs=0.001)  # one of four disks
    shown("compare", before, after, "--fail-on", "worse")


def test_what_has_not_changed_passes_and_is_exactly_1(tmp_path: Path) -> None:
    folder = made(tmp_path / "a")

    said = shown("compare", folder, folder, "--fail-on", "changed")
    rows = shown_json("compare", folder, folder, "--metric", "*_per_operation")["rows"]

    assert "Counts per operation" not in said
    assert {row["comparison"]["kind"]["name"] for row in rows} >= {FLUSHES, "write_bytes_per_operation"}
    assert {(row["comparison"]["ratio"]["ratio"], row["comparison"]["verdict"]) for row in rows} == {
        (1.0, "equal")
    }


def test_a_metric_that_a_load_no_longer_yields_is_a_change_a_count_of_newer_results_is_none(
    tmp_path: Path,
) -> None:
    before, after = made(tmp_path / "a"), made(tmp_path / "b")
    folder = ResultsFolder.open(after)
    for trial in folder.study().trials:
        attempt = folder.attempts(trial)[-1]
        record = attempt.read_result()
        trace = TraceSummary(kept=9, left_out=0, trace_sha256="0" * 64, window={"seeks": 5})
        kept = tuple(each for each in record.metrics if each.name != "latency_ns_max")
        attempt.write_result(record.model_copy(update={"metrics": kept, "trace": trace}))

    [change] = shown_json("compare", before, after)["changes"]

    assert (change["kind"]["name"], change["second"]) == ("latency_ns_max", None)


def test_a_count_of_0_on_both_sides_is_equal_and_not_missing(tmp_path: Path) -> None:
    folders = [made(tmp_path / name) for name in ("a", "b")]
    for folder in map(ResultsFolder.open, folders):
        for trial in folder.study().trials:
            attempt = folder.attempts(trial)[-1]
            trace = TraceSummary(kept=9, left_out=0, trace_sha256="0" * 64, window={"seeks": 0})
            attempt.write_result(attempt.read_result().model_copy(update={"trace": trace}))

    found = shown_json("compare", *folders, "--all-metrics", "--fail-on", "missing", "--fail-on", "changed")

    assert found["absent"] == []


def test_a_claim_can_be_about_a_count(tmp_path: Path) -> None:
    folder = made_results(tmp_path / "r", stacks=["ext4", "btrfs"], workloads=["postgresql"], checks=())
    file = tmp_path / "my.claims.toml"
    file.write_text(
        f"""[[claims]]
id = "flushes"
claim = "A transaction flushes at most 10 times."
source = "a test"
expect = [{{ workload = "postgresql", metric = "{FLUSHES}", stack = "*", value = [0, 10] }}]
"""
    )

    assert [each["verdict"] for each in shown_json("claims", folder.path, "--claims", file)["claims"]] == [
        "reproduced"
    ]
