# SPDX-License-Identifier: Apache-2.0
"""Explanations of traces small enough to be worked out by hand, for their tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from results_factory import FINGERPRINT, plan_of

from strata.explanation.analysis import Explanation, explain
from strata.explanation.source import Source
from strata.model.metric import Metric
from strata.results.record import (
    Charges,
    RealTime,
    ResultRecord,
    TraceSummary,
    Validity,
    Versions,
)
from strata.results.records import Attempt
from strata.traces.table import Trace
from traces import MS, request, trace


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


def slow_and_fast() -> tuple[Explanation, Explanation]:
    slow = explained(SLOW, stack="btrfs", operations=2, account=ACCOUNTS["slow"], application_bytes=2048)
    fast = explained(
        FAST, stack="ext4", operations=2, window_ms=50, account=ACCOUNTS["fast"], application_bytes=2048
    )
    return fast, slow


SCATTERED = {
    "destages": 6,
    "destage_work_ns": 40 * MS,
    "destage_seeks": 6,
    "destage_seek_ns": 20 * MS,
    "destage_rotation_ns": 16 * MS,
    "destage_transfer_ns": 4 * MS,
}
ALONG = SCATTERED | {"destage_seeks": 2, "destage_seek_ns": 4 * MS, "destage_rotation_ns": 2 * MS}
