# SPDX-License-Identifier: Apache-2.0
"""Every workload in the lab, on filesystems that copy on write and on one that writes in place.

A new workload is tested by existing: `small_loads` must have a load of it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from lab_factory import head, records, run_text

from examples import SHARE
from small_loads import LOWEST, SMALL, small_load
from strata.lab import Lab
from strata.results.record import ResultRecord, record_sha256
from strata.runners.lab import LabRunner

STACKS = {
    "ext4": '{ layer = "ext4" }',
    "btrfs": '{ layer = "btrfs" }',
    "zfs": '{ layer = "zpool", arc_max = "128MiB" }, { layer = "zfs" }',
}

SLOW = ("os-installation", "tenants")
"""The one takes a minute even on a quiet machine, but runs on a host; the others have tests of their own."""
TWICE = {"command", "load", "sysbench-oltp"}
"""The others are repeated by `make test-all`: these, test_identical.py and test_trace_in_lab.py repeat the
same programs."""


def run(name: str, stacks: list[str], lab: Lab, folder: Path) -> dict[str, ResultRecord]:
    """The records of a workload's small load, by stack."""
    text = head("small", [1], "8GiB")
    text += "".join(f"\n[stacks.{each}]\nlayers = [{STACKS[each]}]\n" for each in stacks)
    if name == "bonnie":  # It writes zeros; compressed, they take ZFS too little time for a rate.
        text = text.replace('layer = "zfs"', 'layer = "zfs", compression = "off"')
    run_text(f"{text}\n[workloads.load]\n{small_load(name)}", folder, LabRunner(lab), jobs=1)
    return {each.trial.stack: each for each in records(folder / "results").values()}


def measures_something(record: ResultRecord) -> None:
    """The record is valid, and none of its headline metrics is 0."""
    assert record.validity.valid, record.validity.reasons
    headlines = [metric for metric in record.metrics if metric.headline]
    assert headlines
    for metric in headlines:
        assert metric.value > 0, metric.name
    assert any(
        account.get("write_bytes", 0) or account.get("read_bytes", 0) for account in record.disks.values()
    )


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=[pytest.mark.slow] * (each in SLOW)) for each in sorted(SMALL.keys() - LOWEST)],
)
def test_a_workload_measures_something_and_is_deterministic(name: str, lab: Lab, tmp_path: Path) -> None:
    """On btrfs alone: the tests on a host and of the loads' rights run them on ext4."""
    runs = ("first", "again") if name in TWICE or SHARE == 1 else ("first",)
    found = [run(name, ["btrfs"], lab, tmp_path / each)["btrfs"] for each in runs]

    measures_something(found[0])
    assert len({record_sha256(each) for each in found}) == 1


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SMALL.keys() - LOWEST))
def test_a_workload_is_deterministic_everywhere(name: str, lab: Lab, tmp_path: Path) -> None:
    first, again = (run(name, [*STACKS], lab, tmp_path / each) for each in ("first", "again"))

    for stack, record in first.items():
        measures_something(record)
        assert record_sha256(again[stack]) == record_sha256(record)
