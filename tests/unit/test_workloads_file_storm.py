# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from strata.model.workload import Outputs, StepOutput
from strata.workloads.generator.file_storm import FileStorm

RECORDED = Path(__file__).parents[1] / "golden" / "outputs" / "load"
PARTS = ("create", "stat", "read", "delete")


def storm(**keys: object) -> FileStorm:
    return FileStorm.model_validate({"files": 2000, "folders": 20, **keys})


def outputs() -> Outputs:
    """As printed in the lab, on btrfs."""
    steps = {f"storm-{part}": (RECORDED / f"0.1-btrfs-storm-{part}.json").read_text() for part in PARTS}
    return Outputs({name: StepOutput(stdout=text) for name, text in steps.items()})


def test_rates_are_of_each_part_and_hold_the_sync_of_what_was_written() -> None:
    found = {metric.name: metric.value for metric in storm().metrics(outputs())}

    with_sync_ns = found["create_ns"] + found["create_sync_ns"]
    assert found["create_files_per_s"] == pytest.approx(2000 * 1e9 / with_sync_ns)
    assert found["read_files_per_s"] == pytest.approx(2000 * 1e9 / found["read_ns"])
    assert "stat_sync_ns" not in found
    assert found["operations"] == 4 * 2000
    for part in PARTS:
        assert found[f"{part}_latency_ns_p99"] > 0


def test_files_take_whole_blocks() -> None:
    assert storm(size="5000B").data_bytes == 2000 * 8192


def test_zeros_are_reported() -> None:
    assert [check.name for check in storm(zeros=True).checks(outputs())] == ["content-takes-room"]
    assert not storm().checks(outputs())
