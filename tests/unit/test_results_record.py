# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError
from results_factory import EventLog, S, good_log, plan_of, record_of

from strata.model.metric import Metric
from strata.results.record import ResultRecord


@pytest.fixture
def record(tmp_path: Path) -> ResultRecord:
    plan = plan_of("xfs", "oltp", 1)
    return record_of(plan, good_log(plan, 344).written(tmp_path))


def test_a_metric_that_is_not_a_finite_number_is_refused(record: ResultRecord) -> None:
    broken = Metric(name="iops", value=float("nan"), unit="1/s", better="higher")
    fields = {name: getattr(record, name) for name in ResultRecord.model_fields}

    with pytest.raises(ValidationError, match="must be a finite number"):
        ResultRecord(**{**fields, "metrics": (broken,)})


def test_the_account_is_of_the_measured_window_alone(record: ResultRecord) -> None:
    # The factory's account stands at 17 when the measuring step starts.
    account = record.disks["disk0"]

    assert account["reads"] == int(60 + 344 * 0.35) * 60 // 4
    assert record.phases_ns["measure"] == 60_000_000_000
    assert record.samples.count == 60
    assert record.samples.dirty_bytes_max == 6 << 20
    assert record.samples.available_bytes_min == 494 << 20


def test_the_readings_of_the_measuring_step_count_however_late_they_were_taken(tmp_path: Path) -> None:
    # A real disk has no account, and on a loaded host its statistics are read seconds off the step's events.
    plan = plan_of("xfs", "oltp", 1)
    log = EventLog(plan)
    log.step("mkfs", S)
    log.now_ns = 10 * S
    log.sample("step_start", "load")
    log.now_ns = 13 * S
    log.step("load", 4 * S)
    log.now_ns = 20 * S
    log.sample("step_end", "load")
    log.finish()

    record = record_of(plan, log.written(tmp_path))

    assert record.disks["disk0"]["reads"] == 100 * (20 - 10)
    assert record.samples.count == 4
    assert record.samples.cpu_ns["idle"] == 10 * S


def test_what_applications_asked_of_a_filesystem_is_of_the_same_window(tmp_path: Path) -> None:
    plan = plan_of("xfs", "oltp", 1)
    log = EventLog(plan)
    for step, at, writes in (("mkfs", "step_end", 1), ("load", "step_start", 4), ("load", "step_end", 9)):
        account = {"writes": writes, "write_bytes": 8192 * writes}
        log.add("filesystem_account", step=step, at=at, filesystem="disk0", kind="xfs", account=account)
    log.step("mkfs", S)
    log.step("load", 4 * S)
    log.finish()

    record = record_of(plan, log.written(tmp_path))

    assert record.filesystems == {"disk0": {"writes": 5, "write_bytes": 5 * 8192}}
    assert record.to_plain()["filesystems"] == record.filesystems
