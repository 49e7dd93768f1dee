# SPDX-License-Identifier: Apache-2.0
"""A result file that another program wrote, or changed in a text. Any other one: test_results_durability."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from strata.errors import ResultError
from strata.model.metric import Metric
from strata.plan.model import Trial
from strata.results import reading
from strata.results.reading import read_record, result_text
from strata.results.record import Charges, Fingerprint, RealTime, ResultRecord, Validity, Versions


def record_with(reasons: list[str], package: str, value: float) -> ResultRecord:
    return ResultRecord(
        trial=Trial(study="*", stack="*", workload="*", seed=1, id="*"),
        spec_sha256="0" * 64,
        fingerprint=Fingerprint(kernel_sha256=None, image_sha256=None, agent_sha256="1" * 64),
        time_domain="virtual",
        runner="lab",
        validity=Validity(valid=not reasons, reasons=tuple(reasons)),
        metrics=(Metric(name="operations_per_s", value=value, unit="1/s", better="higher", headline=True),),
        disks={"disk0": {"reads": 3, "busy_ns": 12}, "disk1": {}},
        versions=Versions(strata="0.4.0", kernel="7.2", agent="0.4.0", packages={package: "1"}),
        charges=Charges(syscall_ns=200),
        real_time=RealTime(started_at="2026-11-20T21:00:00Z", duration_s=12.5, host=package),
    )


def test_a_space_in_a_text_is_a_change(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    written = result_text(record_with(['it said "x":1'], "fio", 329.25))
    path.write_bytes(written.replace(b'x\\":1', b'x\\": 1'))

    assert path.read_bytes() != written
    with pytest.raises(ResultError, match="does not match its own hash"):
        read_record(path)


def test_a_result_that_another_program_has_written_anew_is_the_same_result(tmp_path: Path) -> None:
    record = record_with(["it said: ✗"], "fio", 329.25)
    path = tmp_path / "result.json"
    path.write_text(json.dumps(json.loads(result_text(record))))

    assert read_record(path).record == record


def test_the_fast_way_is_taken_for_what_strata_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "result.json"
    path.write_bytes(result_text(record_with([], "fio", 329.25)))
    monkeypatch.setattr(reading, "_read_any", None)

    assert read_record(path).record.time_domain == "virtual"
